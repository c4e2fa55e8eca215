"""What some rows of a picture tell of it, before it is encoded."""

from __future__ import annotations

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.layout import PATCH_SIZE
from cscodec.model import Model
from cscodec.parallel import computed_once
from cscodec.rows import PictureRows
from cscodec.transform.colour import split_colours, without_alpha
from cscodec.transform.measure import analyse_plane
from cscodec.transform.patches import patch_grid

_SAMPLED_ROWS = 16  #: of patches
#: On JPEG's grid of 8x8, what JPEG made zero is below the first: fewer measurements of patches as
#: they are reach it than of lapped ones, in parts of these, by more than the second.
_NOT_ZERO, _SHARE_ON_GRID = 2, 0.8


class Sample:
    """Some rows of patches of a picture, spread evenly; read when they are first asked for."""

    def __init__(self, picture: PictureRows) -> None:
        self.picture = picture

    @computed_once
    def luma(self) -> list[Float32Array]:
        """Their luma: (8, W) each, or less at the edge."""
        rows, _ = patch_grid(self.picture.shape[:2])
        middles = {(2 * k + 1) * rows // (2 * _SAMPLED_ROWS) for k in range(_SAMPLED_ROWS)}
        tops = (PATCH_SIZE * row for row in sorted(middles))
        strips = (self.picture[top : top + PATCH_SIZE] for top in tops)
        return [split_colours(without_alpha(strip))[0] for strip in strips]


def lies_on_grid(sample: Sample, model: Model) -> bool:
    """Whether a picture was a JPEG file once, and shows it: it is coded best on its own grid.

    Counted in integers, so that the file is the same on every machine.
    """

    lapping = model.luma.lapping
    if lapping is None:
        return False

    def not_zero(lapping: Float32Array | None) -> int:
        planes = (analyse_plane(luma, model.luma.analysis, lapping) for luma in sample.luma)
        return sum(int(np.count_nonzero(np.rint(abs(p[..., 1:])) >= _NOT_ZERO)) for p in planes)

    return not_zero(None) < _SHARE_ON_GRID * not_zero(lapping)
