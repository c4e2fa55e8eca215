"""The orthonormal basis that measurements are quantised in.

Rotating the rows of a sensing matrix changes no measurement's information (Lemma 1 of the paper),
but it does change what quantised measurements cost: a basis in which patches have few large
coefficients is cheap. It is found by alternating between thresholding and the orthonormal matrix
that fits the thresholded coefficients best (Procrustes), from the cosine transform on.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Array
from cscodec.model import System
from cscodec.sensing.averages import cosine_basis

_THRESHOLDS = (10.0, 30.0)  # between a fine and a coarse quantisation step
# More rounds fit the training pictures better and others no better.
_ROUNDS = 4


def sparse_basis(patches: npt.ArrayLike, system: System) -> Array:
    """Return an orthonormal basis of a system's measurements in which patches are sparse.

    Parameters
    ----------
    patches : array_like, (n, 64)
        Zero-mean.
    system : System

    Returns
    -------
    ndarray, (M, 64) float64
        Rows span what the rows of ``system.basis`` span, ordered by falling energy.
    """
    rows = np.asarray(system.basis, np.float64)
    measured = np.asarray(patches, np.float64) @ rows.T
    cosines = cosine_basis()[1:].astype(np.float64) @ rows.T
    nearest = np.argsort(-np.square(cosines).sum(axis=1), kind="stable")[: len(rows)]
    rotation = nearest_orthogonal(cosines[np.sort(nearest)])
    for _ in range(_ROUNDS):
        coefficients = measured @ rotation.T
        fit: Array = np.zeros_like(rotation)
        for threshold in _THRESHOLDS:
            kept = np.where(np.abs(coefficients) > threshold, coefficients, 0)
            fit += kept.T @ measured / threshold**2
        rotation = nearest_orthogonal(fit)
    energies = np.square(measured @ rotation.T).sum(axis=0)
    return np.asarray(rotation[np.argsort(-energies, kind="stable")] @ rows)


def nearest_orthogonal(matrix: Array) -> Array:
    """Return the orthogonal matrix that is nearest to a square one."""
    left, _, right = np.linalg.svd(matrix)
    return np.asarray(left @ right)
