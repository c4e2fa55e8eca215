"""Kernels of Orthogonal Matching Pursuit: Batch-OMP, in float32.

Innermost loops run over atoms and never sum along themselves, so they vectorise without changing
the order of any sum: results are the same bits on every CPU. Loops are spelled out rather than
written as array expressions, which take several times as long to compile.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from cscodec.kernels.declaration import (
    Array,
    Float64,
    float32,
    float64,
    helper,
    inline_here,
    int32,
    kernel,
)

# A residual whose best normalised correlation fell to a millionth of the first one is rounding.
_NOTHING_LEFT = np.float32(1e-12)
# An atom of which less than this share of its energy lies outside the span of those chosen before
# is taken as dependent: in float32 its direction would be rounding.
_DEPENDENT = np.float32(1e-5)


class Codes(NamedTuple):
    """Sparse codes of n signals with at most K atoms each: atoms, coefficients, their number."""

    indices: Annotated[Array, int32["n", "sparsity"].out]
    values: Annotated[Array, float32["n", "sparsity"].out]
    counts: Annotated[Array, int32["n"].out]


class PursuitRoom(NamedTuple):
    """What the pursuit of signals, one after the other, works in.

    Attributes
    ----------
    weights, residual
        By atom: 1 / squared norm, 0 for those that are out; correlation with the residual.
    directions
        By atom chosen: the products of its orthonormal direction with every atom.
    factor, coordinates
        Cholesky factor of the chosen atoms' Gram matrix; the signal in their directions.
    touched
        Atoms whose weights have to be restored.
    scores, score_bits
        Zeros beyond the atoms, 64 to a row; the same memory as numbers and as bit patterns.
    """

    weights: Annotated[Array, float32["num_atoms"].out]
    residual: Annotated[Array, float32["num_atoms"].out]
    directions: Annotated[Array, float32["sparsity", "num_atoms"].out]
    factor: Annotated[Array, float32["sparsity", "sparsity"].out]
    coordinates: Annotated[Array, float32["sparsity"].out]
    touched: Annotated[Array, int32["num_atoms"].out]
    scores: Annotated[Array, float32["64 * score_rows"].out]
    score_bits: Annotated[Array, int32["score_rows", 64].out]

    @classmethod
    def of(cls, num_atoms: int, sparsity: int) -> PursuitRoom:
        """Make room for signals of at most ``sparsity`` atoms."""
        scores = np.zeros(-(-num_atoms // 64) * 64, np.float32)
        return cls(
            np.empty(num_atoms, np.float32),
            np.empty(num_atoms, np.float32),
            np.empty((sparsity, num_atoms), np.float32),
            np.empty((sparsity, sparsity), np.float32),
            np.empty(sparsity, np.float32),
            np.empty(num_atoms, np.int32),
            scores,
            scores.view(np.int32).reshape(-1, 64),
        )


@helper
def best_atom(residual: Array, weights: Array, scores: Array, score_bits: Array) -> int:
    """Return the first atom of highest ``residual² * weight``.

    Floats that are not negative order like their bit patterns. Maxima of integers vectorise, those
    of floats, with NaN to respect, do not. Then only one row is left to be searched one by one.
    """
    for j in range(min(residual.size, scores.size)):
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
    correlations: Array, gram: Array, energies: Array, error: Float64, room: PursuitRoom,
    codes: Codes, num_signals: int,
) -> None:  # fmt: skip
    """Batch-OMP of the first rows of ``correlations`` (n, L) with at most K atoms each.

    The chosen atoms are orthogonalised one by one (Gram-Schmidt, in terms of the Gram matrix):
    ``directions[k]`` holds the products of the k-th orthonormal direction with every atom, so that
    the residual's correlations lose ``coordinate * directions[k]``, and the Cholesky factor of the
    chosen atoms' Gram matrix can be read from it.
    """
    weights = room.weights
    for j in range(len(gram)):
        weights[j] = np.float32(1) / gram[j, j] if gram[j, j] > 0 else np.float32(0)
    for n in range(num_signals):
        for j in range(len(gram)):
            room.residual[j] = correlations[n, j]
        _pursue_one(gram, energies[n], error, room, codes, n)


@helper
def _pursue_one(
    gram: Array, remaining: float, error: float, room: PursuitRoom, codes: Codes, n: int
) -> None:
    """Code the signal whose correlations are in ``residual``, and put ``weights`` back.

    ``remaining`` is the signal's squared norm.
    """
    inline_here()
    weights, residual, directions, factor, coordinates, touched, scores, score_bits = room
    sparsity = codes.indices.shape[1]
    count = 0
    num_touched = 0
    floor = np.float32(0)
    while count < sparsity and remaining > error and num_touched < len(gram):
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
        codes.indices[n, count] = atom
        if count + 1 < sparsity and remaining > error:
            scale = np.float32(1) / root
            orthogonalise(gram[atom], factor[count], directions, count, scale, coordinate, residual)
        count += 1
    for i in range(num_touched):
        weights[touched[i]] = np.float32(1) / gram[touched[i], touched[i]]
    codes.counts[n] = count
    for k in range(count - 1, -1, -1):
        value = coordinates[k]
        for i in range(k + 1, count):
            value -= factor[i, k] * codes.values[n, i]
        codes.values[n, k] = value / factor[k, k]


@kernel
def pursue_correlations(
    correlations: Annotated[Array, float32["n", "num_atoms"]],
    gram: Annotated[Array, float32["num_atoms", "num_atoms"]],
    energies: Annotated[Array, float64["n"]],
    error: Float64,
    room: PursuitRoom,
    codes: Codes,
) -> None:
    """Code signals by their correlations with the atoms: see :func:`pursue`."""
    pursue(correlations, gram, energies, error, room, codes, len(correlations))
