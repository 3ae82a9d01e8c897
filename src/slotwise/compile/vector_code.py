"""Write passes in LLVM's vectors, such as those of `slotwise.selection.passes`.

Used by `internals`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import core

from slotwise.compile.decorators import LANES, WINDOW, WORD

Builder = Any
Codegen = Callable[[Any, Builder, Any, Any], Any]

# types that numba does not have
cgutils: Any = core.cgutils
ir: Any = cgutils.ir
types: Any = core.types

DOUBLE, INT, WIDE = ir.DoubleType(), ir.IntType(64), ir.IntType(128)

NEXT_DOUBLE = ir.FunctionType(DOUBLE, [INT])
PCG64 = "slotwise_pcg64_next_double"
"""The function of numpy's default generator; stored machine code knows it by this name."""
PAIRS = 8
"""Pairs of numbers that are drawn at once."""
MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
"""The factor of a step of PCG64 (O'Neill 2014)."""


def _address_of_pcg64() -> int:
    """Return the address of that function, or 1 if this numpy stores the state differently."""
    generator = np.random.PCG64(1)
    state = ctypes.c_uint64.from_address(generator.ctypes.state_address).value
    known = generator.state["state"]
    expected = b"".join(known[name].to_bytes(16, "little") for name in ("state", "inc"))
    address = ctypes.cast(generator.ctypes.next_double, ctypes.c_void_p).value
    return address if address and ctypes.string_at(state, 32) == expected else 1


core.codegen.ll.add_symbol(PCG64, _address_of_pcg64())  # type: ignore[attr-defined]


def numbers_of(context: Any, builder: Builder, signature: Any, arguments: Any, place: int) -> Any:
    """Return the address of the numbers of an array."""
    array = context.make_array(signature.args[place])(context, builder, arguments[place])
    return array.data


def splat(builder: Builder, number: Any, lanes: int) -> Any:
    """Return a vector with the same number in all lanes."""
    vector = ir.VectorType(number.type, lanes)
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    )


def load(builder: Builder, numbers: Any, place: Any, lanes: int) -> Any:
    """Read a vector from an array of doubles."""
    address = builder.gep(numbers, [place])
    return builder.load(
        builder.bitcast(address, ir.VectorType(DOUBLE, lanes).as_pointer()), align=8
    )


def store(builder: Builder, numbers: Any, place: Any, vector: Any) -> None:
    """Write a vector, or one number, into an array of doubles."""
    address = builder.bitcast(builder.gep(numbers, [place]), vector.type.as_pointer())
    builder.store(vector, address, align=8)


@contextmanager
def words_of(builder: Builder, n_entries: Any, size: int) -> Iterator[tuple[Any, Any]]:
    """Write a loop over the words of at least `size` entries: where each starts, what is done.

    The last word overlaps the one before it instead of reaching beyond the arrays, so that its
    first entries may be done already.
    """
    word = ir.Constant(INT, size)
    n_words = builder.sdiv(builder.add(n_entries, ir.Constant(INT, size - 1)), word)
    last_start = builder.sub(n_entries, word)
    with cgutils.for_range(builder, n_words) as loop:
        wanted = builder.mul(loop.index, word)
        is_whole = builder.icmp_signed("<=", wanted, last_start)
        start = builder.select(is_whole, wanted, last_start)
        yield start, builder.sub(wanted, start)


def load_lanes(builder: Builder, numbers: Any, place: Any, is_there: Any) -> Any:
    """Read some lanes of a vector from an array of doubles; the others are zero.

    Masked lanes are not read: the vector may extend beyond the array.
    """
    lanes = is_there.type.count
    vector, align = ir.VectorType(DOUBLE, lanes), ir.IntType(32)
    address = builder.bitcast(builder.gep(numbers, [place]), vector.as_pointer())
    form = ir.FunctionType(vector, [address.type, align, is_there.type, vector])
    name = f"llvm.masked.load.v{lanes}f64.p0"
    read = cgutils.get_or_insert_function(builder.module, form, name)
    return builder.call(read, [address, ir.Constant(align, 8), is_there, constant(0.0, lanes)])


def store_lanes(builder: Builder, numbers: Any, place: Any, vector: Any, is_there: Any) -> None:
    """Write some lanes of a vector into an array of doubles."""
    address, align = builder.gep(numbers, [place]), ir.IntType(32)
    address = builder.bitcast(address, vector.type.as_pointer())
    form = ir.FunctionType(ir.VoidType(), [vector.type, address.type, align, is_there.type])
    name = f"llvm.masked.store.v{vector.type.count}f64.p0"
    write = cgutils.get_or_insert_function(builder.module, form, name)
    builder.call(write, [vector, address, ir.Constant(align, 8), is_there])


def reduce_lanes(builder: Builder, vector: Any, join: Callable[[Any, Any], Any]) -> Any:
    """Join the lanes of a vector: halves, quarters, and so on."""
    lanes = vector.type.count
    while lanes > 1:
        lanes //= 2
        nothing = ir.Constant(vector.type, ir.Undefined)
        low, high = (
            builder.shuffle_vector(
                vector,
                nothing,
                ir.Constant(ir.VectorType(ir.IntType(32), lanes), list(range(at, at + lanes))),
            )
            for at in (0, lanes)
        )
        vector = join(low, high)
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def taking(builder: Builder, order: str) -> Callable[[Any, Any], Any]:
    """Return a function for the lane-wise minimum ("<") or maximum (">") of two vectors."""
    return lambda one, other: builder.select(
        builder.fcmp_ordered(order, one, other, flags=["nnan", "nsz"]), one, other
    )


class Tally:
    """A number or vector that a loop changes."""

    def __init__(self, builder: Builder, start: Any) -> None:
        self._builder = builder
        self._place = cgutils.alloca_once(builder, start.type)
        self.set(start)

    def get(self) -> Any:
        """Return its value."""
        return self._builder.load(self._place)

    def set(self, number: Any) -> None:
        """Set its value."""
        self._builder.store(number, self._place)


def constant(number: float, lanes: int) -> Any:
    """Return a vector with the same constant in all lanes."""
    return ir.Constant(ir.VectorType(DOUBLE, lanes), [number] * lanes)


def count_of(builder: Builder, mask: Any) -> Any:
    """Return how many lanes of a comparison hold."""
    bits = builder.bitcast(mask, ir.IntType(mask.type.count))
    return builder.zext(builder.ctpop(bits), INT)


def for_each_bit(builder: Builder, bits: Any, do: Callable[[Any], None]) -> None:
    """Write a loop that calls `do` with the place of each bit that is set, the lowest first."""
    left = Tally(builder, bits)
    test, body, end = (builder.append_basic_block(name) for name in ("test", "bit", "end"))
    builder.branch(test)
    builder.position_at_end(test)
    builder.cbranch(builder.icmp_unsigned("!=", left.get(), ir.Constant(INT, 0)), body, end)
    builder.position_at_end(body)
    bits = left.get()
    left.set(builder.and_(bits, builder.sub(bits, ir.Constant(INT, 1))))
    do(builder.cttz(bits, ir.Constant(ir.IntType(1), 1)))
    builder.branch(test)
    builder.position_at_end(end)


class _Neighbours:
    """The scores on both sides of a bound, and how many are above it, as a loop finds them."""

    def __init__(self, builder: Builder, bound: Any) -> None:
        self._builder, self._bounds = builder, splat(builder, bound, LANES)
        self._below = Tally(builder, constant(-np.inf, LANES))
        self._above = Tally(builder, constant(np.inf, LANES))
        self._count = Tally(builder, ir.Constant(INT, 0))

    def add(self, block: Any, n_known: Any) -> None:
        """Add a block of scores, of which the first `n_known` are counted already."""
        builder, below, above = self._builder, self._below.get(), self._above.get()
        is_above = builder.fcmp_ordered(">", block, self._bounds)
        self._above.set(builder.select(is_above, taking(builder, "<")(above, block), above))
        # a separate comparison: the compiler makes no masked maximum of the first one's negation
        is_below = builder.fcmp_ordered("<=", block, self._bounds)
        self._below.set(builder.select(is_below, taking(builder, ">")(below, block), below))
        bits = builder.zext(builder.bitcast(is_above, ir.IntType(LANES)), INT)
        n_new = builder.ctpop(builder.lshr(bits, n_known))
        self._count.set(builder.add(self._count.get(), n_new))

    def all(self, context: Any, signature: Any) -> Any:
        """Return the largest score at or below the bound, the least above it, and the count."""
        builder = self._builder
        below = reduce_lanes(builder, self._below.get(), taking(builder, ">"))
        above = reduce_lanes(builder, self._above.get(), taking(builder, "<"))
        found = [below, above, self._count.get()]
        return context.make_tuple(builder, signature.return_type, found)


def _neighbours_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    scores = numbers_of(context, builder, signature, arguments, 0)
    n_blocks, bound = arguments[1:]
    found = _Neighbours(builder, bound)
    with cgutils.for_range(builder, n_blocks) as loop:
        at = builder.mul(loop.index, ir.Constant(INT, LANES))
        found.add(load(builder, scores, at, LANES), ir.Constant(INT, 0))
    return found.all(context, signature)


def _score_all_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    value, clicks, scores = (
        numbers_of(context, builder, signature, arguments, k) for k in (0, 1, 6)
    )
    n_entries, value_weight, click_weight, bound = arguments[2:6]
    by_value, by_clicks = splat(builder, value_weight, LANES), splat(builder, click_weight, LANES)
    found, size = _Neighbours(builder, bound), ir.Constant(INT, LANES)

    def score(start: Any, n_known: Any) -> None:
        own = builder.fmul(by_value, load(builder, value, start, LANES))
        priced = builder.fmul(by_clicks, load(builder, clicks, start, LANES))
        block = builder.fadd(own, priced)
        store(builder, scores, start, block)
        found.add(block, n_known)

    store(builder, scores, n_entries, constant(-np.inf, WORD))
    n_blocks = builder.sdiv(n_entries, size)
    with cgutils.for_range(builder, n_blocks) as loop:
        score(builder.mul(loop.index, size), ir.Constant(INT, 0))
    # the last block overlaps the one before it instead of reaching beyond the arrays
    start = builder.sub(n_entries, size)
    score(start, builder.sub(builder.mul(n_blocks, size), start))
    return found.all(context, signature)


def _sums_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    scores, value, clicks = (
        numbers_of(context, builder, signature, arguments, k) for k in range(3)
    )
    n_entries, bound, last = arguments[3:]
    bounds, lasts = splat(builder, bound, LANES), splat(builder, last, LANES)
    size, zero = ir.Constant(INT, LANES), constant(0.0, LANES)
    count = Tally(builder, ir.Constant(INT, 0))
    totals = [Tally(builder, zero) for _ in range(2)]
    slope = Tally(builder, zero)
    join = taking(builder, ">")

    def add(at: Any, is_there: Any = None) -> None:
        """Add the links of a block; after the last whole one, those that are there."""
        block = load(builder, scores, at, LANES)
        is_in = builder.fcmp_ordered(">=", block, bounds)
        if is_there is None:
            numbers = [load(builder, array, at, LANES) for array in (value, clicks)]
        else:
            is_in = builder.and_(is_in, is_there)
            numbers = [load_lanes(builder, array, at, is_there) for array in (value, clicks)]
        count.set(builder.add(count.get(), count_of(builder, is_in)))
        for tally, some in zip(totals, numbers, strict=True):
            before = tally.get()
            tally.set(builder.select(is_in, builder.fadd(before, some), before))
        is_last = builder.fcmp_ordered("==", block, lasts)
        steepest = slope.get()
        slope.set(builder.select(is_last, join(steepest, numbers[1]), steepest))

    n_blocks = builder.sdiv(n_entries, size)
    with cgutils.for_range(builder, n_blocks) as loop:
        add(builder.mul(loop.index, size))
    n_done = builder.mul(n_blocks, size)
    n_left = builder.sub(n_entries, n_done)
    with builder.if_then(builder.icmp_unsigned("!=", n_left, ir.Constant(INT, 0))):
        lanes = ir.Constant(ir.VectorType(INT, LANES), list(range(LANES)))
        add(n_done, builder.icmp_signed("<", lanes, splat(builder, n_left, LANES)))
    sums = [reduce_lanes(builder, tally.get(), builder.fadd) for tally in totals]
    parts = [count.get(), *sums, reduce_lanes(builder, slope.get(), join)]
    return context.make_tuple(builder, signature.return_type, parts)


def _split_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    scores, places, ties = (
        numbers_of(context, builder, signature, arguments, k) for k in (0, 4, 5)
    )
    n_words, certain, least = arguments[1:4]
    certains, leasts = splat(builder, certain, WORD), splat(builder, least, WORD)
    counts = [Tally(builder, ir.Constant(INT, 0)) for _ in range(2)]
    with cgutils.for_range(builder, n_words) as loop:
        start = builder.mul(loop.index, ir.Constant(INT, WORD))
        block = load(builder, scores, start, WORD)
        is_certain = builder.fcmp_ordered(">=", block, certains)
        is_tied = builder.fcmp_ordered(">=", block, leasts)
        above = builder.bitcast(is_certain, INT)
        tied = builder.and_(builder.bitcast(is_tied, INT), builder.not_(above))

        for bits, listed, count in ((above, places, counts[0]), (tied, ties, counts[1])):

            def note(
                bit: Any, start: Any = start, listed: Any = listed, count: Any = count
            ) -> None:
                place = count.get()
                builder.store(builder.add(start, bit), builder.gep(listed, [place]))
                count.set(builder.add(place, ir.Constant(INT, 1)))

            for_each_bit(builder, bits, note)
    found = [count.get() for count in counts]
    return context.make_tuple(builder, signature.return_type, found)


def _list_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    value, clicks = (numbers_of(context, builder, signature, arguments, k) for k in (0, 1))
    n_entries, value_weight, click_weight, cut = arguments[2:6]
    listed, listed_value, listed_clicks = (
        numbers_of(context, builder, signature, arguments, k) for k in (6, 7, 8)
    )
    by_value, by_clicks = splat(builder, value_weight, WORD), splat(builder, click_weight, WORD)
    cuts, count = splat(builder, cut, WORD), Tally(builder, ir.Constant(INT, 0))
    with words_of(builder, n_entries, WORD) as (start, done):
        own = builder.fmul(by_value, load(builder, value, start, WORD))
        priced = builder.fmul(by_clicks, load(builder, clicks, start, WORD))
        mask = builder.fcmp_ordered(">=", builder.fadd(own, priced), cuts)
        bits = builder.lshr(builder.bitcast(mask, INT), done)

        def note(bit: Any, start: Any = start) -> None:
            link, place = builder.add(start, bit), count.get()
            builder.store(link, builder.gep(listed, [place]))
            for source, target in ((value, listed_value), (clicks, listed_clicks)):
                number = builder.load(builder.gep(source, [link]))
                builder.store(number, builder.gep(target, [place]))
            count.set(builder.add(place, ir.Constant(INT, 1)))

        for_each_bit(builder, builder.shl(bits, done), note)
    return count.get()


def _below_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    numbers = numbers_of(context, builder, signature, arguments, 0)
    n_blocks, cap = arguments[1:]
    none, caps = constant(0.0, LANES), splat(builder, cap, LANES)
    total, count = Tally(builder, none), Tally(builder, ir.Constant(INT, 0))
    with cgutils.for_range(builder, n_blocks) as loop:
        block = load(builder, numbers, builder.mul(loop.index, ir.Constant(INT, LANES)), LANES)
        is_below = builder.fcmp_ordered("<", block, caps)
        total.set(builder.fadd(total.get(), builder.select(is_below, block, none)))
        count.set(builder.add(count.get(), count_of(builder, builder.not_(is_below))))
    whole = reduce_lanes(builder, total.get(), builder.fadd)
    return context.make_tuple(builder, signature.return_type, [whole, count.get()])


def _above_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    sums = numbers_of(context, builder, signature, arguments, 0)
    start, bound = arguments[1:]
    bounds, size = splat(builder, bound, WINDOW), ir.Constant(INT, WINDOW)
    at = Tally(builder, builder.sub(start, size))
    body, end = (builder.append_basic_block(name) for name in ("window", "found"))
    builder.branch(body)
    builder.position_at_end(body)
    at.set(builder.add(at.get(), size))
    is_above = builder.fcmp_ordered(">", load(builder, sums, at.get(), WINDOW), bounds)
    bits = builder.bitcast(is_above, ir.IntType(WINDOW))
    builder.cbranch(builder.icmp_unsigned("==", bits, ir.Constant(bits.type, 0)), body, end)
    builder.position_at_end(end)
    place = builder.cttz(bits, ir.Constant(ir.IntType(1), 1))
    return builder.add(at.get(), builder.zext(place, INT))


class _Generator:
    """A random generator in compiled code, given as such or as the two addresses of a `Chance`."""

    def __init__(self, context: Any, builder: Builder, kind: Any, generator: Any) -> None:
        self._builder = builder
        if isinstance(kind, types.BaseTuple):
            self._state, self._address = cgutils.unpack_tuple(builder, generator)
        else:
            whole = cgutils.create_struct_proxy(kind)(context, builder, generator)
            inside = context.data_model_manager[kind].get_member_fe_type("bit_generator")
            bits = cgutils.create_struct_proxy(inside)(context, builder, whole.bit_generator)
            self._state, self._address = bits.state, bits.fnptr_next_double

    def next(self) -> Any:
        """Return the next number."""
        function = self._builder.inttoptr(self._address, NEXT_DOUBLE.as_pointer())
        return self._builder.call(function, [self._state])

    def is_pcg64(self) -> Any:
        """Return whether this is PCG64, whose numbers are computed without a call."""
        builder = self._builder
        function = cgutils.get_or_insert_function(builder.module, NEXT_DOUBLE, PCG64)
        return builder.icmp_unsigned("==", self._address, builder.ptrtoint(function, INT))

    def pcg64(self) -> tuple[Any, Any, Any]:
        """Return where PCG64 stores its state, the state, and the term that a step adds."""
        builder = self._builder
        place = builder.load(builder.inttoptr(self._state, WIDE.as_pointer().as_pointer()))
        term = builder.load(builder.gep(place, [ir.Constant(INT, 1)]), align=8)
        return place, builder.load(place, align=8), term


def _halves(builder: Builder, number: Any) -> tuple[Any, Any]:
    """Return the upper and the lower half of a 128-bit number."""
    high = builder.lshr(number, ir.Constant(WIDE, 64))
    return builder.trunc(high, INT), builder.trunc(number, INT)


def _like(value: Any, number: float) -> Any:
    """Return a constant of the type of `value`, in all lanes of a vector."""
    is_vector = isinstance(value.type, ir.VectorType)
    return ir.Constant(value.type, [number] * value.type.count if is_vector else number)


def _uniform_of(builder: Builder, high: Any, low: Any) -> Any:
    """Return the number of a state of PCG64: its halves joined, rotated by its first six bits."""
    mixed, turn = builder.xor(high, low), builder.lshr(high, _like(high, 58))
    back = builder.and_(builder.neg(turn), _like(high, 63))
    bits = builder.or_(builder.lshr(mixed, turn), builder.shl(mixed, back))
    lanes = getattr(high.type, "count", 0)
    number = builder.sitofp(
        builder.lshr(bits, _like(high, 11)), ir.VectorType(DOUBLE, lanes) if lanes else DOUBLE
    )
    return builder.fmul(number, _like(number, 2.0**-53))


def _uniform_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    rng = _Generator(context, builder, signature.args[0], arguments[0])
    drawn = Tally(builder, ir.Constant(DOUBLE, 0.0))
    with builder.if_else(rng.is_pcg64(), likely=True) as (known, other):
        with known:
            place, state, term = rng.pcg64()
            state = builder.add(builder.mul(state, ir.Constant(WIDE, MULTIPLIER)), term)
            builder.store(state, place, align=8)
            drawn.set(_uniform_of(builder, *_halves(builder, state)))
        with other:
            drawn.set(rng.next())
    return drawn.get()


def _steps(count: int) -> tuple[int, int]:
    """Return what `count` steps multiply a state of PCG64 by, and the term that they add."""
    powers = [pow(MULTIPLIER, power, 2**128) for power in range(count + 1)]
    return powers[-1], sum(powers[:-1]) % 2**128


WideLanes = tuple[Any, Any]
"""128-bit numbers in the lanes of two vectors: their upper and their lower halves."""


def _wide_constants(numbers: Sequence[int]) -> WideLanes:
    halves = [number >> 64 for number in numbers], [number % 2**64 for number in numbers]
    high, low = (ir.Constant(ir.VectorType(INT, len(numbers)), half) for half in halves)
    return high, low


def _times_plus(
    builder: Builder, number: WideLanes, factor: WideLanes, term: WideLanes
) -> WideLanes:
    """Return products plus a term; those of the lower halves are put together from 32 bits each."""
    add, mul, lshr = builder.add, builder.mul, builder.lshr
    (high, low), (by_high, by_low) = number, factor
    half, shift = _like(low, 2**32 - 1), _like(low, 32)
    one, one_rest = builder.and_(low, half), lshr(low, shift)
    two, two_rest = builder.and_(by_low, half), lshr(by_low, shift)
    first = mul(one, two)
    second = add(mul(one_rest, two), lshr(first, shift))
    third = add(mul(one, two_rest), builder.and_(second, half))
    upper = add(mul(one_rest, two_rest), add(lshr(second, shift), lshr(third, shift)))
    upper = add(upper, add(mul(high, by_low), mul(low, by_high)))
    lower = builder.or_(builder.shl(third, shift), builder.and_(first, half))
    total = add(lower, term[1])
    carry = builder.zext(builder.icmp_unsigned("<", total, lower), total.type)
    return add(add(upper, term[0]), carry), total


def _draw_pairs(builder: Builder, rng: _Generator, n_pairs: Any, rows: list[Any]) -> None:
    """Write at least one pair of numbers of PCG64.

    Each lane has the state of another pair of a block, so a block is one step of all lanes.
    """

    def splat_wide(number: Any) -> WideLanes:
        high, low = (splat(builder, half, PAIRS) for half in _halves(builder, number))
        return high, low

    place, state, own = rng.pcg64()
    term, nothing = splat_wide(own), _wide_constants([0] * PAIRS)
    factors, terms = zip(*(_steps(2 * lane + 1) for lane in range(PAIRS)), strict=True)
    terms_of_lanes = _times_plus(builder, term, _wide_constants(terms), nothing)
    start = _times_plus(builder, splat_wide(state), _wide_constants(factors), terms_of_lanes)
    block_factor, block_terms = _steps(2 * PAIRS)
    one_step, block_step = (_wide_constants([by] * PAIRS) for by in (MULTIPLIER, block_factor))
    block_term = splat_wide(builder.mul(own, ir.Constant(WIDE, block_terms)))
    states, last = ([Tally(builder, half) for half in start] for _ in range(2))
    lanes = ir.Constant(ir.VectorType(INT, PAIRS), list(range(PAIRS)))
    size = ir.Constant(INT, PAIRS)
    n_blocks = builder.sdiv(builder.add(n_pairs, ir.Constant(INT, PAIRS - 1)), size)
    with cgutils.for_range(builder, n_blocks) as loop:
        at = builder.mul(loop.index, size)
        n_left = splat(builder, builder.sub(n_pairs, at), PAIRS)
        first = (states[0].get(), states[1].get())
        second = _times_plus(builder, first, one_step, term)
        for row, halves in zip(rows, (first, second), strict=True):
            is_there = builder.icmp_signed("<", lanes, n_left)
            store_lanes(builder, row, at, _uniform_of(builder, *halves), is_there)
        after = _times_plus(builder, first, block_step, block_term)
        for tally, half in zip([*states, *last], [*after, *second], strict=True):
            tally.set(half)
    lane = builder.srem(builder.sub(n_pairs, ir.Constant(INT, 1)), size)
    high, low = (builder.zext(builder.extract_element(half.get(), lane), WIDE) for half in last)
    builder.store(builder.or_(builder.shl(high, ir.Constant(WIDE, 64)), low), place, align=8)


def _pairs_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    rng = _Generator(context, builder, signature.args[0], arguments[0])
    rows = [numbers_of(context, builder, signature, arguments, k) for k in (1, 2)]
    with builder.if_else(rng.is_pcg64(), likely=True) as (known, other):
        with known, builder.if_then(cgutils.is_not_null(builder, arguments[3])):
            _draw_pairs(builder, rng, arguments[3], rows)
        with other, cgutils.for_range(builder, arguments[3]) as loop:
            for row in rows:
                builder.store(rng.next(), builder.gep(row, [loop.index]))
    return context.get_dummy_value()


_NEIGHBOURS = types.Tuple((types.float64, types.float64, types.int64))

CODE: dict[str, tuple[Any, Codegen]] = {
    "neighbours": (_NEIGHBOURS, _neighbours_code),
    "score_all": (_NEIGHBOURS, _score_all_code),
    "page_sums": (
        types.Tuple((types.int64, types.float64, types.float64, types.float64)),
        _sums_code,
    ),
    "split_page": (types.UniTuple(types.int64, 2), _split_code),
    "list_at_least": (types.int64, _list_code),
    "sum_below": (types.Tuple((types.float64, types.int64)), _below_code),
    "first_above": (types.int64, _above_code),
    "next_uniform": (types.float64, _uniform_code),
    "draw_pairs": (types.none, _pairs_code),
}
"""What each vector pass returns, and the function that writes its code."""
