"""What some rows of a picture tell of it, before it is encoded."""

from __future__ import annotations

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.layout import PATCH_SIZE
from cscodec.model import Model
from cscodec.rows import PictureRows
from cscodec.transform.colour import split_colours, without_alpha
from cscodec.transform.measure import analyse_plane
from cscodec.transform.patches import patch_grid

_SAMPLED_ROWS = 16  #: of patches
#: On JPEG's grid of 8x8, what JPEG made zero is below the first: fewer measurements of patches as
#: they are reach it than of lapped ones, in parts of these, by more than the second.
_NOT_ZERO, _SHARE_ON_GRID = 2, 0.8


def sampled_luma(picture: PictureRows) -> list[Float32Array]:
    """Return luma of some rows of patches, spread evenly: (8, W) each, or less at the edge."""
    rows, _ = patch_grid(picture.shape[:2])
    middles = {(2 * k + 1) * rows // (2 * _SAMPLED_ROWS) for k in range(_SAMPLED_ROWS)}

    def luma(row: int) -> Float32Array:
        colours = without_alpha(picture[PATCH_SIZE * row : PATCH_SIZE * (row + 1)])
        return split_colours(colours)[0]

    return [luma(row) for row in sorted(middles)]


def lies_on_grid(picture: PictureRows, model: Model) -> bool:
    """Whether a picture was a JPEG file once, and shows it: it is coded best on its own grid.

    Counted in integers, so that the file is the same on every machine.
    """

    lapping = model.luma.lapping
    if lapping is None:
        return False
    rows = sampled_luma(picture)

    def not_zero(lapping: Float32Array | None) -> int:
        measured = [analyse_plane(luma, model.luma.analysis, lapping)[..., 1:] for luma in rows]
        return sum(int(np.count_nonzero(np.rint(abs(one)) >= _NOT_ZERO)) for one in measured)

    return not_zero(None) < _SHARE_ON_GRID * not_zero(lapping)
