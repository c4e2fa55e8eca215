"""The documents: examples run, commands parse, links lead somewhere, figures exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += [ROOT / "samples" / "LICENSES.md", ROOT / "models" / "README.md"]
PAGES = [page for page in PAGES if page.exists()]

# Appended to commands of the README, so that its examples stay short and its tests quick.
SHORTER = {"train": ["--outer-iterations", "1", "--dictionary-iterations", "10"]}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """Fenced blocks whose info string is exactly ``language``."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """Arguments of every ``cscodec ...`` line in the page's ``sh`` blocks, comments removed."""
    text = "".join(blocks(page, "sh")).replace("\\\n", " ")
    lines = [line.removeprefix("$ ") for line in text.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("cscodec ")]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, samples_folder: Path) -> Path:
    """A folder with what the examples name: photo.png and photos/."""
    folder = tmp_path_factory.mktemp("workspace")
    shutil.copy(samples_folder / "chapel.png", folder / "photo.png")
    (folder / "photos").mkdir()
    for path in sorted(samples_folder.glob("*.png"))[:3]:
        with Image.open(path) as picture:
            picture.crop((0, 0, 320, 256)).save(folder / "photos" / path.name)
    return folder


def run(arguments: list[str], folder: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, f"{arguments}:\n{result.stderr}"


def test_readme_commands_run(workspace: Path) -> None:
    found = commands(ROOT / "README.md")
    assert {"encode", "decode", "info", "eval", "train", "models"} <= {line[0] for line in found}
    for arguments in found:
        run(["-m", "cscodec", *arguments, *SHORTER.get(arguments[0], [])], workspace)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name)
def test_python_examples_run(page: Path, workspace: Path) -> None:
    run(["-W", "error", "-c", "\n".join(blocks(page, "python"))], workspace)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_parse(page: Path) -> None:
    import typer

    from cscodec.cli import app

    root = typer.main.get_command(app)
    for arguments in commands(page):
        with root.make_context("cscodec", list(arguments)) as context:
            _, command, rest = root.resolve_command(context, list(arguments))
            assert command is not None, arguments
            known = {option for parameter in command.params for option in parameter.opts}
            given = {word.split("=")[0] for word in rest if re.match(r"--?[a-zA-Z]", word)}
            assert given - known - {"--help"} == set(), arguments


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    relative = [target.split("#")[0] for target in targets if "://" not in target]
    missing = [target for target in relative if target and not (page.parent / target).exists()]
    assert missing == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[\d{4}\]\((\S+)\)", index, re.MULTILINE)
    assert listed == sorted(path.name for path in folder.glob("0*.md"))


def test_readme_sizes_are_the_measured_ones() -> None:
    record = (ROOT / "benchmarks/results/rate_distortion.json").read_text(encoding="utf-8")
    measured = json.loads(record)["bd_rate_percent"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [
        (set_name, codec, measure, measured[set_name][codec][measure]["mean"])
        for set_name, codec, measure in [
            ("table2", "cscodec psnr", "psnr_y_db"),
            ("kodak12", "cscodec psnr effort 2", "psnr_y_db"),
            ("kodak12", "cscodec psnr", "psnr_y_db"),
            ("kodak12", "cscodec", "psnr_y_db"),
            ("kodak12", "cscodec", "ms_ssim"),
            ("kodak12", "cscodec", "ssimulacra2"),
        ]
        if measure in measured[set_name].get(codec, {})
    ]
    assert rows
    for *what, mean in rows:
        others = {name: rate for name, rate in mean.items() if not name.startswith("cscodec")}
        row = ", ".join(f"{rate:+.0f} % against {rival}" for rival, rate in others.items())
        row = re.sub(r"[+-]0 %", "0 %", row)
        assert row in readme, f"{what}: the README should say {row}"


def test_readme_says_what_is_saved(tmp_path: Path, samples_folder: Path) -> None:
    command = ["-m", "cscodec", "encode", "-r", samples_folder, "-d", tmp_path, "--quiet", "--json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, *command], env=environment, capture_output=True)
    records = json.loads(result.stdout)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    told = re.search(r"(\d+) files written: ([\d.]+) MB to ([\d.]+) kB, (\d+) % saved", readme)
    assert told is not None
    before, after = (sum(r[name] for r in records) for name in ("source_bytes", "num_bytes"))
    measured = [len(records), before / 1e6, after / 1e3, 100 - 100 * after / before]
    assert [float(text) for text in told.groups()] == pytest.approx(measured, rel=0.15)


def test_make_help_lists_every_verb() -> None:
    result = subprocess.run(["make", "-C", ROOT, "help"], capture_output=True, text=True)
    for verb in ("help", "demo", "test", "lint", "check", "bench", "vectors", "paper"):
        assert f"make {verb}" in result.stdout


def test_an_old_python_is_refused_in_one_line() -> None:
    result = subprocess.run(
        ["make", "--silent", "-C", ROOT, "-B", "demo", "PYTHON=false"],
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0
    assert "Python 3.11 or newer" in result.stderr
    assert "PYTHON=" in result.stderr
