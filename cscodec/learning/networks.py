"""Fits the small networks that predict the measurements of a layer from what a decoder knows.

A network maps logarithms of the values known to log-odds: that a measurement is not zero, and that
it is positive. How likely larger values are follows from the first, by a head that is learned with
the network and left behind. Adam minimises the bits that coding the measurements so would take.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cscodec.arrays import Array, Float32Array
from cscodec.layout import LOG_ONE, NUM_LEVELS
from cscodec.learning.descent import descend
from cscodec.learning.perceptron import (
    HIDDEN_CONSTANT,
    MOST_WEIGHT,
    WEIGHT_ONE,
    hidden_values,
    where_free,
)

Parameters = dict[str, Array]

_BATCH = 2048  # patches, at most
_BATCHES = 8  # that a small set makes, at least
_PASSES = 8  # over all patches
_PILOT = 0.15  # of the whole training: a shorter one that says which inputs matter

#: What the coder's integers can hold, and those that are bytes.
_ONES = {
    "inputs": 128,
    "offsets": WEIGHT_ONE,
    "hidden": 64,
    "outputs": WEIGHT_ONE,
    "own": 8192,
    "above": (256, 4096),
}
_BYTE_WEIGHTS = ("inputs", "hidden")
_MOST_INPUT_WEIGHT, _MOST_HIDDEN_WEIGHT = 127 / 128, 127 / 64
_INPUT_CONSTANT = 4.0  # what the last row of their weights multiplies

_MOST_LOG_ODDS = 6.0  # of a measurement that is always, or never, zero
_MOST_SIGNED = 2  # a magnitude says this much of the certainty of its sign

_BYTES = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32)
#: Logarithms of all values of an int8, in the order of their bytes, as the coder rounds them.
_LOGARITHMS = np.copysign(np.rint(LOG_ONE * np.log2(1 + np.abs(_BYTES))) / LOG_ONE, _BYTES)


def fit_network(
    values: Array,
    own: Array,
    signed: bool,
    widths: tuple[int, int],
    generator: np.random.Generator,
    *,
    most_inputs: float = np.inf,
    progress: Callable[[float], None] | None = None,
) -> dict[str, Array]:
    """Fit the network of one plane and layer.

    Parameters
    ----------
    values : ndarray, (patches, 11 * last) int8
        What a decoder knows of every patch when it begins the layer: ``last`` numbers of each
        source, where unknown ones are zero.
    own : ndarray, (patches, n) int8
        The measurements to predict, held to ±32.
    signed : bool
        Whether their signs are predicted, too, for which inputs need theirs.
    widths : tuple of int
        Hidden values of both layers.
    generator : numpy.random.Generator
        Chooses initial weights and patches.
    most_inputs : float
        How many inputs of a patch may be other than zero, on average: those that a pilot gives the
        largest weights. Others take time, and what is learned of them is learned by chance.
    progress : callable, optional
        Called with the fraction done.

    Returns
    -------
    dict of ndarray, int16 but for two
        ``inputs`` (2 * 11 * last, H1) int8 in 1/128; ``offsets`` (H1,) in 1/1024; ``hidden``
        (H1 + 1, H2) int8 in 1/64, and ``outputs`` (H2 + 1, n or 2n) in 1/1024, with rows of
        constants last; ``own`` (n, n) in 1/8192; ``above`` (n + 7, 2) in 1/256 and 1/4096.
    """
    report = progress or (lambda _: None)
    present = np.count_nonzero(values, axis=0) / max(len(values), 1)
    columns = np.flatnonzero(present)
    if own.any() and present.sum() > most_inputs:
        pilot = _trained(values, own, columns, signed, widths, generator, _PILOT)
        weights = pilot["inputs"][:-1].reshape(1 + signed, len(columns), -1)
        columns = columns[np.argsort(-np.linalg.norm(weights, axis=(0, 2)))]
        columns = np.sort(columns[np.cumsum(present[columns]) <= most_inputs])
    parameters = _trained(values, own, columns, signed, widths, generator, 1, report)
    inputs = np.zeros((2, values.shape[1], widths[0]))
    inputs[:, columns] = parameters["inputs"][:-1].reshape(1 + signed, -1, widths[0])
    parameters["offsets"] = _INPUT_CONSTANT * parameters["inputs"][-1]
    parameters["inputs"] = np.concatenate(inputs)
    parameters["above"] = parameters["above"].T
    return {
        name: np.rint(parameters[name] * one).astype(np.int8 if name in _BYTE_WEIGHTS else np.int16)
        for name, one in _ONES.items()
    }


def initial_parameters(
    num_inputs: int, own: Array, signed: bool, widths: tuple[int, int]
) -> Parameters:
    """A network that knows how often measurements are not zero, and nothing else.

    Its matrices share one vector, ``flat``, for what treats all parameters alike.
    """
    num_own = own.shape[1]
    shapes = {
        "inputs": (num_inputs + 1, widths[0]),
        "hidden": (widths[0] + 1, widths[1]),
        "outputs": (widths[1] + 1, num_own * (1 + signed)),
        "own": (num_own, num_own),
        "above": (2, num_own + NUM_LEVELS - 1),  # offsets of log-odds, then factors
    }
    ends = np.cumsum([rows * columns for rows, columns in shapes.values()])
    flat = np.zeros(ends[-1], np.float32)
    parts = zip(shapes, np.split(flat, ends[:-1]), strict=True)
    parameters = {"flat": flat, **{name: part.reshape(shapes[name]) for name, part in parts}}
    present = np.count_nonzero(own, axis=0)
    odds = (present + np.exp(-_MOST_LOG_ODDS)) / (len(own) - present + 1)
    log_odds = np.clip(np.log(odds), -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
    parameters["outputs"][-1, :num_own] = log_odds / HIDDEN_CONSTANT
    parameters["above"][1] = 0.5
    return parameters


def _trained(
    values: Array,
    own: Array,
    columns: Array,
    signed: bool,
    widths: tuple[int, int],
    generator: np.random.Generator,
    effort: float,
    report: Callable[[float], None] = lambda _: None,
) -> Parameters:
    """Return a network that has learned."""
    parameters = initial_parameters(len(columns) * (1 + signed), own, signed, widths)
    if not own.any():
        return parameters
    for name in ("inputs", "hidden"):
        weights = parameters[name][:-1]
        weights[:] = generator.standard_normal(weights.shape) / np.sqrt(len(weights) / 2 + 1)
    flat = parameters["flat"]
    input_weights, hidden = parameters["inputs"][:-1], parameters["hidden"]
    batch = int(np.clip(len(own) // _BATCHES, 1, _BATCH))
    iterations = int(effort * (_PASSES * len(own) // batch))

    def gradient(done: int) -> Array:
        patches = generator.integers(len(own), size=batch)
        turn = np.int8(1 - done % 2 * 2)  # negatives of pictures are as likely as pictures
        inputs = network_inputs(turn * values[patches][:, columns], signed)
        return loss_and_gradient(parameters, inputs, turn * own[patches])[1]

    def hold() -> None:
        np.clip(flat, -MOST_WEIGHT, MOST_WEIGHT, out=flat)
        np.clip(input_weights, -_MOST_INPUT_WEIGHT, _MOST_INPUT_WEIGHT, out=input_weights)
        np.clip(hidden, -_MOST_HIDDEN_WEIGHT, _MOST_HIDDEN_WEIGHT, out=hidden)

    decaying = flat.size - parameters["above"].size
    descend(flat, gradient, iterations, decaying=decaying, hold=hold, report=report)
    return parameters


def network_inputs(values: Array, signed: bool) -> Float32Array:
    """Logarithms of values, (patches, columns) int8, as inputs with the constant last.

    Where signs count, those of positive values, then those of negative ones; else of magnitudes.
    """
    logarithms = _LOGARITHMS[values.view(np.uint8)]
    parts = [logarithms, -logarithms] if signed else [np.abs(logarithms)]
    constant = np.full((len(values), 1), _INPUT_CONSTANT, np.float32)
    inputs: Float32Array = np.maximum(np.concatenate([*parts, constant], axis=1), 0)
    return inputs


def loss_and_gradient(parameters: Parameters, inputs: Array, own: Array) -> tuple[float, Array]:
    """Nats of each patch on average, and their gradient in the order of the parameters."""
    first = hidden_values(inputs @ parameters["inputs"])
    second = hidden_values(first @ parameters["hidden"])
    outputs = second @ parameters["outputs"]
    num_own = own.shape[1]
    sizes = np.abs(_LOGARITHMS[own.view(np.uint8)])
    outputs[:, :num_own] += sizes @ np.triu(parameters["own"], 1)
    loss, by_outputs, by_above = _head(parameters, outputs, own)
    by_second = where_free(second, by_outputs @ parameters["outputs"].T)
    by_first = where_free(first, by_second @ parameters["hidden"].T)
    products = [inputs.T @ by_first, first.T @ by_second, second.T @ by_outputs]
    by_own = np.triu(sizes.T @ by_outputs[:, :num_own], 1)
    gradient = np.concatenate([part.ravel() for part in (*products, by_own, by_above)])
    return loss / len(own), gradient / len(own)


def _head(parameters: Parameters, outputs: Array, own: Array) -> tuple[float, Array, Array]:
    """Nats of measurements, and their gradients by outputs and by the head's parameters."""
    num_own = own.shape[1]
    sizes = np.abs(own).ravel()
    log_odds = outputs[:, :num_own].ravel()
    loss, by_log_odds = _surprise(log_odds, sizes > 0)
    by_outputs, by_above = np.zeros_like(outputs), np.zeros_like(parameters["above"])
    places = np.flatnonzero(sizes)
    if outputs.shape[1] > num_own:
        rows, columns = np.divmod(places, num_own)
        certainty = np.minimum(sizes[places], _MOST_SIGNED).astype(outputs.dtype)
        signs = outputs[rows, num_own + columns] * certainty
        nats, slopes = _surprise(signs, own.ravel()[places] > 0)
        by_outputs[rows, num_own + columns] = slopes * certainty
        loss += nats
    for level in range(1, NUM_LEVELS + 1):
        places = places[sizes[places] >= level]
        known = log_odds[places]
        which = places % num_own if level == 1 else np.full(len(places), num_own + level - 2)
        offsets, factors = parameters["above"][:, which]
        nats, slopes = _surprise(offsets + factors * known, sizes[places] > level)
        loss += nats
        by_log_odds[places] += slopes * factors
        by_above[0] += np.bincount(which, slopes, by_above.shape[1])
        by_above[1] += np.bincount(which, slopes * known, by_above.shape[1])
    by_outputs[:, :num_own] = by_log_odds.reshape(-1, num_own)
    return loss, by_outputs, by_above


def _surprise(log_odds: Array, happened: Array) -> tuple[float, Array]:
    """Nats of what happened, and their gradient by its log-odds."""
    small = np.exp(-np.abs(log_odds))
    nats = np.log1p(small) + np.maximum(np.where(happened, -log_odds, log_odds), 0)
    return float(nats.sum()), np.where(log_odds > 0, 1, small) / (1 + small) - happened
