"""Learned filters that correct a cleaned plane, by class of pixel.

A class is the activity and direction of a pixel's surroundings and its place in the patch: what
quantisation leaves behind looks different at a border than in the middle. Each class has a linear
filter, the least-squares fit to training pictures, that sees the cleaned plane and what cleaning
took away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Array, Float32Array
from cscodec.bitstream.container import Header
from cscodec.bitstream.steps import MUCH_TILT
from cscodec.errors import InvalidInputError, InvalidModelError
from cscodec.kernels import filters as kernels

#: Quantisation steps that filters are learned at; a picture uses those of the nearest (in octaves).
FILTER_STEPS = (5.0, 8.0, 12.0, 18.0, 27.0, 40.0, 60.0)
WEIGHT_ONE = 1 << 12  #: fixed-point unit of the weights in a model
_STRENGTH = 300.0  # of the pull towards a parent class's filter, in squared steps


def filter_shape() -> tuple[int, int, int, int]:
    """Shape of a model's filters: little or much tilt, steps, classes, taps."""
    return 2, len(FILTER_STEPS), kernels.NUM_CLASSES, kernels.NUM_TAPS


def check_filters(filters: Mapping[str, Array]) -> None:
    """Check a model's filters.

    Raises
    ------
    InvalidModelError
        If one is of the wrong shape or type.
    """
    for name, array in filters.items():
        if (
            name not in ("luma", "chroma")
            or array.shape != filter_shape()
            or array.dtype != np.int16
        ):
            raise InvalidModelError(
                f"restoration filters {name!r} are {array.dtype} {array.shape}; expected luma and "
                f"chroma, int16 {filter_shape()}"
            )


def filters_for(filters: npt.NDArray[np.int16], step: float, tilt: float) -> Float32Array:
    """Return the filters of the nearest step, arranged for :func:`apply_filters`."""
    distances = [abs(np.log2(step / known)) for known in FILTER_STEPS]
    nearest = int(np.argmin(distances))
    weights = filters[int(tilt >= MUCH_TILT), nearest].astype(np.float32)
    return arranged(weights * np.float32(1 / WEIGHT_ONE))


def filters_of_file(
    filters: Mapping[str, Array], header: Header
) -> tuple[Float32Array | None, Float32Array | None]:
    """Return a model's filters for the luma and the chroma planes of a file; None without any.

    Raises
    ------
    InvalidModelError
        If they are not such.
    """
    check_filters(filters)
    luma, chroma = (
        filters_for(filters[name], *header.step_and_tilt(plane)) if name in filters else None
        for plane, name in enumerate(("luma", "chroma"))
    )
    return luma, chroma


def arranged(filters: npt.NDArray[np.float32]) -> Float32Array:
    """Arrange filters, (classes, taps), by blocks of 4x4 pixels: all that one has in common.

    A block lies in one quarter of its patch, and all its pixels have one activity and direction.

    Returns
    -------
    ndarray, (120, taps * 16) float32
        A row for each activity, direction and quarter; for each tap the weights of the block's
        pixels in raster order.
    """
    by_place = filters.reshape(-1, 4, 4, filters.shape[1])
    quarters = [by_place[:, ::down, ::right] for down in (1, -1) for right in (1, -1)]
    rows = np.stack(quarters, axis=1).reshape(-1, 16, filters.shape[1])
    return np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(len(rows), -1)


def apply_filters(
    plane: Float32Array, clean: Float32Array, filters: Float32Array, step: float
) -> Float32Array:
    """Correct a cleaned plane.

    Parameters
    ----------
    plane : ndarray, (H, W) float32
        Before cleaning; H and W are multiples of 8.
    clean : ndarray, (H, W) float32
        After cleaning.
    filters : ndarray, (120, taps * 16) float32
        As :func:`arranged` makes them.
    step : float
        Quantisation step.

    Returns
    -------
    ndarray, (H, W) float32

    Raises
    ------
    InvalidInputError
        If the shapes do not fit.
    """
    removed, framed, classes = _prepare(plane, clean, step)
    rows = kernels.NUM_ACTIVITIES * kernels.NUM_DIRECTIONS * 4
    if filters.shape != (rows, 16 * kernels.NUM_TAPS):
        raise InvalidInputError(
            f"filters have shape {filters.shape}; allowed is {(rows, 16 * kernels.NUM_TAPS)}"
        )
    signs = np.array([(1, 1), (1, -1), (-1, 1), (-1, -1)])  # of the quarters: down, right
    taps = np.concatenate([kernels.CLEAN_TAPS, kernels.REMOVED_TAPS])
    offsets = (signs[:, None] * taps) @ np.array([framed.shape[1], 1])
    filtered = np.empty_like(clean)
    kernels.apply_filters(removed, framed, classes, filters, offsets, filtered)
    return filtered


def fit_filters(
    examples: Iterable[tuple[Float32Array, Float32Array, Float32Array]], step: float
) -> npt.NDArray[np.int16]:
    """Fit the filters of one step.

    Parameters
    ----------
    examples : iterable of (plane, clean, original), each (H, W) float32
    step : float

    Returns
    -------
    ndarray, (classes, taps) int16
        Zeros (no correction) where there was nothing to learn from.

    Raises
    ------
    InvalidInputError
        If the shapes of an example do not fit.
    """
    taps = kernels.NUM_TAPS
    products = np.zeros((kernels.NUM_CLASSES, taps, taps))
    sums = np.zeros((kernels.NUM_CLASSES, taps))
    inputs = np.empty(taps, np.float32)
    for plane, clean, original in examples:
        removed, framed, classes = _prepare(plane, clean, step)
        if original.shape != clean.shape:
            raise InvalidInputError(
                f"original has shape {original.shape}, unlike the plane, {clean.shape}"
            )
        kernels.add_equations(removed, framed, classes, original, inputs, products, sums)
    # From the general to the particular: all classes, those of one activity and direction, one.
    weights = np.empty_like(sums)
    ridge = _STRENGTH * step**2 * np.eye(taps)
    whole = np.linalg.solve(products.sum(0) + ridge, sums.sum(0))
    for first in range(0, kernels.NUM_CLASSES, kernels.NUM_PLACES):
        kind = slice(first, first + kernels.NUM_PLACES)
        parent = np.linalg.solve(products[kind].sum(0) + ridge, sums[kind].sum(0) + ridge @ whole)
        for index in range(first, first + kernels.NUM_PLACES):
            weights[index] = np.linalg.solve(products[index] + ridge, sums[index] + ridge @ parent)
    return np.clip(np.rint(weights * WEIGHT_ONE), -32768, 32767).astype(np.int16)


def _prepare(
    plane: Float32Array, clean: Float32Array, step: float
) -> tuple[Float32Array, Float32Array, Array]:
    height, width = clean.shape
    if plane.shape != clean.shape or height % 8 or width % 8 or clean.size == 0:
        raise InvalidInputError(
            f"planes have shapes {plane.shape} and {clean.shape}; allowed are equal ones, "
            "multiples of 8"
        )
    frame = 2 * kernels.RADIUS
    removed, framed = (np.empty((height + frame, width + frame), np.float32) for _ in range(2))
    kernels.frame_planes(plane, clean, removed, framed)
    gradients = (np.empty((height // 2 + 2, width // 2 + 2), np.float32) for _ in range(2))
    classes = np.empty((height // 4, width // 4), np.int64)
    kernels.classify_blocks(framed, step, *gradients, classes)
    return removed, framed, classes
