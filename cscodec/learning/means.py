"""Fits the small networks that predict patch means from those around, to fewest bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit

from cscodec.arrays import Array
from cscodec.bitstream.mean_networks import MEAN_KINDS, MeanWeights, neutral_mean_weights
from cscodec.bitstream.tiles import fourfold_means
from cscodec.kernels.decisions import HALF_OCTAVES
from cscodec.kernels.means import FIRST_SCALE, NUM_SCALES, PER_SPREAD
from cscodec.layout import AROUND_MEAN, MEAN_INPUTS, MEAN_MIDDLE, NEIGHBOURS
from cscodec.learning.descent import descend
from cscodec.learning.perceptron import HIDDEN_ONE, MOST_WEIGHT, WEIGHT_ONE, Perceptron

_BATCH = 2048  # means, at most
_BATCHES = 8  # that a small set makes, at least
_PASSES, _FEW = 8, 1 << 17  # over all means, and fewer where there are few of them
_LEAST = 2.0**-16  # probability of anything


def fit_means(
    known: Array, middles: Array, spreads: Array, means: Array, generator: np.random.Generator
) -> MeanWeights:
    """Fit the network of a plane.

    Parameters
    ----------
    known : ndarray, (n, inputs) int16
    middles, spreads : ndarray, (n,) int32 and uint8
        As :func:`known_of_means` returns them.
    means : ndarray, (n,) int16
        What is to be predicted.
    generator : numpy.random.Generator
        Chooses initial weights and means.
    """
    network = Perceptron(
        (known.shape[1], *(shape[1] for shape, _ in MEAN_KINDS.values())), generator
    )
    for matrix, neutral in zip(network.weights, neutral_mean_weights(), strict=True):
        matrix[:, neutral.any(axis=0)] = 0  # so that it begins with what these say
        matrix += neutral[[*range(len(matrix) - 1), -1]] / WEIGHT_ONE
    batch = int(np.clip(len(means) // _BATCHES, 1, _BATCH))
    iterations = min(_PASSES, 1 + len(means) // _FEW) * len(means) // batch

    def gradient(_: int) -> Array:
        chosen = generator.integers(len(means), size=batch)
        outputs = network(known[chosen] / np.float32(HIDDEN_ONE))
        by_outputs = surprise(outputs, middles[chosen], spreads[chosen], means[chosen])[1]
        return network.gradient(by_outputs / batch)

    def hold() -> None:
        np.clip(network.flat, -MOST_WEIGHT, MOST_WEIGHT, out=network.flat)

    descend(network.flat, gradient, iterations, decaying=network.flat.size, hold=hold)
    inputs, *others = (np.rint(WEIGHT_ONE * matrix).astype(np.int16) for matrix in network.weights)
    unused = MEAN_INPUTS[-1] - known.shape[1]
    return MeanWeights(np.insert(inputs, [-1] * unused, 0, axis=0), *others)


def surprise(outputs: Array, middles: Array, spreads: Array, means: Array) -> tuple[Array, Array]:
    """Nats that means take, and their gradients by a network's outputs, (n, 2).

    Gradients by a scale that a limit holds are those without it, so that it can come back.
    """
    spread = 2.0 ** ((spreads.astype(np.float32) - 5) / 2)
    octaves = outputs[:, 1] + (spreads.astype(np.float32) - 5) / 2
    lowest = -FIRST_SCALE / 8
    scale = 2.0 ** np.clip(octaves, lowest, lowest + (NUM_SCALES - 1) / 8)
    distance = (means - middles / np.float32(2) - spread * outputs[:, 0]) / scale
    # On the side where the distribution function is small, and so exact.
    near, far = 0.5 / scale - np.abs(distance), -0.5 / scale - np.abs(distance)
    low, high = expit(far), expit(near)
    chance = high - low + np.float32(_LEAST)
    by_far, by_near = low * (1 - low) / chance, high * (1 - high) / chance
    by_place = np.sign(distance) * (by_far - by_near) * spread / scale
    by_scale = np.log(2) * (by_near * near - by_far * far)
    return -np.log(chance), np.stack([by_place, by_scale], axis=1)


def known_of_means(planes: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Return what the kernel knows of the means of the last plane, coded after the others.

    Parameters
    ----------
    planes : sequence of ndarray, (rows, columns) int16
        Of Y, of Y and Cb, or of Y, Cb and Cr.

    Returns
    -------
    known : ndarray, (rows, columns, inputs) int16
        In 1/128, without what stands for 0.
    middles : ndarray, (rows, columns) int32
        The sum of W and N.
    spreads : ndarray, (rows, columns) uint8
    """
    means = planes[-1]
    rows, columns = means.shape
    around = _around(means.astype(np.int32))
    west, north_west, north, north_east, west_west, north_north = around[:6]
    middles = west + north
    near = abs(west - north_west) + abs(north - north_west) + abs(north - north_east)
    spreads = _bins(2 * near + abs(west - west_west) + abs(north - north_north) + 3)
    is_edge = np.zeros((3, rows, columns), bool)
    is_edge[0, 0], is_edge[1, :, 0], is_edge[2, :, -1] = True, True, True
    known = [
        *(_in_spreads(2 * other - middles, spreads, 10) for other in around),
        64 * (spreads.astype(np.int64) - 12),
        *(512 * is_edge.astype(np.int64)),
    ]
    for plane in planes[:-1]:
        framed = fourfold_means(plane, means.shape)
        steps = [_window(framed, 1 + down, 1 + right, means) for down, right in NEIGHBOURS]
        steps = [step - framed[1:-1, 1:-1] for step in steps]
        bins = _bins((np.abs(steps).sum(axis=0) >> 3) + 3)
        known += [_in_spreads(step, bins, 11) for step in steps]
        known.append(64 * (bins.astype(np.int64) - 12))
    return np.stack(known, axis=-1).astype(np.int16), middles, spreads


def _around(means: Array) -> list[Array]:
    """Return what the kernel sees at ``AROUND_MEAN`` of every patch, in its frame."""
    framed = np.pad(means, ((2, 0), (2, 2)), mode="edge")
    framed[3:, :2] = means[:-1, :1]
    framed[1] = framed[2]
    around = [_window(framed, 2 + down, 2 + right, means) for down, right in AROUND_MEAN]
    before = np.concatenate([[0], means[0, :-1]])
    for (down, right), window in zip(AROUND_MEAN, around, strict=True):
        if down < 0:  # above the first row
            window[0] = before
        elif right < 0:
            window[0, 0] = 0
    return around


def _window(framed: Array, down: int, right: int, inner: Array) -> Array:
    rows, columns = inner.shape
    return framed[down : down + rows, right : right + columns].copy()


def _bins(spread: Array) -> Array:
    return HALF_OCTAVES[np.minimum(spread, len(HALF_OCTAVES) - 1)]


def _in_spreads(distance: Array, spreads: Array, shift: int) -> Array:
    scaled = (distance.astype(np.int64) * PER_SPREAD[spreads]) >> shift
    clipped: Array = np.clip(scaled, 1 - MEAN_MIDDLE, MEAN_MIDDLE - 1)
    return clipped
