"""For ablation.py: a codec that lacks something, and its points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from cscodec.arrays import Pixels
from cscodec.bitstream import container
from cscodec.bitstream.range_coder import RangeCoder
from cscodec.bitstream.steps import WANTED_UNIT
from cscodec.bitstream.tiles import TileState, decode_tile
from cscodec.choices import Decoder
from cscodec.codec import decode, encode
from cscodec.evaluation.rate_distortion import Point, measure
from cscodec.model import Model

SETS = ("table2", "kodak12")
FULL = "full codec"  #: key of the codec that lacks nothing


@dataclass(frozen=True)
class Variant:
    """A codec that lacks something.

    Attributes
    ----------
    key : str
        Its name in the JSON.
    part, description : str
        What it lacks, and what it has instead.
    model : Model
    encoding : mapping
        Options of :func:`cscodec.encode`.
    decoder : str
    against : str
        Key of the variant that it is held against.
    sets : sequence of str
    one_segment : bool
        Count the bytes of a file that has one segment per tile, for all its layers.
    patched : bool
        Let :mod:`ablation_patches` measure it; the model serves all but its tables.
    """

    key: str
    part: str
    description: str
    model: Model
    encoding: Mapping[str, Any] = field(default_factory=dict)
    decoder: Decoder = "refine"
    against: str = FULL
    sets: Sequence[str] = SETS
    one_segment: bool = False
    patched: bool = False

    def points(
        self, paths: Sequence[Path], steps: Sequence[float], workers: int
    ) -> dict[str, list[Point]]:
        """Measure the codec on pictures, by their names."""
        return {
            path.stem: measure(np.asarray(Image.open(path)), self.code, steps, workers=workers)
            for path in paths
        }

    def code(self, pixels: Pixels, step: float) -> tuple[bytes, Pixels]:
        """Return the file and what it decodes to."""
        data = encode(pixels, step=step, model=self.model, workers=1, **self.encoding)
        decoded = decode(data, model=self.model, decoder=self.decoder, workers=1)
        return (as_one_segment(data, self.model) if self.one_segment else data), decoded


def as_one_segment(data: bytes, model: Model) -> bytes:
    """Return a file's values in one segment per tile. Only its size means anything.

    Nothing else changes: states and the order of values are those of the layered file.
    """
    parts = container.unpack(data)
    header, tables = parts.header, model.coder_tables
    merged = []
    for tile in range(header.num_tiles):
        segments = [layer[tile] for layer in parts.segments]
        shapes = header.patch_grids(tile)
        values = decode_tile(segments, shapes, tables, measurements=header.measurements)
        wanted = [plane.astype(np.int32) * WANTED_UNIT for plane in values]
        state = TileState(shapes, tables, header.measurements)
        coder = RangeCoder.writing(sum(map(len, segments)) + 64)
        for layer in range(header.num_layers):
            state.code_layer(coder, layer, wanted)
        if any((a != b).any() for a, b in zip(values, state.inner_values(), strict=True)):
            raise AssertionError("values changed on the way")
        merged.append(coder.finished())
    return container.pack(replace(parts, segments=[merged]))
