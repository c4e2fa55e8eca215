"""The sensing matrices that the restorer learns with, so that it serves those that it never saw.

All that the network sees of Φ is the space that its rows span: the linear decoder and the step back
to the measurements depend on nothing else. So matrices are kept as orthonormal rows, of which the
first m span what the first m rows of Φ do. Most are learned from patches as models are, with many
sizes, sparsities and starts; the zig-zag cosines and a few random spaces stand for what others use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cscodec.layout import PATCH_PIXELS, PATCH_SIZE
from cscodec.learning.corpus import Corpus, PictureFile
from cscodec.learning.online import LearnerParameters, OnlineLearner
from cscodec.sensing.restorer import TRAINED_FOR

_, MOST = TRAINED_FOR

Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]

#: M, K and whether statistics are kept, of the matrices that are learned.
_LEARNED = (
    *((m, max(1, m // 5), m % 2 == 0) for m in (5, 6, 8, 10, 12, 13, 15, 16, 18, 22, 25, 28, 31)),
    *((20, 4, keep) for keep in (True, False, True, False)),
    *((63, sparsity, True) for sparsity in (4, 8, 8)),
)
_NUM_RANDOM = 6
_ATOMS, _START, _BATCH = 256, 4096, 256
_OUTER_ITERATIONS, _DICTIONARY_ITERATIONS = 4, 250


def orthonormal_rows(sensing_matrix: npt.ArrayLike) -> Float64Array:
    """Return rows without mean whose first m span what the first m of Φ do on zero-mean patches.

    Parameters
    ----------
    sensing_matrix : array_like, (M, 64)

    Returns
    -------
    ndarray, (min(M, 63), 64) float64
    """
    rows = np.asarray(sensing_matrix, np.float64)[: PATCH_PIXELS - 1]
    orthonormal, _ = np.linalg.qr((rows - rows.mean(axis=1, keepdims=True)).T)
    return np.ascontiguousarray(orthonormal.T)


def zigzag_cosines() -> Float64Array:
    """Return the two-dimensional cosines of a patch without the constant, (63, 64), in zig-zag."""
    steps = np.arange(PATCH_SIZE)
    waves = np.cos((2 * steps + 1) * steps[:, None] * (np.pi / (2 * PATCH_SIZE)))

    def place(frequency: tuple[int, int]) -> tuple[int, int]:
        return sum(frequency), frequency[sum(frequency) % 2 == 0]

    order = sorted(((u, v) for u in steps.tolist() for v in steps.tolist()), key=place)
    return np.array([np.outer(waves[u], waves[v]).ravel() for u, v in order[1:]])


def learned_matrices(corpus: Corpus, seed: int) -> Iterator[Float64Array]:
    """Yield the matrices that are learned, the same for the same pictures and seed."""
    for number, (num_measurements, sparsity, keep) in enumerate(_LEARNED):
        parameters = LearnerParameters(
            num_measurements=num_measurements,
            num_atoms=_ATOMS,
            sparsity=sparsity,
            gamma=1.0 if num_measurements > MOST else 1 / 32,
            seed=seed + number,
        )
        learner = OnlineLearner(parameters)
        while not learner.is_started:
            learner.partial_fit(corpus.next_batch(_START))
        for _ in range(_OUTER_ITERATIONS):
            learner.update_sensing_matrix(forget=not keep)
            for _ in range(_DICTIONARY_ITERATIONS):
                learner.partial_fit(corpus.next_batch(_BATCH))
        yield learner.sensing_matrix


def training_matrices(pictures: Sequence[PictureFile], seed: int = 0) -> dict[str, Float32Array]:
    """Return the matrices of a training run by name, as :func:`orthonormal_rows`, float32."""
    corpus = Corpus(pictures, channel="luma", seed=seed)
    matrices = {"cosines": zigzag_cosines()}
    for number, matrix in enumerate(learned_matrices(corpus, seed)):
        matrices[f"learned-{number:02d}-m{len(matrix)}"] = matrix
    generator = np.random.default_rng(seed)
    for number in range(_NUM_RANDOM):
        matrices[f"random-{number}"] = generator.normal(size=(MOST, PATCH_PIXELS))
    return {name: orthonormal_rows(phi).astype(np.float32) for name, phi in matrices.items()}
