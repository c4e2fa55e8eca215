"""Kernel that laps patches over each other: what differs across their borders is turned."""

from __future__ import annotations

from typing import Annotated

from cscodec.kernels.declaration import Array, float32, helper, inline_here, kernel


@kernel
def turn_borders(
    plane: Annotated[Array, float32["rows", "columns"].out],
    change: Annotated[Array, float32["half", 4]],
    differences: Annotated[Array, float32[4, "columns"].out],
) -> None:
    """Add to samples what ``change`` makes of their differences across patch borders.

    Patches have 2 half samples on each side. Of the ``half`` samples on both sides of a border,
    those at equal distance from it make a difference, the farthest first; what ``change`` makes of
    these is added before the border and subtracted after it. First along rows, then along columns.
    ``half`` is at most 4; where it is less, the further columns of ``change`` are zero, and so are
    the further ``differences``, which are room.
    """
    rows, columns = plane.shape
    side = 2 * len(change)
    for y in range(rows):
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
    half = len(change)
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
            added = change[i, 0] * differences[0, n]
            added += change[i, 1] * differences[1, n]
            added += change[i, 2] * differences[2, n]
            added += change[i, 3] * differences[3, n]
            plane[before, left + n * step] += added
            plane[after, right + n * step] -= added
