"""Kernels of :mod:`cscodec.learning.online`: sums over sparse codes, and the atoms' update.

Atoms are rows here (L, N), so that every inner loop runs over contiguous pixels.
"""

from __future__ import annotations

import numpy as np

from cscodec._jit import (
    Float32Matrix,
    Float32Vector,
    Float64,
    Float64Matrix,
    Float64Vector,
    Int32Matrix,
    Int32Vector,
    kernel,
)
from cscodec.sensing._multiply import multiply

#: Atoms whose products with all others are computed together, before any of them changes.
BLOCK = 8
# Atoms with less than this in A_jj were never used, or so long ago that nothing is left of it.
_LEAST = 1e-300


@kernel
def accumulate(
    patches: Float32Matrix,
    indices: Int32Matrix,
    values: Float32Matrix,
    counts: Int32Vector,
    weight: Float64,
    a: Float64Matrix,
    b: Float64Matrix,
    usage: Float64Vector,
) -> None:
    """Add ``weight`` times Σθθᵀ to ``a`` (L, L), Σθxᵀ to ``b`` (L, N), uses to ``usage`` (L,)."""
    num_pixels = patches.shape[1]
    for n in range(len(patches)):
        for k in range(counts[n]):
            atom = indices[n, k]
            value = weight * values[n, k]
            usage[atom] += weight
            for i in range(num_pixels):
                b[atom, i] += value * patches[n, i]
            for other in range(counts[n]):
                a[atom, indices[n, other]] += value * values[n, other]


@kernel
def update_atoms(
    atoms: Float32Matrix,
    a: Float64Matrix,
    b: Float64Matrix,
    shares: Float32Matrix,
    products: Float32Matrix,
    changes: Float32Matrix,
    updated: Float32Vector,
) -> None:
    """One pass of Algorithm 2, erratum mended, over the rows of ``atoms`` (L, N) float32, N even.

    Row j becomes (b_j - Ψa_j) / A_jj + ψ_j, scaled to unit norm; it stays if it was never used.
    The products Ψa_j are formed for a block of atoms at once and then corrected for those of the
    block that have changed already: the same result, with fewer loads. Dividing by A_jj first keeps
    float32 in range however far forgetting has shrunk A. ``shares`` (BLOCK, L), zeros, ``products``
    and ``changes`` (BLOCK, N) and ``updated`` (N,) are room.
    """
    num_atoms, num_pixels = atoms.shape
    for start in range(0, num_atoms, BLOCK):
        size = min(BLOCK, num_atoms - start)
        for k in range(size):
            scale = a[start + k, start + k]
            inverse = 1 / scale if scale > _LEAST else 0.0
            for i in range(num_atoms):
                shares[k, i] = a[start + k, i] * inverse
        multiply(shares, atoms, products)
        for k in range(size):
            j = start + k
            for i in range(num_pixels):
                changes[k, i] = 0
            if not a[j, j] > _LEAST:
                continue
            inverse = 1 / a[j, j]
            for i in range(num_pixels):
                updated[i] = b[j, i] * inverse - products[k, i] + atoms[j, i]
            for earlier in range(k):
                share = shares[k, start + earlier]
                for i in range(num_pixels):
                    updated[i] -= share * changes[earlier, i]
            even, odd = 0.0, 0.0
            for i in range(0, num_pixels, 2):
                even += float(updated[i]) * float(updated[i])
                odd += float(updated[i + 1]) * float(updated[i + 1])
            energy = even + odd
            if not (energy > 0 and energy < np.inf):
                continue
            scale = 1 / np.sqrt(energy)
            for i in range(num_pixels):
                value = np.float32(updated[i] * scale)
                changes[k, i] = value - atoms[j, i]
                atoms[j, i] = value
