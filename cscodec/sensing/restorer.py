"""Decoder ``learned``, for unquantised measurements: a small convolutional network.

The network starts from the linear decoder's plane. In each of two stages residual blocks at half
and at a quarter of the plane's size propose a change, and what was measured is put back. It works
on the plane and is told Φ only by the space that its rows span, so one network serves every Φ. It
sees the plane as it is, upside down and mirrored, and the mean of what it makes of each is taken.

Features are whole numbers, and all else is a sum in a fixed order, whoever makes it: the same bits
for any number of threads, every processor, and planes made in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.kernels.convolution import (
    ADD,
    LARGEST,
    PERIOD,
    RECTIFY,
    WRITE,
    convolve,
    convolve_down,
    convolve_up,
)
from cscodec.layout import MAX_MEASUREMENTS, PATCH_PIXELS, PATCH_SIZE
from cscodec.parallel import parallel_map
from cscodec.sensing.network import (
    COARSE_BLOCKS,
    COARSE_CHANNELS,
    FEATURE_STEPS,
    FINE_BLOCKS,
    FINE_CHANNELS,
    PLACE_PIXELS,
    PLACE_SIZE,
    Layer,
    Network,
    Stage,
)
from cscodec.sensing.reconstruct import SystemLike, checked_measurements
from cscodec.transform.patches import assemble_patches, extract_patches, patch_grid
from cscodec.transform.product import multiplied

Features = npt.NDArray[np.int16]

TRAINED_FOR = (5, 31)  #: fewest and most measurements beside the mean that it learned from
MIDDLE = np.float32(128)  #: grey level that planes are taken around
UNIT = np.float32(32)  #: grey levels that count as 1 within the network
#: Steps along columns and rows in the views of a plane whose restorations are averaged. Turned by
#: 90 degrees it gains less: spaces that are learned differ more between the two directions.
_VIEWS = ((1, 1), (-1, 1), (1, -1))
_BAND = 16  # rows of features made as one piece of work: a multiple of PERIOD
_PIECE = 1024  # most rows and columns of a plane made at a time, without
_REACH = 64  # what they need around them: at most 58 pixels decide a patch's

assert _BAND % PERIOD == 0


def restore_learned(
    measurements: npt.ArrayLike,
    system: SystemLike,
    shape: tuple[int, int],
    network: Network,
    *,
    workers: int = 1,
) -> Float32Array:
    """Restore a plane from its measurements with a network that learned from photographs.

    It was trained for 5 to 31 measurements beside the mean. Fewer and more are taken too, but no
    figures stand behind them; with 63 nothing is missing, and the plane comes back as it was.

    Parameters
    ----------
    measurements : array_like, (rows, columns, 1 + m), 1 <= m <= M, at most 63
        As :func:`cscodec.sensing.reconstruct.measure_plane` gives them.
    system : SystemLike
        Φ; with fewer measurements than it has, its first rows are used.
    shape : (int, int)
        Height and width of the plane.
    network : Network
        :func:`cscodec.sensing.network.load_network` gives the shipped one.
    workers : int
        Threads. The result does not depend on it.

    Returns
    -------
    ndarray, (H, W) float32
        Neither rounded nor clipped.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, or measurements are not finite.

    Notes
    -----
    Takes 30 bytes per pixel and, for pieces of up to 1152 x 1152 pixels, 120 more for each of
    their pixels: 160 MB.
    """
    most = min(len(system.sensing_matrix), MAX_MEASUREMENTS)
    values = checked_measurements(measurements, shape, most)
    grid, num_measurements = patch_grid(shape), values.shape[-1] - 1
    inverse, projection = inverse_and_projection(system.sensing_matrix[:num_measurements])
    values = values.reshape(-1, 1 + num_measurements)
    patches = multiplied(np.ascontiguousarray(values[:, 1:]), inverse) + (values[:, :1] - MIDDLE)
    linear = assemble_patches(patches, (grid[0] * PATCH_SIZE, grid[1] * PATCH_SIZE))
    restored = np.zeros_like(linear)
    for down, across in _VIEWS:
        seen = np.ascontiguousarray(linear[::down, ::across])
        improved = improve_plane(seen, _seen(projection, down, across), network, workers)
        restored += improved[::down, ::across]
    restored /= len(_VIEWS)
    return np.ascontiguousarray(restored[: shape[0], : shape[1]]) + MIDDLE


def _seen(projection: Float32Array, down: int, across: int) -> Float32Array:
    """Return a projection of patches as one of patches whose rows and columns are stepped along."""
    patch = (PATCH_SIZE, PATCH_SIZE)
    patches = projection.reshape(*patch, *patch)[::down, ::across, ::down, ::across]
    return np.ascontiguousarray(patches.reshape(PATCH_PIXELS, PATCH_PIXELS))


def improve_plane(
    linear: Float32Array, projection: Float32Array, network: Network, workers: int = 1
) -> Float32Array:
    """Return a plane as the network improves it, piece by piece; its sides are multiples of 8.

    Parameters
    ----------
    linear : ndarray, (H, W) float32
        The linear decoder's plane less 128.
    projection : ndarray, (64, 64) float32
        Onto what was measured of a patch, its mean included; its trace is 1 + m.
    network : Network
    workers : int

    Returns
    -------
    ndarray, (H, W) float32
        Less 128.
    """
    restored = np.empty_like(linear)
    for rows in _pieces(linear.shape[0]):
        for columns in _pieces(linear.shape[1]):
            around = tuple(
                slice(max(0, side.start - _REACH), side.stop + _REACH) for side in (rows, columns)
            )
            inner = tuple(
                slice(side.start - outer.start, side.stop - outer.start)
                for side, outer in zip((rows, columns), around, strict=True)
            )
            piece = _restored(linear[around] / UNIT, projection, network, workers)
            restored[rows, columns] = piece[inner] * UNIT
    return restored


def _pieces(side: int) -> Iterator[slice]:
    for start in range(0, side, _PIECE):
        yield slice(start, min(start + _PIECE, side))


class _Room:
    """The features of a plane (H, W) at both sizes, and what residual blocks need besides."""

    def __init__(self, shape: tuple[int, int]) -> None:
        def features(pixels: int, channels: int) -> Features:
            rows, columns = shape[0] // pixels, shape[1] // pixels
            return np.zeros((rows + 2, columns + 2, channels), np.int16)

        fine, coarse = PLACE_SIZE, 2 * PLACE_SIZE
        self.entering = features(fine, PLACE_PIXELS)
        self.fine, self.inner_fine = (features(fine, FINE_CHANNELS) for _ in range(2))
        self.coarse, self.inner_coarse = (features(coarse, COARSE_CHANNELS) for _ in range(2))
        # What leaves has 16 channels, as kernels make no fewer; four of them mean something.
        self.leaving = features(fine, 4 * PLACE_PIXELS)


def _restored(
    start: Float32Array, projection: Float32Array, network: Network, workers: int
) -> Float32Array:
    share = np.float32(np.rint(np.trace(projection)) / PATCH_PIXELS)
    room = _Room((start.shape[0], start.shape[1]))
    plane = start
    for number, stage in enumerate(network.stages):
        plane = plane + _change(plane, stage, share, room, ADD if number else WRITE, workers)
        missing = multiplied(extract_patches(start - plane), projection)
        plane = plane + assemble_patches(missing, (plane.shape[0], plane.shape[1]))
    return plane


def _change(
    plane: Float32Array, stage: Stage, share: np.float32, room: _Room, onto: int, workers: int
) -> Float32Array:
    """Return what a stage would add to a plane. Features are added to what they held, or written
    in its place, as ``onto`` says."""

    def run(name: str, source: Features, target: Features, ending: int) -> None:
        _run(stage.layers[name], source, target, ending, workers)

    def run_blocks(size: str, count: int, features: Features, inner: Features) -> None:
        for number in range(count):
            run(f"{size}.{number}.first", features, inner, RECTIFY)
            run(f"{size}.{number}.second", inner, features, ADD)

    room.entering[1:-1, 1:-1] = _unshuffle(
        np.clip(np.rint(plane * FEATURE_STEPS), -LARGEST, LARGEST)
    )
    _run(stage.entering(share), room.entering, room.fine, onto, workers)
    run_blocks("fine", FINE_BLOCKS, room.fine, room.inner_fine)
    run("down", room.fine, room.coarse, onto)
    run_blocks("coarse", COARSE_BLOCKS, room.coarse, room.inner_coarse)
    run("up", room.coarse, room.fine, ADD)
    run("leave", room.fine, room.leaving, WRITE)
    leaving = room.leaving[1:-1, 1:-1, :PLACE_PIXELS].astype(np.float32)
    return _shuffle(leaving / FEATURE_STEPS)


def _run(layer: Layer, source: Features, target: Features, ending: int, workers: int) -> None:
    """Make all of ``target`` of ``source``, in bands of the smaller one's rows."""
    have, want = len(source) - 2, len(target) - 2
    rows = min(have, want)
    kernel = convolve if have == want else convolve_down if have > want else convolve_up

    def band(first: int) -> None:
        last = min(first + _BAND, rows)
        taken, made = (
            features[first * side // rows : last * side // rows + 2]
            for features, side in ((source, have), (target, want))
        )
        kernel(taken, layer.weights, layer.scales, layer.biases, made, ending)

    for _ in parallel_map(band, range(0, rows, _BAND), workers):
        pass


def inverse_and_projection(sensing_matrix: Float32Array) -> tuple[Float32Array, Float32Array]:
    """Return (Φ⁺)ᵀ (m, 64) of Φ without its rows' means, which no zero-mean patch meets, and the
    projection (64, 64) onto the mean and what those rows span."""
    rows = np.asarray(sensing_matrix, np.float64)
    rows = rows - rows.mean(axis=1, keepdims=True)
    inverse = np.linalg.pinv(rows)
    projection = inverse @ rows + 1 / PATCH_PIXELS
    return np.ascontiguousarray(inverse.T, np.float32), projection.astype(np.float32)


def _unshuffle(plane: Float32Array) -> Float32Array:
    """(H, W) to (H / 2, W / 2, 4): the pixels of a place side by side."""
    rows, columns = plane.shape[0] // PLACE_SIZE, plane.shape[1] // PLACE_SIZE
    tiles = plane.reshape(rows, PLACE_SIZE, columns, PLACE_SIZE).swapaxes(1, 2)
    return tiles.reshape(rows, columns, PLACE_PIXELS)


def _shuffle(features: Float32Array) -> Float32Array:
    """Inverse of :func:`_unshuffle`."""
    rows, columns = features.shape[:2]
    tiles = features.reshape(rows, columns, PLACE_SIZE, PLACE_SIZE).swapaxes(1, 2)
    return tiles.reshape(rows * PLACE_SIZE, columns * PLACE_SIZE)
