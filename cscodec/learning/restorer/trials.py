"""How well a network restores whole planes: what training reports on its way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from cscodec.layout import PATCH_PIXELS, PATCH_SIZE
from cscodec.learning.restorer.network import Restorer, project
from cscodec.sensing.restorer import MIDDLE, inverse_and_projection

Uint8Array = npt.NDArray[np.uint8]
Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Trial:
    """Planes to restore from the first m measurements of a matrix."""

    name: str
    planes: list[Uint8Array]
    sensing_matrix: Float32Array
    device: torch.device


def improve_by_torch(
    network: Restorer, plane: Uint8Array, sensing_matrix: Float32Array, device: torch.device
) -> Float32Array:
    """Sense a plane, (H, W), and restore it; neither rounded nor clipped."""
    height, width = plane.shape
    padding = ((0, -height % PATCH_SIZE), (0, -width % PATCH_SIZE))
    pixels = np.pad(plane, padding, mode="edge").astype(np.float32) - MIDDLE
    projection = torch.from_numpy(inverse_and_projection(sensing_matrix)[1])[None].to(device)
    share = torch.tensor([(len(sensing_matrix) + 1) / PATCH_PIXELS], device=device)
    linear = project(torch.from_numpy(pixels)[None, None].to(device), projection)
    with torch.inference_mode():
        found: Float32Array = network(linear, projection, share)[0, 0].cpu().numpy()
    restored: Float32Array = found[:height, :width] + MIDDLE
    return restored


def mean_psnr_db(network: Restorer, trial: Trial) -> float:
    """Return the mean PSNR (dB, 8 bits) over the planes of a trial."""
    values = []
    for plane in trial.planes:
        restored = improve_by_torch(network, plane, trial.sensing_matrix, trial.device)
        pixels = np.clip(np.rint(restored), 0, 255)
        error = np.mean(np.square(pixels - plane.astype(np.float64)))
        values.append(10 * np.log10(255**2 / max(error, 1e-9)))
    return float(np.mean(values))
