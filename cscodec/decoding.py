"""The decoder: a file's tiles to measurements to pixels.

Restoring a tile looks a little over its borders, so all measurements that a part of the picture
needs are decoded first; then its tiles are restored, each by itself, on several threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Pixels
from cscodec.bitstream import container
from cscodec.bitstream.container import Container
from cscodec.bitstream.tiles import Values, decode_tile
from cscodec.choices import Decoder
from cscodec.layout import NUM_MEASUREMENTS, num_layers
from cscodec.model import Model
from cscodec.parallel import parallel_map
from cscodec.restore.cells import Quantised
from cscodec.restore.filters import check_filters, filters_for_step
from cscodec.restore.planes import restore_plane
from cscodec.transform.colour import double, join_colours

_MARGIN = 2  # patches around a tile that refining it looks at; doubling chroma looks at one


@dataclass(frozen=True)
class Restoration:
    """How pixels are restored.

    Attributes
    ----------
    decoder : str
        One of :data:`cscodec.choices.DECODERS`.
    sparsity : int
        K, for ``omp`` and ``consistent``.
    measurements : int
        How many are used beside the mean.
    """

    decoder: Decoder
    sparsity: int
    measurements: int


class DecodingJob:
    """One file on its way to pixels."""

    def __init__(
        self, parts: Container, model: Model, restoration: Restoration, workers: int | None
    ) -> None:
        self.header = parts.header
        self.segments = parts.segments
        self.systems = (model.luma, model.chroma)
        self.tables = model.coder_tables
        check_filters(model.filters)
        steps = (parts.header.step, parts.header.chroma_step)
        self.filters = [
            filters_for_step(model.filters[name], step) if name in model.filters else None
            for name, step in zip(("luma", "chroma"), steps, strict=True)
        ]
        self.restoration = restoration
        self.workers = workers

    def pixels(self, box: tuple[int, int, int, int]) -> Pixels:
        """Colour samples of a part of the picture."""
        header = self.header
        x, y, width, height = box
        size = container.TILE_SIZE
        rows, columns = header.tile_grid
        wanted = [
            row * columns + column
            for row in range(y // size, (y + height - 1) // size + 1)
            for column in range(x // size, (x + width - 1) // size + 1)
        ]
        around = sorted(
            {
                row * columns + column
                for tile in wanted
                for row in range(max(0, tile // columns - 1), min(rows, tile // columns + 2))
                for column in range(max(0, tile % columns - 1), min(columns, tile % columns + 2))
            }
        )
        planes = self._empty_planes()

        def fill(tile: int) -> None:  # each tile its own part
            for number, part in enumerate(self._values(tile)):
                top, left = self._patch_origin(tile, number)
                planes[number][top : top + part.shape[0], left : left + part.shape[1]] = part

        for _ in parallel_map(fill, around, self.workers):
            pass
        shape = (height, width) if header.num_colours == 1 else (height, width, 3)
        out = np.empty(shape, np.uint8)

        def restore(tile: int, workers: int | None = 1) -> None:
            tile_x, tile_y, tile_width, tile_height = header.tile_box(tile)
            part = self._restored(tile, planes, workers)
            left, top = max(x, tile_x), max(y, tile_y)
            right = min(x + width, tile_x + tile_width)
            bottom = min(y + height, tile_y + tile_height)
            out[top - y : bottom - y, left - x : right - x] = part[
                top - tile_y : bottom - tile_y, left - tile_x : right - tile_x
            ]

        if len(wanted) == 1:  # then its planes are what can be shared out
            restore(wanted[0], self.workers)
        else:
            for _ in parallel_map(restore, wanted, self.workers):
                pass
        return out

    def _unit(self, number: int) -> int:
        """Pixels of the picture on each side of a patch of a plane."""
        return 8 if number == 0 or self.header.full_chroma else 16

    def _empty_planes(self) -> list[Values]:
        header = self.header
        planes = []
        for number in range(header.num_colours):
            rows, columns = (
                -(-side // self._unit(number)) for side in (header.height, header.width)
            )
            planes.append(np.zeros((rows, columns, NUM_MEASUREMENTS), np.int16))
        return planes

    def _patch_origin(self, tile: int, number: int) -> tuple[int, int]:
        """First patch row and column of a tile in a plane."""
        x, y, _, _ = self.header.tile_box(tile)
        return y // self._unit(number), x // self._unit(number)

    def _values(self, tile: int) -> list[Values]:
        layers = [layer[tile] for layer in self.segments if tile < len(layer)]
        if self.restoration.measurements < self.header.measurements:
            layers = layers[: num_layers(self.restoration.measurements)]
        values = decode_tile(
            layers,
            self.header.patch_grids(tile),
            self.tables,
            measurements=self.header.measurements,
        )
        for plane in values:
            plane[..., self.restoration.measurements + 1 :] = 0
        return values

    def _restored(self, tile: int, planes: list[Values], workers: int | None) -> Pixels:
        """Pixels of one tile."""
        header = self.header
        _, _, width, height = header.tile_box(tile)

        def restore(number: int) -> tuple[npt.NDArray[np.float32], tuple[int, int]]:
            halved = number > 0 and not header.full_chroma
            top, left = self._patch_origin(tile, number)
            rows, columns = header.patch_grids(tile)[number]
            margin = _MARGIN if self.restoration.decoder == "refine" else 1 if halved else 0
            first_row, first_column = max(0, top - margin), max(0, left - margin)
            quantised = Quantised(
                values=planes[number][
                    first_row : top + rows + margin, first_column : left + columns + margin
                ],
                step=header.step if number == 0 else header.chroma_step,
                zero_cell=header.zero_cell / 64,
                measurements=self.restoration.measurements,
            )
            samples = restore_plane(
                quantised,
                self.systems[number > 0],
                self.restoration.decoder,
                filters=self.filters[number > 0],
                sparsity=self.restoration.sparsity,
            )
            y, x = 8 * (top - first_row), 8 * (left - first_column)
            if not halved:
                return samples, (y, x)
            # Samples beyond the picture's edge are padding, not picture.
            total_rows, total_columns = -(-header.height // 2), -(-header.width // 2)
            samples = samples[: total_rows - 8 * first_row, : total_columns - 8 * first_column]
            return double(samples), (2 * y, 2 * x)

        restored, origins = zip(*parallel_map(restore, range(len(planes)), workers), strict=True)
        return join_colours(restored, (height, width), origins[0], origins[-1])
