"""The encoder: tiles of a picture to measurements to a file.

Tiles are independent and encoded on several threads; the file does not depend on how many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from cscodec.arrays import Float32Array, Pixels
from cscodec.bitstream import container
from cscodec.bitstream.container import Container, Extras, Header
from cscodec.bitstream.steps import (
    MAX_STEP,
    MIN_STEP,
    STEP_UNIT,
    TILT_UNIT,
    measurement_steps,
    scaled,
    step_code,
)
from cscodec.bitstream.tiles import encode_tile
from cscodec.choices import Subsampling, Tune
from cscodec.foresight import Foresight
from cscodec.layout import PATCH_SIZE
from cscodec.model import Model, System
from cscodec.parallel import parallel_map
from cscodec.rows import PictureRows
from cscodec.transform.colour import halve, split_colours, without_alpha
from cscodec.transform.measure import analyse_plane

#: Row and column of the first pixel of a part, multiples of 16; its height and width.
Part = tuple[int, int, int, int]


class Tile(NamedTuple):
    """Colours of a tile and around it, and which part of them it is."""

    colours: Pixels
    part: Part


class Tuning(NamedTuple):
    """What a tune stands for.

    Attributes
    ----------
    chroma_ratios : tuple of float
        Of the chroma planes' step to luma's, where that is 14 or less and where it is 56 or more.
    tilts : tuple of float
        Of the three planes: see :func:`cscodec.bitstream.steps.measurement_steps`.
    rate_weight : float
        λ of the search for quantised values: squared steps per bit.
    full_chroma_step : float
        Below this step, chroma keeps its full size under subsampling="auto".
    """

    chroma_ratios: tuple[float, float]
    tilts: tuple[float, float, float]
    rate_weight: float
    full_chroma_step: float

    def chroma_step(self, step: float) -> float:
        """Return the chroma planes' step for luma's; between 14 and 56 the ratio goes linearly.

        Where steps are coarse, colours fade.
        """
        share = min(max((step - _FINE_STEP) / (_COARSE_STEP - _FINE_STEP), 0.0), 1.0)
        fine, coarse = self.chroma_ratios
        return step * (fine + share * (coarse - fine))


_FINE_STEP, _COARSE_STEP = 14.0, 56.0
#: docs/decisions/0003, 0020, 0025, 0028, 0029, 0031, 0032. Filters are stored in this order: little
#: tilt, then much.
TUNINGS: dict[Tune, Tuning] = {
    "psnr": Tuning((0.98, 0.98), (0.09375, 0.34375, 0.34375), 0.05, 6.0),
    "visual": Tuning((0.96, 0.6), (1.125, 1.75, 1.75), 0.045, 3.0),
}
#: How far from zero, in steps, a value quantised to zero may lie: by rounding, and by search.
ROUNDED_CELL, ZERO_CELL = 0.5, 0.75
_MARGIN = 2 * PATCH_SIZE  # pixels around a tile that its patches look at: a patch of halved chroma


@dataclass(frozen=True)
class Settings:
    """What is chosen for a file beside its step.

    Attributes
    ----------
    tune : {"visual", "psnr"}
    subsampling : {"auto", "4:2:0", "4:4:4"}
    effort : int
        0: values are rounded. 1: they are chosen by rate and distortion. 2: and chosen again,
        for what restoring them will make, in large tiles.
    measurements : int
        Per patch beside the mean.
    unlapped : bool
        Whether patches are measured as they are, though the model laps.
    """

    tune: Tune
    subsampling: Subsampling
    effort: int
    measurements: int
    unlapped: bool = False


class EncodingJob:
    """One picture on its way into a file; its measurements can be kept for several steps.

    Parameters
    ----------
    picture : PictureRows
        Read once for every file, a row of tiles at a time.
    extras : Extras
        What the file has beside the colours.
    """

    def __init__(
        self,
        picture: PictureRows,
        model: Model,
        settings: Settings,
        extras: Extras,
        workers: int | None,
    ) -> None:
        self.picture = picture
        self.model = model
        self.settings = settings
        self.extras = extras
        self.workers = workers
        self.kept: dict[bool, list[list[Float32Array]]] = {}

    def header(self, code: int) -> Header:
        """Return the header of the file with this step, in 1/64."""
        step = code / STEP_UNIT
        tuning = TUNINGS[self.settings.tune]
        height, width = self.picture.shape[:2]
        channels = self.picture.num_channels
        full = self.settings.subsampling == "4:4:4" or (
            self.settings.subsampling == "auto" and step < tuning.full_chroma_step
        )
        return Header(
            width=width,
            height=height,
            channels=channels,
            full_chroma=full and channels >= 3,
            measurements=self.settings.measurements,
            step_code=code,
            chroma_step_code=step_code(min(max(tuning.chroma_step(step), MIN_STEP), MAX_STEP)),
            tilt_code=round(TILT_UNIT * tuning.tilts[0]),
            chroma_tilt_code=round(TILT_UNIT * tuning.tilts[1]),
            zero_cell=round(64 * (ZERO_CELL if self.settings.effort > 0 else ROUNDED_CELL)),
            model_id=self.model.model_id,
            unlapped=self.settings.unlapped,
            large_tiles=self.settings.effort > 1,
        )

    def file(self, code: int, *, keep: bool = False) -> bytes:
        """Return the file with this step, in 1/64; ``keep`` the measurements for the next."""
        header = self.header(code)
        steps = [measurement_steps(*header.step_and_tilt(n)) for n in range(header.num_colours)]
        searches = self.settings.effort > 0
        rate_weight = TUNINGS[self.settings.tune].rate_weight if searches else 0.0

        model = self._model()
        foresight = Foresight.of(header, model) if self.settings.effort > 1 else None
        encode = partial(
            encode_tile,
            tables=model.coder_tables,
            measurements=header.measurements,
            rate_weight=rate_weight,
        )

        def encode_one(measured: list[Float32Array]) -> list[bytes]:
            wanted = list(map(scaled, measured, steps))
            segments, values = encode(wanted)
            if foresight is not None:
                segments, _ = encode(foresight.targets(wanted, values))
            return segments

        # Measured a little ahead of what is coded, on the same threads.
        measured = self.measured(header, keep)
        tiles = list(parallel_map(encode_one, measured, self.workers))
        layers = (_taken(tiles, layer) for layer in range(header.num_layers))
        return container.pack(Container(header, [], *self.extras), layers)

    def measured(self, header: Header, keep: bool) -> Iterable[list[Float32Array]]:
        """Measurements of the tiles in the orthonormal basis: per plane (rows, columns, 64)."""
        full_chroma = header.full_chroma
        if full_chroma in self.kept:
            return self.kept[full_chroma]
        model = self._model()
        measured = parallel_map(
            lambda tile: measure_colours(
                tile.colours, model, full_chroma=full_chroma, part=tile.part
            ),
            self.tiles(*header.tile_shape),
            self.workers,
        )
        if keep:
            self.kept[full_chroma] = list(measured)
            return self.kept[full_chroma]
        return measured

    def _model(self) -> Model:
        """Return the model as the file uses it."""
        return self.model.unlapped if self.settings.unlapped else self.model

    def tiles(self, height: int, width: int) -> Iterator[Tile]:
        """Tiles in their order, with what lies around them: patches are lapped across borders."""
        whole_width = self.picture.shape[1]
        strips = map(without_alpha, self.picture.strips(height))
        for before, strip, after in _with_neighbours(strips, _MARGIN):
            for left in range(0, whole_width, width):
                first = max(0, left - _MARGIN)
                columns = slice(first, left + width + _MARGIN)
                colours = np.concatenate([rows[:, columns] for rows in (before, strip, after)])
                size = min(width, whole_width - left)
                yield Tile(colours, (len(before), left - first, len(strip), size))


def _with_neighbours(
    strips: Iterator[Pixels], margin: int
) -> Iterator[tuple[Pixels, Pixels, Pixels]]:
    """Yield the last rows of the strip before, a strip, and the first rows of the one after."""
    strip = next(strips)
    before = strip[:0]
    for after in strips:
        yield before, strip, after[:margin]
        before, strip = strip[-margin:].copy(), after
    yield before, strip, strip[:0]


def _taken(tiles: list[list[bytes]], layer: int) -> Iterator[bytes]:
    """Yield a layer's segments and forget them: with the file they would take memory twice."""
    for segments in tiles:
        yield segments[layer]
        segments[layer] = b""


def measure_colours(
    colours: Pixels, model: Model, *, full_chroma: bool, part: Part | None = None
) -> list[Float32Array]:
    """Take the measurements of a picture or tile in the models' orthonormal bases.

    Parameters
    ----------
    colours : ndarray, (H, W) or (H, W, 3) uint8
    model : Model
    full_chroma : bool
        Whether chroma keeps its size (4:4:4) or is halved (4:2:0).
    part : Part, optional
        What is wanted of them; all by default.

    Returns
    -------
    list of ndarray, (rows, columns, 64) float32
        Per plane: 8 times the mean of every patch, then its measurements; zeros after the last.
    """
    luma, *chroma = split_colours(colours)
    if not full_chroma:
        chroma = [halve(plane) for plane in chroma]
    top, left, height, width = part or (0, 0, *colours.shape[:2])

    def measure(plane: Float32Array, system: System, unit: int) -> Float32Array:
        measured = analyse_plane(plane, system.analysis, system.lapping)
        rows, columns = (
            slice(first // unit, -(-(first + size) // unit))
            for first, size in ((top, height), (left, width))
        )
        return measured[rows, columns]

    unit = PATCH_SIZE if full_chroma else 2 * PATCH_SIZE
    return [
        measure(luma, model.luma, PATCH_SIZE),
        *(measure(plane, model.chroma, unit) for plane in chroma),
    ]
