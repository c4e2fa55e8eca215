"""Steps and quantisation: measurements in an orthonormal basis to integers and back.

The mean is quantised with a step Δ, stored in 1/64; the steps of the measurements after it grow by
a tilt. The basis being orthonormal, an error of Δ in a measurement is an error of Δ in the picture,
whichever measurement it is: without a tilt, the squared error is least. But the eye sees errors of
the later measurements, which are finer detail, less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array
from cscodec.errors import InvalidInputError
from cscodec.layout import NUM_MEASUREMENTS

STEP_UNIT = 64  #: steps are stored as multiples of 1/64
MIN_STEP = 0.25
MAX_STEP = 1000.0
TILT_UNIT = 32  #: tilts are stored as multiples of 1/32
MUCH_TILT = 0.5  #: from here on, a file is made for the eye, and restored by filters for such
WANTED_UNIT = 256  #: the encoder decides on measurements in 1/256 of a step


def step_code(step: float) -> int:
    """Return a step as the file stores it.

    Raises
    ------
    InvalidInputError
        If the step is outside 0.25..1000.
    """
    if not MIN_STEP <= step <= MAX_STEP:
        raise InvalidInputError(f"step is {step:g}; allowed are {MIN_STEP:g} to {MAX_STEP:g}")
    return round(step * STEP_UNIT)


def measurement_steps(step: float, tilt: float) -> Float32Array:
    """Return the step of every measurement.

    Parameters
    ----------
    step : float
        Δ, that of the mean.
    tilt : float
        The last measurement's step is (1 + tilt) Δ.

    Returns
    -------
    ndarray, (64,) float32
        Δ (1 + tilt √(i / 63)) for measurement i.
    """
    place = np.arange(NUM_MEASUREMENTS) / (NUM_MEASUREMENTS - 1)
    return (step * (1 + tilt * np.sqrt(place))).astype(np.float32)


def scaled(measurements: npt.NDArray[Any], steps: Float32Array) -> npt.NDArray[np.int32]:
    """Return measurements in 1/256 of their steps, rounded: (..., 64) float32 to int32."""
    wanted: npt.NDArray[np.int32] = np.rint(measurements * (WANTED_UNIT / steps)).astype(np.int32)
    return wanted


def dequantize(values: npt.NDArray[np.int16], steps: Float32Array) -> Float32Array:
    """Return the centres of the quantisation cells of the first measurements, (..., m), float32."""
    return values.astype(np.float32) * steps[: values.shape[-1]]
