"""What a model needs beyond its systems to code pictures well, learned from pictures.

In this order, as each builds on the one before: how patches are lapped, the basis to quantise in,
the entropy coder's tables, the restoration filters.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from cscodec.arrays import Float32Array, Pixels
from cscodec.bitstream.container import TILE_SIZE
from cscodec.learning.basis import sparse_basis
from cscodec.learning.filters import train_filters
from cscodec.learning.lapping import learned_lapping
from cscodec.learning.priors import train_tables
from cscodec.model import Model, System
from cscodec.transform.colour import halve, split_colours, without_alpha
from cscodec.transform.lapping import lap
from cscodec.transform.patches import extract_patches, remove_mean

MAX_PICTURES = 400
MAX_PARTS = 600  #: of pictures that are learned from
PARTS_OF_PICTURE = 6  #: at most
_SHORTEST = 32  # side of a part
_PATCHES_PER_PART = 500  # that a basis is fitted to
_LAPPED = 30  # planes that a lapping is fitted to


def learn_coding(
    model: Model, pictures: Iterable[Pixels], *, seed: int = 0, workers: int | None = None
) -> Model:
    """Complete a model whose systems are learned: lapping, basis, tables and filters.

    Parameters
    ----------
    model : Model
    pictures : iterable of ndarray, uint8
        The first ``MAX_PICTURES`` are used, or parts of them, each no larger than a tile and at
        least 32 x 32 pixels. Gray ones teach the luma plane only.
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
    parts = _parts(pictures, generator)
    if not parts:
        return model
    luma, chroma = _planes(parts)
    model = replace(model, luma=_fitted(model.luma, luma, generator))
    if chroma:
        model = replace(model, chroma=_fitted(model.chroma, chroma, generator))
    model = replace(model, tables=train_tables(model, parts, generator, workers=workers))
    return replace(model, filters=train_filters(model, parts, workers=workers))


def _parts(pictures: Iterable[Pixels], generator: np.random.Generator) -> list[Pixels]:
    """Return parts of pictures: one of each that is large enough, another of each that has more,
    and so on, while there is room."""
    by_picture = filter(None, (_parts_of(pixels, generator) for pixels in pictures))
    in_turn = itertools.zip_longest(*itertools.islice(by_picture, MAX_PICTURES))
    found = (part for part in itertools.chain.from_iterable(in_turn) if part is not None)
    return list(itertools.islice(found, MAX_PARTS))


def _parts_of(pixels: Pixels, generator: np.random.Generator) -> list[Pixels]:
    """Return some parts of a picture, without alpha, about as large as a file's tiles."""
    colours = without_alpha(pixels)
    height, width = (side // 16 * 16 for side in colours.shape[:2])
    places = list(itertools.product(_even(height), _even(width)))
    generator.shuffle(places)
    # Copies, as the whole picture is not kept.
    return [colours[place].copy() for place in places[:PARTS_OF_PICTURE]]


def _even(length: int) -> list[slice]:
    """Divide a side into nearly equal parts of whole 16s, no longer than a tile's, if it is 32."""
    if length < _SHORTEST:
        return []
    number = -(-length // TILE_SIZE)
    bounds = [16 * round(k * length / (16 * number)) for k in range(number + 1)]
    return list(itertools.starmap(slice, itertools.pairwise(bounds)))


def _planes(parts: list[Pixels]) -> tuple[list[Float32Array], list[Float32Array]]:
    """Luma planes, and halved chroma."""
    luma: list[Float32Array] = []
    chroma: list[Float32Array] = []
    for part in parts:
        first, *others = split_colours(part)
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
        patches.append(rows[generator.permutation(len(rows))[:_PATCHES_PER_PART]])
    return system.with_basis(sparse_basis(np.concatenate(patches), system))
