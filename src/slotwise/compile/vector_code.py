"""Write passes in LLVM's vectors, such as those of `slotwise.selection.passes`.

Used by `internals`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature

from slotwise.compile.decorators import LANES, WINDOW, WORD

Codegen = Callable[[BaseContext, ir.IRBuilder, Signature, Sequence[ir.Value]], ir.Value]

DOUBLE, INT = ir.DoubleType(), ir.IntType(64)


def numbers_of(
    context: BaseContext,
    builder: ir.IRBuilder,
    signature: Signature,
    arguments: Sequence[ir.Value],
    place: int,
) -> ir.Value:
    """Return the address of the numbers of an array."""
    array = context.make_array(signature.args[place])(context, builder, arguments[place])
    return array.data


def splat(builder: ir.IRBuilder, number: ir.Value, lanes: int) -> ir.Value:
    """Return a vector with the same number in all lanes."""
    vector = ir.VectorType(number.type, lanes)
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    )


def load(builder: ir.IRBuilder, numbers: ir.Value, place: ir.Value, lanes: int) -> ir.Value:
    """Read a vector from an array of doubles."""
    address = builder.gep(numbers, [place])
    return builder.load(
        builder.bitcast(address, ir.VectorType(DOUBLE, lanes).as_pointer()), align=8
    )


def store(builder: ir.IRBuilder, numbers: ir.Value, place: ir.Value, vector: ir.Value) -> None:
    """Write a vector, or one number, into an array of doubles."""
    address = builder.bitcast(builder.gep(numbers, [place]), vector.type.as_pointer())
    builder.store(vector, address, align=8)


@contextmanager
def words_of(
    builder: ir.IRBuilder, n_entries: ir.Value, size: int
) -> Iterator[tuple[ir.Value, ir.Value]]:
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


def load_lanes(
    builder: ir.IRBuilder, numbers: ir.Value, place: ir.Value, is_there: ir.Value
) -> ir.Value:
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


def reduce_lanes(
    builder: ir.IRBuilder, vector: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value]
) -> ir.Value:
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


def taking(builder: ir.IRBuilder, order: str) -> Callable[[ir.Value, ir.Value], ir.Value]:
    """Return a function for the lane-wise minimum ("<") or maximum (">") of two vectors."""
    return lambda one, other: builder.select(
        builder.fcmp_ordered(order, one, other, flags=["nnan", "nsz"]), one, other
    )


class Tally:
    """A number or vector that a loop changes."""

    def __init__(self, builder: ir.IRBuilder, start: ir.Value) -> None:
        self._builder = builder
        self._place = cgutils.alloca_once(builder, start.type)
        self.set(start)

    def get(self) -> ir.Value:
        """Return its value."""
        return self._builder.load(self._place)

    def set(self, number: ir.Value) -> None:
        """Set its value."""
        self._builder.store(number, self._place)


def constant(number: float, lanes: int) -> ir.Value:
    """Return a vector with the same constant in all lanes."""
    return ir.Constant(ir.VectorType(DOUBLE, lanes), [number] * lanes)


def count_of(builder: ir.IRBuilder, mask: ir.Value) -> ir.Value:
    """Return how many lanes of a comparison hold."""
    bits = builder.bitcast(mask, ir.IntType(mask.type.count))
    return builder.zext(builder.ctpop(bits), INT)


def for_each_bit(builder: ir.IRBuilder, bits: ir.Value, do: Callable[[ir.Value], None]) -> None:
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

    def __init__(self, builder: ir.IRBuilder, bound: ir.Value) -> None:
        self._builder, self._bounds = builder, splat(builder, bound, LANES)
        self._below = Tally(builder, constant(-np.inf, LANES))
        self._above = Tally(builder, constant(np.inf, LANES))
        self._count = Tally(builder, ir.Constant(INT, 0))

    def add(self, block: ir.Value, n_known: ir.Value) -> None:
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

    def all(self, context: BaseContext, signature: Signature) -> ir.Value:
        """Return the largest score at or below the bound, the least above it, and the count."""
        builder = self._builder
        below = reduce_lanes(builder, self._below.get(), taking(builder, ">"))
        above = reduce_lanes(builder, self._above.get(), taking(builder, "<"))
        found = [below, above, self._count.get()]
        return context.make_tuple(builder, signature.return_type, found)


def _neighbours_code(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> ir.Value:
    scores = numbers_of(context, builder, signature, arguments, 0)
    n_blocks, bound = arguments[1:]
    found = _Neighbours(builder, bound)
    with cgutils.for_range(builder, n_blocks) as loop:
        at = builder.mul(loop.index, ir.Constant(INT, LANES))
        found.add(load(builder, scores, at, LANES), ir.Constant(INT, 0))
    return found.all(context, signature)


def _score_all_code(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> ir.Value:
    value, clicks, scores = (
        numbers_of(context, builder, signature, arguments, k) for k in (0, 1, 6)
    )
    n_entries, value_weight, click_weight, bound = arguments[2:6]
    by_value, by_clicks = splat(builder, value_weight, LANES), splat(builder, click_weight, LANES)
    found, size = _Neighbours(builder, bound), ir.Constant(INT, LANES)

    def score(start: ir.Value, n_known: ir.Value) -> None:
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


def _sums_code(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> ir.Value:
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

    def add(at: ir.Value, is_there: ir.Value = None) -> None:
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


def _split_code(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> ir.Value:
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
                bit: ir.Value,
                start: ir.Value = start,
                listed: ir.Value = listed,
                count: ir.Value = count,
            ) -> None:
                place = count.get()
                builder.store(builder.add(start, bit), builder.gep(listed, [place]))
                count.set(builder.add(place, ir.Constant(INT, 1)))

            for_each_bit(builder, bits, note)
    found = [count.get() for count in counts]
    return context.make_tuple(builder, signature.return_type, found)


def _list_code(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> ir.Value:
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

        def note(bit: ir.Value, start: ir.Value = start) -> None:
            link, place = builder.add(start, bit), count.get()
            builder.store(link, builder.gep(listed, [place]))
            for source, target in ((value, listed_value), (clicks, listed_clicks)):
                number = builder.load(builder.gep(source, [link]))
                builder.store(number, builder.gep(target, [place]))
            count.set(builder.add(place, ir.Constant(INT, 1)))

        for_each_bit(builder, builder.shl(bits, done), note)
    return count.get()


def _below_code(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> ir.Value:
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


def _above_code(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> ir.Value:
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


def _uniform_code(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> ir.Value:
    kind = signature.args[0]
    if isinstance(kind, types.BaseTuple):
        state, address = cgutils.unpack_tuple(builder, arguments[0])
    else:
        whole = cgutils.create_struct_proxy(kind)(context, builder, arguments[0])
        inside = context.data_model_manager[kind].get_member_fe_type("bit_generator")
        bits = cgutils.create_struct_proxy(inside)(context, builder, whole.bit_generator)
        state, address = bits.state, bits.fnptr_next_double
    draw = ir.FunctionType(DOUBLE, [INT]).as_pointer()
    return builder.call(builder.inttoptr(address, draw), [state])


_NEIGHBOURS = types.Tuple((types.float64, types.float64, types.int64))

CODE: dict[str, tuple[types.Type, Codegen]] = {
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
}
"""What each vector pass returns, and the function that writes its code."""
