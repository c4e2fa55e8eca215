"""The encoder: tiles of a picture to measurements to a file.

Tiles are independent and encoded on several threads; the file does not depend on how many.
"""

from __future__ import annotations

from dataclasses import replace

from cscodec.arrays import Float32Array, Pixels
from cscodec.bitstream import container
from cscodec.bitstream.container import Container, Header
from cscodec.bitstream.quantize import MAX_STEP, MIN_STEP, scaled, step_code
from cscodec.bitstream.tiles import encode_tile
from cscodec.choices import Subsampling
from cscodec.model import Model
from cscodec.parallel import parallel_map
from cscodec.transform.colour import halve, split_colours
from cscodec.transform.measure import analyse_plane

#: Below this step, chroma keeps its full size under subsampling="auto".
_FULL_CHROMA_STEP = 6.0
_CHROMA_STEP_RATIO = 1.0
RATE_WEIGHT = 0.055  #: λ of the search for quantised values: squared steps per bit
#: How far from zero, in steps, a value quantised to zero may lie: by rounding, and by search.
ROUNDED_CELL, ZERO_CELL = 0.5, 0.75


class EncodingJob:
    """One picture on its way into a file; its measurements can be kept for several steps."""

    def __init__(
        self,
        colours: Pixels,
        model: Model,
        subsampling: Subsampling,
        effort: int,
        workers: int | None,
    ) -> None:
        self.colours = colours
        self.model = model
        self.subsampling = subsampling
        self.effort = effort
        self.workers = workers
        self.kept: dict[tuple[int, bool], list[Float32Array]] = {}

    def file(self, parts: Container, *, keep: bool = False) -> bytes:
        """Return the file for the step of ``parts.header``."""
        step = parts.header.step
        full = self.subsampling == "4:4:4" or (
            self.subsampling == "auto" and step < _FULL_CHROMA_STEP
        )
        header = replace(
            parts.header,
            full_chroma=full and parts.header.num_colours == 3,
            chroma_step_code=step_code(min(max(step * _CHROMA_STEP_RATIO, MIN_STEP), MAX_STEP)),
        )

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
                rate_weight=RATE_WEIGHT if self.effort > 0 else 0.0,
            )
            return segments

        tiles = list(parallel_map(encode_one, range(header.num_tiles), self.workers))
        layers = [list(layer) for layer in zip(*tiles, strict=True)]
        return container.pack(replace(parts, header=header, segments=layers))

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
