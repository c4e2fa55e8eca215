"""The entropy coder's tables, learned from pictures: predictions first, then adaptive states.

Networks are fitted to what a decoder knows when it meets a measurement. The states of contexts and
the mixing weights follow from those that the coder itself reaches on training pictures, at steps
over the whole useful range.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Array, Float32Array
from cscodec.bitstream.networks import NetworkWeights, widened
from cscodec.bitstream.steps import measurement_steps, scaled
from cscodec.bitstream.tables import CoderTables, neutral_tables
from cscodec.bitstream.tiles import (
    TileState,
    Values,
    Wanted,
    encode_tile,
    encode_with,
    magnitudes_at,
)
from cscodec.encoding import TUNINGS, measure_colours
from cscodec.layout import (
    CHROMA,
    LAYERS,
    LUMA,
    MEAN_CLIP,
    MEAN_INPUTS,
    NEIGHBOURS,
    NUM_CAUSAL,
    NUM_LAYERS,
    NUM_MEASUREMENTS,
    NUM_PLANES,
    NUM_SOURCES,
    OWN,
    SIGNED,
    VALUE_CLIP,
    WIDTHS,
)
from cscodec.learning.means import fit_means, known_of_means
from cscodec.learning.networks import fit_network
from cscodec.model import Model
from cscodec.parallel import parallel_map

#: The range that networks and states are trained over.
_STATE_STEPS = (10.0, 14.0, 20.0, 28.0, 40.0, 56.0, 80.0)
_SPREAD = 0.05  # of a slot's chance between pictures: of p (1 - p), roughly
_NOTHING_KNOWN = 1 / 1.6  # the spread at which a slot that has seen nothing begins
_RATE_WEIGHT = 0.05  # of the search, between those of the tunes
#: Inputs of a patch that are not zero, on average, by layer, for luma and for chroma. Each takes
#: time, and chroma has few bits beyond layer 1.
_MOST_INPUTS = ((24, 24, 16), (24, 12, 6))
#: Rectified sums of chroma's networks, which have few bits to save: fewer than there is room for.
_CHROMA_WIDTHS = (64, 32)
# What a network is fitted to, at most, on average.
_NETWORK_PATCHES, _NETWORK_BYTES, _NETWORK_MEANS = 1 << 22, 3 << 29, 1 << 23


def train_tables(
    model: Model,
    crops: Iterable[npt.NDArray[np.uint8]],
    generator: np.random.Generator,
    *,
    workers: int | None = None,
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
    workers : int, optional
        Threads. The result does not depend on it.
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
    _fit_networks(tables, measured, generator, workers, lambda share: report(0.1 + 0.7 * share))
    train_states(tables, measured, generator, lambda share: report(0.8 + 0.2 * share))
    return tables


def _in_steps(planes: Sequence[Float32Array], tilts: Sequence[float]) -> list[Float32Array]:
    """Measurements in units of their steps, where that of the mean is 1."""
    return [plane / measurement_steps(1, tilt) for plane, tilt in zip(planes, tilts, strict=False)]


def _at_step(planes: Sequence[Float32Array], step: float) -> list[Wanted]:
    return [scaled(plane, measurement_steps(step, 0)) for plane in planes]


def train_states(
    tables: dict[str, Array],
    pictures: Sequence[Sequence[Float32Array]],
    generator: np.random.Generator,
    report: Callable[[float], None],
) -> None:
    """Learn what a tile's slots and weights begin with, from pictures at steps of the whole range.

    Slots from how often they see ones, and how much that differs from picture to picture; weights
    are the mean of those that adapt to one picture after the other, in random order, with such
    slots.

    Parameters
    ----------
    tables : dict of ndarray
        Networks are used; slots, counts and weights are filled in.
    pictures : sequence of sequence of ndarray
        Measurements of the planes of each, in units of their steps where the mean's is 1.
    generator : numpy.random.Generator
        Chooses steps and the order of pictures.
    report : callable
        Called with the fraction done.
    """
    jobs = [
        (picture, step * 2 ** generator.uniform(-0.25, 0.25))
        for picture in pictures
        for step in _STATE_STEPS
    ]
    generator.shuffle(jobs)

    def tiles() -> Iterator[tuple[TileState, list[Wanted]]]:
        """Yield every picture at its step, and a tile that begins as the tables say now."""
        begun = CoderTables.from_mapping({name: array.copy() for name, array in tables.items()})
        for picture, step in jobs:
            wanted = _at_step(picture, step)
            shapes = [plane.shape[:2] for plane in wanted]
            yield TileState(shapes, begun, NUM_MEASUREMENTS - 1), wanted

    uses = Uses()
    for done, (state, wanted) in enumerate(tiles(), 1):
        encode_with(state, wanted, _RATE_WEIGHT)
        for plane, mixer in enumerate(state.mixers):
            uses.add(plane, mixer.slots)
        report(done / (2 * len(jobs)))
    # Few pictures say little of how much others differ.
    tables["slots"], tables["counts"] = uses.first_states(most=len(pictures))

    weights = tables["weights"].copy()
    total, skipped = np.zeros(weights.shape), len(jobs) // 2
    for done, (state, wanted) in enumerate(tiles(), 1):
        # The same arrays for all pictures: coding one changes what the next begins with.
        state.mixers = [
            mixer._replace(weights=weights[plane]) for plane, mixer in enumerate(state.mixers)
        ]
        encode_with(state, wanted, _RATE_WEIGHT)
        if done > skipped:
            total += weights
        report((len(jobs) + done) / (2 * len(jobs)))
    if jobs:
        tables["weights"] = np.rint(total / (len(jobs) - skipped)).astype(np.int32)


class Uses:
    """What slots that began with nothing have seen in pictures, as sums over the pictures.

    The chance of a one differs between pictures. Its mean and variance are estimated by moments,
    and a fresh slot believes the mean as firmly as after as many decisions as make a beta
    distribution so narrow.
    """

    def __init__(self) -> None:
        shape = neutral_tables().slots.shape
        self._weight, self._mean, self._square, self._noise = (np.zeros(shape) for _ in range(4))

    def add(self, plane: int, slots: Array) -> None:
        """Take what the slots of a plane have come to."""
        seen = (slots & 1023).astype(np.float64)
        # From nothing, n decisions with k ones lead to (k + 0.8) / (n + 1.6), nearly.
        ones = (slots >> 10) / 2.0**22 * (seen + 1.6) - 0.8
        share = np.clip(ones / np.maximum(seen, 1), 0, 1)
        weight = seen / (1 + _SPREAD * np.maximum(seen - 1, 0))  # as the share is certain
        self._weight[plane] += weight
        self._mean[plane] += weight * share
        self._square[plane] += weight * share**2
        self._noise[plane] += weight / np.maximum(seen, 1)

    def first_states(self, most: int) -> tuple[Array, Array]:
        """Return a table's slots, and counts of at most ``most``."""
        mean = (self._mean + 0.4) / (self._weight + 0.8)  # even odds where nothing was seen
        # What shares of few decisions differ by chance is no spread between pictures.
        distance = self._square - 2 * mean * self._mean + mean**2 * self._weight
        single = mean * (1 - mean)  # what one decision differs by
        spread = (distance - single * self._noise + single * _NOTHING_KNOWN) / (
            single * (self._weight - self._noise + 1)
        )
        counts = np.minimum(1 / np.clip(spread, 1 / 256, _NOTHING_KNOWN) - 1.6, most)
        slots = np.clip(np.rint(mean * 65536), 1, 65535)
        return slots.astype(np.uint16), np.rint(counts).astype(np.uint8)


def _fit_networks(
    tables: dict[str, Array],
    pictures: Sequence[Sequence[Float32Array]],
    generator: np.random.Generator,
    workers: int | None,
    report: Callable[[float], None],
) -> None:
    """Fill in the networks of all planes that there are pictures for."""
    chosen = list(itertools.product(pictures, _STATE_STEPS))
    total = sum(planes[0][..., 0].size for planes, _ in chosen)
    coded = [
        encode_tile(_at_step(planes, step), neutral_tables(), rate_weight=_RATE_WEIGHT)[1]
        for planes, step in chosen[:: max(1, -(-total // (4 * _NETWORK_PATCHES)))]
    ]
    jobs = [
        (plane, layer, np.random.default_rng(generator.integers(1 << 63)))
        for plane, layer in itertools.product(range(NUM_PLANES), range(NUM_LAYERS))
    ]

    def fit(job: tuple[int, int, np.random.Generator]) -> dict[str, Array]:
        plane, layer, own_generator = job
        if layer == 0:
            seen = [(planes[: plane + 1], step) for planes, step in chosen if len(planes) > plane]
            means = _sampled_means(seen, own_generator)
            of_means = {} if means is None else fit_means(*means, own_generator)._asdict()
            return {f"mean_{name}": array for name, array in of_means.items()}
        of_plane = [values[: plane + 1] for values in coded if len(values) > plane]
        known = _sampled(of_plane, layer, own_generator)
        if known is None:
            return {}
        signed = LAYERS[layer] < SIGNED
        fitted = fit_network(
            *known,
            signed,
            _CHROMA_WIDTHS if plane > 0 else WIDTHS[layer - 1],
            own_generator,
            most_inputs=_MOST_INPUTS[plane > 0][layer - 1],
        )
        weights = widened(NetworkWeights(**fitted), layer)
        return {f"{name}_{layer}": array for name, array in weights._asdict().items()}

    for done, ((plane, _, _), fitted) in enumerate(
        zip(jobs, parallel_map(fit, jobs, workers), strict=True)
    ):
        for name, array in fitted.items():
            tables[name][plane] = array
        report((done + 1) / len(jobs))


def _sampled(
    coded: Sequence[Sequence[Values]], layer: int, generator: np.random.Generator
) -> tuple[Array, Array] | None:
    """What is known of some patches of the last plane before a layer, and what is in it."""
    total = sum(planes[-1][..., 0].size for planes in coded)
    if total == 0:
        return None
    first, last = LAYERS[layer : layer + 2]
    share = min(_NETWORK_PATCHES, _NETWORK_BYTES // (NUM_SOURCES * last)) / total
    chosen = [generator.random(planes[-1].shape[:2]) < share for planes in coded]
    sizes = [np.count_nonzero(places) for places in chosen]
    ends = np.cumsum(sizes)
    known = np.empty((ends[-1], NUM_SOURCES * last), np.int8)
    own = np.empty((ends[-1], last - first), np.int8)
    for planes, places, size, end in zip(coded, chosen, sizes, ends, strict=True):
        rows = slice(end - size, end)
        known[rows] = known_before(planes, layer)[places]
        own[rows] = np.clip(planes[-1][places][:, first:last], -VALUE_CLIP, VALUE_CLIP)
    return known, own


def _sampled_means(
    pictures: Sequence[tuple[Sequence[Float32Array], float]], generator: np.random.Generator
) -> tuple[Array, Array, Array, Array] | None:
    """What is known of some means of the last plane of pictures, each at a step, as
    :func:`known_of_means` returns it, and these means."""
    total = sum(planes[-1][..., 0].size for planes, _ in pictures)
    if total == 0:
        return None
    chosen = [
        generator.random(planes[-1].shape[:2]) < _NETWORK_MEANS / total for planes, _ in pictures
    ]
    ends = np.cumsum([np.count_nonzero(places) for places in chosen])
    known = np.empty((ends[-1], MEAN_INPUTS[len(pictures[0][0]) - 1]), np.int16)
    middles, spreads, sampled = (
        np.empty(ends[-1], kind) for kind in (np.int32, np.uint8, np.int16)
    )
    for (planes, step), places, start, end in zip(pictures, chosen, [0, *ends], ends, strict=False):
        means = [np.rint(plane[..., 0] / step).astype(np.int16) for plane in planes]
        arrays = (*known_of_means(means), means[-1])
        for whole, part in zip((known, middles, spreads, sampled), arrays, strict=True):
            whole[start:end] = part[places]
    return known, middles, spreads, sampled


def known_before(planes: Sequence[Values], layer: int) -> Array:
    """What a decoder knows of every patch of the last plane before its layer.

    Parameters
    ----------
    planes : sequence of ndarray, (rows, columns, 64) int16
        Quantised measurements of Y, of Y and Cb, or of Y, Cb and Cr.
    layer : int
        1 to 3.

    Returns
    -------
    ndarray, (rows, columns, sources * last) int8
        By source and its measurement, in the order of docs/format.md.
    """
    values = planes[-1]
    first, last = LAYERS[layer : layer + 2]
    rows, columns, _ = values.shape
    known = np.zeros((rows, columns, NUM_SOURCES, last), np.int8)
    framed = np.pad(values, ((1, 1), (1, 1), (0, 0)))
    inside = np.pad(np.ones((rows, columns), bool), 1)
    for source, (down, right) in enumerate(NEIGHBOURS):
        window = (slice(1 + down, rows + 1 + down), slice(1 + right, columns + 1 + right))
        end = last if source < NUM_CAUSAL else first
        known[:, :, source, 1:end] = np.clip(framed[window][..., 1:end], -VALUE_CLIP, VALUE_CLIP)
        step = framed[window][..., 0].astype(np.int32) - values[..., 0]
        known[:, :, source, 0] = np.where(inside[window], np.clip(step, -MEAN_CLIP, MEAN_CLIP), 0)
    others = {OWN: (values, first)}
    if len(planes) > 1:
        luma = np.pad(planes[0], ((1, 1), (1, 1), (0, 0)))
        others[LUMA] = magnitudes_at(luma, (rows, columns))[0][1:-1, 1:-1], last
    if len(planes) > 2:
        others[CHROMA] = planes[1], last
    for source, (other, end) in others.items():
        known[:, :, source, 1:end] = np.clip(other[..., 1:end], -VALUE_CLIP, VALUE_CLIP)
    return known.reshape(rows, columns, -1)
