"""Outputs appear whole or not at all, replace nothing unasked, and odd names do no harm."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from pathlib import Path

import pytest
import typer
from command_line import Result, Run, entries, in_a_process, picture, run

from cscodec.cli import console, files
from cscodec.cli.plan import Job, Outputs, expand, plan
from cscodec.errors import InvalidInputError

__all__ = ["run"]


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".cscodec-*")]


def test_existing_outputs_are_refused_and_kept(run: Run) -> None:
    picture("a.png", 24, 24)
    Path("a.csc").write_text("precious")
    result = run("encode", "a.png")
    assert result.code == 3
    assert "a.csc: exists already; use -f" in result.stderr
    assert Path("a.csc").read_text() == "precious"
    assert run("encode", "a.png", "-f").code == 0
    assert Path("a.csc").read_bytes() != b"precious"


def test_existing_outputs_do_not_stop_the_others(run: Run) -> None:
    picture("a.png", 24, 24)
    picture("b.png", 24, 24)
    Path("a.csc").write_text("precious")
    assert run("encode", "a.png", "b.png").code == 3
    assert entries() == {"a.png", "b.png", "a.csc", "b.csc"}


def test_an_output_that_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.csc"
    monkeypatch.setattr(os, "fsync", lambda _: target.write_bytes(b"precious"))
    with pytest.raises(console.OutputExistsError):
        files.write_bytes(str(target), b"ours", force=False)
    assert target.read_bytes() == b"precious"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("force", [False, True])
def test_a_failing_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    def fsync(_: int) -> None:
        raise OSError(5, "Input/output error")

    (tmp_path / "old").write_bytes(b"precious")
    monkeypatch.setattr(os, "fsync", fsync)
    name = "old" if force else "new"
    with pytest.raises(InvalidInputError, match=f"{name}: cannot be written: Input/output error"):
        files.write_bytes(str(tmp_path / name), b"data", force)
    assert entries(tmp_path) == {"old"}
    assert (tmp_path / "old").read_bytes() == b"precious"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 200, 200, 3)
    # Kernels that are not yet cached would be written to the same full disk.
    subprocess.run(in_a_process("encode", "a.png", "-o", "/dev/null"), cwd=tmp_path, check=True)
    command = shlex.join(in_a_process("encode", "a.png", "--step", "1"))
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 1; exec {command}"],  # no file above 1 KiB
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "a.csc: cannot be written: File too large" in done.stderr
    assert entries(tmp_path) == {"a.png"}


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_umask_is_respected(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        files.write_bytes(str(tmp_path / "a"), b"data", force=False)
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "a").touch(mode=0o600)
    files.write_bytes(str(tmp_path / "a"), b"data", force=True)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a")
    files.write_bytes(str(tmp_path / "link"), b"new", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a").read_bytes() == b"new"


def test_devices_are_written_to_and_never_replaced(run: Run) -> None:
    picture("a.png", 24, 24)
    for options in ([], ["-f"]):
        assert run("encode", "a.png", "-o", "/dev/null", *options).code == 0
    assert Path("/dev/null").is_char_device()


def test_devices_are_not_read(run: Run) -> None:
    for command in ("encode", "decode", "info"):
        options = [] if command == "info" else ["-o", "x.csc" if command == "encode" else "x.png"]
        result = run(command, "/dev/zero", *options)
        assert result.code == 1
        assert "is a device" in result.stderr


def test_outputs_that_are_folders_or_below_files(run: Run) -> None:
    picture("a.png", 24, 24)
    Path("folder").mkdir()
    result = run("encode", "a.png", "-o", "folder", "-f")
    assert result.code == 1
    assert "folder: is a folder; name a file, or use -d" in result.stderr
    result = run("encode", "a.png", "-o", "a.png/x.csc")
    assert result.code == 1
    assert "a.png is not a folder" in result.stderr


COLLISIONS = [
    ["a.png", "a.jpg"],
    ["x/a.png", "y/a.png", "-d", "out"],
    ["-r", "x", "y", "-d", "out"],
    ["a.png", "a.jpg", "-f"],
]


@pytest.mark.parametrize("arguments", COLLISIONS, ids=" ".join)
def test_two_inputs_for_one_output_are_refused_before_any_work(
    run: Run, arguments: list[str]
) -> None:
    names = ["a.png", "a.jpg", "x/a.png", "y/a.png"]
    for name in names:
        picture(name, 24, 24)
    result = run("encode", *arguments)
    assert result.code == 2
    assert result.stderr.count("would both be written to") == 2
    assert entries() == set(names)


@pytest.mark.parametrize(
    "arguments", [["x/a.png", "x/a.png"], ["x/a.png", "./x/a.png"], ["-r", "x", "x/a.png"]]
)
def test_an_input_that_is_named_twice_is_done_once(run: Run, arguments: list[str]) -> None:
    picture("x/a.png", 24, 24)
    result = run("encode", "--json", *arguments)
    assert [record["output"] for record in result.json()] == ["x/a.csc"]


def test_an_input_is_never_an_output(run: Run) -> None:
    picture("a.png", 24, 24)
    run("encode", "a.png")
    data = Path("a.csc").read_bytes()
    assert run("encode", "a.png", "-o", "./a.csc/../a.png", "-f").code == 2
    Path("link.png").symlink_to("a.csc")
    assert run("decode", "a.csc", "-o", "link.png", "-f").code == 2
    assert Path("a.csc").read_bytes() == data


ODD_NAMES = [
    "with space.png",
    "-q.png",
    "[bold]red[b].png",
    "new\nline.png",
    "\x1b[31mred.png",
    "ünï©ødé.png",
    b"not \xff utf-8.png".decode("utf-8", "surrogateescape"),
    "two.dots.png",
    ".png",
    "no suffix",
    "x" * 251 + ".png",
    "%s{0}.png",
    "$(touch pwned).png",
    "~.png",
]


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_odd_names(run: Run, name: str) -> None:
    picture("a.png", 24, 24)
    os.rename("a.png", name)
    result = run("encode", "--json", "--", name)
    assert result.code == 0
    (output,) = entries() - {name}
    assert output == ("two.dots.csc" if "dots" in name else str(Path(name).with_suffix(".csc")))
    assert result.json()[0]["output"] == output
    result = run("encode", "--", name)
    assert result.code == 3
    assert len(result.stderr.splitlines()) == 1
    assert "\x1b" not in result.stderr
    assert run("info", "--", output).code == 0
    assert run("decode", "-o", "back.png", "--", output).code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["encode", ""],
        ["encode", "a.png", "-o", ""],
        ["encode", ".."],
        ["encode", "/"],
        ["info", "."],
        ["eval", "."],
    ],
)
def test_names_that_are_no_files(run: Run, arguments: list[str]) -> None:
    picture("a.png", 24, 24)
    assert run(*arguments).code == 2


def test_links_that_lead_nowhere(run: Run) -> None:
    Path("loop.png").symlink_to("loop.png")
    Path("gone.png").symlink_to("nothing.png")
    result = run("encode", "loop.png", "gone.png")
    assert result.code == 1
    assert "loop.png: cannot be read" in result.stderr
    assert "gone.png: cannot be read" in result.stderr


def test_folders_without_pictures(run: Run) -> None:
    Path("empty").mkdir()
    for command in ("encode", "decode", "eval", "info"):
        result = run(command, "-r", "empty")
        assert result.code == 1
        assert "empty: holds no files to work on" in result.stderr


def test_what_needs_no_work_is_said_as_what_it_is(run: Run) -> None:
    picture("a.png", 24, 24)
    run("encode", "a.png")
    before = entries()
    assert "a.csc: is a .csc file already" in run("encode", "a.csc", "-f").stderr
    assert "a.png: is a .png file already" in run("decode", "a.png", "-f").stderr
    assert "gone.png: cannot be read: No such file" in run("decode", "gone.png").stderr
    assert entries() == before


def test_a_folder_that_is_not_there_is_no_file(run: Run) -> None:
    picture("a.png", 24, 24)
    result = run("encode", "a.png", "-o", "out/")
    assert result.code == 1
    assert "out/: is a folder; name a file, or use -d" in result.stderr
    assert entries() == {"a.png"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_pipes_with_names_are_read_whole(run: Run) -> None:
    picture("a.png", 24, 24)
    data = Path("a.png").read_bytes()
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(data))
    writer.start()
    (record,) = run("encode", "pipe", "-o", "b.csc", "--json").json()
    writer.join()
    run("encode", "a.png")
    assert (record["source_bytes"], record["warnings"]) == (len(data), [])
    assert Path("b.csc").read_bytes() == Path("a.csc").read_bytes()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_pipes_in_folders_stop_nothing(run: Run) -> None:
    picture("in/a.png", 24, 24)
    os.mkfifo("in/b.png")
    result = run("encode", "-r", "in", "-d", "out")
    assert (result.code, entries()) == (0, {"in/a.png", "out/a.csc"})
    assert "1 file of other kinds: .png" in result.stderr
    os.mkfifo("in/a.csc")
    result = run("encode", "in/a.png", "-f")
    assert result.code == 1
    assert "in/a.csc: is a device or a pipe; name it with -o" in result.stderr


def test_names_give_terminals_no_orders(run: Run) -> None:
    picture("\x1b[31mred.png", 24, 24)
    run("encode", "./\x1b[31mred.png")
    for arguments in (["info", "./\x1b[31mred.csc"], ["eval", "./\x1b[31mred.png"]):
        shown = run(*arguments, *["--decoder", "linear"] * (arguments[0] == "eval")).stdout
        assert b"\\x1b[31mred" in shown
        assert b"\x1b" not in shown


def test_compressing_twice_is_refused(run: Run) -> None:
    picture("a.png", 24, 24)
    run("encode", "a.png")
    result = run("encode", "a.csc", "-o", "b.csc")
    assert result.code == 1
    assert "a.csc: is compressed already" in result.stderr
    assert "b.csc" not in entries()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(tmp_path: Path, closed: str) -> None:
    picture(tmp_path / "a.png", 24, 24)

    def shell(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = f"{shlex.join(in_a_process(*arguments))} {closed}"
        return subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True)

    assert shell("encode", "a.png").returncode == 0
    done = shell("encode", "-") if "<" in closed else shell("encode", "a.png", "-o", "-")
    assert b"Traceback" not in done.stderr
    assert done.returncode == (0 if closed == "2>&-" else 1)


def test_plan_mirrors_folders(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "A.PNG").touch()
    planned = plan([str(tmp_path / "in")], {".png"}, True, Outputs(".csc", folder="out"))
    assert planned.jobs == [Job(str(tmp_path / "in" / "deep" / "A.PNG"), "out/deep/A.csc")]


def test_folders_need_recursion() -> None:
    with pytest.raises(typer.BadParameter, match="add -r"):
        expand(["."], {".png"}, recursive=False)


def test_internal_errors_are_one_line_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("oops")

    picture("a.png", 24, 24)
    monkeypatch.setattr("cscodec.encode", broken)
    result: Result = run("encode", "a.png")
    assert result.code == 1
    assert "a.png: internal error (KeyError: 'oops'); please report it" in result.stderr

    def hungry(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("cscodec.encode", hungry)
    assert "a.png: not enough memory" in run("encode", "a.png").stderr
