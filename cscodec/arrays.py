"""Types of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
#: Samples of 8 bits: (H, W), or with channels last.
Pixels = npt.NDArray[np.uint8]
