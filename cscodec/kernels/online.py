"""Kernels of online learning: sparse codes and sums over them, and the atoms' update.

Atoms are rows here (L, N), so that every inner loop runs over contiguous pixels.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from cscodec.kernels.declaration import Array, Float64, float32, float64, helper, kernel
from cscodec.kernels.multiply import multiply
from cscodec.kernels.pursuit import Codes, PursuitRoom, pursue

#: Atoms whose products with all others are computed together, before any of them changes.
BLOCK = 8
# Atoms with less than this in A_jj were never used, or so long ago that nothing is left of it.
_LEAST = 1e-300


class Sums(NamedTuple):
    """Σθθᵀ, Σθxᵀ, and how often each atom was used."""

    a: Annotated[Array, float64["num_atoms", "num_atoms"].out]
    b: Annotated[Array, float64["num_atoms", 64].out]
    usage: Annotated[Array, float64["num_atoms"].out]


@helper
def accumulate(patches: Array, codes: Codes, weight: float, sums: Sums) -> None:
    """Add ``weight`` times the sums over coded patches."""
    indices, values, counts = codes
    a, b, usage = sums
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
    atoms: Annotated[Array, float32["num_atoms", 64]],
    metric: Annotated[Array, float32[64, 64]],
    columns: Annotated[Array, float32[64, "num_atoms"].out],
    projector: Annotated[Array, float32[64, "num_atoms"].out],
    gram: Annotated[Array, float32["num_atoms", "num_atoms"].out],
) -> None:
    """``projector`` = WΨ and ``gram`` = ΨᵀWΨ, W being ``metric``, Ψᵀ ``atoms``.

    ``columns`` is room for Ψ.
    """
    for i in range(atoms.shape[1]):
        for j in range(atoms.shape[0]):
            columns[i, j] = atoms[j, i]
    multiply(metric, columns, projector)
    multiply(atoms, projector, gram)


@kernel
def code_patches(
    patches: Annotated[Array, float32["num_patches", 64]],
    projector: Annotated[Array, float32[64, "num_atoms"]],
    gram: Annotated[Array, float32["num_atoms", "num_atoms"]],
    weight: Float64,
    correlations: Annotated[Array, float32["n", "num_atoms"].out],
    energies: Annotated[Array, float64["n"]],
    room: PursuitRoom,
    codes: Codes,
    sums: Sums,
) -> None:
    """Code ``patches`` and add them, times ``weight``, to ``sums``.

    As many at a time as ``correlations`` has rows. ``energies`` are infinite: pursuit ends when a
    patch has K atoms. ``correlations``, ``room`` and ``codes`` are room.
    """
    group_size = len(correlations)
    for first in range(0, len(patches), group_size):
        size = min(group_size, len(patches) - first)
        group = patches[first : first + size]
        multiply(group, projector, correlations)
        pursue(correlations, gram, energies, 0.0, room, codes, size)
        accumulate(group, codes, weight, sums)


@kernel
def update_atoms(
    atoms: Annotated[Array, float32["num_atoms", 64].out],
    a: Annotated[Array, float64["num_atoms", "num_atoms"]],
    b: Annotated[Array, float64["num_atoms", 64]],
    shares: Annotated[Array, float32[BLOCK, "num_atoms"].out],
    products: Annotated[Array, float32[BLOCK, 64].out],
    changes: Annotated[Array, float32[BLOCK, 64].out],
    updated: Annotated[Array, float32[64].out],
    damping: Annotated[Array, float32["num_damped", 64]],
    product: Annotated[Array, float32[64].out],
) -> None:
    """One pass of Algorithm 2 over the rows of ``atoms``.

    Row j becomes (b_j - Ψa_j) / A_jj + ψ_j, plus ``damping``, a symmetric matrix, times Ψa_j / A_jj
    if it has rows at all, and is scaled to unit norm; it stays if it was never used.
    The products Ψa_j are formed for a block of atoms at once and then corrected for those of the
    block that have changed already: the same result, with fewer loads. Dividing by A_jj first keeps
    float32 in range however far forgetting has shrunk A. ``shares``, zeros, ``products``,
    ``changes``, ``updated`` and ``product`` are room.
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
            for i in range(num_pixels):
                product[i] = b[j, i] * inverse + atoms[j, i] - updated[i]
            for row in range(len(damping)):
                part = product[row]
                for i in range(num_pixels):
                    updated[i] += part * damping[row, i]
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
