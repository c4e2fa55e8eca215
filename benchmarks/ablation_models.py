"""For ablation.py: models with another basis, or with tables learned in another way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.bitstream.tables import neutral_tables
from cscodec.encoding import measure_colours
from cscodec.images import luma, read_picture
from cscodec.learning.basis import sparse_basis
from cscodec.learning.corpus import list_pictures, split_pictures
from cscodec.learning.filters import train_filters
from cscodec.learning.priors import train_states, train_tables
from cscodec.model import Model, System
from cscodec.sensing.averages import cosine_basis
from cscodec.transform.lapping import lap
from cscodec.transform.patches import extract_patches, remove_mean

CROP_SIDE = 384

Pixels = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]


def other_bases(system: System, crops: Sequence[Pixels]) -> dict[str, Array]:
    """Orthonormal bases to quantise in, (63, 64), by falling energy."""
    patches = zero_mean_patches(crops, system)
    axes = np.linalg.eigh(patches.T @ patches)[1].T[1:]  # without the constant
    bases = {
        "singular vectors of Ψ": System.from_matrices(
            system.sensing_matrix, system.dictionary
        ).basis,
        "principal components": axes,
        "cosine transform": cosine_basis()[1:],
    }
    return {
        name: basis[np.argsort(-np.square(patches @ basis.T).sum(axis=0), kind="stable")]
        for name, basis in bases.items()
    }


def relearn(model: Model, basis: Array, crops: Sequence[Pixels]) -> Model:
    """Return the model with another luma basis, and tables and filters that fit it."""
    model = relearn_tables(replace(model, luma=model.luma.with_basis(basis)), crops)
    return replace(model, filters=train_filters(model, crops))


def relearn_tables(model: Model, crops: Sequence[Pixels]) -> Model:
    """Return the model with tables learned from ``crops``."""
    return replace(model, tables=train_tables(model, crops, np.random.default_rng(0)))


def states_without_predictions(model: Model, crops: Sequence[Pixels]) -> dict[str, Array]:
    """Tables whose states were learned with neutral predictions."""
    tables = {name: array.copy() for name, array in neutral_tables().as_mapping().items()}
    measured = [measure_colours(crop, model, full_chroma=False) for crop in crops]
    train_states(tables, measured, np.random.default_rng(0), lambda _: None)
    return tables


def unlapped(model: Model, crops: Sequence[Pixels]) -> Model:
    """Return the model with luma patches measured as they are, and what fits that."""
    plain = replace(model, luma=replace(model.luma, lapping=None))
    return relearn(plain, sparse_basis(zero_mean_patches(crops, plain.luma), plain.luma), crops)


def zero_mean_patches(crops: Sequence[Pixels], system: System) -> Array:
    """Patches of gray pictures as a system laps them, (n, 64)."""
    planes = [crop.astype(np.float32) for crop in crops]
    for plane in planes:
        lap(plane, system.lapping)
    patches = np.concatenate([extract_patches(plane) for plane in planes])
    return remove_mean(patches)[0].astype(np.float64)


def training_crops(folder: Path, every: int) -> list[Pixels]:
    """Gray centres of every n-th training picture."""
    chosen = split_pictures(list_pictures([folder]))[0][::every]
    crops = []
    for picture in chosen:
        pixels = luma(read_picture(picture.path).pixels)
        height, width = (min(side, CROP_SIDE) // 16 * 16 for side in pixels.shape)
        top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
        crops.append(np.ascontiguousarray(pixels[top : top + height, left : left + width]))
    return crops
