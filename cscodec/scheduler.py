"""Where work is done: on threads of this process, or by the workers of a Dask scheduler.

Both take functions of plain data, named and numbered, and give their results. A function may be
called twice, when the worker that called it first is lost, so it must have no effect but its
result, or the same effect again. Dask, an extra, is imported where a scheduler is asked for.
"""

from __future__ import annotations

import logging
import math
import os
import pickle
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from functools import partial
from typing import Any

from cscodec.errors import InvalidInputError, SchedulerError
from cscodec.parallel import available_workers

_PATIENCE_S = 10  # for a scheduler to answer, and for its first worker
_LOOK_AGAIN_S = 1.0
_MISSING = "--scheduler needs Dask, which is not installed: pip install 'cscodec[dask]'"
_LOCAL = re.compile(r"local(?::([1-9]\d*))?")
# Processes that share a machine with the work look less often after themselves: by default fifty
# times a second whether they are late, and ten times how much memory they use.
_QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "1s",
    "distributed.worker.memory.monitor-interval": "1s",
}


class Scheduler(ABC):
    """Takes work and gives its results."""

    @property
    @abstractmethod
    def num_workers(self) -> int:
        """How many functions can be at work at once."""

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any, name: str) -> Any:
        """Have a function called; return a promise of its result, for :meth:`result`.

        Parameters
        ----------
        arguments
            May be promises, or lists of them: the function gets their results.
        name : str
            Letters and hyphens: how the work is called where it is watched.
        """

    @abstractmethod
    def submit_parts(
        self, function: Callable[..., Any], parts: Mapping[int, Sequence[Any]], *, name: str
    ) -> list[Any]:
        """Have a function called for every part of the data; return promises, in their order.

        Parameters
        ----------
        parts : mapping of int to sequence
            Arguments by the number of the part, as of :meth:`submit`. Work on one part goes to one
            worker, which may keep what it has read.
        """

    @abstractmethod
    def result(self, promise: Any) -> Any:
        """Wait for a result.

        Raises
        ------
        SchedulerError
            If the scheduler or its workers are lost; whatever the function raises, besides.
        """

    @abstractmethod
    def call_everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function once in every process that works."""

    def executor(self, name: str) -> Executor:
        """Return an executor of ``concurrent.futures`` whose work is done here, by that name."""
        return _Executor(self, name)


class _Executor(Executor):
    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self._scheduler = scheduler
        self._name = name
        self._pending: set[Future[Any]] = set()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        promise = self._scheduler.submit(partial(function, **named), *arguments, name=self._name)
        future: Future[Any] = Future()
        self._pending.add(future)

        def settle(promise: Any) -> None:
            self._pending.discard(future)
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(self._scheduler.result(promise))
            except Exception as error:
                future.set_exception(error)

        promise.add_done_callback(settle)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pending = tuple(self._pending)
        if cancel_futures:
            for future in pending:
                future.cancel()
        if wait:
            wait_for(pending)


@contextmanager
def open_scheduler(address: str | None, workers: int | None = None) -> Iterator[Scheduler]:
    """Open what an address names, and close it.

    Parameters
    ----------
    address : str or None
        Of a Dask scheduler; ``local:N`` for N processes of this machine, started for the occasion;
        ``local`` or None for threads of this process.
    workers : int, optional
        Threads of this process; all CPUs by default.

    Raises
    ------
    InvalidInputError
        If Dask is missing.
    SchedulerError
        If the scheduler cannot be reached, has no workers, or its workers run another cscodec.
    """
    local = _LOCAL.fullmatch("local" if address is None else address)
    if local and local[1] is None:
        workers = workers or available_workers()
        with ThreadPoolExecutor(workers) as pool:
            yield Threads(pool, workers)
        return
    try:
        import distributed
        from distributed.comm.addressing import get_address_host_port
    except ImportError as error:
        raise InvalidInputError(_MISSING) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # we say ourselves what matters
    with _local_cluster(distributed, int(local[1])) if local else _named(address) as found:
        try:
            if address is not None and not local and not address.startswith("inproc://"):
                get_address_host_port(address)  # a client that finds no port takes 20 s to end
            client: Any = distributed.Client(  # type: ignore[no-untyped-call]
                found,
                timeout=_PATIENCE_S,
                set_as_default=False,
                direct_to_workers=bool(local),  # else by the scheduler, which surely sees them
            )
        except (OSError, ValueError) as error:  # of which TimeoutError is one
            raise SchedulerError(
                f"--scheduler {address}: cannot be reached ({error}); start one with "
                "'dask scheduler', or use local:N"
            ) from error
        with client:
            yield Cluster(client, str(address))


@contextmanager
def _local_cluster(distributed: Any, num_workers: int) -> Iterator[Any]:
    with (
        distributed.dask.config.set(_QUIET),
        distributed.LocalCluster(
            n_workers=num_workers,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        yield cluster


@contextmanager
def _named(address: str | None) -> Iterator[str | None]:
    yield address


class Threads(Scheduler):
    """Threads of this process. Work is taken in order, so whoever waits, waits for older work."""

    def __init__(self, pool: ThreadPoolExecutor, num_workers: int) -> None:
        self._pool = pool
        self._num_workers = num_workers

    @property
    def num_workers(self) -> int:
        return self._num_workers

    def submit(self, function: Callable[..., Any], *arguments: Any, name: str) -> Any:
        return self._pool.submit(lambda: function(*map(_kept, arguments)))

    def submit_parts(
        self, function: Callable[..., Any], parts: Mapping[int, Sequence[Any]], *, name: str
    ) -> list[Any]:
        return [self.submit(function, *arguments, name=name) for arguments in parts.values()]

    def result(self, promise: Any) -> Any:
        return promise.result()

    def call_everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        function(*arguments)


def _kept(argument: Any) -> Any:
    if isinstance(argument, list):
        return [_kept(item) for item in argument]
    return argument.result() if isinstance(argument, Future) else argument


class Cluster(Scheduler):
    """The workers of a Dask scheduler, whoever joins them or leaves.

    Parameters
    ----------
    client : distributed.Client
    address : str
        As it was asked for.
    """

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address
        self._token = os.urandom(8).hex()  # no two clients may use the same keys
        self._num_submitted = 0
        self._threads: dict[str, int] = {}  # by worker
        self._places: dict[int, str] = {}  # workers by part
        self._looked_at = -math.inf
        with self._named_errors(OSError):
            try:
                client.wait_for_workers(1, timeout=_PATIENCE_S)
            except TimeoutError as error:
                raise SchedulerError(
                    f"--scheduler {address}: has no workers; start some with "
                    f"'dask worker {address}'"
                ) from error
            self._look_around()

    @property
    def num_workers(self) -> int:
        return sum(self._threads.values())

    def submit(self, function: Callable[..., Any], *arguments: Any, name: str) -> Any:
        with self._named_errors(OSError):
            return self._client.submit(_call, function, *arguments, key=self._new_key(name))

    def submit_parts(
        self, function: Callable[..., Any], parts: Mapping[int, Sequence[Any]], *, name: str
    ) -> list[Any]:
        from dask.base import annotate
        from dask.delayed import delayed

        call, calls = delayed(_call, pure=False), []
        with self._named_errors(OSError):
            for part, arguments in parts.items():
                # Others may do it, should that worker be lost.
                with annotate(workers=[self._place(part)], allow_other_workers=True):
                    calls.append(call(function, *arguments, dask_key_name=self._new_key(name)))
            # In one message: after one, Dask's client waits 10 ms before it sends another.
            return list(self._client.compute(calls, optimize_graph=False))

    def _new_key(self, name: str) -> str:
        self._num_submitted += 1
        return f"{name}-{self._token}-{self._num_submitted}"

    def result(self, promise: Any) -> Any:
        with self._named_errors():
            return promise.result()

    def call_everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        with self._named_errors(OSError):
            self._client.run(function, *arguments)

    @contextmanager
    def _named_errors(self, *more: type[Exception]) -> Iterator[None]:
        from distributed import CancelledError, KilledWorker
        from distributed.client import ClosedClientError
        from distributed.comm.core import CommClosedError

        lost: tuple[type[Exception], ...] = (CancelledError, ClosedClientError, CommClosedError)
        try:
            yield
        except KilledWorker as error:
            raise SchedulerError(
                f"--scheduler {self._address}: {error.allowed_failures + 1} workers died of the "
                f"same work ({error.task}); their logs say why, and it may be memory"
            ) from error
        except Exception as error:
            # A client that has given up closes itself; what it raises then depends on the call.
            closed = self._client.status in ("closing", "closed")
            if not closed and not isinstance(error, (*lost, *more)):
                raise
            raise SchedulerError(f"--scheduler {self._address}: the scheduler is lost") from error

    def _place(self, part: int) -> str:
        if time.monotonic() - self._looked_at > _LOOK_AGAIN_S:
            self._look_around()
        if part not in self._places:
            load = Counter(self._places.values())
            self._places[part] = min(
                self._threads, key=lambda worker: load[worker] / self._threads[worker]
            )
        return self._places[part]

    def _look_around(self) -> None:
        """See who works here now; take parts from those who left, and from those who have more
        than their share since others came."""
        self._looked_at = time.monotonic()
        threads = dict(self._client.nthreads())
        if not threads or threads == self._threads:
            return
        self._check_versions([worker for worker in threads if worker not in self._threads])
        self._threads = threads
        places, self._places = self._places, {}
        load: Counter[str] = Counter()
        for part, worker in places.items():
            if load[worker] < len(places) * threads.get(worker, 0) / self.num_workers:
                self._places[part] = worker
                load[worker] += 1

    def _check_versions(self, workers: list[str]) -> None:
        found = self._client.run(_version, workers=workers, on_error="return")
        for worker, version in found.items():
            if version != _version():
                has = f"cscodec {version}" if isinstance(version, str) else "no such cscodec"
                raise SchedulerError(
                    f"--scheduler {self._address}: worker {worker} has {has}, this is "
                    f"{_version()}; install the same release there"
                )


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    # Arrays lie in the message that brought them, at any address; kernels want them aligned.
    return function(*pickle.loads(pickle.dumps(arguments)))


def _version() -> str:
    from cscodec import __version__

    return __version__
