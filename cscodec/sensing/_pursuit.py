"""Kernels of :mod:`cscodec.sensing.pursuit`: Batch-OMP, in float32.

Innermost loops run over atoms and never sum along themselves, so they vectorise without changing
the order of any sum: results are the same bits on every CPU. No argument is checked here. Loops are
spelled out rather than written as array expressions, which take several times as long to compile.
"""

from __future__ import annotations

import numpy as np

from cscodec._jit import (
    Array,
    Float32Matrix,
    Float32Vector,
    Float64,
    Float64Vector,
    Int32Matrix,
    Int32Vector,
    helper,
    kernel,
)

# A residual whose best normalised correlation fell to a millionth of the first one is rounding.
_NOTHING_LEFT = np.float32(1e-12)
# An atom of which less than this share of its energy lies outside the span of those chosen before
# is taken as dependent: in float32 its direction would be rounding.
_DEPENDENT = np.float32(1e-5)


@helper
def best_atom(residual: Array, weights: Array, scores: Array, score_bits: Array) -> int:
    """Return the first atom of highest ``residual² * weight``.

    Floats that are not negative order like their bit patterns. Maxima of integers vectorise, those
    of floats, with NaN to respect, do not. Then only one row is left to be searched one by one.
    """
    for j in range(residual.size):
        scores[j] = residual[j] * residual[j] * weights[j]
    highest = np.int32(-1)
    row = 0
    for i in range(score_bits.shape[0]):
        highest_here = np.int32(0)
        for j in range(score_bits.shape[1]):
            highest_here = max(highest_here, score_bits[i, j])
        if highest_here > highest:
            highest = highest_here
            row = i
    column = 0
    last = score_bits.shape[1] - 1  # not to be passed where scores are NaN of negative sign
    while column < last and score_bits[row, column] != highest:
        column += 1
    best: int = row * score_bits.shape[1] + column
    return best


@helper
def subtract_rows(target: Array, factors: Array, rows: Array, num_rows: int) -> None:
    """``target -= factors[:num_rows] @ rows[:num_rows]``."""
    for i in range(0, num_rows - 3, 4):
        a, b, c, d = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
        for j in range(target.size):
            target[j] -= (a * rows[i, j] + b * rows[i + 1, j]) + (
                c * rows[i + 2, j] + d * rows[i + 3, j]
            )
    for i in range(num_rows - num_rows % 4, num_rows):
        a = factors[i]
        for j in range(target.size):
            target[j] -= a * rows[i, j]


@helper
def orthogonalise(
    products: Array,
    factors: Array,
    directions: Array,
    count: int,
    scale: float,
    coordinate: float,
    residual: Array,
) -> None:
    """Make row ``count`` of ``directions`` from an atom's ``products``, and take it off.

    It becomes (``products`` - ``factors`` @ the rows before it) times ``scale``, and ``residual``
    loses ``coordinate`` times it. For the first rows, which all pursuits need, in one go.
    """
    direction = directions[count]
    if count == 0:
        for j in range(residual.size):
            value = products[j] * scale
            direction[j] = value
            residual[j] -= coordinate * value
    elif count == 1:
        first = directions[0]
        a = factors[0]
        for j in range(residual.size):
            value = (products[j] - a * first[j]) * scale
            direction[j] = value
            residual[j] -= coordinate * value
    elif count == 2:
        first, second = directions[0], directions[1]
        a, b = factors[0], factors[1]
        for j in range(residual.size):
            value = ((products[j] - a * first[j]) - b * second[j]) * scale
            direction[j] = value
            residual[j] -= coordinate * value
    else:
        for j in range(residual.size):
            direction[j] = products[j]
        subtract_rows(direction, factors, directions, count)
        for j in range(residual.size):
            direction[j] *= scale
            residual[j] -= coordinate * direction[j]


@helper
def pursue(
    correlations: Float32Matrix,
    gram: Float32Matrix,
    energies: Float64Vector,
    error: Float64,
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
) -> None:
    """Batch-OMP of every row of ``correlations`` (n, L) with at most K atoms, K from ``indices``.

    The chosen atoms are orthogonalised one by one (Gram-Schmidt, in terms of the Gram matrix):
    ``directions[k]`` holds the products of the k-th orthonormal direction with every atom, so that
    the residual's correlations lose ``coordinate * directions[k]``, and the Cholesky factor of the
    chosen atoms' Gram matrix can be read from it. ``weights`` to ``score_bits`` are room: see
    :func:`cscodec.sensing.pursuit.pursuit_room`.
    """
    num_signals, sparsity = indices.shape
    num_atoms = len(gram)
    for j in range(num_atoms):
        weights[j] = np.float32(1) / gram[j, j] if gram[j, j] > 0 else np.float32(0)
    for n in range(num_signals):
        for j in range(num_atoms):
            residual[j] = correlations[n, j]
        remaining = energies[n]
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
            remaining -= coordinate * coordinate
            factor[count, count] = root
            coordinates[count] = coordinate
            indices[n, count] = atom
            if count + 1 < sparsity and remaining > error:
                orthogonalise(
                    gram[atom],
                    factor[count],
                    directions,
                    count,
                    np.float32(1) / root,
                    coordinate,
                    residual,
                )
            count += 1
        for i in range(num_touched):
            weights[touched[i]] = np.float32(1) / gram[touched[i], touched[i]]
        counts[n] = count
        for k in range(count - 1, -1, -1):
            value = coordinates[k]
            for i in range(k + 1, count):
                value -= factor[i, k] * values[n, i]
            values[n, k] = value / factor[k, k]


pursue_kernel = kernel(pursue)
