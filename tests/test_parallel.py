"""Work shared out: in order, whoever asks, and however deep."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from strategies import ROOT

from cscodec.parallel import parallel_map


@pytest.mark.parametrize("workers", [1, 2, 3, None])
def test_results_come_in_order(workers: int | None) -> None:
    assert list(parallel_map(lambda n: n * n, range(50), workers)) == [n * n for n in range(50)]


def test_an_error_comes_out_and_ends_the_work() -> None:
    started = []

    def work(number: int) -> int:
        started.append(number)
        return 1 // (number - 3)

    with pytest.raises(ZeroDivisionError):
        list(parallel_map(work, range(1000), 2))
    assert len(started) < 20


def test_within_itself_it_runs_in_the_caller() -> None:
    """In a process of its own, as it would never end."""
    code = """
from cscodec.parallel import parallel_map

def inner(number):
    return sum(parallel_map(abs, range(number), 2))

def outer(number):
    return list(parallel_map(inner, range(number), 2))

for _ in range(5):
    found = list(parallel_map(outer, range(8), 2))
assert found == [[sum(range(m)) for m in range(n)] for n in range(8)]
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


def test_threads_of_others_share_the_work_out() -> None:
    def threads(_: int = 0) -> set[str]:
        meet = threading.Barrier(2)  # passed only if two threads are at work

        def work(_: int) -> str:
            meet.wait(30)
            return threading.current_thread().name

        return set(parallel_map(work, range(2), 2))

    found: list[set[str]] = []
    other = threading.Thread(target=lambda: found.append(threads()))
    other.start()
    other.join()
    assert len(found[0]) == 2
    assert all(name.startswith("cscodec") for name in found[0])


@pytest.mark.parametrize(
    "start", ["threading.Thread(target=work).start()", "atexit.register(work)"]
)
def test_what_is_done_while_python_ends(start: str) -> None:
    """When threads of a pool may not be started any more."""
    code = f"""
import atexit, threading, time
from cscodec.parallel import parallel_map

def work():
    time.sleep(0.3)
    print(list(parallel_map(lambda number: number * number, range(50), 2)))

{start}
"""
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.stdout == f"{[number * number for number in range(50)]}\n", run.stderr
