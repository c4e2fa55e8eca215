"""A command that is killed at a system call, or whose calls fail, leaves nothing half-written.

``make faults`` tries every call of every command; here two calls of one command are tried.
"""

from __future__ import annotations

import faults
import pytest

pytestmark = pytest.mark.skipif(
    not faults.can_inject(), reason="strace is not installed, or may not be used"
)


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_faults_while_an_output_is_replaced(call: str) -> None:
    tried = list(faults.faults(faults.CASES["encode -f"], (call,)))
    assert {fault for _, fault, _ in tried} > {"signal=KILL"}
