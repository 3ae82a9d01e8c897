"""Passes over arrays of scores, several numbers at a time.

The compiler makes no vector code of a conditional minimum, of a sum of selected numbers or of a
list of selected places, and a page is found by little else. These passes are written in LLVM's
vectors, which every processor has in some width; beside each stands the same in plain Python, which
runs where nothing is compiled and is what the tests compare with.

Arrays of scores are padded to whole words of `WORD` numbers; a padded score is minus infinity.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import core
from numpy.typing import NDArray

__all__ = [
    "LANES",
    "WORD",
    "least_above",
    "list_at_least",
    "most_below",
    "page_sums",
    "score_blocks",
    "split_page",
    "whole_words",
]

Floats = NDArray[np.float64]
Links = NDArray[np.int64]
Builder = Any
Codegen = Callable[[Any, Builder, Any, Any], Any]
Twin = TypeVar("Twin", bound=Callable[..., Any])

LANES = 16
"""Numbers in a block, of which a word has several."""

WORD = 64
"""Numbers whose comparison fills a machine word."""

# what numba has no types for
cgutils: Any = core.cgutils
ir: Any = cgutils.ir
types: Any = core.types
_Intrinsic: Any = core.extending._Intrinsic

_DOUBLE, _INT = ir.DoubleType(), ir.IntType(64)


class _Pass(_Intrinsic):  # type: ignore[misc]
    """A pass that compiled code gets as vectors and Python as it is written."""

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        return self.__wrapped__(*arguments)


def _vector_pass(result: Any, codegen: Codegen) -> Callable[[Twin], Twin]:
    """Return a decorator: in compiled code `codegen` writes the pass instead of the twin."""

    def decorate(twin: Twin) -> Twin:
        def typed(_: Any, *arguments: Any) -> Any:
            wide = [types.float64 if isinstance(one, types.Float) else one for one in arguments]
            whole = [types.int64 if isinstance(one, types.Integer) else one for one in wide]
            return result(*whole), codegen

        context = inspect.Parameter("typing_context", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [context, *inspect.signature(twin).parameters.values()]
        typed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        one: Any = _Pass(twin.__name__, typed)
        one._register()
        one.__wrapped__ = twin
        one.__doc__ = twin.__doc__
        return one

    return decorate


def _numbers(context: Any, builder: Builder, signature: Any, arguments: Any, place: int) -> Any:
    """Return the address of the numbers of an array."""
    array = context.make_array(signature.args[place])(context, builder, arguments[place])
    return array.data


def _splat(builder: Builder, number: Any, lanes: int) -> Any:
    vector = ir.VectorType(number.type, lanes)
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
    )


def _load(builder: Builder, numbers: Any, place: Any, lanes: int) -> Any:
    address = builder.gep(numbers, [place])
    return builder.load(
        builder.bitcast(address, ir.VectorType(_DOUBLE, lanes).as_pointer()), align=8
    )


def _reduce(builder: Builder, vector: Any, join: Callable[[Any, Any], Any]) -> Any:
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


def _smaller(builder: Builder) -> Callable[[Any, Any], Any]:
    return lambda one, other: builder.select(
        builder.fcmp_ordered("<", one, other, flags=["nnan", "nsz"]), one, other
    )


def _larger(builder: Builder) -> Callable[[Any, Any], Any]:
    return lambda one, other: builder.select(
        builder.fcmp_ordered(">", one, other, flags=["nnan", "nsz"]), one, other
    )


class _Tally:
    """A number or vector that a loop changes."""

    def __init__(self, builder: Builder, start: Any) -> None:
        self._builder = builder
        self._place = cgutils.alloca_once(builder, start.type)
        self.set(start)

    def get(self) -> Any:
        return self._builder.load(self._place)

    def set(self, number: Any) -> None:
        self._builder.store(number, self._place)


def _constant(number: float, lanes: int) -> Any:
    return ir.Constant(ir.VectorType(_DOUBLE, lanes), [number] * lanes)


def _count(builder: Builder, mask: Any) -> Any:
    """Return how many lanes of a comparison hold."""
    bits = builder.bitcast(mask, ir.IntType(mask.type.count))
    return builder.zext(builder.ctpop(bits), _INT)


def whole_words(n_numbers: int) -> int:
    """Return the length of an array that has room for so many numbers in whole words."""
    return (n_numbers + WORD - 1) // WORD * WORD


def _for_each_bit(builder: Builder, bits: Any, do: Callable[[Any], None]) -> None:
    """Write a loop that calls `do` with the place of each bit that is set, the lowest first."""
    left = _Tally(builder, bits)
    test, body, end = (builder.append_basic_block(name) for name in ("test", "bit", "end"))
    builder.branch(test)
    builder.position_at_end(test)
    builder.cbranch(builder.icmp_unsigned("!=", left.get(), ir.Constant(_INT, 0)), body, end)
    builder.position_at_end(body)
    bits = left.get()
    left.set(builder.and_(bits, builder.sub(bits, ir.Constant(_INT, 1))))
    do(builder.cttz(bits, ir.Constant(ir.IntType(1), 1)))
    builder.branch(test)
    builder.position_at_end(end)


def _score_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    value, clicks = (_numbers(context, builder, signature, arguments, k) for k in (0, 1))
    value_weight, click_weight, n_blocks = arguments[2:5]
    scores = _numbers(context, builder, signature, arguments, 5)
    by_value, by_clicks = _splat(builder, value_weight, LANES), _splat(builder, click_weight, LANES)
    with cgutils.for_range(builder, n_blocks) as loop:
        at = builder.mul(loop.index, ir.Constant(_INT, LANES))
        own = builder.fmul(by_value, _load(builder, value, at, LANES))
        priced = builder.fmul(by_clicks, _load(builder, clicks, at, LANES))
        address = builder.gep(scores, [at])
        vector = builder.bitcast(address, ir.VectorType(_DOUBLE, LANES).as_pointer())
        builder.store(builder.fadd(own, priced), vector, align=8)
    return context.get_dummy_value()


@_vector_pass(types.void, _score_code)
def score_blocks(
    value: Floats,
    clicks: Floats,
    value_weight: float,
    click_weight: float,
    n_blocks: int,
    scores: Floats,
) -> None:
    """Write value_weight * value + click_weight * clicks of all numbers of some blocks."""
    for k in range(LANES * n_blocks):
        scores[k] = value_weight * value[k] + click_weight * clicks[k]


def _extreme_code(is_least: bool) -> Codegen:
    def code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
        scores = _numbers(context, builder, signature, arguments, 0)
        n_blocks, bound = arguments[1:]
        join = _smaller(builder) if is_least else _larger(builder)
        none = _constant(np.inf if is_least else -np.inf, LANES)
        bounds = _splat(builder, bound, LANES)
        best, count = _Tally(builder, none), _Tally(builder, ir.Constant(_INT, 0))
        with cgutils.for_range(builder, n_blocks) as loop:
            at = builder.mul(loop.index, ir.Constant(_INT, LANES))
            block = _load(builder, scores, at, LANES)
            is_beyond = builder.fcmp_ordered(">" if is_least else "<", block, bounds)
            best.set(join(best.get(), builder.select(is_beyond, block, none)))
            counted = is_beyond if is_least else builder.not_(is_beyond)
            count.set(builder.add(count.get(), _count(builder, counted)))
        found = _reduce(builder, best.get(), join)
        return context.make_tuple(builder, signature.return_type, [found, count.get()])

    return code


_FLOAT_AND_COUNT = types.Tuple((types.float64, types.int64))


@_vector_pass(_FLOAT_AND_COUNT, _extreme_code(is_least=True))
def least_above(scores: Floats, n_blocks: int, bound: float) -> tuple[float, int]:
    """Return the least score above `bound`, infinite where none is, and how many are above it."""
    least, count = np.inf, 0
    for k in range(LANES * n_blocks):
        if scores[k] > bound:
            least = min(least, scores[k])
            count += 1
    return least, count


@_vector_pass(_FLOAT_AND_COUNT, _extreme_code(is_least=False))
def most_below(scores: Floats, n_blocks: int, bound: float) -> tuple[float, int]:
    """Return the largest score below `bound`, and how many scores are not below it."""
    most, count = -np.inf, 0
    for k in range(LANES * n_blocks):
        if scores[k] < bound:
            most = max(most, scores[k])
        else:
            count += 1
    return most, count


def _sums_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    scores, value, clicks = (_numbers(context, builder, signature, arguments, k) for k in range(3))
    n_blocks, bound, last = arguments[3:]
    zero = _constant(0.0, LANES)
    bounds, lasts = _splat(builder, bound, LANES), _splat(builder, last, LANES)
    count = _Tally(builder, ir.Constant(_INT, 0))
    sums = [_Tally(builder, zero) for _ in range(2)]
    slope = _Tally(builder, zero)
    with cgutils.for_range(builder, n_blocks) as loop:
        at = builder.mul(loop.index, ir.Constant(_INT, LANES))
        block = _load(builder, scores, at, LANES)
        is_in = builder.fcmp_ordered(">=", block, bounds)
        count.set(builder.add(count.get(), _count(builder, is_in)))
        of_clicks = _load(builder, clicks, at, LANES)
        for tally, numbers in zip(sums, (_load(builder, value, at, LANES), of_clicks), strict=True):
            tally.set(builder.fadd(tally.get(), builder.select(is_in, numbers, zero)))
        is_last = builder.fcmp_ordered("==", block, lasts)
        slope.set(_larger(builder)(slope.get(), builder.select(is_last, of_clicks, zero)))
    totals = [_reduce(builder, tally.get(), builder.fadd) for tally in sums]
    steepest = _reduce(builder, slope.get(), _larger(builder))
    parts = [count.get(), *totals, steepest]
    return context.make_tuple(builder, signature.return_type, parts)


@_vector_pass(types.Tuple((types.int64, types.float64, types.float64, types.float64)), _sums_code)
def page_sums(
    scores: Floats, value: Floats, clicks: Floats, n_blocks: int, bound: float, last: float
) -> tuple[int, float, float, float]:
    """Return how many scores are at least `bound`, with the sums of their values and clicks.

    And the most clicks of a link whose score is `last`.
    """
    count, slope = 0, 0.0
    sums = np.zeros((2, LANES))
    for k in range(LANES * n_blocks):
        if scores[k] >= bound:
            count += 1
            sums[0, k % LANES] += value[k]
            sums[1, k % LANES] += clicks[k]
        if scores[k] == last:
            slope = max(slope, clicks[k])
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        sums = sums[:, :lanes] + sums[:, lanes : 2 * lanes]
    return count, float(sums[0, 0]), float(sums[1, 0]), slope


def _split_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    scores, places, ties = (_numbers(context, builder, signature, arguments, k) for k in (0, 4, 5))
    n_words, certain, least = arguments[1:4]
    certains, leasts = _splat(builder, certain, WORD), _splat(builder, least, WORD)
    counts = [_Tally(builder, ir.Constant(_INT, 0)) for _ in range(2)]
    with cgutils.for_range(builder, n_words) as loop:
        start = builder.mul(loop.index, ir.Constant(_INT, WORD))
        block = _load(builder, scores, start, WORD)
        is_certain = builder.fcmp_ordered(">=", block, certains)
        is_tied = builder.fcmp_ordered(">=", block, leasts)
        above = builder.bitcast(is_certain, _INT)
        tied = builder.and_(builder.bitcast(is_tied, _INT), builder.not_(above))
        for bits, target, count in ((above, places, counts[0]), (tied, ties, counts[1])):

            def note(
                bit: Any, target: Any = target, count: Any = count, start: Any = start
            ) -> None:
                place = count.get()
                builder.store(builder.add(start, bit), builder.gep(target, [place]))
                count.set(builder.add(place, ir.Constant(_INT, 1)))

            _for_each_bit(builder, bits, note)
    found = [count.get() for count in counts]
    return context.make_tuple(builder, signature.return_type, found)


@_vector_pass(types.UniTuple(types.int64, 2), _split_code)
def split_page(
    scores: Floats, n_words: int, certain: float, least: float, places: Links, ties: Links
) -> tuple[int, int]:
    """List the places of scores of at least `certain`, and of the others of at least `least`."""
    n_certain = n_ties = 0
    for k in range(WORD * n_words):
        if scores[k] >= certain:
            places[n_certain] = k
            n_certain += 1
        elif scores[k] >= least:
            ties[n_ties] = k
            n_ties += 1
    return n_certain, n_ties


def _list_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    value, clicks = (_numbers(context, builder, signature, arguments, k) for k in (0, 1))
    n_entries, value_weight, click_weight, cut = arguments[2:6]
    listed, listed_value, listed_clicks = (
        _numbers(context, builder, signature, arguments, k) for k in (6, 7, 8)
    )
    by_value, by_clicks = _splat(builder, value_weight, WORD), _splat(builder, click_weight, WORD)
    cuts, word_size = _splat(builder, cut, WORD), ir.Constant(_INT, WORD)
    count = _Tally(builder, ir.Constant(_INT, 0))
    n_words = builder.sdiv(builder.add(n_entries, ir.Constant(_INT, WORD - 1)), word_size)
    last_start = builder.sub(n_entries, word_size)
    with cgutils.for_range(builder, n_words) as loop:
        # the last word overlaps the one before it instead of reaching beyond the arrays
        wanted = builder.mul(loop.index, word_size)
        is_whole = builder.icmp_signed("<=", wanted, last_start)
        start = builder.select(is_whole, wanted, last_start)
        done = builder.sub(wanted, start)
        own = builder.fmul(by_value, _load(builder, value, start, WORD))
        priced = builder.fmul(by_clicks, _load(builder, clicks, start, WORD))
        mask = builder.fcmp_ordered(">=", builder.fadd(own, priced), cuts)
        bits = builder.lshr(builder.bitcast(mask, _INT), done)

        def note(bit: Any, start: Any = start) -> None:
            link, place = builder.add(start, bit), count.get()
            builder.store(link, builder.gep(listed, [place]))
            for source, target in ((value, listed_value), (clicks, listed_clicks)):
                number = builder.load(builder.gep(source, [link]))
                builder.store(number, builder.gep(target, [place]))
            count.set(builder.add(place, ir.Constant(_INT, 1)))

        _for_each_bit(builder, builder.shl(bits, done), note)
    return count.get()


@_vector_pass(types.int64, _list_code)
def list_at_least(
    value: Floats,
    clicks: Floats,
    n_entries: int,
    value_weight: float,
    click_weight: float,
    cut: float,
    listed: Links,
    listed_value: Floats,
    listed_clicks: Floats,
) -> int:
    """List the entries that score at least `cut`, in order; return how many they are.

    Needs at least `WORD` entries.
    """
    count = 0
    for i in range(n_entries):
        if value_weight * value[i] + click_weight * clicks[i] >= cut:
            listed[count] = i
            listed_value[count] = value[i]
            listed_clicks[count] = clicks[i]
            count += 1
    return count
