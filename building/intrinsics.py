"""LLVM code of what kernels call and Numba has no words for: vectors, and single instructions.

Each function here makes the code of the one of its name that ``cscodec.kernels`` marks as an
intrinsic and says in Python; tests hold one against the other. Arguments are those of a lowering of
Numba's: (context, builder, signature, arguments) to a value.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from cscodec.kernels.convolution import ADD, LARGEST, PERIOD, PIXELS, RECTIFY
from cscodec.kernels.convolution import LANES as CHANNELS
from cscodec.kernels.filters import NUM_CLEAN, NUM_TAPS, RADIUS
from cscodec.kernels.intrinsics import BLOCK, LANES, WIDE_BLOCK
from cscodec.kernels.mixing import LOGIT_LIMIT, MAX_INPUTS, SLOT_LIMIT, TOP, WEIGHT_LIMIT
from cscodec.kernels.multiply import COLUMNS, ROWS
from cscodec.kernels.shrinkage import COSINES
from cscodec.layout import MAX_HIDDEN

Lowering = Callable[[Any, Any, Any, Any], Any]
#: (builder, numbers, how many) to a loop over the places of pairs of them.
Pairs = Callable[[Any, Any, Any], AbstractContextManager[Any]]

#: By the function's name: what makes its code, and the type of what that returns.
CODE: dict[str, tuple[Lowering, str]] = {}

_INT16, _INT32, _INT64, _FLOAT = ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()


def _code(returns: str = "void") -> Callable[[Lowering], Lowering]:
    def register(generate: Lowering) -> Lowering:
        CODE[generate.__name__] = generate, returns
        return generate

    return register


def _arrays(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """Return the arrays among a function's arguments, with their fields."""
    return [
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args, arguments, strict=True)
        if isinstance(kind, types.Array)
    ]


def _splat(builder: Any, value: Any, count: int) -> Any:
    """Return the vector of ``count`` lanes that are all equal."""
    vector = ir.VectorType(value.type, count)
    lane = builder.insert_element(vector(ir.Undefined), value, _INT32(0))
    zeros = ir.Constant(ir.VectorType(_INT32, count), [0] * count)
    return builder.shuffle_vector(lane, vector(ir.Undefined), zeros)


@_code()
def keep_apart(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    builder.function.attributes.add("noinline")
    return context.get_dummy_value()


@_code()
def inline_here(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    builder.function.attributes.add("alwaysinline")
    return context.get_dummy_value()


@_code("int64")
def lowest_bit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))


@_code("int64")
def count_bits(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.ctpop(arguments[0])


@_code()
def add_rows(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Two rows at a time, their numbers side by side in each half of a vector."""
    wide, pairs = ir.VectorType(_INT32, LANES), ir.VectorType(_INT16, 2 * LANES)
    stored = ir.VectorType(ir.IntType(8), 2 * LANES)
    sums, weights, offsets, rows, factors = _arrays(context, builder, signature, arguments)
    count = arguments[5]
    width = builder.extract_value(sums.shape, 0)
    half = LANES // 2
    sides = [
        [
            lane + LANES * part + first + side * 2 * LANES
            for part in (0, 1)
            for lane in range(half)
            for side in (0, 1)
        ]
        for first in (0, half)
    ]
    parts = range(0, WIDE_BLOCK, 2 * LANES)
    totals = [[cgutils.alloca_once(builder, wide) for _ in sides] for _ in parts]

    def number(array: Any, k: Any) -> Any:
        return builder.load(builder.gep(array.data, [k]))

    def shuffled(one: Any, other: Any, order: list[int]) -> Any:
        lanes = ir.Constant(ir.VectorType(_INT32, len(order)), order)
        return builder.shuffle_vector(one, other, lanes)

    with cgutils.for_range_slice(builder, _INT64(0), width, _INT64(WIDE_BLOCK)) as (i, _):
        for total in itertools.chain(*totals):
            builder.store(wide([0] * LANES), total)
        with cgutils.for_range_slice(builder, _INT64(0), count, _INT64(2)) as (k, _):
            following = builder.add(k, _INT64(1))
            both = builder.or_(
                builder.shl(builder.trunc(number(factors, following), _INT32), _INT32(16)),
                builder.trunc(number(factors, k), _INT32),
            )
            both = builder.bitcast(_splat(builder, both, LANES), pairs)
            starts = [
                builder.add(builder.mul(number(rows, row), width), i) for row in (k, following)
            ]
            for part, total in zip(parts, totals, strict=True):
                places = [builder.add(start, _INT64(part)) for start in starts]
                two = [
                    builder.load(_vector_at(builder, weights, place, stored), align=1)
                    for place in places
                ]
                two = [builder.sext(one, pairs) for one in two]
                for order, side in zip(sides, total, strict=True):
                    products = _sums_of_products(builder, both, shuffled(two[0], two[1], order))
                    builder.store(builder.add(builder.load(side), products), side)
        for part, total in zip(parts, totals, strict=True):
            low, high = (builder.load(side) for side in total)
            for first in (0, half):
                order = [first + lane for lane in range(half)]
                order += [LANES + lane for lane in order]
                place = builder.add(i, _INT64(part + 2 * first))
                offset = builder.load(_vector_at(builder, offsets, place, wide), align=4)
                target = _vector_at(builder, sums, place, wide)
                builder.store(builder.add(shuffled(low, high, order), offset), target, align=4)
    return context.get_dummy_value()


@_code()
def rectify(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    wide, narrow = ir.VectorType(_INT32, LANES), ir.VectorType(_INT16, LANES)
    sums, hidden = _arrays(context, builder, signature, arguments)
    shift = _splat(builder, builder.trunc(arguments[1], _INT32), LANES)
    least, most = wide([0] * LANES), wide([MAX_HIDDEN] * LANES)
    terms = builder.extract_value(sums.shape, 0)
    with cgutils.for_range_slice(builder, _INT64(0), terms, _INT64(LANES)) as (k, _):
        value = builder.load(_vector_at(builder, sums, k, wide), align=4)
        value = _clamped(builder, builder.ashr(value, shift), least, most)
        target = _vector_at(builder, hidden, k, narrow)
        builder.store(builder.trunc(value, narrow), target, align=2)
    return context.get_dummy_value()


@_code()
def multiply_pairs(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _multiply(context, builder, signature, arguments, _every_pair)


@_code()
def multiply_sparse(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _multiply(context, builder, signature, arguments, _pairs_not_zero)


def _multiply(
    context: Any, builder: Any, signature: Any, arguments: Any, chosen_pairs: Pairs
) -> Any:
    """Add the products of chosen pairs of numbers, up to BLOCK sums at once."""
    wide = ir.VectorType(_INT32, LANES)
    pairs = ir.VectorType(_INT16, 2 * LANES)
    stored = ir.VectorType(ir.IntType(signature.args[1].dtype.bitwidth), 2 * LANES)
    hidden, weights, offsets, product = _arrays(context, builder, signature, arguments)
    terms = builder.extract_value(hidden.shape, 0)
    width = builder.extract_value(product.shape, 0)

    def make(first: Any, end: Any, block: int) -> None:
        """Make products from ``first`` to ``end``, so many at once."""
        lanes = range(0, block, LANES)
        totals = [cgutils.alloca_once(builder, wide) for _ in lanes]
        with cgutils.for_range_slice(builder, first, end, _INT64(block)) as (i, _):
            for total, lane in zip(totals, lanes, strict=True):
                source = _vector_at(builder, offsets, builder.add(i, _INT64(lane)), wide)
                builder.store(builder.load(source, align=4), total)
            with chosen_pairs(builder, hidden, terms) as k:
                both = builder.bitcast(builder.gep(hidden.data, [k]), _INT32.as_pointer())
                both = _splat(builder, builder.load(both, align=2), LANES)
                start = builder.add(builder.mul(k, width), builder.mul(i, _INT64(2)))
                for total, lane in zip(totals, lanes, strict=True):
                    place = builder.add(start, _INT64(2 * lane))
                    weight = builder.load(_vector_at(builder, weights, place, stored), align=1)
                    weight = builder.sext(weight, pairs) if stored != pairs else weight
                    products = _sums_of_products(builder, builder.bitcast(both, pairs), weight)
                    builder.store(builder.add(builder.load(total), products), total)
            for total, lane in zip(totals, lanes, strict=True):
                target = _vector_at(builder, product, builder.add(i, _INT64(lane)), wide)
                builder.store(builder.load(total), target, align=4)

    whole = builder.and_(width, _INT64(-BLOCK))
    make(_INT64(0), whole, BLOCK)
    make(whole, width, LANES)
    return context.get_dummy_value()


@contextmanager
def _every_pair(builder: Any, hidden: Any, terms: Any) -> Iterator[Any]:
    """Loop over the places of pairs of numbers."""
    with cgutils.for_range_slice(builder, _INT64(0), terms, _INT64(2)) as (k, _):
        yield k


@contextmanager
def _pairs_not_zero(builder: Any, hidden: Any, terms: Any) -> Iterator[Any]:
    """Loop over the places of pairs of numbers that are not both zero: 64 pairs are looked at, a
    bit for each, before any of them is worked on, as no processor foresees which they are."""
    lanes = LANES // 2
    wide = ir.VectorType(_INT32, lanes)
    rest = cgutils.alloca_once(builder, _INT64)
    with cgutils.for_range_slice(builder, _INT64(0), terms, _INT64(128)) as (first, _):
        left = builder.sub(terms, first)
        is_last = builder.icmp_signed("<", left, _INT64(128))
        here = builder.select(is_last, left, _INT64(128))
        builder.store(_INT64(0), rest)
        with cgutils.for_range_slice(builder, _INT64(0), here, _INT64(2 * lanes)) as (k, _):
            source = _vector_at(builder, hidden, builder.add(first, k), wide)
            found = builder.icmp_unsigned("!=", builder.load(source, align=2), wide([0] * lanes))
            bits = builder.zext(builder.bitcast(found, ir.IntType(lanes)), _INT64)
            bits = builder.shl(bits, builder.lshr(k, _INT64(1)))
            builder.store(builder.or_(builder.load(rest), bits), rest)
        count = builder.ctpop(builder.load(rest))
        with cgutils.for_range_slice(builder, _INT64(0), count, _INT64(1)):
            bits = builder.load(rest)
            number = builder.cttz(bits, ir.Constant(ir.IntType(1), 1))
            builder.store(builder.and_(bits, builder.sub(bits, _INT64(1))), rest)
            yield builder.add(first, builder.shl(number, _INT64(1)))


@_code()
def add_scaled(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    sums, weights = _arrays(context, builder, signature, arguments)
    row, factor = arguments[2:]
    wide = ir.VectorType(_INT32, LANES)
    narrow = ir.VectorType(_INT16, LANES)
    width = builder.extract_value(sums.shape, 0)
    start = builder.mul(row, width)
    factors = _splat(builder, builder.trunc(factor, _INT32), LANES)
    with cgutils.for_range_slice(builder, _INT64(0), width, _INT64(LANES)) as (i, _):
        source = _vector_at(builder, weights, builder.add(start, i), narrow)
        weight = builder.load(source, align=2)
        target = _vector_at(builder, sums, i, wide)
        product = builder.mul(builder.sext(weight, wide), factors)
        builder.store(builder.add(builder.load(target, align=4), product), target, align=4)
    return context.get_dummy_value()


@_code()
def multiply_tile(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = ir.VectorType(_FLOAT, COLUMNS)
    left, right, product = _arrays(context, builder, signature, arguments)
    row, column = arguments[3:]
    depth = builder.extract_value(left.shape, 1)
    width = builder.extract_value(right.shape, 1)

    def at(array: Any, i: Any, stride: Any, j: Any) -> Any:
        return builder.gep(array.data, [builder.add(builder.mul(i, stride), j)])

    def vector_at(address: Any) -> Any:
        return builder.bitcast(address, vector.as_pointer())

    def add_terms(first: Any, count: int) -> None:
        terms = [builder.add(first, _INT64(k)) for k in range(count)]
        factors = [builder.load(vector_at(at(right, i, width, column)), align=4) for i in terms]
        for k, total in enumerate(totals):
            parts = []
            for i, factor in zip(terms, factors, strict=True):
                scalar = builder.load(at(left, builder.add(row, _INT64(k)), depth, i))
                parts.append(builder.fmul(_splat(builder, scalar, COLUMNS), factor))
            builder.store(builder.fadd(builder.load(total), _summed(builder, parts)), total)

    zero = vector([0.0] * COLUMNS)
    totals = [cgutils.alloca_once(builder, vector) for _ in range(ROWS)]
    for total in totals:
        builder.store(zero, total)
    fours = builder.and_(depth, _INT64(-4))
    with cgutils.for_range_slice(builder, _INT64(0), fours, _INT64(4)) as (i, _):
        add_terms(i, 4)
    with cgutils.for_range_slice(builder, fours, depth, _INT64(1)) as (i, _):
        add_terms(i, 1)
    for k, total in enumerate(totals):
        target = vector_at(at(product, builder.add(row, _INT64(k)), width, column))
        builder.store(builder.load(total), target, align=4)
    return context.get_dummy_value()


@_code()
def convolve_pixel(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _convolve(context, builder, signature, arguments, 1)


@_code()
def convolve_tile(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return _convolve(context, builder, signature, arguments, PIXELS)


def _convolve(context: Any, builder: Any, signature: Any, arguments: Any, num_pixels: int) -> Any:
    """The sums of some pixels of a row by 16 channels, which stay in registers."""
    vector, pairs = ir.VectorType(_INT32, CHANNELS), ir.VectorType(_INT16, 2 * CHANNELS)
    arrays = _arrays(context, builder, signature, arguments)
    source, weights, scales, biases, target = arrays
    sizes = [cgutils.unpack_tuple(builder, array.shape) for array in arrays]
    taken, made = (_integers(context, builder, signature, arguments, k) for k in (5, 6))
    block, taps, ending = arguments[7:]
    depth = sizes[0][2]

    def at(array: Any, size: Any, *indices: Any, of: Any = None) -> Any:
        place = indices[0]
        for length, index in zip(size[1:], indices[1:], strict=True):
            place = builder.add(builder.mul(place, length), index)
        address = builder.gep(array.data, [place])
        return address if of is None else builder.bitcast(address, of.as_pointer())

    def column(place: list[Any], pixel: int) -> Any:
        return builder.add(place[1], builder.mul(_INT64(pixel), place[2]))

    totals = [cgutils.alloca_once_value(builder, vector([0] * CHANNELS)) for _ in range(num_pixels)]
    with (
        cgutils.for_range_slice(builder, _INT64(0), taps, _INT64(1)) as (y, _),
        cgutils.for_range_slice(builder, _INT64(0), taps, _INT64(1)) as (x, _),
    ):
        row = builder.add(taken[0], y)
        pixels = [
            at(source, sizes[0], row, builder.add(column(taken, pixel), x), _INT64(0))
            for pixel in range(num_pixels)
        ]
        tap = builder.mul(builder.add(builder.mul(y, taps), x), depth)
        first = at(weights, sizes[1], block, builder.lshr(tap, _INT64(1)), _INT64(0), _INT64(0))
        with cgutils.for_range_slice(builder, _INT64(0), depth, _INT64(4)) as (start, _):
            for i in (start, builder.add(start, _INT64(2))):
                factors = builder.gep(first, [builder.mul(i, _INT64(CHANNELS))])
                factors = builder.load(builder.bitcast(factors, pairs.as_pointer()), align=2)
                for pixel, total in zip(pixels, totals, strict=True):
                    both = builder.bitcast(builder.gep(pixel, [i]), _INT32.as_pointer())
                    both = _splat(builder, builder.load(both, align=2), CHANNELS)
                    products = _sums_of_products(builder, builder.bitcast(both, pairs), factors)
                    builder.store(builder.add(builder.load(total), products), total)
    numbers = ir.VectorType(_FLOAT, CHANNELS)
    scale = builder.load(at(scales, sizes[2], block, _INT64(0), of=numbers), align=4)
    for pixel, total in enumerate(totals):
        across = column(made, pixel)
        phases = [
            builder.and_(builder.sub(k, _INT64(1)), _INT64(PERIOD - 1)) for k in (made[0], across)
        ]
        bias = builder.load(at(biases, sizes[3], *phases, block, _INT64(0), of=numbers), align=4)
        value = builder.fmul(builder.sitofp(builder.load(total), numbers), scale)
        channel = builder.mul(block, _INT64(CHANNELS))
        place = at(target, sizes[4], made[0], across, channel, of=ir.VectorType(_INT16, CHANNELS))
        _finish(builder, builder.fadd(value, bias), place, ending)
    return context.get_dummy_value()


def _summed(builder: Any, terms: list[Any]) -> Any:
    """Add numbers, two neighbours at a time."""
    while len(terms) > 1:
        terms = [builder.fadd(a, b) for a, b in zip(terms[::2], terms[1::2], strict=True)]
    return terms[0]


def _sums_of_products(builder: Any, left: Any, right: Any) -> Any:
    """Multiply int16 by int16 and add two neighbours each: an instruction of most processors."""
    wide = ir.VectorType(_INT32, left.type.count)
    products = builder.mul(builder.sext(left, wide), builder.sext(right, wide))
    every_second = [
        ir.Constant(ir.VectorType(_INT32, wide.count // 2), list(range(first, wide.count, 2)))
        for first in (0, 1)
    ]
    parts = [builder.shuffle_vector(products, wide(ir.Undefined), k) for k in every_second]
    return builder.add(*parts)


def _finish(builder: Any, value: Any, place: Any, ending: Any) -> None:
    """Round numbers, and write them to their place as ``ending`` says."""
    kind = value.type
    rint = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind]), f"llvm.rint.v{CHANNELS}f32"
    )
    value = builder.call(rint, [value])
    before = builder.sitofp(builder.load(place, align=2), kind)
    is_added = builder.icmp_signed("==", ending, _INT64(ADD))
    value = builder.select(is_added, builder.fadd(value, before), value)
    is_rectified = builder.icmp_signed("==", ending, _INT64(RECTIFY))
    largest = kind([float(LARGEST)] * CHANNELS)
    least = builder.select(is_rectified, kind([0.0] * CHANNELS), kind([-float(LARGEST)] * CHANNELS))
    value = builder.select(builder.fcmp_ordered(">", value, least), value, least)
    value = builder.select(builder.fcmp_ordered("<", value, largest), value, largest)
    whole = builder.fptosi(value, ir.VectorType(_INT32, CHANNELS))
    builder.store(builder.trunc(whole, place.type.pointee), place, align=2)


@_code("int64")
def mask_above(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector, integers = ir.VectorType(_FLOAT, 64), ir.VectorType(_INT32, 64)
    (numbers,) = _arrays(context, builder, signature, arguments)
    bits = builder.load(builder.bitcast(numbers.data, integers.as_pointer()), align=4)
    size = builder.bitcast(builder.and_(bits, integers([0x7FFFFFFF] * 64)), vector)
    above = builder.fcmp_ordered(">", size, _splat(builder, arguments[1], 64))
    return builder.bitcast(above, _INT64)


@_code()
def add_estimate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    patch, line = ir.VectorType(_FLOAT, 64), ir.VectorType(_FLOAT, 8)
    coefficients, synthesis, total = _arrays(context, builder, signature, arguments)
    mask, share, top, left = (arguments[k] for k in (1, 3, 5, 6))
    first = coefficients.data

    start = _splat(builder, builder.fmul(builder.load(first), _FLOAT(0.125)), 64)
    before, function = builder.block, builder.function
    test, body, done = (function.append_basic_block(name) for name in ("test", "body", "done"))
    builder.branch(test)
    builder.position_at_end(test)
    rest, estimate = builder.phi(_INT64), builder.phi(patch)
    rest.add_incoming(mask, before)
    estimate.add_incoming(start, before)
    builder.cbranch(builder.icmp_signed("!=", rest, _INT64(0)), body, done)
    builder.position_at_end(body)
    j = builder.cttz(rest, ir.Constant(ir.IntType(1), 1))
    value = builder.load(builder.gep(first, [j]))
    atom = builder.gep(synthesis.data, [builder.mul(j, _INT64(64))])
    atom = builder.load(builder.bitcast(atom, patch.as_pointer()), align=4)
    longer = builder.fadd(estimate, builder.fmul(_splat(builder, value, 64), atom))
    rest.add_incoming(builder.and_(rest, builder.sub(rest, _INT64(1))), body)
    estimate.add_incoming(longer, body)
    builder.branch(test)
    builder.position_at_end(done)
    pitch = builder.extract_value(total.shape, 1)
    shares = _splat(builder, share, 8)
    for y in range(8):
        lanes = ir.Constant(ir.VectorType(_INT32, 8), list(range(8 * y, 8 * y + 8)))
        part = builder.shuffle_vector(estimate, patch(ir.Undefined), lanes)
        place = builder.add(builder.mul(builder.add(top, _INT64(y)), pitch), left)
        target = builder.bitcast(builder.gep(total.data, [place]), line.as_pointer())
        sums = builder.fadd(builder.load(target, align=4), builder.fmul(shares, part))
        builder.store(sums, target, align=4)
    return context.get_dummy_value()


@_code()
def turn_row(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    four = ir.VectorType(_FLOAT, 4)
    plane, change = _arrays(context, builder, signature, arguments)
    y, x = arguments[2:]
    after = builder.add(builder.mul(y, builder.extract_value(plane.shape, 1)), x)
    places = [
        _vector_at(builder, plane, place, four) for place in (builder.sub(after, _INT64(4)), after)
    ]
    left, right = (builder.load(place, align=4) for place in places)

    def turned(vector: Any, lanes: list[int]) -> Any:
        order = ir.Constant(ir.VectorType(_INT32, 4), lanes)
        return builder.shuffle_vector(vector, four(ir.Undefined), order)

    differences = builder.fsub(left, turned(right, [3, 2, 1, 0]))
    added = None
    for k in range(4):
        row = builder.load(_vector_at(builder, change, _INT64(4 * k), four), align=4)
        term = builder.fmul(row, turned(differences, [k] * 4))
        added = term if added is None else builder.fadd(added, term)
    builder.store(builder.fadd(left, added), places[0], align=4)
    builder.store(builder.fsub(right, turned(added, [3, 2, 1, 0])), places[1], align=4)
    return context.get_dummy_value()


@_code()
def transform_column(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    eight = ir.VectorType(_FLOAT, 8)
    plane, columns = _arrays(context, builder, signature, arguments)
    top, x = arguments[1:3]
    width = builder.extract_value(plane.shape, 1)
    terms = []
    for y in range(8):
        place = builder.add(builder.mul(builder.add(top, _INT64(y)), width), x)
        sample = _splat(builder, builder.load(builder.gep(plane.data, [place])), 8)
        terms.append(builder.fmul(sample, eight([float(number) for number in COSINES[y]])))
    target = _vector_at(builder, columns, builder.mul(x, _INT64(8)), eight)
    builder.store(_summed(builder, terms), target, align=4)
    return context.get_dummy_value()


@_code()
def transform_rows(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    eight = ir.VectorType(_FLOAT, 8)
    columns, coefficients = _arrays(context, builder, signature, arguments)
    loaded = []
    for j in range(8):
        place = builder.mul(builder.add(arguments[1], _INT64(j)), _INT64(8))
        loaded.append(builder.load(_vector_at(builder, columns, place, eight), align=4))
    pairs = list(zip(loaded[:4], reversed(loaded[4:]), strict=True))
    folded = [builder.fadd(a, b) for a, b in pairs], [builder.fsub(a, b) for a, b in pairs]
    for i in range(8):
        terms = [
            builder.fmul(number, eight([float(COSINES[j, i])] * 8))
            for j, number in enumerate(folded[i % 2])
        ]
        target = _vector_at(builder, coefficients, _INT64(8 * i), eight)
        builder.store(_summed(builder, terms), target, align=4)
    return context.get_dummy_value()


@_code()
def filter_block(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    block, line = ir.VectorType(_FLOAT, 16), ir.VectorType(_FLOAT, 4)
    removed, clean, weights, offsets, filtered = _arrays(context, builder, signature, arguments)
    row, quarter, top, left = arguments[5:]
    pitch = builder.extract_value(clean.shape, 1)
    first = builder.mul(builder.add(top, _INT64(RADIUS)), pitch)
    first = builder.add(first, builder.add(left, _INT64(RADIUS)))
    weight_row = builder.mul(row, _INT64(16 * NUM_TAPS))
    offset_row = builder.mul(quarter, _INT64(NUM_TAPS))

    def joined(lines: list[Any]) -> Any:
        while len(lines) > 1:
            lanes = ir.VectorType(_INT32, 2 * lines[0].type.count)
            order = ir.Constant(lanes, list(range(lanes.count)))
            pairs = zip(lines[::2], lines[1::2], strict=True)
            lines = [builder.shuffle_vector(a, b, order) for a, b in pairs]
        return lines[0]

    def four_by_four(array: Any, place: Any) -> Any:
        lines = []
        for y in range(4):
            start = builder.add(place, builder.mul(pitch, _INT64(y)))
            start = builder.bitcast(builder.gep(array.data, [start]), line.as_pointer())
            lines.append(builder.load(start, align=4))
        return joined(lines)

    def tap(array: Any, k: Any) -> tuple[Any, Any]:
        offset = builder.load(builder.gep(offsets.data, [builder.add(offset_row, k)]))
        place = builder.add(weight_row, builder.mul(k, _INT64(16)))
        weight = builder.bitcast(builder.gep(weights.data, [place]), block.as_pointer())
        return builder.load(weight, align=4), four_by_four(array, builder.add(first, offset))

    centre = four_by_four(clean, first)
    total = cgutils.alloca_once(builder, block)
    builder.store(block([0.0] * 16), total)
    with cgutils.for_range_slice(builder, _INT64(0), _INT64(NUM_CLEAN), _INT64(1)) as (k, _):
        weight, pixels = tap(clean, k)
        product = builder.fmul(weight, builder.fsub(pixels, centre))
        builder.store(builder.fadd(builder.load(total), product), total)
    with cgutils.for_range_slice(builder, _INT64(NUM_CLEAN), _INT64(NUM_TAPS), _INT64(1)) as (k, _):
        weight, pixels = tap(removed, k)
        builder.store(builder.fadd(builder.load(total), builder.fmul(weight, pixels)), total)
    result = builder.fadd(centre, builder.load(total))
    width = builder.extract_value(filtered.shape, 1)
    for y in range(4):
        part = ir.Constant(ir.VectorType(_INT32, 4), list(range(4 * y, 4 * y + 4)))
        start = builder.add(builder.mul(builder.add(top, _INT64(y)), width), left)
        start = builder.bitcast(builder.gep(filtered.data, [start]), line.as_pointer())
        builder.store(builder.shuffle_vector(result, block(ir.Undefined), part), start, align=4)
    return context.get_dummy_value()


@_code("int64")
def mix(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = ir.VectorType(_INT32, MAX_INPUTS)
    stretch, slots, weights, logits = (
        array.data for array in _arrays(context, builder, signature, arguments)
    )
    heard = vector([0] * MAX_INPUTS)
    for k, place in enumerate(_slot_places(context, builder, signature, arguments, slots, 4)):
        twelve_bits = builder.lshr(builder.load(place), _INT32(20))
        logit = builder.load(builder.gep(stretch, [builder.zext(twelve_bits, _INT64)]))
        heard = builder.insert_element(heard, builder.sext(logit, _INT32), _INT32(k))
    hint = builder.trunc(arguments[5], _INT32)
    heard = builder.insert_element(heard, hint, _INT32(len(signature.args[4])))
    first, second = (_row(builder, weights, row, vector) for row in arguments[6:])
    both = builder.add(builder.load(first, align=4), builder.load(second, align=4))
    products = builder.mul(heard, builder.ashr(both, vector([4] * MAX_INPUTS)))
    total = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(_INT32, [vector]),
        f"llvm.vector.reduce.add.v{MAX_INPUTS}i32",
    )
    logit = builder.ashr(builder.call(total, [products]), _INT32(12))
    logit = _clamped(builder, logit, _INT32(-LOGIT_LIMIT), _INT32(LOGIT_LIMIT))
    builder.store(heard, builder.bitcast(logits, vector.as_pointer()), align=4)
    return builder.sext(logit, _INT64)


@_code()
def learn(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    vector = ir.VectorType(_INT32, MAX_INPUTS)
    reciprocal, slots, weights, logits = (
        array.data for array in _arrays(context, builder, signature, arguments)
    )
    first, second, error = arguments[5:]
    sign = builder.sext(builder.icmp_signed(">", error, _INT64(0)), _INT32)  # all bits the bit's
    error = builder.ashr(builder.trunc(error, _INT32), _INT32(1))
    heard = builder.load(builder.bitcast(logits, vector.as_pointer()), align=4)
    change = builder.mul(heard, _splat(builder, error, MAX_INPUTS))
    change = builder.add(change, vector([1 << 13] * MAX_INPUTS))
    change = builder.ashr(change, vector([14] * MAX_INPUTS))
    low, high = vector([-WEIGHT_LIMIT] * MAX_INPUTS), vector([WEIGHT_LIMIT] * MAX_INPUTS)
    for place in _slot_places(context, builder, signature, arguments, slots, 4):
        slot = builder.load(place)
        seen, chance = builder.and_(slot, _INT32(1023)), builder.lshr(slot, _INT32(10))
        far = builder.xor(chance, builder.and_(sign, _INT32(TOP)))
        rate = builder.load(builder.gep(reciprocal, [builder.zext(seen, _INT64)]))
        step = builder.mul(builder.lshr(far, _INT32(7)), builder.zext(rate, _INT32))
        step = builder.lshr(step, _INT32(9))
        # Towards 1 or towards 0: the negative of a number is its complement and one more.
        step = builder.sub(builder.xor(step, builder.not_(sign)), builder.not_(sign))
        chance = builder.add(chance, step)
        fresh = builder.zext(builder.icmp_unsigned("<", seen, _INT32(SLOT_LIMIT)), _INT32)
        moved = builder.or_(builder.shl(chance, _INT32(10)), builder.add(seen, fresh))
        builder.store(moved, place)
    for row in (first, second):
        place = _row(builder, weights, row, vector)
        moved = builder.add(builder.load(place, align=4), change)
        builder.store(_clamped(builder, moved, low, high), place, align=4)
    return context.get_dummy_value()


def _slot_places(
    context: Any, builder: Any, signature: Any, arguments: Any, slots: Any, where: int
) -> Iterator[Any]:
    """Pointers to the slots of a tuple of contexts, which is argument ``where``."""
    for index in _integers(context, builder, signature, arguments, where):
        yield builder.gep(slots, [index])


def _integers(context: Any, builder: Any, signature: Any, arguments: Any, where: int) -> list[Any]:
    """The numbers of a tuple, which is argument ``where``."""
    return [
        context.cast(builder, builder.extract_value(arguments[where], k), kind, types.int64)
        for k, kind in enumerate(signature.args[where])
    ]


def _vector_at(builder: Any, array: Any, place: Any, kind: Any) -> Any:
    """Pointer to an array's elements from ``place`` on, as a vector."""
    return builder.bitcast(builder.gep(array.data, [place]), kind.as_pointer())


def _row(builder: Any, weights: Any, row: Any, vector: Any) -> Any:
    """Pointer to a row of weights, as a vector."""
    place = builder.gep(weights, [builder.mul(row, row.type(MAX_INPUTS))])
    return builder.bitcast(place, vector.as_pointer())


def _clamped(builder: Any, value: Any, low: Any, high: Any) -> Any:
    value = builder.select(builder.icmp_signed("<", value, low), low, value)
    return builder.select(builder.icmp_signed(">", value, high), high, value)
