"""What some rows of a picture tell of it, before it is encoded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.layout import PATCH_SIZE
from cscodec.model import Model
from cscodec.rows import PictureRows
from cscodec.transform.colour import split_colours, without_alpha
from cscodec.transform.lapping import lap
from cscodec.transform.measure import analyse_plane
from cscodec.transform.patches import patch_grid, whole_patches

_SAMPLED_ROWS = 16  #: of patches
#: On JPEG's grid of 8x8, what JPEG made zero is below the first: fewer measurements of patches as
#: they are reach it than of lapped ones, in parts of these, by more than the second.
_NOT_ZERO, _SHARE_ON_GRID = 2, 0.8
#: Measurements from here on are texture; patches whose measurements have this norm hide errors.
_FAINT, _STRONG = 3, 96


class Texture(NamedTuple):
    """What is counted, in whole numbers, so that it is the same on every machine.

    Attributes
    ----------
    lies_on_grid : bool
        Whether the picture was a JPEG file once, and shows it: it is coded best on its own grid.
    faint_share : float
        Of the measurements beside the means, those that are texture.
    strong_share : float
        Of the patches, those whose texture hides errors.
    """

    lies_on_grid: bool
    faint_share: float
    strong_share: float


def texture_of(picture: PictureRows, model: Model) -> Texture:
    """Look at some rows of patches of a picture, spread evenly."""
    luma = _sampled_luma(picture)
    system = model.luma

    def values(plane: Float32Array) -> Float32Array:
        return np.rint(analyse_plane(plane, system.analysis)[..., 1:])

    def kept(values: Float32Array) -> int:
        return int(np.count_nonzero(abs(values) >= _NOT_ZERO))

    # Not of lapped patches: a row of patches has nothing above and below.
    found = values(luma)
    faint = int(np.count_nonzero(abs(found) >= _FAINT))
    energies = np.einsum("ijk,ijk->ij", found, found)  # whole numbers below 2^24
    strong = int(np.count_nonzero(energies >= _STRONG**2))
    lies_on_grid = False
    if system.lapping is not None:
        for top in range(0, len(luma), PATCH_SIZE):
            lap(luma[top : top + PATCH_SIZE], system.lapping)
        lies_on_grid = kept(found) < _SHARE_ON_GRID * kept(values(luma))
    return Texture(lies_on_grid, faint / found.size, strong / energies.size)


def _sampled_luma(picture: PictureRows) -> Float32Array:
    """Return rows of patches, (8 n, W), one under the other though they are no neighbours."""
    rows, _ = patch_grid(picture.shape[:2])
    middles = {(2 * k + 1) * rows // (2 * _SAMPLED_ROWS) for k in range(_SAMPLED_ROWS)}
    tops = [PATCH_SIZE * row for row in sorted(middles)]
    pixels = np.concatenate([picture[top : top + PATCH_SIZE] for top in tops])
    return whole_patches(split_colours(without_alpha(pixels))[0])
