"""Nothing grows too large to be read: lengths of functions, numbers of parameters."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("cscodec", "building", "benchmarks", "samples", "tests")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
MOST_LINES, MOST_PARAMETERS, MOST_OF_A_KERNEL = 60, 8, 10

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Whose parameters are what a user can ask for: keywords of the interface, options of commands.
ASKED_FOR = {
    "cscodec/codec.py:encode",
    "cscodec/codec.py:decode",
    "cscodec/cli/encode.py:encode",
    "cscodec/cli/decode.py:decode",
    "cscodec/cli/eval.py:evaluate",
    "cscodec/cli/train.py:train",
    "cscodec/cli/compare.py:compare",
}


def functions(path: Path) -> list[Function]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def lines_of_code(function: Function, source: list[str]) -> int:
    """Lines of the body, without its docstring, comments and empty lines."""
    first, *rest = function.body
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    if is_docstring and not rest:
        return 0
    start = rest[0] if is_docstring else first
    body = source[start.lineno - 1 : function.end_lineno]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in body)


def num_parameters(function: Function) -> int:
    given = function.args
    names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def name_of(path: Path, function: Function) -> str:
    return f"{path.relative_to(ROOT).as_posix()}:{function.name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_functions_can_be_read(path: Path) -> None:
    source = path.read_text(encoding="utf-8").splitlines()
    is_kernels = path.is_relative_to(ROOT / "cscodec/kernels") or "kernels" in path.name
    most = MOST_OF_A_KERNEL if is_kernels else MOST_PARAMETERS
    for function in functions(path):
        name = name_of(path, function)
        assert lines_of_code(function, source) <= MOST_LINES, name
        assert num_parameters(function) <= most or name in ASKED_FOR, name


def test_those_with_more_parameters_are_still_there() -> None:
    found = {name_of(path, function) for path in FILES for function in functions(path)}
    assert found >= ASKED_FOR


def test_lines_and_parameters_are_counted() -> None:
    code = (
        'def f(self, a, /, b, *, c):\n    """Doc."""\n    # why\n    d = (\n\n    b)\n    return d'
    )
    (function,) = (node for node in ast.walk(ast.parse(code)) if isinstance(node, Function))
    assert lines_of_code(function, code.splitlines()) == 3
    assert num_parameters(function) == 3
