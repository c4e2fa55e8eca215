"""Ctrl-C, termination and little memory end a command, whatever it is doing, without a traceback.

How long that takes depends on the machine. What is awaited here would else take minutes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import picture
from strategies import ROOT

from cscodec import decode

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
CODES = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]

_START = """
import os, sys, threading, time
sent = int(sys.argv.pop(1))

def busy():  # in native code that no signal interrupts, as kernels are
    import hashlib
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""
_END = """
from cscodec.__main__ import main
main()
"""


def started(folder: Path, code: str, sent: signal.Signals, *arguments: str) -> tuple[int, str]:
    """Run the command line after some code; return how it ended, and what it said."""
    run = subprocess.run(
        [sys.executable, "-c", _START + code + _END, str(int(sent)), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in run.stderr, run.stderr
    assert "Exception ignored" not in run.stderr, run.stderr
    return run.returncode, run.stderr


@pytest.mark.parametrize(
    ("module", "sent", "code"),
    [
        ("cscodec.cli", *CODES[0]),
        ("typer", *CODES[1]),
        ("numpy._core.multiarray", *CODES[0]),
        ("PIL.Image", *CODES[0]),
        ("cscodec.codec", *CODES[1]),
    ],
)
def test_while_modules_are_imported(
    tmp_path: Path, module: str, sent: signal.Signals, code: int
) -> None:
    picture(tmp_path / "a.png", 20, 20)
    finder = f"""
class Finder:
    def find_spec(name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), sent)

sys.meta_path.insert(0, Finder)
"""
    assert started(tmp_path, finder, sent, "encode", "a.png")[0] == code
    # A worker imports the codec, and gets the signal that it sends. It may end its work before
    # the process does.
    outputs = set(os.listdir(tmp_path)) - {"a.png"}
    assert outputs <= {"a.csc"}, "something is left over"
    assert not outputs or decode(tmp_path / "a.csc").shape == (20, 20)


@pytest.mark.parametrize("place", ["main thread", "worker"])
@pytest.mark.parametrize(("sent", "code"), CODES)
def test_while_a_kernel_runs(tmp_path: Path, place: str, sent: signal.Signals, code: int) -> None:
    for name in "abc":
        picture(tmp_path / f"{name}.png", 20, 20)
    patch = f"""
import cscodec.cli
import cscodec.codec

def work(*_, **__):
    threading.Timer(0.1, os.kill, (os.getpid(), sent)).start()
    busy()

{"cscodec.cli.app" if place == "main thread" else "cscodec.encode"} = work
"""
    assert started(tmp_path, patch, sent, "encode", "-j", "2", "-r", ".")[0] == code
    assert sorted(os.listdir(tmp_path)) == ["a.png", "b.png", "c.png"]


def test_what_ends_a_child_does_not_end_its_parent(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 20, 20)
    code = """
import cscodec.codec
encode = cscodec.codec.encode

def encode_after_a_child(*arguments, **settings):
    child = os.fork()
    if child == 0:
        time.sleep(60)
    time.sleep(0.1)
    os.kill(child, sent)
    os.waitpid(child, 0)
    time.sleep(1)
    return encode(*arguments, **settings)

cscodec.encode = encode_after_a_child
"""
    code, stderr = started(tmp_path, code, signal.SIGTERM, "encode", "a.png")
    assert code == 0, stderr
    assert (tmp_path / "a.csc").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="limits differ")
@pytest.mark.parametrize("megabytes", [150, 200, 230, 290])
def test_with_little_memory(tmp_path: Path, megabytes: int) -> None:
    """Wherever it runs out: while libraries are loaded, or later."""
    picture(tmp_path / "a.png", 300, 300, 3)
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_AS, ({megabytes}_000_000,) * 2)\n"
    code, stderr = started(tmp_path, limit, signal.SIGTERM, "encode", "a.png")
    assert (code == 0) == (tmp_path / "a.csc").exists()
    assert code == 0 or stderr
