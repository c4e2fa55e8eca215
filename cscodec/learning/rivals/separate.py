"""Systems whose Φ and Ψ do not learn from each other: the paper's Remark 3.1, and the floors.

`ksvd` and `mod` learn Ψ alone and then design Φ by Theorem 1; `random` does without a design, as
classical compressive sensing does; `pca` does without sparsity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from cscodec.arrays import Float32Array, Float64Array
from cscodec.errors import InvalidInputError
from cscodec.learning.rivals.dictionary_updates import (
    PLAIN_WEIGHT,
    ksvd_update,
    mod_update,
    objective,
    replace_weak_atoms,
    sparse_code,
)
from cscodec.learning.rivals.result import LearnedSystem, Observer
from cscodec.learning.rivals.training_set import (
    Sizes,
    check_sizes,
    dct_dictionary,
    gaussian_sensing_matrix,
    scatter_matrix,
    usable_patches,
)
from cscodec.sensing.design import design_sensing_matrix
from cscodec.sensing.pursuit import SparseCodes

DictionaryChoice = Literal["learned", "dct"]
DictionaryUpdate = Callable[
    [Float32Array, Float64Array, SparseCodes], tuple[Float64Array, SparseCodes]
]


def learn_ksvd(
    patches: npt.ArrayLike,
    sizes: Sizes,
    *,
    iterations: int = 50,
    seed: int = 0,
    observer: Observer | None = None,
) -> LearnedSystem:
    """Learn Ψ by K-SVD (Aharon, Elad & Bruckstein 2006), then design Φ by Theorem 1.

    Parameters
    ----------
    patches : array_like, (num_patches, 64)
        Without their mean.
    sizes : Sizes
    iterations : int
        Rounds of sparse coding and K-SVD.
    seed : int
        Of the order in which atoms are updated.
    observer : callable, optional
        Called as ``observer(iteration, sensing_matrix, dictionary)`` after every round.

    Returns
    -------
    LearnedSystem
        History rows: iteration, objective ‖X - ΨΘ‖² per patch after the round.

    Raises
    ------
    InvalidInputError
        If sizes or patches cannot work.
    """
    rng = np.random.default_rng(seed)

    def update(
        samples: Float32Array, dictionary: Float64Array, codes: SparseCodes
    ) -> tuple[Float64Array, SparseCodes]:
        return ksvd_update(samples, dictionary, codes, PLAIN_WEIGHT, rng)

    samples, _ = usable_patches(patches)
    check_sizes(samples, sizes)
    return _learn(samples, update, sizes, iterations, observer)


def learn_mod(
    patches: npt.ArrayLike,
    sizes: Sizes,
    *,
    iterations: int = 50,
    observer: Observer | None = None,
) -> LearnedSystem:
    """Learn Ψ by the method of optimal directions (Engan, Aase & Husoy 1999), then design Φ.

    Parameters, result and errors are those of :func:`learn_ksvd`; nothing here is random.
    """
    samples, _ = usable_patches(patches)
    check_sizes(samples, sizes)
    return _learn(samples, mod_update, sizes, iterations, observer)


def learn_random(
    patches: npt.ArrayLike,
    sizes: Sizes,
    *,
    dictionary: DictionaryChoice = "learned",
    iterations: int = 50,
    seed: int = 0,
) -> LearnedSystem:
    """Draw a Gaussian Φ; Ψ is the overcomplete DCT or learned by K-SVD.

    Parameters
    ----------
    patches : array_like, (num_patches, 64)
        Without their mean; only a learned dictionary looks at them.
    sizes : Sizes
    dictionary : {"learned", "dct"}
    iterations : int
        Of K-SVD.
    seed : int
        Of Φ, and of K-SVD.

    Returns
    -------
    LearnedSystem
        History as :func:`learn_ksvd`'s; empty for the DCT.

    Raises
    ------
    InvalidInputError
        If sizes, patches or the choice of dictionary cannot work.
    """
    if dictionary not in ("learned", "dct"):
        raise InvalidInputError(f"dictionary is {dictionary!r}; allowed are 'learned' and 'dct'")
    samples, _ = usable_patches(patches)
    check_sizes(samples, sizes)
    psi = dct_dictionary(sizes.num_atoms)
    history: list[dict[str, float]] = []
    if dictionary == "learned":
        _, psi, history = learn_ksvd(samples, sizes, iterations=iterations, seed=seed)
    phi = gaussian_sensing_matrix(sizes.num_measurements, np.random.default_rng(seed))
    return LearnedSystem(phi, psi, history)


def learn_pca(patches: npt.ArrayLike, sizes: Sizes) -> LearnedSystem:
    """Measure the first M principal directions; made for linear decoding.

    No linear decoder of M measurements has a smaller error on the training patches. Ψ = Φᵀ, so that
    the sparse decoders run too: further directions would be invisible to Φ.

    Parameters
    ----------
    patches : array_like, (num_patches, 64)
        Without their mean.
    sizes : Sizes
        M alone is looked at.

    Returns
    -------
    LearnedSystem
        Without history: nothing iterates.

    Raises
    ------
    InvalidInputError
        If the patches span fewer than M dimensions.
    """
    samples, _ = usable_patches(patches)
    num_measurements = sizes.num_measurements
    check_sizes(samples, Sizes(num_measurements, num_measurements, 1))
    directions = np.linalg.eigh(scatter_matrix(samples))[1]
    basis: Float64Array = directions[:, ::-1][:, :num_measurements].copy()
    return LearnedSystem(basis.T.copy(), basis, [])


def _learn(
    samples: Float32Array,
    update: DictionaryUpdate,
    sizes: Sizes,
    iterations: int,
    observer: Observer | None,
) -> LearnedSystem:
    dictionary = dct_dictionary(sizes.num_atoms)
    history = []
    for iteration in range(1, iterations + 1):
        codes = sparse_code(samples, dictionary, PLAIN_WEIGHT, sizes.sparsity)
        dictionary, codes = update(samples, dictionary, codes)
        error = objective(samples, dictionary, codes, PLAIN_WEIGHT)
        history.append({"iteration": float(iteration), "objective": error})
        if iteration < iterations:  # a fresh patch as an atom helps only if it is learned from
            dictionary = replace_weak_atoms(samples, dictionary, codes, PLAIN_WEIGHT)
        if observer is not None:
            observer(
                iteration, design_sensing_matrix(dictionary, sizes.num_measurements), dictionary
            )
    return LearnedSystem(
        design_sensing_matrix(dictionary, sizes.num_measurements), dictionary, history
    )
