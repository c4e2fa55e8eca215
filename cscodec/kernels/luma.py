"""Kernel that averages the magnitudes of luma at the places of chroma's patches."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from cscodec.kernels.declaration import Array, int16, int32, int64, kernel


@kernel
def average_magnitudes(
    luma: Annotated[Array, int16["luma_rows + 2", "luma_columns + 2", 64]],
    magnitudes: Annotated[Array, int16["rows + 2", "columns + 2", 64].out],
    masks: Annotated[Array, int64["rows + 2", "columns + 2"].out],
    sums: Annotated[Array, int32[64].out],
) -> None:
    """Write the mean magnitudes of the luma patches that each chroma patch covers, rounded.

    It covers one where luma has as many rows and columns, and else two by two, of which those that
    are not there count as zero. Bit i of a mask is set where magnitude i is not zero. All patches
    are in frames, which stay as they are; ``sums`` is room.
    """
    rows, columns = masks.shape[0] - 2, masks.shape[1] - 2
    is_halved = luma.shape[0] != rows + 2 or luma.shape[1] != columns + 2
    side = 2 if is_halved else 1
    half, shift = (2, 2) if is_halved else (0, 0)
    for r in range(rows):
        for c in range(columns):
            for i in range(64):
                sums[i] = half
            for y in range(side * r + 1, min(side * (r + 1), luma.shape[0] - 2) + 1):
                for x in range(side * c + 1, min(side * (c + 1), luma.shape[1] - 2) + 1):
                    for i in range(64):
                        sums[i] += abs(np.int32(luma[y, x, i]))
            mask = np.int64(0)
            for i in range(64):
                mean = sums[i] >> shift
                magnitudes[r + 1, c + 1, i] = mean
                mask |= np.int64(mean != 0) << i
            masks[r + 1, c + 1] = mask
