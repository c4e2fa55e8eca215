"""Kernel that codes one layer of one plane of a tile: which decisions, and in which contexts.

Patch by patch and band by band, as docs/format.md has it: a flag says whether anything in the band
is not zero; then each measurement is coded as: is it zero, is its magnitude above 1, 2, ..., its
sign. Contexts are the predictions of :mod:`cscodec.kernels.predictions`, put into bins, and the
nearest values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cscodec.kernels import slots
from cscodec.kernels.decisions import (
    EVEN,
    Coder,
    clipped,
    code_escape,
    decide,
    magnitude_bin,
    probability_of,
    settle,
    sign_class,
)
from cscodec.kernels.declaration import Array, Integer, helper, inline_here, kernel
from cscodec.kernels.intrinsics import count_bits
from cscodec.kernels.mixing import LOGIT_LIMIT
from cscodec.kernels.predictions import (
    Network,
    Planes,
    above_at,
    add_own,
    below,
    has_room,
    log_odds_at,
    magnitude_at,
    predict,
    signed_at,
)
from cscodec.kernels.range_coder import FAILED, code_bit
from cscodec.kernels.search import Search, best_level, nonzero_level, worth_coding
from cscodec.kernels.slots import (
    LEVELS,
    SET_FLAG,
    SET_FLAG_BIN,
    SET_MORE,
    SET_ONE,
    SET_ONE_BIN,
    SET_OTHER,
    SET_SIGN,
    SET_ZERO,
    SET_ZERO_BIN,
    slot,
)
from cscodec.layout import BANDS, LAYERS, MAX_VALUE, NUM_BANDS, SIGNED

_BAND_STARTS = np.array(BANDS, np.int64)
_LAYER_STARTS = np.array(LAYERS, np.int64)


class _Patch(NamedTuple):
    """The patch at hand and those around it."""

    own: Array
    west: Array
    north: Array
    luma: Array
    chroma: Array
    wanted: Array
    west_mask: Integer
    north_mask: Integer


class _Band(NamedTuple):
    """The measurements at hand: ``start`` to ``stop`` - 1, in a layer from ``first`` to ``last``
    - 1."""

    number: Integer
    first: Integer
    start: Integer
    stop: Integer
    last: Integer
    west_count: Integer  # of values that are not zero
    north_count: Integer


class _Value(NamedTuple):
    """What is known about one measurement before it is coded."""

    i: Integer
    log_odds: Integer  # of its not being zero, in 1/256
    magnitude: Integer  # predicted
    bin: Integer
    signed: Integer  # predicted
    one_back: Integer  # magnitudes
    two_back: Integer
    wanted: Integer


@kernel
def code_layer(
    coder: Coder,
    network: Network,
    planes: Planes,
    search: Search,
    layer: Integer,
    end: Integer,
) -> None:
    """Code a layer after the means of a plane, up to measurement ``end`` - 1.

    Parameters
    ----------
    coder : Coder
    network : Network
        Of this layer.
    planes : Planes
    search : Search
        For an encoder.
    layer, end : int
        1 to 3, and 2 to 64.
    """
    rows = planes.values.shape[0] - 2
    columns = planes.values.shape[1] - 2
    first = _LAYER_STARTS[layer]
    last = min(_LAYER_STARTS[layer + 1], end)
    if not has_room(network, last - first, min(last, SIGNED) - first):
        coder.registers[FAILED] = 1  # the network of another layer
        return
    for r in range(1, rows + 1):
        for c in range(1, columns + 1):
            predict(network, planes, r, c, first, last)
            mask = planes.masks[r, c]
            patch = _patch_at(coder, planes, r, c)
            for band in range(NUM_BANDS):
                start = _BAND_STARTS[band]
                if start >= first and start < last:
                    mask = _code_band(
                        coder, network, planes.number, search, patch,
                        _band(patch, band, first, last), mask,
                    )  # fmt: skip
            planes.masks[r, c] = mask
            if coder.registers[FAILED]:
                return


@helper
def _patch_at(coder: Coder, planes: Planes, r: Integer, c: Integer) -> _Patch:
    inline_here()
    values = planes.values
    wanted = planes.wanted[r - 1, c - 1]
    return _Patch(
        values[r, c],
        values[r, c - 1],
        values[r - 1, c],
        planes.luma[r, c],
        planes.chroma[r, c],
        wanted,
        planes.masks[r, c - 1],
        planes.masks[r - 1, c],
    )


@helper
def _band(patch: _Patch, number: Integer, first: Integer, last: Integer) -> _Band:
    inline_here()
    start = _BAND_STARTS[number]
    stop = min(_BAND_STARTS[number + 1], last)
    inside = below(stop) & -(1 << start)
    return _Band(
        number,
        first,
        start,
        stop,
        last,
        count_bits(patch.west_mask & inside),
        count_bits(patch.north_mask & inside),
    )


@helper
def _code_band(
    coder: Coder,
    network: Network,
    plane: Integer,
    search: Search,
    patch: _Patch,
    band: _Band,
    mask: Integer,
) -> Integer:
    """Code one band; returns the patch's mask with what is not zero in it."""
    inline_here()
    if not _code_flag(coder, network, plane, search, patch, band, mask):
        return mask
    for i in range(band.start, band.stop):
        value = _known(coder, network, patch, band, i)
        level: Integer = 1
        if i < band.stop - 1 or mask >> band.start != 0:  # else the flag says: not zero
            level = _code_zero(coder, search, patch, band, value, mask)
            if level == 0:
                continue
        elif not coder.decoding:
            level = nonzero_level(abs(value.wanted), search)
        level = _code_size(coder, network, band, value, level)
        negative = _code_sign(coder, plane, patch, value, level)
        patch.own[i] = -level if negative else level
        mask |= np.int64(1) << i
        # Also changes predictions of measurements already coded: nobody asks for them.
        add_own(network, i - band.first, level)
    return mask


@helper
def _code_flag(
    coder: Coder,
    network: Network,
    plane: Integer,
    search: Search,
    patch: _Patch,
    band: _Band,
    mask: Integer,
) -> Integer:
    """Code whether anything in a band is not zero."""
    inline_here()
    total: Integer = 0
    largest: Integer = 0
    for i in range(band.start, band.stop):
        size = magnitude_at(network, i - band.first)
        network.magnitudes[i - band.first] = size
        total += size
        largest = max(largest, size)
    others: Integer = 0
    if plane > 0:
        others = min(_count_nonzero(patch.luma, band), 2)
    if plane > 1:
        others = 3 * others + min(_count_nonzero(patch.chroma, band), 2)
    before: Integer = 0
    if band.number > 0:
        before = count_bits(mask & -(1 << _BAND_STARTS[band.number - 1]))
    total_bin = magnitude_bin(total)
    contexts = (
        slot(slots.FLAG_A, (band.number, total_bin)),
        slot(slots.FLAG_B, (band.number, min(before, 4), magnitude_bin(largest))),
        slot(slots.FLAG_C, (band.number, others, min(count_bits(mask), 2))),
    )
    first, second = SET_FLAG + band.number, SET_FLAG_BIN + total_bin
    probability = probability_of(coder, contexts, 0, first, second)
    flag: Integer = 0
    if not coder.decoding:
        flag = np.int64(
            worth_coding(
                patch.wanted[band.start : band.stop],
                network.magnitudes[band.start - band.first :],
                probability,
                search,
            )
        )
    return settle(coder, contexts, first, second, probability, flag)


@helper
def _count_nonzero(values: Array, band: _Band) -> Integer:
    count = 0
    for i in range(band.start, band.stop):
        if values[i] != 0:
            count += 1
    return count


@helper
def _known(coder: Coder, network: Network, patch: _Patch, band: _Band, i: Integer) -> _Value:
    """Collect what is known about measurement ``i``."""
    inline_here()
    magnitude = magnitude_at(network, i - band.first)
    signed = signed_at(network, i - band.first) if i < SIGNED else 0
    return _Value(
        i,
        log_odds_at(network, i - band.first),
        magnitude,
        magnitude_bin(magnitude),
        signed,
        _size_back(patch.own, i, 1),
        _size_back(patch.own, i, 2),
        0 if coder.decoding else np.int64(patch.wanted[i]),
    )


@helper
def _size_back(own: Array, i: Integer, distance: Integer) -> Integer:
    """Magnitude of an earlier measurement of the patch; the mean does not count."""
    return abs(np.int64(own[i - distance])) if i > distance else 0


@helper
def _code_zero(
    coder: Coder, search: Search, patch: _Patch, band: _Band, value: _Value, mask: Integer
) -> Integer:
    """Code whether a measurement is not zero; an encoder returns the magnitude that it wants."""
    inline_here()
    i = value.i
    following = np.int64(band.west_count + band.north_count > 1)
    if i + 1 < band.last:
        following += (patch.west_mask >> (i + 1)) & 1
        following += (patch.north_mask >> (i + 1)) & 1
    back = (
        min(value.one_back, 2),
        min(value.two_back, 2),
        min(_size_back(patch.own, i, 3), 2),
    )
    contexts = (
        slot(slots.ZERO_A, (i, value.bin)),
        slot(slots.ZERO_B, (band.number, back[0], back[1], back[2], value.bin >> 1)),
        slot(slots.ZERO_C, (i, min(count_bits(mask), 7), following)),
    )
    first, second = SET_ZERO + i, SET_ZERO_BIN + value.bin
    hint = clipped(value.log_odds, LOGIT_LIMIT)
    probability = probability_of(coder, contexts, hint, first, second)
    level: Integer = 1
    if not coder.decoding:
        level = best_level(abs(value.wanted), probability, value.magnitude, search)
    bit = settle(coder, contexts, first, second, probability, np.int64(level > 0))
    return level if bit else 0


@helper
def _code_size(
    coder: Coder, network: Network, band: _Band, value: _Value, level: Integer
) -> Integer:
    """Code a magnitude >= 1 and return it."""
    inline_here()
    i = value.i
    contexts = (
        slot(slots.ONE_A, (i, value.bin)),
        slot(slots.ONE_B, (band.number, min(max(value.one_back, value.two_back), 3), value.bin)),
    )
    hint = above_at(network, i - band.first, 1, value.log_odds)
    second = SET_ONE_BIN + value.bin
    if not decide(coder, contexts, hint, SET_ONE + i, second, np.int64(level > 1)):
        return 1
    reached: Integer = 2
    while reached < LEVELS:
        more = (
            slot(slots.MORE_A, (reached - 1, value.bin)),
            slot(slots.MORE_B, (reached - 1, i)),
        )
        hint = above_at(network, i - band.first, reached, value.log_odds)
        longer = np.int64(level > reached)
        if not decide(coder, more, hint, SET_MORE + reached - 1, SET_OTHER, longer):
            return reached
        reached += 1
    reached += code_escape(coder.registers, coder.data, coder.decoding, level - LEVELS)
    if reached > MAX_VALUE:
        coder.registers[FAILED] = 1
        return MAX_VALUE
    return reached


@helper
def _code_sign(
    coder: Coder, plane: Integer, patch: _Patch, value: _Value, level: Integer
) -> Integer:
    """Code whether a measurement is negative."""
    inline_here()
    i = value.i
    negative: Integer = np.int64(value.wanted < 0)
    if i >= SIGNED:
        return code_bit(coder.registers, coder.data, coder.decoding, EVEN, negative)
    contexts = (
        slot(slots.SIGN_A, (i, 16 + clipped((value.signed + 512) >> 10, 16))),
        slot(slots.SIGN_B, (i, sign_class(patch.west[i]), sign_class(patch.north[i]))),
        slot(
            slots.SIGN_C,
            (i, sign_class(patch.chroma[i]) if plane > 1 else 0, min(level - 1, 2)),
        ),
    )
    hint = clipped(-(value.signed >> 4) * min(level, 2), LOGIT_LIMIT)
    return decide(coder, contexts, hint, SET_SIGN + i, SET_OTHER + 1, negative)
