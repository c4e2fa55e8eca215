"""Adam over a vector of parameters, with one cycle of its rate, which hides its slow start."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cscodec.arrays import Array

_RATE = 1e-2  # of learning, at its height
_MEMORY, _SQUARES_MEMORY = 0.9, 0.99
_DECAY = 0.1  # of weights, as a share of the rate
_WARM_UP = 0.1  # of the iterations


def descend(
    parameters: Array,
    gradient: Callable[[int], Array],
    iterations: int,
    *,
    decaying: int,
    hold: Callable[[], None],
    report: Callable[[float], None] = lambda _: None,
) -> None:
    """Change parameters along falling gradients.

    Parameters
    ----------
    parameters : ndarray, (n,) float32
        Changed in place.
    gradient : callable
        The number of an iteration to the gradient, (n,), of what it looks at.
    iterations : int
    decaying : int
        The first so many parameters decay.
    hold : callable
        Called after every iteration: moves parameters to where they may be.
    report : callable
        Called with the fraction done.
    """
    mean, square = np.zeros_like(parameters), np.zeros_like(parameters)
    decayed = parameters[:decaying]
    for done in range(iterations):
        slope = gradient(done)
        mean += (1 - _MEMORY) * (slope - mean)
        square += (1 - _SQUARES_MEMORY) * (slope * slope - square)
        cycle = np.interp((done + 0.5) / iterations, (0, _WARM_UP, 1), (0, np.pi, 2 * np.pi))
        rate = np.float32(_RATE * (1 - np.cos(cycle)) / 2)
        decayed *= 1 - _DECAY * rate
        parameters -= rate * mean / (np.sqrt(square) + 1e-8)
        hold()
        report((done + 1) / iterations)
