"""Sparse coding and dictionary updates over a whole training set, with or without Φ.

All rivals minimise, over Ψ and Θ, a weighted representation error

    σ(Ψ, Θ) = γ‖X - ΨΘ‖² + ‖Φ(X - ΨΘ)‖² = Σ rᵀ W r,   W = γI + ΦᵀΦ,

(paper, eq. "dictionary_involve_projection"; W = I is the usual dictionary learning). Only W is
needed, never the stacked system, and one K-SVD and one MOD serve them all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, eigh, solve_triangular

from cscodec.arrays import Float32Array, Float64Array
from cscodec.errors import InvalidInputError
from cscodec.layout import PATCH_PIXELS
from cscodec.learning.rivals.training_set import CHUNK_PATCHES, scatter_matrix
from cscodec.sensing.pursuit import SparseCodes, omp_gram

MAX_CORRELATION = 0.99  #: of two atoms; beyond it one of them is superfluous
MIN_USERS = 4  #: patches that must use an atom for it to stay

PLAIN_WEIGHT: Float64Array = np.eye(PATCH_PIXELS)  #: W of learning without a sensing matrix


def error_weight(sensing_matrix: npt.NDArray[np.floating] | None, gamma: float) -> Float64Array:
    """Return W = γI + ΦᵀΦ, (64, 64) float64; γI without a sensing matrix.

    Raises
    ------
    InvalidInputError
        If gamma is not positive: W would be singular and Ψ undetermined.
    """
    if not 0 < gamma < np.inf:
        raise InvalidInputError(f"gamma is {gamma}; it must be positive and finite")
    weight: Float64Array = gamma * np.eye(PATCH_PIXELS)
    if sensing_matrix is not None:
        weight += sensing_matrix.T @ sensing_matrix
    return weight


def sparse_code(
    patches: Float32Array, dictionary: Float64Array, weight: Float64Array, sparsity: int
) -> SparseCodes:
    """Code every patch with at most ``sparsity`` atoms by OMP in the metric W.

    Same as OMP on the stacked system [√γ Ψ; ΦΨ] (paper, eq. "sparse_coding").
    """
    weighted = weight @ dictionary
    gram = (dictionary.T @ weighted).astype(np.float32)
    projector = weighted.astype(np.float32)
    parts = [
        omp_gram(patches[start : start + CHUNK_PATCHES] @ projector, gram, sparsity=sparsity)
        for start in range(0, len(patches), CHUNK_PATCHES)
    ]
    return SparseCodes(
        indices=np.concatenate([part.indices for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        counts=np.concatenate([part.counts for part in parts]),
    )


def residuals(patches: Float32Array, dictionary: Float64Array, codes: SparseCodes) -> Float32Array:
    """Return X - ΨΘ, one row per patch, (num_patches, 64) float32."""
    remainder = patches - codes.reconstruct(dictionary.astype(np.float32))
    return remainder.astype(np.float32, copy=False)


def objective(
    patches: Float32Array, dictionary: Float64Array, codes: SparseCodes, weight: Float64Array
) -> float:
    """Return σ(Ψ, Θ) per patch, in squared gray levels."""
    remainder = residuals(patches, dictionary, codes)
    return float(np.sum(scatter_matrix(remainder) * weight)) / len(patches)


def ksvd_update(
    patches: Float32Array,
    dictionary: Float64Array,
    codes: SparseCodes,
    weight: Float64Array,
    rng: np.random.Generator,
) -> tuple[Float64Array, SparseCodes]:
    """One round of coupled K-SVD: every atom and its coefficients become jointly optimal.

    With C the Cholesky factor of W, the best rank-one fit of C R (R: what the atom's users need
    from it) is its leading singular pair, and the atom is C⁻¹ times the left vector: the update
    of Duarte-Carvajalino & Sapiro, without forming the stacked system. No update raises σ.

    Returns
    -------
    dictionary : ndarray, (64, L) float64
        Columns of unit norm.
    codes : SparseCodes
        The same supports, new values. An atom that no patch uses becomes the worst represented
        patch.
    """
    dictionary = dictionary.copy()
    remainder = residuals(patches, dictionary, codes)
    values = codes.values.astype(np.float32)
    order, starts = _users(codes, dictionary.shape[1])
    factor = cholesky(weight)  # upper: W = CᵀC
    unused = []
    for atom in rng.permutation(dictionary.shape[1]):
        entries = order[starts[atom] : starts[atom + 1]]
        if not len(entries):
            unused.append(atom)
            continue
        rows = entries // values.shape[1]
        coefficients = values.ravel()[entries]
        column = dictionary[:, atom].astype(np.float32)
        needed = remainder[rows] + np.outer(coefficients, column)
        scatter = factor @ scatter_matrix(needed) @ factor.T
        last = len(scatter) - 1
        _, leading = eigh(scatter, subset_by_index=(last, last), check_finite=False)
        update = solve_triangular(factor, leading[:, 0], check_finite=False)
        update /= np.linalg.norm(update)
        column = update.astype(np.float32)
        projector = weight @ update / (update @ weight @ update)
        coefficients = needed @ projector.astype(np.float32)
        dictionary[:, atom] = update
        values.ravel()[entries] = coefficients
        remainder[rows] = needed - np.outer(coefficients, column)
    if unused:
        _fill(dictionary, np.array(unused), patches, remainder, weight)
    return dictionary, replace(codes, values=values)


def mod_update(
    patches: Float32Array, dictionary: Float64Array, codes: SparseCodes
) -> tuple[Float64Array, SparseCodes]:
    """Method of optimal directions: Ψ = XΘᵀ(ΘΘᵀ)⁻¹, the minimiser of σ for fixed Θ.

    It is the minimiser for every Φ and γ alike, because σ = ‖W^½(X - ΨΘ)‖² and W is invertible.
    Columns are then brought to unit norm and the coefficients scaled against it, which leaves
    ΨΘ, and so σ, unchanged. Unused atoms stay as they are.
    """
    num_atoms = dictionary.shape[1]
    gram = np.zeros((num_atoms, num_atoms))
    cross = np.zeros((PATCH_PIXELS, num_atoms))
    for start in range(0, len(patches), CHUNK_PATCHES):
        chunk = slice(start, start + CHUNK_PATCHES)
        dense = replace(
            codes,
            indices=codes.indices[chunk],
            values=codes.values[chunk],
            counts=codes.counts[chunk],
        ).to_dense(num_atoms)
        gram += dense.T @ dense
        cross += patches[chunk].T @ dense
    solution = np.linalg.lstsq(gram, cross.T, rcond=None)[0].T  # ΘΘᵀ may well be singular
    norms = np.linalg.norm(solution, axis=0)
    alive = norms > 1e-9 * norms.max(initial=0.0)
    dictionary = np.where(alive, solution / np.where(alive, norms, 1.0), dictionary)
    scales = np.append(np.where(alive, norms, 0.0), 0.0)  # the last serves the padding index -1
    values = (codes.values * scales[codes.indices]).astype(np.float32)
    return dictionary, replace(codes, values=values)


def replace_weak_atoms(
    patches: Float32Array, dictionary: Float64Array, codes: SparseCodes, weight: Float64Array
) -> Float64Array:
    """Put the worst represented patches in place of atoms that are duplicates or hardly used."""
    _, starts = _users(codes, dictionary.shape[1])
    similar = np.abs(np.triu(dictionary.T @ dictionary, k=1)) > MAX_CORRELATION
    weak = np.flatnonzero(similar.any(axis=0) | (np.diff(starts) < MIN_USERS))
    dictionary = dictionary.copy()
    if len(weak):
        _fill(dictionary, weak, patches, residuals(patches, dictionary, codes), weight)
    return dictionary


def _users(codes: SparseCodes, num_atoms: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    # Entries of the flattened codes sorted by atom, and where each atom's entries begin.
    flat = codes.indices.ravel()
    order = np.argsort(flat, kind="stable")
    return order, np.searchsorted(flat[order], np.arange(num_atoms + 1))


def _fill(
    dictionary: Float64Array,
    columns: npt.NDArray[np.intp],
    patches: Float32Array,
    remainder: Float32Array,
    weight: Float64Array,
) -> None:
    errors = np.einsum("ij,ij->i", remainder @ weight.astype(np.float32), remainder)
    columns = columns[: len(patches)]
    worst = np.argsort(-errors, kind="stable")[: len(columns)]
    chosen = patches[worst].astype(np.float64)
    dictionary[:, columns] = (chosen / np.linalg.norm(chosen, axis=1, keepdims=True)).T
