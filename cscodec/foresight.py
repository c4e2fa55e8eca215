"""What restoration will make of a tile, for an encoder that chooses values a second time.

``refine`` moves a measurement away from the middle of its cell. Where it will move it to what was
measured, a value that is a little off costs nothing, and where it will move it away, a value must
be kept that a search for the middle of cells would drop. So values are chosen again for what was
measured less the move that restoring the first ones made: docs/decisions/0027.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cscodec.bitstream.container import Header
from cscodec.bitstream.steps import WANTED_UNIT, measurement_steps, scaled
from cscodec.bitstream.tiles import Values, Wanted
from cscodec.model import Model
from cscodec.restore.cells import Quantised
from cscodec.restore.filters import filters_for
from cscodec.restore.planes import restore_plane
from cscodec.transform.measure import analyse_plane

# How much of a move will be made again, in 1/256, where a value is zero and where it is not: other
# values are chosen, and so are those around.
_SHARE_OF_ZERO, _SHARE = 180, 150


def foreseen(
    wanted: Sequence[Wanted], values: Sequence[Values], header: Header, model: Model
) -> list[Wanted]:
    """Return what to choose values for, given those that were chosen first.

    Parameters
    ----------
    wanted : sequence of ndarray, (rows, columns, 64) int32
        Measurements of the planes of a tile, in 1/256 of their steps.
    values : sequence of ndarray, (rows, columns, 64) int16
        Chosen for them.
    header : Header
        Of the file.
    model : Model
        As the file uses it: unlapped, if the file is.

    Returns
    -------
    list of ndarray, (rows, columns, 64) int32
        Means and patches at the border of the tile, which are restored with what lies beyond it,
        stay as they are.
    """
    inner = (slice(1, -1), slice(1, -1), slice(1, None))
    targets = []
    for number, (plane, chosen) in enumerate(zip(wanted, values, strict=True)):
        system, name = (model.chroma, "chroma") if number > 0 else (model.luma, "luma")
        step, tilt = header.step_and_tilt(number)
        quantised = Quantised(chosen, step, tilt, header.zero_cell / 64, header.measurements)
        filters = model.filters.get(name)
        restored = restore_plane(
            quantised,
            system,
            "refine",
            filters=None if filters is None else filters_for(filters, step, tilt),
            is_chroma=number > 0,
        )
        measured = analyse_plane(restored, system.analysis, system.lapping)
        moves = scaled(measured, measurement_steps(step, tilt)) - WANTED_UNIT * chosen.astype(
            np.int32
        )
        moves = moves * np.where(chosen == 0, _SHARE_OF_ZERO, _SHARE) >> 8
        target = plane.copy()
        target[inner] -= moves[inner]
        targets.append(target)
    return targets
