"""Ctrl-C while a batch is being learned: the batch is finished first, so no state is half new."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def deferred_interrupt() -> Iterator[Callable[[], bool]]:
    """While inside, the first Ctrl-C only sets a flag (the second acts at once); yields its reader.

    Signals can be handled in the main thread alone; elsewhere the flag never rises.
    """
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag.is_set
        return

    def raise_flag(number: int, frame: object) -> None:
        flag.set()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, raise_flag)
    try:
        yield flag.is_set
    finally:
        signal.signal(signal.SIGINT, previous)
