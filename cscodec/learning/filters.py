"""The restoration filters of a model, learned from pictures that its own coder has quantised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.bitstream.steps import scaled
from cscodec.bitstream.tables import CoderTables
from cscodec.bitstream.tiles import encode_tile
from cscodec.encoding import RATE_WEIGHT, ZERO_CELL, measure_colours
from cscodec.model import Model, System
from cscodec.parallel import parallel_map
from cscodec.restore.cells import Quantised
from cscodec.restore.filters import FILTER_STEPS, fit_filters
from cscodec.restore.refine import shrunk_plane
from cscodec.transform.measure import synthesise_plane

Measured = Sequence[Float32Array]


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

    def learn(step: float) -> list[npt.NDArray[np.int16]]:
        coded = [_coded(planes, tables, step) for planes in measured]
        return [
            fit_filters(_examples(measured, coded, numbers, system, step), step)
            for numbers, system in (((0,), model.luma), ((1, 2), model.chroma))
        ]

    learned = list(parallel_map(learn, FILTER_STEPS, workers))
    luma, chroma = (np.stack(filters) for filters in zip(*learned, strict=True))
    return {"luma": luma, "chroma": chroma}


def _coded(planes: Measured, tables: CoderTables, step: float) -> list[npt.NDArray[np.int16]]:
    wanted = [scaled(plane, step) for plane in planes]
    return encode_tile(wanted, tables, rate_weight=RATE_WEIGHT)[1]


def _examples(
    measured: Sequence[Measured],
    coded: Sequence[Sequence[npt.NDArray[np.int16]]],
    numbers: Sequence[int],
    system: System,
    step: float,
) -> Iterator[tuple[Float32Array, Float32Array, Float32Array]]:
    """Planes at the centres of their cells, cleaned, and as they were."""
    for planes, values in zip(measured, coded, strict=True):
        for number in numbers:
            if number < len(planes):
                quantised = Quantised(values[number], step, ZERO_CELL, values[0].shape[2] - 1)
                plane, clean = shrunk_plane(quantised, system)
                yield plane, clean, synthesise_plane(planes[number], system.synthesis)
