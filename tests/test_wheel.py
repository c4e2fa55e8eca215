"""The wheel: built, installed in a clean environment away from the checkout, and used there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cscodec.evaluation.metrics import psnr_db

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    """Run without this process's Python settings; return stdout, or fail showing stderr."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "-w", "--no-isolation", "-o", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
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


def test_wheel_holds_the_package_the_models_and_the_licence(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"cscodec/py.typed", "cscodec/codec.py", "cscodec/_models/photo.safetensors"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    top_level = {name.split("/")[0] for name in names}
    assert {name for name in top_level if not name.endswith(".dist-info")} == {"cscodec"}


def test_installed_wheel_encodes_and_decodes(
    installed: Path, tmp_path: Path, photo: np.ndarray
) -> None:
    Image.fromarray(photo).save(tmp_path / "photo.png")
    where = run(installed / "python", "-c", "import cscodec; print(cscodec.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed.parent)

    run(installed / "cscodec", "encode", "photo.png", "-o", "photo.csc", cwd=tmp_path)
    run(installed / "cscodec", "decode", "photo.csc", "-o", "back.png", cwd=tmp_path)
    with Image.open(tmp_path / "back.png") as picture:
        assert psnr_db(photo, np.asarray(picture)) > 28
    assert (tmp_path / "photo.csc").stat().st_size < photo.size / 10

    models = json.loads(run(installed / "cscodec", "models", "--json", cwd=tmp_path))
    assert "photo" in json.dumps(models)
    assert "usage" in run(installed / "python", "-m", "cscodec", "--help", cwd=tmp_path).lower()
