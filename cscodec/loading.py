"""A lock for what is loaded when it is first used: a fork waits for it.

A child has none of the other threads, and would wait for ever for what one of them was loading.
"""

from __future__ import annotations

import os
import threading

loading = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=loading.acquire,
        after_in_parent=loading.release,
        after_in_child=loading.release,
    )
