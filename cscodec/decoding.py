"""The decoder: a file's tiles to measurements to pixels, from the top down.

Restoring a tile looks a little over its borders, so the measurements of a row of tiles and of the
next are decoded before its tiles are restored. Both run on the same threads, one a little ahead of
the other, and no more than that is held, however high the picture is.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cscodec.arrays import Float32Array, Pixels
from cscodec.bitstream.container import Container
from cscodec.bitstream.tiles import Values, decode_means, decode_tile
from cscodec.choices import Decoder
from cscodec.errors import LimitExceededError
from cscodec.layout import PATCH_SIZE, num_layers
from cscodec.model import Model, System
from cscodec.parallel import parallel_map
from cscodec.restore.cells import Quantised
from cscodec.restore.filters import filters_of_file
from cscodec.restore.planes import restore_plane
from cscodec.restore.reduced import Blocks, reduced_plane
from cscodec.transform.colour import double, join_colours

_MARGIN = 3  # patches around a tile that refining it looks at
_REACH = 1  # and that lapping patches, and doubling chroma, look at

Box = tuple[int, int, int, int]
_Pieces = list[list[Values]]  # rows of arrays


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
    reduction : {1, 2, 4, 8}
        Pixels of the picture, each way, that become one. Above 1, the decoder is not asked.
    """

    decoder: Decoder
    sparsity: int
    measurements: int
    reduction: int = 1


class DecodingJob:
    """One file on its way to pixels."""

    def __init__(
        self,
        parts: Container,
        model: Model,
        restoration: Restoration,
        workers: int | None,
        max_seconds: float | None = None,
    ) -> None:
        self.max_seconds = math.inf if max_seconds is None else max_seconds
        self.started = time.monotonic()
        self.header = parts.header
        self.segments = parts.segments
        if parts.header.unlapped:
            model = model.unlapped
        self.systems = (model.luma, model.chroma)
        self.tables = model.coder_tables
        self.filters = filters_of_file(model.filters, parts.header)
        self.restoration = restoration
        self.workers = workers
        self.tile_height, self.tile_width = (
            side // restoration.reduction for side in parts.header.tile_shape
        )
        # Restored at once, side by side: tiles that have the pixels of one, if they are smaller.
        self.group_size = restoration.reduction**2
        self.width, self.height = (
            -(-side // restoration.reduction) for side in (parts.header.width, parts.header.height)
        )

        if restoration.reduction > 1:
            nearer = self._is_halved(1) and not self._is_doubled(1)
            self.blocks = [
                Blocks.of(model.luma, restoration.reduction),
                Blocks.of(model.chroma, restoration.reduction // (1 + nearer)),
            ]

    def strips(self, box: Box | None = None) -> Iterator[Pixels]:
        """Yield colour samples of a part of the picture, a row of tiles at a time.

        Parameters
        ----------
        box : (x, y, width, height), optional
            All of it by default. In pixels of the result: of a reduced picture, if it is.
        """
        x, y, width, height = box or (0, 0, self.width, self.height)
        high, wide = self.tile_height, self.tile_width
        rows = range(y // high, (y + height - 1) // high + 1)
        columns = range(x // wide, (x + width - 1) // wide + 1)
        groups = [columns[i : i + self.group_size] for i in range(0, len(columns), self.group_size)]
        # One group shares out its planes, several are shared out themselves.
        alone = len(rows) == len(groups) == 1

        def restore(group: tuple[int, range, list[_Pieces]]) -> Pixels:
            return self._restored(*group, self.workers if alone else 1)

        restored = parallel_map(restore, self._known(rows, groups), 1 if alone else self.workers)
        for row in rows:
            top, bottom = max(y, row * high), min(y + height, (row + 1) * high)
            shape = (
                (bottom - top, width) if self.header.num_colours == 1 else (bottom - top, width, 3)
            )
            strip = np.empty(shape, np.uint8)
            for group in groups:
                first = group.start * wide
                left, right = max(x, first), min(x + width, group.stop * wide)
                part = next(restored)
                strip[:, left - x : right - x] = part[
                    top - row * high : bottom - row * high, left - first : right - first
                ]
            yield strip

    def _known(
        self, rows: range, groups: Sequence[range]
    ) -> Iterator[tuple[int, range, list[_Pieces]]]:
        """Yield groups of tiles, row by row, with what their planes are put together from.

        A group is ready as soon as the tile after its last, in the next row, is decoded.
        """
        around = 1 if any(map(self._margin, range(self.header.num_colours))) else 0
        columns = range(groups[0].start, groups[-1].stop)
        high, wide = (
            range(max(0, wanted.start - around), min(length, wanted.stop + around))
            for wanted, length in zip((rows, columns), self.header.tile_grid, strict=True)
        )
        num_columns = self.header.tile_grid[1]
        tiles = [row * num_columns + column for row in high for column in wide]
        # Means alone are decoded so soon that threads would wait for one another: some at once.
        each = 4 if self.restoration.reduction == PATCH_SIZE else 1
        runs = (tiles[i : i + each] for i in range(0, len(tiles), each))
        values = itertools.chain.from_iterable(
            parallel_map(lambda run: [self._values(tile) for tile in run], runs, self.workers)
        )
        ending = {group.stop - 1: group for group in groups}
        decoded: dict[tuple[int, int], list[Values]] = {}
        for row in range(high.start, high.stop + around):
            for column in range(wide.start, wide.stop + around):
                if row in high and column in wide:
                    decoded[row, column] = next(values)
                group = ending.get(column - around)
                if group is not None and row - around in rows:
                    yield row - around, group, self._pieces(decoded, row - around, group)
            # Of what is restored, the next row sees the last patches only.
            decoded = {
                tile: [plane[-_MARGIN:].copy() for plane in planes] if tile[0] < row else planes
                for tile, planes in decoded.items()
                if tile[0] >= row - around
            }

    def _pieces(
        self, decoded: Mapping[tuple[int, int], list[Values]], row: int, group: range
    ) -> list[_Pieces]:
        """Return, for each plane, lines of arrays that make a group of tiles and its margin."""
        pieces = []
        for number in range(self.header.num_colours):
            margin = self._margin(number)
            before, whole, after = slice(-margin, None), slice(None), slice(None, margin)
            down = [(row, whole)]
            right = [(column, whole) for column in group]
            if margin:
                down = [(row - 1, before), *down, (row + 1, after)]
                right = [(group.start - 1, before), *right, (group.stop, after)]
            lines = [
                [
                    decoded[line, column][number][in_rows, in_columns]
                    for column, in_columns in right
                    if (line, column) in decoded
                ]
                for line, in_rows in down
            ]
            pieces.append([line for line in lines if line])
        return pieces

    def _margin(self, number: int) -> int:
        """Patches around a tile that restoring its part of a plane looks at."""
        if self.restoration.reduction == 1 and self.restoration.decoder == "refine":
            return _MARGIN
        laps = self.restoration.reduction < PATCH_SIZE and self._system(number).lapping is not None
        return _REACH if laps or self._is_doubled(number) else 0

    def _system(self, number: int) -> System:
        return self.systems[number > 0]

    def _is_halved(self, number: int) -> bool:
        return number > 0 and not self.header.full_chroma

    def _is_doubled(self, number: int) -> bool:
        """Whether a plane is interpolated: if its patches do not hold as many samples as wanted."""
        return self._is_halved(number) and self.restoration.reduction in (1, PATCH_SIZE)

    def _check_time(self) -> None:
        if time.monotonic() - self.started > self.max_seconds:
            raise LimitExceededError(
                f"decoding takes longer than the limit of {self.max_seconds:g} s; raise it "
                "(max_seconds, --max-seconds), or ask for less: a region, a scale, decoder linear"
            )

    def _values(self, tile: int) -> list[Values]:
        self._check_time()
        restoration = self.restoration
        layers = [layer[tile] for layer in self.segments if tile < len(layer)]
        grids = self.header.patch_grids(tile)
        if layers and restoration.reduction == PATCH_SIZE:
            return decode_means(layers[0], grids, self.tables)
        if restoration.measurements < self.header.measurements:
            layers = layers[: num_layers(restoration.measurements)]
        values = decode_tile(
            layers,
            grids,
            self.tables,
            measurements=self.header.measurements,
        )
        if restoration.reduction > 1:  # the others are never looked at
            return [plane[..., : restoration.measurements + 1].copy() for plane in values]
        for plane in values:
            plane[..., restoration.measurements + 1 :] = 0
        return values

    def _restored(
        self, row: int, group: range, pieces: list[_Pieces], workers: int | None
    ) -> Pixels:
        """Pixels of one group of tiles."""
        header, high, wide = self.header, self.tile_height, self.tile_width
        patch = PATCH_SIZE // self.restoration.reduction  # samples of the result on each side

        def restore(number: int) -> tuple[Float32Array, tuple[int, int]]:
            margin = self._margin(number)
            unit = 2 * patch if self._is_halved(number) else patch
            top, left = row * high // unit, group.start * wide // unit
            first_row, first_column = max(0, top - margin), max(0, left - margin)
            step, tilt = header.step_and_tilt(number)
            quantised = Quantised(
                values=np.concatenate([np.concatenate(line, axis=1) for line in pieces[number]]),
                step=step,
                tilt=tilt,
                zero_cell=header.zero_cell / 64,
                measurements=self.restoration.measurements,
            )
            samples = self._samples(quantised, number)
            if not self._is_doubled(number):  # a patch has all the samples that it covers
                return samples, (unit * (top - first_row), unit * (left - first_column))
            y, x = patch * (top - first_row), patch * (left - first_column)
            # Samples beyond the picture's edge are padding, not picture.
            total_rows, total_columns = -(-self.height // 2), -(-self.width // 2)
            samples = samples[
                : total_rows - patch * first_row, : total_columns - patch * first_column
            ]
            return double(samples), (2 * y, 2 * x)

        height = min(high, self.height - row * high)
        width = min(wide * len(group), self.width - group.start * wide)
        restored, origins = zip(
            *parallel_map(restore, range(header.num_colours), workers), strict=True
        )
        return join_colours(restored, (height, width), origins[0], origins[-1])

    def _samples(self, quantised: Quantised, number: int) -> Float32Array:
        """Samples of a plane of a group of tiles and its margin."""
        self._check_time()
        if self.restoration.reduction > 1:
            return reduced_plane(quantised, self.blocks[number > 0])
        return restore_plane(
            quantised,
            self._system(number),
            self.restoration.decoder,
            filters=self.filters[number > 0],
            sparsity=self.restoration.sparsity,
            is_chroma=number > 0,
        )
