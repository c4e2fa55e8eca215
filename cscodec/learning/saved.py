"""What was saved, taken up again with care: a file may hold anything.

Each value is checked when it is taken. One that is missing, unknown, or not of the type, range or
shape asked for is refused by name, before anything is computed from it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from cscodec.errors import InvalidInputError

_HIGHEST = 2**63 - 1


class Saved:
    """A mapping that was saved, whose values have yet to be checked.

    Parameters
    ----------
    name : str
        What it is, for messages.
    value : object
        The mapping, if it is one.
    keys : collection of str, optional
        The keys that it must have, and no others; any, if left out.

    Attributes
    ----------
    keys : tuple of str

    Raises
    ------
    InvalidInputError
        If it is no such mapping. All methods raise it if a value is not what they are asked for.
    """

    def __init__(self, name: str, value: Any, keys: Collection[str] | None = None) -> None:
        if not isinstance(value, Mapping):
            raise InvalidInputError(f"{name} is {shown(value)}; allowed is a mapping")
        self._name = name
        self._values = value
        for key in value:
            if not isinstance(key, str) or (keys is not None and key not in keys):
                raise InvalidInputError(f"{name} has an unknown entry {shown(key)}")
        for key in keys or ():
            self.value(key)
        self.keys = tuple(value)

    def value(self, key: str) -> Any:
        """Take a value as it is."""
        if key not in self._values:
            raise InvalidInputError(f"{self._name} lacks {key}")
        return self._values[key]

    def mapping(self, key: str, keys: Collection[str] | None = None) -> Saved:
        """Take a mapping within."""
        return Saved(f"{self._name}.{key}", self.value(key), keys)

    def mappings(self, key: str, keys: Collection[str]) -> list[Saved]:
        """Take a list of mappings, each with the same keys."""
        rows = self.value(key)
        if not isinstance(rows, list):
            self.refuse(key, "a list")
        return [Saved(f"{self._name}.{key}.{i}", row, keys) for i, row in enumerate(rows)]

    def text(self, key: str) -> str:
        """Take a text."""
        value = self.value(key)
        if not isinstance(value, str):
            self.refuse(key, "a text")
        return value

    def integer(self, key: str, lowest: int = 0, highest: int = _HIGHEST) -> int:
        """Take a whole number in a range."""
        value = self.value(key)
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            self.refuse(key, f"a whole number in {lowest}..{highest}")
        return value

    def number(self, key: str) -> float:
        """Take a finite float."""
        value = self.value(key)
        if not isinstance(value, float) or not math.isfinite(value):
            self.refuse(key, "a finite number with a decimal point")
        return value

    def array(
        self, key: str, dtype: type[np.generic], shape: tuple[int | None, ...]
    ) -> npt.NDArray[Any]:
        """Take a copy of a finite array of just this type and shape; None leaves a size open."""
        value = self.value(key)
        if (
            not isinstance(value, np.ndarray)
            or value.dtype != dtype
            or value.ndim != len(shape)
            or any(size not in (None, n) for size, n in zip(shape, value.shape, strict=True))
            or not np.isfinite(value).all()
        ):
            sizes = ", ".join("n" if size is None else str(size) for size in shape)
            self.refuse(key, f"{np.dtype(dtype)} ({sizes}), all finite")
        return np.array(value, order="C")

    def generator_state(self) -> dict[str, Any]:
        """Take all of it as the state of a PCG64, NumPy's usual generator of random numbers."""
        if self.text("bit_generator") != "PCG64":
            self.refuse("bit_generator", "'PCG64'")
        numbers = self.mapping("state")
        state = {name: numbers.integer(name, highest=2**128 - 1) for name in ("state", "inc")}
        if state["inc"] % 2 == 0:  # NumPy would take it, and may then wait for ever for another
            numbers.refuse("inc", "an odd number")
        return {
            "bit_generator": "PCG64",
            "state": state,
            "has_uint32": self.integer("has_uint32", highest=1),
            "uinteger": self.integer("uinteger", highest=2**32 - 1),
        }

    def refuse(self, key: str, allowed: str) -> NoReturn:
        """Say what a value is, and what it should be."""
        found = shown(self._values[key])
        raise InvalidInputError(f"{self._name}.{key} is {found}; allowed is {allowed}")


def shown(value: object) -> str:
    """Describe a value in a few words, however long or deep it is."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, int) and abs(value) >= 2**64:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else f"{value[:40]}...")
    if value is None or isinstance(value, int | float):
        return str(value)
    return f"of type {type(value).__name__}"
