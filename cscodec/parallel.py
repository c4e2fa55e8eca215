"""Independent pieces of work on a thread pool, results in order.

Kernels release the GIL, so threads suffice. Work that calls BLAS should hold it to one thread
(threadpoolctl), as training does: BLAS threads that spin beside ours cost more than they bring.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Generic, TypeVar, overload

Item = TypeVar("Item")
Result = TypeVar("Result")


class computed_once(Generic[Result]):
    """A property whose value is kept when it was computed.

    Threads that ask at once may compute it twice, to the same value. Unlike ``cached_property`` of
    Python 3.11 it has no lock, which a child would inherit from a fork that comes just then.
    """

    def __init__(self, function: Callable[[Any], Result]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> computed_once[Result]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> Result: ...

    def __get__(self, owner: object, kind: type) -> Any:
        if owner is None:
            return self
        value = self.function(owner)
        owner.__dict__[self.function.__name__] = value  # found first from now on
        return value


def available_workers() -> int:
    """Number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parallel_map(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int | None = None,
    executor: Executor | None = None,
) -> Iterator[Result]:
    """Yield ``function(item)`` for every item, in the order of the items.

    Parameters
    ----------
    workers : int, optional
        Threads to use; all available CPUs by default. With 1, everything runs in the caller.
    executor : concurrent.futures.Executor, optional
        Where to run instead of the shared pool.

    Notes
    -----
    At most ``2 * workers`` items are in flight, so a long iterable does not pile up in memory.
    Within a call of itself everything runs in the caller: threads of the pool that wait for others
    of the pool would wait for ever.
    """
    workers = available_workers() if workers is None else workers
    if executor is None and (workers <= 1 or hasattr(_thread, "is_ours")):
        yield from map(function, items)
        return
    pool = executor if executor is not None else _pool(workers)
    pending: deque[Future[Result]] = deque()
    try:
        for item in items:
            try:
                pending.append(pool.submit(function, item))
            except RuntimeError:  # Python is ending and starts no work: here, after all before it
                while pending:
                    yield pending.popleft().result()
                yield function(item)
            if len(pending) >= 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


_thread = threading.local()


def _mark_thread() -> None:
    _thread.is_ours = True


@lru_cache(maxsize=4)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "cscodec", _mark_thread)


if hasattr(os, "register_at_fork"):  # a child has the pool, but none of its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)
