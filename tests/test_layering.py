"""Data flow one way: imports go down only, as this table says, and only to declared packages."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "cscodec"

# From the bottom up. A room may import the rooms named here, and itself; nothing else of cscodec.
_BASE = {
    "errors",
    "layout",
    "choices",
    "arrays",
    "atomic",
    "parallel",
    "scheduler",
    "shipped",
    "kernels",
}
_CODING = _BASE | {"rows", "transform", "bitstream", "model"}
_RESTORING = _CODING | {"sensing", "restore"}
_CORE = _RESTORING | {
    "arguments",
    "texture",
    "quality",
    "foresight",
    "encoding",
    "decoding",
    "rate_control",
    "codec",
    "describe",
}
# Leaves: numbers in, numbers, text or charts out.
_MEASURES = {"evaluation.metrics", "evaluation.report", "evaluation.charts"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "layout": set(),
    "arrays": set(),
    "atomic": set(),
    "choices": set(),
    "loading": set(),
    "parallel": set(),
    "locations": {"errors"},
    "scheduler": {"errors", "parallel"},
    "shipped": set(),
    "streams": set(),
    "rows": {"errors", "layout", "arrays"},
    "kernels": {"errors", "layout", "arrays", "loading"},
    "transform": {"errors", "layout", "arrays", "kernels"},
    "bitstream": {"errors", "layout", "arrays", "parallel", "streams", "kernels"},
    "model": _BASE - {"choices", "kernels"} | {"locations", "transform", "bitstream"},
    "sensing": _BASE | {"transform"},
    "restore": _CODING | {"sensing"},
    "texture": _CODING,
    "quality": _CODING | {"texture"},
    "foresight": _RESTORING,
    "encoding": _RESTORING | {"foresight"},
    "decoding": _RESTORING,
    "rate_control": {"errors", "bitstream"},
    "arguments": {"errors", "layout", "arrays", "model", "bitstream", "images"},
    "codec": _CORE - {"codec", "describe"} | {"evaluation.metrics"},
    "describe": {"errors", "layout", "arguments", "model", "bitstream"},
    "images": {"errors", "layout", "arrays", "streams"},
    "evaluation.metrics": {"errors"},
    "evaluation.report": set(),
    "evaluation.charts": {"errors"},
    "learning": _CORE | {"locations", "images", "streams"} | _MEASURES,
    "evaluation": _CORE | {"images", "learning"} | _MEASURES,
    "plugins": _CORE | {"images"},
    "cli": _CORE
    | {"locations", "signals", "streams", "images", "learning", "evaluation", "plugins"}
    | _MEASURES,
    "__init__": {"errors", "loading", "model", "codec", "describe"},
    "signals": {"atomic"},
    "__main__": {"signals", "cli"},
}

# Loaded only where they are needed, so that starting up stays cheap.
NEVER_AT_THE_TOP_OF = {"cli", "images", "plugins", "__init__", "__main__"}
HEAVY = {"scipy", "skimage"}

#: Folders and files that need an extra, and its name. Nothing outside imports what it brings, nor
#: these, but for those that load it when it is used, and say then if it is missing.
LOAD_WHEN_USED = {"evaluation/charts.py", "locations.py", "scheduler.py"}
EXTRAS = {
    "evaluation/charts.py": "report",
    "learning/restorer": "restorer",
    "locations.py": "remote",
    "plugins/numcodecs.py": "zarr",
    "plugins/zarr.py": "zarr",
    "scheduler.py": "dask",
}

#: Packages of no extra of ours that are used where they are installed, and the one file that does.
WHERE_INSTALLED = {"imagecodecs": "evaluation/codecs.py"}

FILES = sorted(PACKAGE.rglob("*.py"))


def room(module: str) -> str:
    """The entry of the table that a dotted name (without ``cscodec.``) belongs to."""
    first, second = [*module.split("."), ""][:2]
    return f"{first}.{second}" if f"{first}.{second}" in ALLOWED else first


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def imports(nodes: Iterator[ast.AST]) -> Iterator[str]:
    """Dotted names that import statements ask for, ``from a import b`` as ``a.b``."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute, so that they can be read and checked"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_imports(path: Path) -> set[str]:
    found = set()
    for name in imports(ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
        if name.split(".")[0] == "cscodec" and name != "cscodec.__version__":
            inner = name.removeprefix("cscodec").lstrip(".")
            # What is no room is a name of the facade, as in ``from cscodec import encode``.
            found.add(room(inner) if room(inner) in ALLOWED else "__init__")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_of(path))
def test_imports_go_down(path: Path) -> None:
    place = room(module_of(path))
    assert place in ALLOWED, f"{path.name} is a new room: give it a line in the table"
    allowed = ALLOWED[place] | {place}
    if place in {"cli", "plugins"}:
        allowed |= {"__init__"}
    assert own_imports(path) <= allowed


def test_the_table_has_an_order() -> None:
    remaining = dict(ALLOWED)
    while remaining:
        lowest = {place for place, below in remaining.items() if not below & remaining.keys()}
        assert lowest, f"a circle among {sorted(remaining)}"
        remaining = {place: below for place, below in remaining.items() if place not in lowest}


def test_every_third_party_import_is_declared_and_every_dependency_used() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = third_party(path for path in FILES if not is_extra(path))
    assert found - WHERE_INSTALLED.keys() == declared(project["dependencies"])
    for package, file in WHERE_INSTALLED.items():
        assert [path for path in FILES if package in third_party(iter([path]))] == [PACKAGE / file]


@pytest.mark.parametrize("name", sorted(set(EXTRAS.values())))
def test_an_extra_is_what_its_files_import(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = declared(project["optional-dependencies"][name])
    folders = [PACKAGE / folder for folder, needed in EXTRAS.items() if needed == name]
    imported = third_party(path for path in FILES if any(map(path.is_relative_to, folders)))
    brought = imported - declared(project["dependencies"])
    assert brought
    assert brought <= extra  # which may hold what those need


@pytest.mark.parametrize("folder", sorted(EXTRAS.keys() - LOAD_WHEN_USED))
def test_what_only_an_extra_brings_stays_in_its_folder(folder: str) -> None:
    inside = f"cscodec.{folder.removesuffix('.py').replace('/', '.')}"
    for path in FILES:
        if not path.is_relative_to(PACKAGE / folder):
            assert not [name for name in all_imports(path) if name.startswith(inside)], path


def is_extra(path: Path) -> bool:
    return any(path.is_relative_to(PACKAGE / folder) for folder in EXTRAS)


def declared(requirements: list[str]) -> set[str]:
    names = {
        "pillow": ["PIL"],
        "scikit-image": ["skimage"],
        "dask[distributed]": ["dask", "distributed"],
    }
    found = [re.split(r"[<>=~ ]", line)[0] for line in requirements]
    return {package for name in found for package in names.get(name, [name])}


def third_party(paths: Iterator[Path]) -> set[str]:
    found = {name.split(".")[0] for path in paths for name in all_imports(path)}
    return found - sys.stdlib_module_names - {"cscodec"}


def all_imports(path: Path) -> list[str]:
    return list(imports(ast.walk(ast.parse(path.read_text(encoding="utf-8")))))


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if room(module_of(path)) in NEVER_AT_THE_TOP_OF],
    ids=lambda path: module_of(path),
)
def test_light_modules_load_heavy_packages_late(path: Path) -> None:
    top_level = ast.parse(path.read_text(encoding="utf-8")).body
    assert not {name.split(".")[0] for name in imports(iter(top_level))} & HEAVY
