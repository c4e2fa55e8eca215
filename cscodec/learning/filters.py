"""The restoration filters of a model, learned from pictures that its own coder has quantised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.bitstream.steps import measurement_steps, scaled
from cscodec.bitstream.tables import CoderTables
from cscodec.bitstream.tiles import encode_tile
from cscodec.encoding import TUNINGS, ZERO_CELL, Tuning, measure_colours
from cscodec.layout import NUM_MEASUREMENTS
from cscodec.model import Model, System
from cscodec.parallel import parallel_map
from cscodec.restore.cells import Quantised
from cscodec.restore.filters import FILTER_STEPS, filter_shape, fit_filters
from cscodec.restore.refine import shrunk_plane
from cscodec.transform.measure import synthesise_plane

Measured = Sequence[Float32Array]
_Coded = tuple[Float32Array, Quantised]


def train_filters(
    model: Model,
    crops: Iterable[npt.NDArray[np.uint8]],
    *,
    workers: int | None = None,
) -> dict[str, npt.NDArray[np.int16]]:
    """Learn the restoration filters of a model whose systems and tables are final.

    Parameters
    ----------
    model : Model
    crops : iterable of ndarray, (H, W) or (H, W, 3) uint8
        Gray ones teach the luma filters only.
    workers : int, optional
        Threads. The result does not depend on it.

    Returns
    -------
    dict of ndarray
        For ``Model.filters``.
    """
    measured = [measure_colours(crop, model, full_chroma=False) for crop in crops]
    tables = model.coder_tables

    def learn(job: tuple[Tuning, float]) -> list[npt.NDArray[np.int16]]:
        tuning, step = job
        coded = [_coded(planes, tables, step, tuning) for planes in measured]
        return [
            fit_filters(_examples(coded, numbers, system), step)
            for numbers, system in (((0,), model.luma), ((1, 2), model.chroma))
        ]

    # In the order of the tunes: little tilt, then much.
    learned = list(parallel_map(learn, product(TUNINGS.values(), FILTER_STEPS), workers))
    luma, chroma = (
        np.stack(filters).reshape(filter_shape()) for filters in zip(*learned, strict=True)
    )
    return {"luma": luma, "chroma": chroma}


def _coded(planes: Measured, tables: CoderTables, step: float, tuning: Tuning) -> list[_Coded]:
    """Planes as they were measured, and as a file holds them."""
    kinds = list(zip(planes, tuning.tilts, strict=False))  # gray ones have one plane
    wanted = [scaled(plane, measurement_steps(step, tilt)) for plane, tilt in kinds]
    values = encode_tile(wanted, tables, rate_weight=tuning.rate_weight)[1]
    return [
        (plane, Quantised(quantised, step, tilt, ZERO_CELL, NUM_MEASUREMENTS - 1))
        for (plane, tilt), quantised in zip(kinds, values, strict=True)
    ]


def _examples(
    coded: Sequence[Sequence[_Coded]],
    numbers: Sequence[int],
    system: System,
) -> Iterator[tuple[Float32Array, Float32Array, Float32Array]]:
    """Planes at the centres of their cells, cleaned, and as they were."""
    for planes in coded:
        for measured, quantised in planes[numbers[0] : numbers[-1] + 1]:
            plane, clean = shrunk_plane(quantised, system, is_chroma=numbers[0] > 0)
            yield plane, clean, synthesise_plane(measured, system.synthesis, system.lapping)
