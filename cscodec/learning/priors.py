"""The entropy coder's tables, learned from pictures: predictors first, then adaptive states.

Predictors are weighted least-squares fits of a measurement (its value, its magnitude) to what a
decoder knows when it meets it. The states of contexts, mixing weights are simply those
that the coder itself reaches on training pictures, at steps over the whole useful range.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Array, Float32Array
from cscodec.bitstream.steps import measurement_steps, scaled
from cscodec.bitstream.tables import CoderTables, neutral_tables
from cscodec.bitstream.tiles import TileState, encode_with, magnitudes_at
from cscodec.encoding import TUNINGS, measure_colours
from cscodec.layout import (
    CHROMA,
    LAYERS,
    LUMA,
    MAGNITUDE_ONE,
    MEAN_CLIP,
    NEIGHBOURS,
    NUM_CAUSAL,
    NUM_MEASUREMENTS,
    NUM_PLANES,
    OWN,
    SIGN_ONE,
    SIGNED,
    VALUE_CLIP,
)
from cscodec.model import Model

Names = list[tuple[int, int]]  # of features: source, measurement

#: Steps that predictors are fitted at, and the range that states are trained over.
_FIT_STEPS = (8.0, 16.0, 28.0, 48.0)
_STATE_STEPS = (10.0, 14.0, 20.0, 28.0, 40.0, 56.0, 80.0)
_COUNT_CAP = 16  # how firmly a fresh tile believes the trained probabilities
_DEAD_ZONE_ROUNDING = 0.33  # what the rate-distortion search does on average
_RATE_WEIGHT = 0.05  # of the search, between those of the tunes
_LEAST_WEIGHT = 0.03  # of a feature, on the measurement that it says most of


def train_tables(
    model: Model,
    crops: Iterable[npt.NDArray[np.uint8]],
    generator: np.random.Generator,
    *,
    progress: Callable[[float], None] | None = None,
) -> dict[str, Array]:
    """Learn the tables of the entropy coder for a model.

    Parameters
    ----------
    model : Model
        Its systems must be final: tables fit one basis only.
    crops : iterable of ndarray, (H, W) or (H, W, 3) uint8
        Gray ones teach the luma plane only.
    generator : numpy.random.Generator
        Chooses steps and the order of pictures.
    progress : callable, optional
        Called with the fraction done.

    Returns
    -------
    dict of ndarray
        For ``Model.tables``.
    """
    report = progress or (lambda _: None)
    measured = [
        _in_steps(measure_colours(crop, model, full_chroma=False), tuning.tilts)
        for crop, tuning in zip(crops, itertools.cycle(TUNINGS.values()), strict=False)
    ]
    report(0.1)
    tables = {name: array.copy() for name, array in neutral_tables().as_mapping().items()}
    for plane in range(NUM_PLANES):
        sets = [planes for planes in measured if len(planes) > plane]
        if sets:
            _fit_predictors(tables, plane, sets)
        report(0.1 + 0.3 * (plane + 1) / NUM_PLANES)
    train_states(tables, measured, generator, lambda share: report(0.4 + 0.6 * share))
    return tables


def _in_steps(planes: Sequence[Float32Array], tilts: Sequence[float]) -> list[Float32Array]:
    """Measurements in units of their steps, where that of the mean is 1."""
    return [plane / measurement_steps(1, tilt) for plane, tilt in zip(planes, tilts, strict=False)]


def train_states(
    tables: dict[str, Array],
    pictures: Sequence[Sequence[Float32Array]],
    generator: np.random.Generator,
    report: Callable[[float], None],
) -> None:
    """Let one adaptive state code all pictures at all steps, in random order, and keep it.

    Parameters
    ----------
    tables : dict of ndarray
        The predictors are used; slots, counts and weights are filled in.
    pictures : sequence of sequence of ndarray
        Measurements of the planes of each, in units of their steps where the mean's is 1.
    generator : numpy.random.Generator
        Chooses steps and the order of pictures.
    report : callable
        Called with the fraction done.
    """
    frozen = CoderTables.from_mapping({name: array.copy() for name, array in tables.items()})
    mixers = [frozen.mixer(plane) for plane in range(NUM_PLANES)]
    jobs = [(index, step) for index in range(len(pictures)) for step in _STATE_STEPS]
    for done, number in enumerate(generator.permutation(len(jobs))):
        index, step = jobs[number]
        step *= 2 ** generator.uniform(-0.25, 0.25)
        wanted = [scaled(plane, measurement_steps(step, 0)) for plane in pictures[index]]
        state = TileState([plane.shape[:2] for plane in wanted], frozen, NUM_MEASUREMENTS - 1)
        state.mixers = mixers[: len(wanted)]
        encode_with(state, wanted, _RATE_WEIGHT)
        report((done + 1) / len(jobs))
    for plane, mixer in enumerate(mixers):
        tables["slots"][plane] = mixer.slots >> 16
        tables["counts"][plane] = np.minimum(mixer.slots & 1023, _COUNT_CAP)
        tables["weights"][plane] = mixer.weights


def _fit_predictors(
    tables: dict[str, Array], plane: int, pictures: Sequence[Sequence[Float32Array]]
) -> None:
    """Fill the predictors of one plane."""
    for first, last in itertools.pairwise(LAYERS[1:]):
        sums: list[Array] = []
        names: Names = []
        for planes in pictures:
            for step in _FIT_STEPS:
                products, names = _normal_equations(planes[: plane + 1], step, first, last)
                sums = [a + b for a, b in zip(sums, products, strict=True)] if sums else products
        signed, signed_target, sized, sized_target = sums
        if first < SIGNED:
            weights = _ridge(signed, signed_target, 1e-3) * SIGN_ONE
            for row, (source, measurement) in enumerate(names):
                tables["sign_predictors"][plane, source, measurement, first:last] = _int16(
                    weights[row]
                )
        weights = _fit_magnitudes(sized, sized_target, np.arange(len(sized)))
        # Features that say little of anything cost more, in time and in what is learned of them by
        # chance, than they bring.
        worthy = np.flatnonzero(weights.max(axis=1) >= _LEAST_WEIGHT)
        weights = _int16(_fit_magnitudes(sized, sized_target, worthy) * MAGNITUDE_ONE)
        rows = names + [(OWN, measurement) for measurement in range(first, last)]
        for (source, measurement), row in zip(rows, weights[:-1], strict=True):
            tables["magnitude_predictors"][plane, source, measurement, first:last] = row
        tables["magnitude_offsets"][plane, first:last] = weights[-1]
    tables["mean_predictors"][plane] = _fit_mean([planes[plane] for planes in pictures])


def _fit_magnitudes(products: Array, targets: Array, allowed: Array) -> Array:
    """Weights (features, targets) of the magnitudes of a layer, from allowed features only.

    Features are those of all sources, then the layer's own measurements, of which only earlier ones
    are known, then a constant.
    """
    weights = np.zeros((len(products), targets.shape[1]))
    constant = len(products) - 1
    for k in range(targets.shape[1]):
        known = allowed[(allowed < constant - targets.shape[1] + k) | (allowed == constant)]
        fit, columns = _positive_ridge(products, targets[:, k], np.union1d(known, constant))
        weights[columns, k] = fit
    return weights


def _normal_equations(
    planes: Sequence[Float32Array], step: float, first: int, last: int
) -> tuple[list[Array], Names]:
    """Products of features with each other and with targets, for values and for magnitudes."""
    wanted = [plane / np.float32(step) for plane in planes]
    values = [_quantised(plane) for plane in wanted]
    features, own, names = _features(values, first, last)
    target = np.clip(wanted[-1][..., first:last], -VALUE_CLIP, VALUE_CLIP)
    target = target.reshape(len(features), -1)
    constant = np.ones((len(features), 1), np.float32)
    sizes = np.concatenate([np.abs(features), np.abs(own), constant], axis=1)
    # An error weighs less where values are large: what counts is the error of the logarithm.
    weight = 1 / (0.03 + 2 * sizes[:, 8:].mean(axis=1) + 0.05 * sizes[:, :8].mean(axis=1))
    weight = weight[:, None].astype(np.float32)
    features, sizes = features * weight, sizes * weight
    return [
        (features.T @ features).astype(np.float64),
        (features.T @ (target * weight)).astype(np.float64),
        (sizes.T @ sizes).astype(np.float64),
        (sizes.T @ (np.abs(target) * weight)).astype(np.float64),
    ], names


def _quantised(wanted: Float32Array) -> Float32Array:
    values = np.sign(wanted) * np.floor(np.abs(wanted) + np.float32(_DEAD_ZONE_ROUNDING))
    values[..., 0] = np.rint(wanted[..., 0])
    return values.astype(np.float32)


def _features(
    planes: Sequence[Float32Array], first: int, last: int
) -> tuple[Float32Array, Float32Array, Names]:
    """What a decoder knows of every patch of the last plane before layer first..last-1.

    The first eight features are the differences of the neighbours' means.
    """
    values = planes[-1]
    rows, columns, _ = values.shape
    framed = np.zeros((rows + 2, columns + 2, NUM_MEASUREMENTS), np.float32)
    framed[1:-1, 1:-1] = np.clip(values, -VALUE_CLIP, VALUE_CLIP)
    framed[1:-1, 1:-1, 0] = values[..., 0]
    inside = np.zeros((rows + 2, columns + 2), bool)
    inside[1:-1, 1:-1] = True
    means, rest = [], []
    names: Names = []
    for source, (down, right) in enumerate(NEIGHBOURS):
        window = (slice(1 + down, rows + 1 + down), slice(1 + right, columns + 1 + right))
        difference = np.where(inside[window], framed[window][..., 0] - values[..., 0], 0)
        means.append(np.clip(difference, -MEAN_CLIP, MEAN_CLIP).reshape(-1, 1))
        end = last if source < NUM_CAUSAL else first
        rest.append(framed[window][..., 1:end].reshape(rows * columns, -1))
        names += [(source, j) for j in range(1, end)]
    own = framed[1:-1, 1:-1]
    rest.append(own[..., 1:first].reshape(rows * columns, -1))
    names += [(OWN, j) for j in range(1, first)]
    if len(planes) > 1:
        rest.append(
            _luma_sizes(planes[0], (rows, columns))[..., 1:last].reshape(rows * columns, -1)
        )
        names += [(LUMA, j) for j in range(1, last)]
    if len(planes) > 2:
        other = np.clip(planes[1], -VALUE_CLIP, VALUE_CLIP)
        rest.append(other[..., 1:last].reshape(rows * columns, -1))
        names += [(CHROMA, j) for j in range(1, last)]
    features = np.concatenate([*means, *rest], axis=1).astype(np.float32)
    current = own[..., first:last].reshape(rows * columns, -1)
    return features, current, [(source, 0) for source in range(8)] + names


def _luma_sizes(luma: Float32Array, shape: tuple[int, int]) -> Float32Array:
    framed = np.zeros((luma.shape[0] + 2, luma.shape[1] + 2, NUM_MEASUREMENTS), np.int16)
    framed[1:-1, 1:-1] = luma
    sizes = magnitudes_at(framed, shape)[1:-1, 1:-1].astype(np.float32)
    return np.clip(sizes, 0, VALUE_CLIP)


def _fit_mean(planes: Sequence[Float32Array]) -> Array:
    """Weights of W, NW, NE, WW, NN and NNE, all less N, in 1/4096."""
    products: Array = np.zeros((6, 6))
    targets: Array = np.zeros(6)
    for plane in planes:
        means = plane[..., 0].astype(np.float64)
        if min(means.shape) < 4:
            continue
        here, north = means[2:, 2:-1], means[1:-1, 2:-1]
        around = (
            means[2:, 1:-2],
            means[1:-1, 1:-2],
            means[1:-1, 3:],
            means[2:, :-3],
            means[:-2, 2:-1],
            means[:-2, 3:],
        )
        features = np.stack([other - north for other in around], axis=-1).reshape(-1, 6)
        weight = 1 / (np.abs(features).mean(axis=1) + 16)
        features *= weight[:, None]
        products += features.T @ features
        targets += features.T @ ((here - north).ravel() * weight)
    return _int16(_ridge(products, targets, 1e-6) * 4096)


def _ridge(products: Array, targets: Array, strength: float) -> Array:
    size = len(products)  # 0 where flat pictures have left nothing to fit
    ridge = strength * np.trace(products) / max(size, 1) + 1e-12
    return np.linalg.solve(products + ridge * np.eye(size), targets)


def _positive_ridge(products: Array, targets: Array, columns: Array) -> tuple[Array, Array]:
    """Fit with weights >= 0: columns that want a negative one are dropped, a few times."""
    for _ in range(4):
        weights = _ridge(products[np.ix_(columns, columns)], targets[columns], 1e-4)
        if (weights > 0).all():
            break
        columns = columns[weights > 0]
    weights = _ridge(products[np.ix_(columns, columns)], targets[columns], 1e-4)
    return np.maximum(weights, 0), columns


def _int16(values: Array) -> Array:
    return np.clip(np.rint(values), -32768, 32767).astype(np.int16)
