"""What restoration will make of a tile, for an encoder that chooses values a second time.

``refine`` moves a measurement away from the middle of its cell. Where it will move it to what was
measured, a value that is a little off costs nothing, and where it will move it away, a value must
be kept that a search for the middle of cells would drop. So values are chosen again for what was
measured less the move that restoring the first ones made: docs/decisions/0027.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cscodec.arrays import Float32Array
from cscodec.bitstream.container import Header
from cscodec.bitstream.steps import WANTED_UNIT, scaled
from cscodec.bitstream.tiles import Values, Wanted
from cscodec.model import Model, System
from cscodec.restore.cells import Quantised
from cscodec.restore.filters import filters_of_file
from cscodec.restore.planes import restore_plane
from cscodec.transform.measure import analyse_plane

# How much of a move will be made again, in 1/256, where a value is zero and where it is not: other
# values are chosen, and so are those around.
_SHARE_OF_ZERO, _SHARE = 180, 150


@dataclass(frozen=True)
class Foresight:
    """What a decoder will know of a file.

    Attributes
    ----------
    header : Header
    systems : tuple of System
        Of luma and of chroma, as the file uses them: without lapping, if it is unlapped.
    filters : tuple
        Of both, arranged; None where the model has none.
    """

    header: Header
    systems: tuple[System, System]
    filters: tuple[Float32Array | None, Float32Array | None]

    @classmethod
    def of(cls, header: Header, model: Model) -> Foresight:
        """Return that of a file.

        Raises
        ------
        InvalidModelError
            If the model's filters are not such.
        """
        return cls(header, (model.luma, model.chroma), filters_of_file(model.filters, header))

    def targets(self, wanted: Sequence[Wanted], values: Sequence[Values]) -> list[Wanted]:
        """Return what to choose values for, given those that were chosen first.

        Parameters
        ----------
        wanted : sequence of ndarray, (rows, columns, 64) int32
            Measurements of the planes of a tile, in 1/256 of their steps.
        values : sequence of ndarray, (rows, columns, 64) int16
            Chosen for them.

        Returns
        -------
        list of ndarray, (rows, columns, 64) int32
            Means, and all of the patches at the border of the tile, which are restored with what
            lies beyond it, are as ``wanted``.
        """
        return [
            self._target(number, *planes)
            for number, planes in enumerate(zip(wanted, values, strict=True))
        ]

    def _target(self, number: int, wanted: Wanted, values: Values) -> Wanted:
        system = self.systems[number > 0]
        quantised = Quantised(
            values,
            *self.header.step_and_tilt(number),
            self.header.zero_cell / 64,
            self.header.measurements,
        )
        restored = restore_plane(
            quantised,
            system,
            "refine",
            filters=self.filters[number > 0],
            is_chroma=number > 0,
        )
        measured = analyse_plane(restored, system.analysis, system.lapping)
        moves = scaled(measured, quantised.steps) - WANTED_UNIT * values.astype(np.int32)
        moves = moves * np.where(values == 0, _SHARE_OF_ZERO, _SHARE) >> 8
        target = wanted.copy()
        inner = (slice(1, -1), slice(1, -1), slice(1, None))
        target[inner] -= moves[inner]
        return target
