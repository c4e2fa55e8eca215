"""Kernels of :mod:`cscodec.learning.online`: sparse codes and sums over them, and the atoms'
update.

Atoms are rows here (L, N), so that every inner loop runs over contiguous pixels.
"""

from __future__ import annotations

import numpy as np

from cscodec._jit import (
    Array,
    Float32Matrix,
    Float32Vector,
    Float64,
    Float64Matrix,
    Float64Vector,
    Int32Matrix,
    Int32Vector,
    helper,
    kernel,
)
from cscodec.sensing._multiply import multiply
from cscodec.sensing._pursuit import pursue

#: Atoms whose products with all others are computed together, before any of them changes.
BLOCK = 8
# Atoms with less than this in A_jj were never used, or so long ago that nothing is left of it.
_LEAST = 1e-300


@helper
def accumulate(
    patches: Array,
    indices: Array,
    values: Array,
    counts: Array,
    weight: float,
    a: Array,
    b: Array,
    usage: Array,
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
def weigh_atoms(
    atoms: Float32Matrix,
    metric: Float32Matrix,
    columns: Float32Matrix,
    projector: Float32Matrix,
    gram: Float32Matrix,
) -> None:
    """``projector`` = WΨ (N, L) and ``gram`` = ΨᵀWΨ, W being ``metric``, Ψᵀ ``atoms`` (L, N).

    ``columns`` (N, L) is room for Ψ.
    """
    for i in range(atoms.shape[1]):
        for j in range(atoms.shape[0]):
            columns[i, j] = atoms[j, i]
    multiply(metric, columns, projector)
    multiply(atoms, projector, gram)


@kernel
def code_patches(
    patches: Float32Matrix,
    projector: Float32Matrix,
    gram: Float32Matrix,
    weight: Float64,
    correlations: Float32Matrix,
    energies: Float64Vector,
    weights: Float32Vector,
    residual: Float32Vector,
    directions: Float32Matrix,
    factor: Float32Matrix,
    coordinates: Float32Vector,
    touched: Int32Vector,
    scores: Float32Vector,
    score_bits: Int32Matrix,
    indices: Int32Matrix,
    values: Float32Matrix,
    counts: Int32Vector,
    a: Float64Matrix,
    b: Float64Matrix,
    usage: Float64Vector,
) -> None:
    """Code ``patches`` (n, N) and add them, times ``weight``, to ``a``, ``b`` and ``usage``.

    As many at a time as ``correlations`` (G, L) has rows. ``energies`` (G,) are infinite: pursuit
    ends when a patch has K atoms. From ``correlations`` to ``counts``, arguments are room.
    """
    group_size = len(correlations)
    for first in range(0, len(patches), group_size):
        size = min(group_size, len(patches) - first)
        group = patches[first : first + size]
        multiply(group, projector, correlations)
        pursue(
            correlations[:size],
            gram,
            energies,
            0.0,
            weights,
            residual,
            directions,
            factor,
            coordinates,
            touched,
            scores,
            score_bits,
            indices[:size],
            values,
            counts,
        )
        accumulate(group, indices, values, counts, weight, a, b, usage)


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
