"""What the atoms' update needs to know of sparse-coded patches, in sums that can be merged.

:class:`Statistics` are a monoid: parts of a batch can be coded anywhere and merged. Whoever cuts
batches at fixed places and merges in order gets the same sums for any number of workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np

from cscodec.arrays import Float32Array, Float64Array
from cscodec.errors import InvalidInputError
from cscodec.kernels.online import Sums, code_patches, weigh_atoms
from cscodec.kernels.pursuit import Codes, PursuitRoom
from cscodec.parallel import computed_once

#: Patches coded together: their correlations with 256 atoms stay in a core's cache.
_GROUP = 256


@dataclass(frozen=True, eq=False)
class Statistics:
    """What Algorithm 3 needs to know of a set of coded patches, as sums over them.

    Attributes
    ----------
    A : ndarray, (L, L) float64
        Σθθᵀ.
    B : ndarray, (64, L) float64
        Σxθᵀ.
    usage : ndarray, (L,) float64
        Number of patches that use each atom.
    num_samples : int
        Patches summed.
    dictionary_id : int
        Fingerprint of the system that they were coded in: only sums from one can be merged.
    """

    A: Float64Array
    B: Float64Array
    usage: Float64Array
    num_samples: int
    dictionary_id: int

    def merge(self, other: Statistics) -> Statistics:
        """Return the statistics of both sets together.

        Raises
        ------
        InvalidInputError
            If they were coded with different dictionaries.
        """
        if self.dictionary_id != other.dictionary_id:
            raise InvalidInputError(
                f"statistics belong to different dictionaries ({self.dictionary_id:#x} and "
                f"{other.dictionary_id:#x}); only those of one dictionary can be merged"
            )
        return Statistics(
            self.A + other.A,
            self.B + other.B,
            self.usage + other.usage,
            self.num_samples + other.num_samples,
            self.dictionary_id,
        )


@dataclass(frozen=True, eq=False)
class Coder:
    """Codes patches in the stacked system [√γ Ψ; ΦΨ] (eq. 13); may be sent to other processes.

    Attributes
    ----------
    projector : ndarray, (64, L) float32
        WΨ with W = γI + ΦᵀΦ: products of patches with it are those with the stacked atoms.
    gram : ndarray, (L, L) float32
        ΨᵀWΨ.
    sparsity : int
        K.
    """

    projector: Float32Array
    gram: Float32Array
    sparsity: int

    @classmethod
    def of(cls, atoms: Float32Array, metric: Float32Array, sparsity: int) -> Coder:
        """Make a coder of Ψᵀ, (L, 64), W, (64, 64), and K."""
        num_atoms, num_pixels = atoms.shape
        columns, projector = np.empty((2, num_pixels, num_atoms), np.float32)
        gram = np.empty((num_atoms, num_atoms), np.float32)
        weigh_atoms(atoms, metric, columns, projector, gram)
        return cls(projector, gram, sparsity)

    def __call__(self, patches: Float32Array) -> Statistics:
        """Return the statistics of zero-mean patches, (n, 64) float32."""
        num_pixels, num_atoms = self.projector.shape
        a = np.zeros((num_atoms, num_atoms))
        b = np.zeros((num_atoms, num_pixels))
        usage = np.zeros(num_atoms)
        self.accumulate(patches, 1.0, a, b, usage)
        return Statistics(a, b.T, usage, len(patches), self._fingerprint)

    @computed_once
    def _fingerprint(self) -> int:
        return crc32(self.gram.tobytes())

    def accumulate(
        self,
        patches: Float32Array,
        weight: float,
        a: Float64Array,
        b: Float64Array,
        usage: Float64Array,
    ) -> None:
        """Add ``weight`` times the patches' sums to A (L, L), Bᵀ (L, 64) and usage (L,)."""
        size, num_atoms = min(_GROUP, max(1, len(patches))), len(self.gram)
        codes = Codes(
            np.empty((size, self.sparsity), np.int32),
            np.empty((size, self.sparsity), np.float32),
            np.empty(size, np.int32),
        )
        code_patches(
            patches,
            self.projector,
            self.gram,
            weight,
            np.empty((size, num_atoms), np.float32),
            np.full(size, np.inf),
            PursuitRoom.of(num_atoms, self.sparsity),
            codes,
            Sums(a, b, usage),
        )
