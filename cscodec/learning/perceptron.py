"""Networks of rectified layers with the limits that the coder's whole numbers have."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from cscodec.arrays import Array
from cscodec.layout import CONSTANT_HIDDEN, MAX_HIDDEN

HIDDEN_ONE, WEIGHT_ONE = 128, 1024  #: units of hidden values and of weights
MOST_HIDDEN, MOST_WEIGHT = MAX_HIDDEN / HIDDEN_ONE, 4095 / WEIGHT_ONE
HIDDEN_CONSTANT = CONSTANT_HIDDEN / HIDDEN_ONE  #: what the last row of a matrix multiplies


def hidden_values(sums: Array) -> Array:
    """Return hidden values, (n, width + 1), of sums, (n, width), and their constant."""
    return with_constant(np.clip(sums, 0, MOST_HIDDEN))


def with_constant(values: Array) -> Array:
    """Add what the constant's row multiplies to values, (n, width)."""
    constant = np.full((len(values), 1), HIDDEN_CONSTANT, values.dtype)
    return np.concatenate([values, constant], axis=1)


def where_free(hidden: Array, by_hidden: Array) -> Array:
    """Return gradients by sums, from those by hidden values, which limits hold."""
    return (by_hidden * ((hidden > 0) & (hidden < MOST_HIDDEN)))[:, :-1]


class Perceptron:
    """A network. Its matrices, each with a row for a constant, share one vector, ``flat``.

    Parameters
    ----------
    widths : sequence of int
        Of the inputs, the hidden layers and the outputs.
    generator : numpy.random.Generator
    """

    def __init__(self, widths: Sequence[int], generator: np.random.Generator) -> None:
        shapes = [(wide + 1, narrow) for wide, narrow in itertools.pairwise(widths)]
        ends = np.cumsum([wide * narrow for wide, narrow in shapes])
        self.flat = np.zeros(ends[-1], np.float32)
        parts = zip(np.split(self.flat, ends[:-1]), shapes, strict=True)
        self.weights = [part.reshape(shape) for part, shape in parts]
        for matrix in self.weights[:-1]:
            matrix[:-1] = generator.standard_normal(matrix[:-1].shape) / np.sqrt(len(matrix) / 2)
        self._values: list[Array] = []

    def __call__(self, inputs: Array) -> Array:
        """Return outputs, (n, outputs), of inputs, (n, inputs)."""
        self._values = [with_constant(inputs)]
        for matrix in self.weights[:-1]:
            self._values.append(hidden_values(self._values[-1] @ matrix))
        outputs: Array = self._values[-1] @ self.weights[-1]
        return outputs

    def gradient(self, by_sums: Array) -> Array:
        """Return the gradient by all weights, from that by the outputs of the last call."""
        parts = []
        for values, matrix in zip(self._values[::-1], self.weights[::-1], strict=True):
            parts.append((values.T @ by_sums).ravel())
            by_sums = where_free(values, by_sums @ matrix.T)
        return np.concatenate(parts[::-1])
