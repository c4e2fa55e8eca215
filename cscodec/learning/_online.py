"""Kernels of :mod:`cscodec.learning.online`: sums over sparse codes, and the atoms' update.

Atoms are rows here (L, N), so that every inner loop runs over contiguous pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec._jit import kernel

Array = npt.NDArray[Any]


@kernel
def accumulate(
    patches: Array, indices: Array, values: Array, counts: Array, a: Array, b: Array, usage: Array
) -> None:
    """Add Σθθᵀ to ``a`` (L, L), Σθxᵀ to ``b`` (L, N) and the atoms' uses to ``usage`` (L,)."""
    for n in range(len(patches)):
        for k in range(counts[n]):
            atom = indices[n, k]
            value = float(values[n, k])
            usage[atom] += 1
            row = b[atom]
            for i in range(row.size):
                row[i] += value * patches[n, i]
            for other in range(counts[n]):
                a[atom, indices[n, other]] += value * values[n, other]


@kernel
def update_atoms(atoms: Array, a: Array, b: Array) -> None:
    """One pass of Algorithm 2, erratum mended, over the rows of ``atoms`` (L, N) float32.

    Row j becomes b_j / A_jj - Σ_i ψ_i A_ij / A_jj + ψ_j, scaled to unit norm. Dividing by A_jj
    first keeps float32 in range however far forgetting has shrunk A. Atoms never used stay.
    """
    num_atoms, num_pixels = atoms.shape
    shares = np.empty(num_atoms, np.float32)
    updated = np.empty(num_pixels, np.float32)
    for j in range(num_atoms):
        scale = a[j, j]
        if not scale > 0:
            continue
        for i in range(num_atoms):
            shares[i] = a[j, i] / scale
        shares[j] = 0
        for i in range(num_pixels):
            updated[i] = b[j, i] / scale
        for first in range(0, num_atoms - 3, 4):
            s, t, u, v = shares[first : first + 4]
            row_s, row_t = atoms[first], atoms[first + 1]
            row_u, row_v = atoms[first + 2], atoms[first + 3]
            for i in range(num_pixels):
                updated[i] = updated[i] - s * row_s[i] - t * row_t[i] - u * row_u[i] - v * row_v[i]
        for first in range(num_atoms - num_atoms % 4, num_atoms):
            s = shares[first]
            row_s = atoms[first]
            for i in range(num_pixels):
                updated[i] -= s * row_s[i]
        energy = 0.0
        for i in range(num_pixels):
            energy += float(updated[i]) * float(updated[i])
        if not (energy > 0 and energy < np.inf):
            continue
        norm = np.float32(np.sqrt(energy))
        for i in range(num_pixels):
            atoms[j, i] = updated[i] / norm
