"""What a model needs beyond its systems to code pictures well, learned from pictures.

In this order, as each builds on the one before: the basis to quantise in, the entropy coder's
tables, the restoration filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Pixels
from cscodec.learning.basis import sparse_basis
from cscodec.learning.filters import train_filters
from cscodec.learning.priors import train_tables
from cscodec.model import Model
from cscodec.transform.colour import halve, split_colours, without_alpha
from cscodec.transform.patches import extract_patches, remove_mean

CROP_SIDE = 384  #: pixels of each picture that are used, a multiple of 16
MAX_CROPS = 400
_PATCHES_PER_CROP = 1500  # that a basis is fitted to


def learn_coding(
    model: Model, pictures: Iterable[Pixels], *, seed: int = 0, workers: int | None = None
) -> Model:
    """Complete a model whose systems are learned: basis, tables and filters.

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
    luma, chroma = _sample_patches(crops, generator)
    model = replace(model, luma=model.luma.with_basis(sparse_basis(luma, model.luma)))
    if len(chroma):
        model = replace(model, chroma=model.chroma.with_basis(sparse_basis(chroma, model.chroma)))
    model = replace(model, tables=train_tables(model, crops, generator))
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


def _sample_patches(
    crops: list[Pixels], generator: np.random.Generator
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Zero-mean patches of luma, and of halved chroma."""
    luma: list[npt.NDArray[Any]] = []
    chroma: list[npt.NDArray[Any]] = [np.empty((0, 64), np.float32)]
    for crop in crops:
        planes = split_colours(crop)
        for kept, sources in ((luma, planes[:1]), (chroma, map(halve, planes[1:]))):
            for plane in sources:
                patches = remove_mean(extract_patches(plane))[0]
                kept.append(patches[generator.permutation(len(patches))[:_PATCHES_PER_CROP]])
    return np.concatenate(luma), np.concatenate(chroma)
