"""Files appear whole or not at all, with a name before they are whole or without."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from strategies import ROOT

from cscodec import atomic
from cscodec.atomic import remove_hidden, whole_file, write_whole


@pytest.fixture(params=["as here", "named"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With files that have no name, where the system has them, and without."""
    if request.param == "named":
        monkeypatch.setattr(atomic, "_NAMELESS", 0)
    return str(request.param)


def test_what_is_there_stays_unless_it_may_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old", replace=False)
    with pytest.raises(FileExistsError):
        write_whole(path, b"new", replace=False)
    assert path.read_bytes() == b"old"
    write_whole(path, b"new", replace=True)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("replace", [False, True])
def test_nothing_is_left_where_writing_fails(tmp_path: Path, replace: bool) -> None:
    path = tmp_path / "a"
    write_whole(path, b"old", replace=False)
    with suppress(KeyError), whole_file(path, replace=replace) as file:
        file.write(b"new")
        raise KeyError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_nothing_is_left_where_renaming_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(*_: str) -> None:
        raise PermissionError

    write_whole(tmp_path / "a", b"old", replace=False)
    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "a", b"new", replace=True)
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions differ")
def test_permissions_follow_the_umask_or_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "a"
    before = os.umask(0o027)
    try:
        write_whole(path, b"", replace=False)
        assert path.stat().st_mode & 0o777 == 0o640
        path.chmod(0o604)
        write_whole(path, b"", replace=True)
        assert path.stat().st_mode & 0o777 == 0o604
    finally:
        os.umask(before)


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    write_whole(tmp_path / "a", b"data", replace=True)
    assert (tmp_path / "a").is_symlink()
    assert (tmp_path / "b").read_bytes() == b"data"


def test_names_may_be_long(tmp_path: Path) -> None:
    for _ in range(2):
        write_whole(tmp_path / ("a" * 255), b"", replace=True)


def test_file_systems_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: str) -> None:
        raise PermissionError

    monkeypatch.setattr(atomic, "_NAMELESS", 0)  # such systems have no files without names either
    monkeypatch.setattr(os, "link", link)
    write_whole(tmp_path / "a", b"data", replace=False)
    assert (tmp_path / "a").read_bytes() == b"data"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("replace", [False, True])
def test_one_of_many_writers_wins(tmp_path: Path, replace: bool) -> None:
    def write(number: int) -> bool:
        try:
            write_whole(tmp_path / "a", bytes([number]) * 100_000, replace=replace)
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(64)))
    data = (tmp_path / "a").read_bytes()
    assert len(data) == 100_000
    assert set(data) <= {number for number, first in enumerate(won) if first}
    assert len(set(data)) == 1
    assert won.count(True) == (64 if replace else 1)
    assert os.listdir(tmp_path) == ["a"]


def test_a_process_that_ends_at_once_leaves_nothing(tmp_path: Path, way: str) -> None:
    with suppress(KeyError), whole_file(tmp_path / "a", replace=False) as file:
        file.write(b"half")
        file.flush()
        assert len(os.listdir(tmp_path)) <= (way == "named" or sys.platform != "linux")
        remove_hidden()
        assert os.listdir(tmp_path) == []
        raise KeyError


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere files have names at once")
def test_what_a_killed_process_left_goes_with_the_next_file(tmp_path: Path, way: str) -> None:
    """It was killed between the two calls that a replacement takes."""
    if way == "named":
        pytest.skip("names are new each time")
    (tmp_path / "a").write_bytes(b"old")
    code = """
import os, sys
from cscodec import atomic
os.replace = lambda *_: os.kill(os.getpid(), 9)
atomic.write_whole(sys.argv[1], b"new", replace=True)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "a")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run(command, env=environment).returncode == -9
    assert (tmp_path / "a").read_bytes() == b"old"
    write_whole(tmp_path / "a", b"newer", replace=True)
    assert (tmp_path / "a").read_bytes() == b"newer"
    assert os.listdir(tmp_path) == ["a"]
