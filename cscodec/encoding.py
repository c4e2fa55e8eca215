"""The encoder: tiles of a picture to measurements to a file.

Tiles are independent and encoded on several threads; the file does not depend on how many.
"""

from __future__ import annotations

from dataclasses import dataclass

from cscodec.arrays import Float32Array, Pixels
from cscodec.bitstream import container
from cscodec.bitstream.container import Container, Extras, Header
from cscodec.bitstream.steps import MAX_STEP, MIN_STEP, STEP_UNIT, scaled, step_code
from cscodec.bitstream.tiles import encode_tile
from cscodec.choices import Subsampling
from cscodec.model import Model
from cscodec.parallel import parallel_map
from cscodec.transform.colour import halve, split_colours, without_alpha
from cscodec.transform.measure import analyse_plane

#: Below this step, chroma keeps its full size under subsampling="auto".
_FULL_CHROMA_STEP = 6.0
_CHROMA_STEP_RATIO = 1.0
RATE_WEIGHT = 0.055  #: λ of the search for quantised values: squared steps per bit
#: How far from zero, in steps, a value quantised to zero may lie: by rounding, and by search.
ROUNDED_CELL, ZERO_CELL = 0.5, 0.75


@dataclass(frozen=True)
class Settings:
    """What is chosen for a file beside its step.

    Attributes
    ----------
    subsampling : {"auto", "4:2:0", "4:4:4"}
    effort : int
        0: values are rounded. 1: they are chosen by rate and distortion.
    measurements : int
        Per patch beside the mean.
    """

    subsampling: Subsampling
    effort: int
    measurements: int


class EncodingJob:
    """One picture on its way into a file; its measurements can be kept for several steps.

    Parameters
    ----------
    pixels : ndarray, uint8
        (H, W), or (H, W, 2..4) with channels last.
    extras : Extras
        What the file has beside the colours.
    """

    def __init__(
        self,
        pixels: Pixels,
        model: Model,
        settings: Settings,
        extras: Extras,
        workers: int | None,
    ) -> None:
        self.pixels = pixels
        self.colours = without_alpha(pixels)
        self.model = model
        self.settings = settings
        self.extras = extras
        self.workers = workers
        self.kept: dict[tuple[int, bool], list[Float32Array]] = {}

    def header(self, code: int) -> Header:
        """Return the header of the file with this step, in 1/64."""
        step = code / STEP_UNIT
        height, width = self.pixels.shape[:2]
        full = self.settings.subsampling == "4:4:4" or (
            self.settings.subsampling == "auto" and step < _FULL_CHROMA_STEP
        )
        return Header(
            width=width,
            height=height,
            channels=1 if self.pixels.ndim == 2 else self.pixels.shape[2],
            full_chroma=full and self.colours.ndim == 3,
            measurements=self.settings.measurements,
            step_code=code,
            chroma_step_code=step_code(min(max(step * _CHROMA_STEP_RATIO, MIN_STEP), MAX_STEP)),
            zero_cell=round(64 * (ZERO_CELL if self.settings.effort > 0 else ROUNDED_CELL)),
            model_id=self.model.model_id,
        )

    def file(self, code: int, *, keep: bool = False) -> bytes:
        """Return the file with this step, in 1/64."""
        header = self.header(code)

        def encode_one(tile: int) -> list[bytes]:
            measured = self.measured(header, tile, keep)
            wanted = [
                scaled(plane, header.step if number == 0 else header.chroma_step)
                for number, plane in enumerate(measured)
            ]
            segments, _ = encode_tile(
                wanted,
                self.model.coder_tables,
                measurements=header.measurements,
                rate_weight=RATE_WEIGHT if self.settings.effort > 0 else 0.0,
            )
            return segments

        tiles = list(parallel_map(encode_one, range(header.num_tiles), self.workers))
        layers = [list(layer) for layer in zip(*tiles, strict=True)]
        return container.pack(Container(header, layers, *self.extras))

    def measured(self, header: Header, tile: int, keep: bool) -> list[Float32Array]:
        """Measurements of a tile in the orthonormal basis: per plane (rows, columns, 64)."""
        key = (tile, header.full_chroma)
        if key in self.kept:
            return self.kept[key]
        x, y, width, height = header.tile_box(tile)
        colours = self.colours[y : y + height, x : x + width]
        measured = measure_colours(colours, self.model, full_chroma=header.full_chroma)
        if keep:
            self.kept[key] = measured
        return measured


def measure_colours(colours: Pixels, model: Model, *, full_chroma: bool) -> list[Float32Array]:
    """Take the measurements of a picture or tile in the models' orthonormal bases.

    Parameters
    ----------
    colours : ndarray, (H, W) or (H, W, 3) uint8
    model : Model
    full_chroma : bool
        Whether chroma keeps its size (4:4:4) or is halved (4:2:0).

    Returns
    -------
    list of ndarray, (rows, columns, 64) float32
        Per plane: 8 times the mean of every patch, then its measurements; zeros after the last.
    """
    luma, *chroma = split_colours(colours)
    if not full_chroma:
        chroma = [halve(plane) for plane in chroma]
    measured = [analyse_plane(luma, model.luma.analysis)]
    return measured + [analyse_plane(plane, model.chroma.analysis) for plane in chroma]
