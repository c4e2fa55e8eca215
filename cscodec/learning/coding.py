"""What a model needs beyond its systems to code pictures well, learned from pictures.

In this order, as each builds on the one before: how patches are lapped, the basis to quantise in,
the entropy coder's tables, the restoration filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from cscodec.arrays import Float32Array, Pixels
from cscodec.learning.basis import sparse_basis
from cscodec.learning.filters import train_filters
from cscodec.learning.lapping import learned_lapping
from cscodec.learning.priors import train_tables
from cscodec.model import Model, System
from cscodec.transform.colour import halve, split_colours, without_alpha
from cscodec.transform.lapping import lap
from cscodec.transform.patches import extract_patches, remove_mean

CROP_SIDE = 384  #: pixels of each picture that are used, a multiple of 16
MAX_CROPS = 400
_PATCHES_PER_CROP = 1500  # that a basis is fitted to
_LAPPED = 30  # planes that a lapping is fitted to


def learn_coding(
    model: Model, pictures: Iterable[Pixels], *, seed: int = 0, workers: int | None = None
) -> Model:
    """Complete a model whose systems are learned: lapping, basis, tables and filters.

    Parameters
    ----------
    model : Model
    pictures : iterable of ndarray, uint8
        One crop of each is used, of the first ``MAX_CROPS`` of at least 32 x 32 pixels. Gray ones
        teach the luma plane only.
    seed : int
        Of every random choice.
    workers : int, optional
        Threads. The result does not depend on it.

    Returns
    -------
    Model
        The same model if no picture was large enough.
    """
    generator = np.random.default_rng(seed)
    crops = list(islice(_crops(pictures, generator), MAX_CROPS))
    if not crops:
        return model
    luma, chroma = _planes(crops)
    model = replace(model, luma=_fitted(model.luma, luma, generator))
    if chroma:
        model = replace(model, chroma=_fitted(model.chroma, chroma, generator))
    model = replace(model, tables=train_tables(model, crops, generator, workers=workers))
    return replace(model, filters=train_filters(model, crops, workers=workers))


def _crops(pictures: Iterable[Pixels], generator: np.random.Generator) -> Iterator[Pixels]:
    """Yield a random part, without alpha, of every picture that is large enough."""
    for pixels in pictures:
        colours = without_alpha(pixels)
        height, width = (min(side, CROP_SIDE) // 16 * 16 for side in colours.shape[:2])
        if min(height, width) < 32:
            continue
        top = 16 * generator.integers((colours.shape[0] - height) // 16 + 1)
        left = 16 * generator.integers((colours.shape[1] - width) // 16 + 1)
        yield colours[top : top + height, left : left + width]


def _planes(crops: list[Pixels]) -> tuple[list[Float32Array], list[Float32Array]]:
    """Luma planes, and halved chroma."""
    luma: list[Float32Array] = []
    chroma: list[Float32Array] = []
    for crop in crops:
        first, *others = split_colours(crop)
        luma.append(first)
        chroma += map(halve, others)
    return luma, chroma


def _fitted(system: System, planes: list[Float32Array], generator: np.random.Generator) -> System:
    """Return a system with a lapping and a basis that suit the planes."""
    system = system.with_lapping(learned_lapping(planes[:: -(-len(planes) // _LAPPED)], system))
    patches = []
    for plane in planes:
        lapped = plane.copy()
        lap(lapped, system.lapping)
        rows = remove_mean(extract_patches(lapped))[0]
        patches.append(rows[generator.permutation(len(rows))[:_PATCHES_PER_CROP]])
    return system.with_basis(sparse_basis(np.concatenate(patches), system))
