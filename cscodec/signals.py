"""Ctrl-C and termination of a command: the process ends at once, whatever it is doing.

Python handles signals between two of its instructions in the main thread, which may be inside a
kernel for seconds; and when it ends, it waits for its other threads. So a thread watches over it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from cscodec.atomic import remove_hidden

_PATIENCE_S = 0.35  #: for a command to say what it did
_NUMBERS = (signal.SIGINT, signal.SIGTERM)
_received: list[int] = []
_watcher: list[threading.Thread] = []
_last_words: list[str] = []


def leave_on_signals() -> None:
    """From now on end at once, without a word."""
    for number in _NUMBERS:
        signal.signal(number, _leave)


@contextmanager
def raised_signals() -> Iterator[None]:
    """While inside, raise KeyboardInterrupt or SystemExit, and end soon; in the main thread only.

    Raises
    ------
    SystemExit
        If there was a signal, whatever became of its exception on the way: an import that is
        interrupted may make an ImportError of it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _raise) for number in _NUMBERS}
    if not _watcher and os.name == "posix":
        _start_watcher()
    try:
        yield
    except BaseException:
        if _received:
            raise SystemExit(128 + _received[0]) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def last_words(text: str) -> Iterator[None]:
    """Have a line ready for standard error, in case a signal ends the process while inside."""
    _last_words.append(text)
    try:
        yield
    finally:
        _last_words.remove(text)


def _leave(number: int, frame: object) -> NoReturn:
    """End the process without waiting for its threads; what they were writing is removed."""
    remove_hidden()
    os._exit(128 + number)


def _raise(number: int, frame: object) -> NoReturn:
    _received.append(number)
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def _start_watcher() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=_forget)
    _watcher.append(threading.Thread(target=_watch, args=(reader,), daemon=True))
    _watcher[0].start()


def _forget() -> None:
    """In a child: what ends it is no signal to its parent, whose watcher it has not."""
    signal.set_wakeup_fd(-1)
    for number in _NUMBERS:
        signal.signal(number, signal.SIG_DFL)


def _watch(reader: int) -> None:
    while number := os.read(reader, 1):
        time.sleep(_PATIENCE_S)
        if signal.getsignal(number[0]) in (_raise, _leave):  # else a command has plans of its own
            for text in _last_words:
                os.write(2, f"{text}\n".encode(errors="backslashreplace"))
            _leave(number[0], None)
