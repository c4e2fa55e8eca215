"""Kernel that laps patches over each other: what differs across their borders is turned."""

from __future__ import annotations

from typing import Annotated

from cscodec.kernels.declaration import (
    Array,
    Integer,
    float32,
    helper,
    inline_here,
    intrinsic,
    kernel,
)


@intrinsic
def turn_row(plane: Array, change: Array, y: Integer, x: Integer) -> None:
    """Turn the eight samples of row y around the border before column x."""
    a, b = plane[y, x - 4] - plane[y, x + 3], plane[y, x - 3] - plane[y, x + 2]
    c, d = plane[y, x - 2] - plane[y, x + 1], plane[y, x - 1] - plane[y, x]
    for i in range(4):
        added = change[0, i] * a + change[1, i] * b
        added += change[2, i] * c
        added += change[3, i] * d
        plane[y, x - 4 + i] += added
        plane[y, x + 3 - i] -= added


@kernel
def turn_borders(
    plane: Annotated[Array, float32["rows", "columns"].out],
    change: Annotated[Array, float32[4, "half"]],
    differences: Annotated[Array, float32[4, "columns"].out],
) -> None:
    """Add to samples what ``change`` makes of their differences across patch borders.

    Patches have 2 half samples on each side. Of the ``half`` samples on both sides of a border,
    those at equal distance from it make a difference, the farthest first; what ``change`` makes of
    these is added before the border and subtracted after it. First along rows, then along columns.
    ``half`` is at most 4; where it is less, the further rows of ``change`` are zero, and so are
    the further ``differences``, which are room.
    """
    rows, columns = plane.shape
    side = 2 * change.shape[1]
    for y in range(rows):
        if side == 8:  # whole patches: by far most of the work
            for x in range(8, columns - 7, 8):
                turn_row(plane, change, y, x)
        else:
            _turn(plane, change, differences, y, side, side, columns // side - 1, 0, 1)
    for y in range(side, rows, side):
        _turn(plane, change, differences, y, 0, 1, columns, 1, 0)


@helper
def _turn(
    plane: Array,
    change: Array,
    differences: Array,
    row: int,
    column: int,
    step: int,
    number: int,
    down: int,
    across: int,
) -> None:
    """Turn what differs at ``number`` places of a border, ``step`` columns apart."""
    inline_here()
    half = change.shape[1]
    for k in range(half):
        far = half - k
        before, after = row - down * far, row + down * (far - 1)
        left, right = column - across * far, column + across * (far - 1)
        for n in range(number):
            differences[k, n] = plane[before, left + n * step] - plane[after, right + n * step]
    for i in range(half):
        far = half - i
        before, after = row - down * far, row + down * (far - 1)
        left, right = column - across * far, column + across * (far - 1)
        for n in range(number):
            # A sum of four at a time: of any number, it would be slow.
            added = change[0, i] * differences[0, n]
            added += change[1, i] * differences[1, n]
            added += change[2, i] * differences[2, n]
            added += change[3, i] * differences[3, n]
            plane[before, left + n * step] += added
            plane[after, right + n * step] -= added
