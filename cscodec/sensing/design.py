"""The sensing matrix that belongs to a dictionary, in closed form (the paper's Theorem 1).

Φ = φ(Ψ) minimises ||I - ΨᵀΦᵀΦΨ||², the mean coherence of the equivalent dictionary ΦΨ, and has
the least energy ||Φ||² of all minimisers. Its rows are ordered by singular value: the first m rows
of φ(Ψ) are φ(Ψ) for m measurements, so one matrix serves every smaller number of measurements.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float64Array
from cscodec.errors import InvalidInputError


def design_sensing_matrix(dictionary: npt.ArrayLike, num_measurements: int) -> Float64Array:
    """Return φ(Ψ), Theorem 1 with U_M = I (eq. 9).

    Parameters
    ----------
    dictionary : array_like, (N, L)
        Ψ, finite. Columns need not have unit norm.
    num_measurements : int
        M, 1..N.

    Returns
    -------
    ndarray, (M, N) float64
        Row i is u_i / λ_i with singular value λ_i and left singular vector u_i of Ψ, by falling
        λ_i; the entry of largest magnitude of every row is positive. Rows beyond the rank of Ψ
        are zero (case II of the theorem: no further measurement lowers the objective).

    Raises
    ------
    InvalidInputError
        If Ψ is not a finite matrix or M is out of range.
    """
    psi = _checked_matrix("dictionary", dictionary)
    num_pixels = psi.shape[0]
    if not 1 <= num_measurements <= num_pixels:
        raise InvalidInputError(
            f"num_measurements is {num_measurements}; allowed are 1..{num_pixels}"
        )
    left_vectors, singular_values, _ = np.linalg.svd(psi, full_matrices=False)
    # The same tolerance as numpy.linalg.matrix_rank. Float32 dictionaries of zero-mean atoms have
    # a last singular value of rounding size, which must count as zero: hence the input's epsilon.
    epsilon = np.finfo(np.result_type(np.asarray(dictionary).dtype, np.float32)).eps
    rank = int(np.sum(singular_values > singular_values[0] * max(psi.shape) * epsilon))
    num_rows = min(num_measurements, rank)
    rows = left_vectors[:, :num_rows].T / singular_values[:num_rows, None]
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    phi = np.zeros((num_measurements, num_pixels))
    phi[:num_rows] = rows * np.sign(largest)
    return phi


def coherence_objective(sensing_matrix: npt.ArrayLike, dictionary: npt.ArrayLike) -> float:
    """Return ||I - ΨᵀΦᵀΦΨ||², the objective of Theorem 1 (eq. 5, inner problem).

    Parameters
    ----------
    sensing_matrix : array_like, (M, N)
    dictionary : array_like, (N, L)

    Raises
    ------
    InvalidInputError
        If either is not a finite matrix or their shapes do not fit.
    """
    phi = _checked_matrix("sensing_matrix", sensing_matrix)
    psi = _checked_matrix("dictionary", dictionary)
    if phi.shape[1] != psi.shape[0]:
        raise InvalidInputError(
            f"sensing_matrix {phi.shape} and dictionary {psi.shape} do not fit each other"
        )
    equivalent_dictionary = phi @ psi
    difference = equivalent_dictionary.T @ equivalent_dictionary
    difference[np.diag_indices_from(difference)] -= 1.0
    return float(np.sum(difference**2))


def _checked_matrix(name: str, matrix: npt.ArrayLike) -> Float64Array:
    array = np.asarray(matrix, np.float64)
    if array.ndim != 2 or array.size == 0 or not np.isfinite(array).all():
        raise InvalidInputError(
            f"{name} has shape {array.shape}; allowed is a finite, non-empty matrix"
        )
    return array
