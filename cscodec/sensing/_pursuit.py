"""Kernels of :mod:`cscodec.sensing.pursuit`: correlations, Batch-OMP, sums of atoms.

Loops over atoms or pixels are innermost and never a reduction of floats, so they vectorise without
changing the order of any sum: results are the same bits on every CPU. No argument is checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cscodec._jit import inline_kernel, kernel

Array = npt.NDArray[Any]

# A residual whose best normalised correlation fell to a millionth of the first one is rounding.
_NOTHING_LEFT = np.float32(1e-12)
# An atom of which less than this share of its energy lies outside the span of those chosen before
# is taken as dependent: in float32 its direction would be rounding.
_DEPENDENT = np.float32(1e-5)


@kernel
def multiply(left: Array, right: Array, product: Array) -> None:
    """``product = left @ right`` for (n, N) and (N, L), summed in the order of N."""
    num_rows, depth = left.shape
    for row in range(num_rows):
        target = product[row]
        target[:] = 0
        for start in range(0, depth - 3, 4):
            a, b, c, d = left[row, start : start + 4]
            right_a, right_b = right[start], right[start + 1]
            right_c, right_d = right[start + 2], right[start + 3]
            for j in range(target.size):
                target[j] = (
                    target[j] + a * right_a[j] + b * right_b[j] + c * right_c[j] + d * right_d[j]
                )
        for i in range(depth - depth % 4, depth):
            a = left[row, i]
            right_a = right[i]
            for j in range(target.size):
                target[j] += a * right_a[j]


@inline_kernel
def best_atom(residual: Array, weights: Array, scores: Array, score_bits: Array) -> Any:
    """Return the first atom of highest ``residual² * weight``.

    Floats that are not negative order like their bit patterns. Maxima of integers vectorise where
    maxima of floats, with NaN to respect, do not.
    """
    for j in range(residual.size):
        scores[j] = residual[j] * residual[j] * weights[j]
    highest = np.int32(0)
    for j in range(residual.size):
        highest = max(highest, score_bits[j])
    best = np.int32(residual.size - 1)
    for j in range(residual.size):
        best = min(best, np.int32(j) if score_bits[j] == highest else best)
    return best


@inline_kernel
def subtract_rows(target: Array, rows: Array, factors: Array, num_rows: int) -> None:
    """``target -= factors[i] * rows[i]`` for the first ``num_rows``, in their order."""
    start = 0
    while start + 4 <= num_rows:
        a, b, c, d = factors[start], factors[start + 1], factors[start + 2], factors[start + 3]
        row_a, row_b, row_c, row_d = rows[start], rows[start + 1], rows[start + 2], rows[start + 3]
        for j in range(target.size):
            target[j] = target[j] - a * row_a[j] - b * row_b[j] - c * row_c[j] - d * row_d[j]
        start += 4
    while start < num_rows:
        a = factors[start]
        row_a = rows[start]
        for j in range(target.size):
            target[j] -= a * row_a[j]
        start += 1


@kernel
def pursue(
    correlations: Array,
    gram: Array,
    energies: Array,
    error: float,
    sparsity: int,
    indices: Array,
    values: Array,
    counts: Array,
) -> None:
    """Batch-OMP of every row of ``correlations`` (n, L), all in float32.

    The chosen atoms are orthogonalised one by one (modified Gram-Schmidt, in terms of the Gram
    matrix): ``directions[k]`` holds the products of the k-th orthonormal direction with every atom,
    so that the residual's correlations lose ``coordinate * directions[k]``, and the Cholesky factor
    of the chosen atoms' Gram matrix can be read from it.
    """
    num_signals, num_atoms = correlations.shape
    weights = np.zeros(num_atoms, np.float32)
    for j in range(num_atoms):
        if gram[j, j] > 0:
            weights[j] = np.float32(1) / gram[j, j]
    residual = np.empty(num_atoms, np.float32)
    scores = np.empty(num_atoms, np.float32)
    score_bits = scores.view(np.int32)
    directions = np.empty((sparsity, num_atoms), np.float32)
    factor = np.empty((sparsity, sparsity), np.float32)
    coordinates = np.empty(sparsity, np.float32)
    touched = np.empty(num_atoms, np.int32)
    for n in range(num_signals):
        residual[:] = correlations[n]
        remaining = float(energies[n])
        count = 0
        num_touched = 0
        floor = np.float32(0)
        while count < sparsity and remaining > error and num_touched < num_atoms:
            atom = best_atom(residual, weights, scores, score_bits)
            if num_touched == 0:
                floor = scores[atom] * _NOTHING_LEFT
            if not scores[atom] > floor:
                break
            energy = gram[atom, atom]
            pivot = energy
            for i in range(count):
                factor[count, i] = directions[i, atom]
                pivot -= factor[count, i] * factor[count, i]
            weights[atom] = 0  # never twice, nor again if dependent
            touched[num_touched] = atom
            num_touched += 1
            if not pivot > _DEPENDENT * energy:
                continue
            root = np.sqrt(pivot)
            coordinate = residual[atom] / root
            remaining -= float(coordinate) * float(coordinate)
            factor[count, count] = root
            coordinates[count] = coordinate
            indices[n, count] = atom
            if count + 1 < sparsity and remaining > error:
                direction = directions[count]
                direction[:] = gram[atom]
                subtract_rows(direction, directions, factor[count], count)
                scale = np.float32(1) / root
                for j in range(num_atoms):
                    direction[j] *= scale
                    residual[j] -= coordinate * direction[j]
            count += 1
        for i in range(num_touched):
            weights[touched[i]] = np.float32(1) / gram[touched[i], touched[i]]
        counts[n] = count
        for k in range(count - 1, -1, -1):
            value = coordinates[k]
            for i in range(k + 1, count):
                value -= factor[i, k] * values[n, i]
            values[n, k] = value / factor[k, k]
