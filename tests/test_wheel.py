"""The wheel: built, installed in a clean environment away from the checkout, and used there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from building.hook import LINKER, KernelHook
from cscodec.evaluation.metrics import psnr_db
from cscodec.kernels.library import SUFFIX, usable_levels

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path, **settings: str) -> str:
    """Run without this process's Python settings; return stdout, or fail showing stderr."""
    environment = {key: value for key, value in os.environ.items() if key[:6] != "PYTHON"}
    result = subprocess.run(
        command, cwd=cwd, env=environment | settings, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with an sdist, and a wheel made of it where no compiler is on the PATH."""
    folder = tmp_path_factory.mktemp("dist")
    nothing = tmp_path_factory.mktemp("bin")
    command = [sys.executable, "-m", "build", "--no-isolation", "-o", folder, ROOT]
    run(*command, cwd=folder, PATH=str(nothing))
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an environment's programs, with the wheel and nothing else of this project in it.

    The dependencies are those of this environment, reached through a path file, rather than
    downloaded again; path files in there, such as an editable install's, do not take effect.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return scripts


def test_wheel_holds_the_package_the_models_the_kernels_and_the_licence(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"cscodec/py.typed", "cscodec/codec.py", "cscodec/_models/photo.safetensors"} <= names
    assert "cscodec/_models/networks/restorer.safetensors" in names
    pages = {f"cscodec/evaluation/pages/comparison.{kind}" for kind in ("html", "css", "js")}
    pages |= {f"cscodec/evaluation/pages/{name}.html" for name in ("page", "training")}
    assert pages <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    top_level = {name.split("/")[0] for name in names}
    assert {name for name in top_level if not name.endswith(".dist-info")} == {"cscodec"}
    native = [name for name in names if name.startswith("cscodec/kernels/native/")]
    own = f"cscodec/kernels/native/{usable_levels()[-1]}{SUFFIX}"
    assert sorted(native) == [own, f"{own}.sha256"]  # this machine's
    assert wheel.name.startswith("cscodec-")
    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")


def test_installing_brings_neither_numba_nor_llvm(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    needed = [
        line.split(":")[1]
        for line in archive.read(name).decode().splitlines()
        if line.startswith("Requires-Dist:") and "extra ==" not in line
    ]
    assert len(needed) > 5
    assert not [line for line in needed if "numba" in line or "llvm" in line or "zig" in line]


def test_sdist_holds_what_it_takes_to_build(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"building/hook.py", "building/compiler.py", "pyproject.toml", "README.md"} <= names
    assert {"models/photo.safetensors", "tests/test_wheel.py", "samples/cat.png"} <= names
    assert not [name for name in names if "native" in name]


def test_pins_agree_wherever_they_stand() -> None:
    """What the checkout compiles with is what a build compiles with."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    development = project["project"]["optional-dependencies"]["dev"]
    for pinned in (*project["build-system"]["requires"], LINKER):
        assert pinned in development


def test_a_linker_is_asked_for_only_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = KernelHook(str(ROOT), {}, None, None, str(tmp_path), "wheel")  # type: ignore[arg-type]
    monkeypatch.delenv("CSCODEC_PLATFORM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (linker,) = hook.dependencies()
    assert linker.startswith("ziglang==")
    compiler = tmp_path / ("cc.exe" if os.name == "nt" else "cc")
    compiler.write_text("")
    compiler.chmod(0o755)
    assert hook.dependencies() == []
    monkeypatch.setenv("CSCODEC_PLATFORM", "win_amd64")  # another system's, perhaps
    assert hook.dependencies() == [linker]


def test_installed_wheel_encodes_and_decodes(
    installed: Path, tmp_path: Path, photo: np.ndarray
) -> None:
    Image.fromarray(photo).save(tmp_path / "photo.png")
    where = run(installed / "python", "-c", "import cscodec; print(cscodec.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)

    before = {path: path.stat().st_mtime_ns for path in sorted(installed.parent.rglob("*"))}
    run(installed / "cscodec", "encode", "photo.png", "-o", "photo.csc", cwd=tmp_path)
    run(installed / "cscodec", "decode", "photo.csc", "-o", "back.png", cwd=tmp_path)
    after = {path: path.stat().st_mtime_ns for path in sorted(installed.parent.rglob("*"))}
    assert before == after  # nothing is compiled or kept beside the package
    with Image.open(tmp_path / "back.png") as picture:
        assert psnr_db(photo, np.asarray(picture)) > 28
    assert (tmp_path / "photo.csc").stat().st_size < photo.size / 10

    models = json.loads(run(installed / "cscodec", "models", "--json", cwd=tmp_path))
    assert "photo" in json.dumps(models)
    assert "usage" in run(installed / "python", "-m", "cscodec", "--help", cwd=tmp_path).lower()


def test_the_installed_package_passes_the_vectors(installed: Path, tmp_path: Path) -> None:
    """Tests run there, away from the checkout."""
    for name in ("tests", "samples"):
        ignored = shutil.ignore_patterns("__pycache__", "test_[a-fh-z]*")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    command = [installed / "python", "-m", "pytest", "-q", "tests/test_golden.py"]
    shown = run(*command, cwd=tmp_path)
    assert " passed" in shown
    assert "failed" not in shown
