"""Passes over arrays of scores, several numbers at a time.

The compiler makes no vector code of a conditional minimum, of a sum of selected numbers or of a
list of selected places, and a page is found by little else. These passes are written in LLVM's
vectors, which every processor has in some width; beside each stands the same in plain Python, which
runs where nothing is compiled and is what the tests compare with.

Arrays of scores are padded to whole words of `WORD` numbers; a padded score is minus infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.vector_code import (
    INT,
    Builder,
    Codegen,
    Lanes,
    Tally,
    cgutils,
    constant,
    count_of,
    for_each_bit,
    ir,
    larger,
    load,
    note_bits,
    numbers_of,
    reduce_lanes,
    smaller,
    splat,
    types,
    vector_pass,
)

__all__ = [
    "LANES",
    "WORD",
    "least_above",
    "list_at_least",
    "most_below",
    "page_sums",
    "score_above",
    "score_list",
    "split_page",
    "whole_words",
]

Floats = NDArray[np.float64]
Links = NDArray[np.int64]

LANES = 16
"""Numbers in a block, of which a word has several."""

WORD = 64
"""Numbers whose comparison fills a machine word."""


def whole_words(n_numbers: int) -> int:
    """Return the length of an array that has room for so many numbers in whole words."""
    return (n_numbers + WORD - 1) // WORD * WORD


def _store(builder: Builder, vector: Any, numbers: Any, at: Any) -> None:
    address = builder.gep(numbers, [at])
    builder.store(vector, builder.bitcast(address, vector.type.as_pointer()), align=8)


def _score_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    value, clicks = (numbers_of(context, builder, signature, arguments, k) for k in (0, 1))
    value_weight, click_weight, n_entries = arguments[2:5]
    scores = numbers_of(context, builder, signature, arguments, 5)
    whole, size = ir.Constant(INT, LANES - 1), ir.Constant(INT, LANES)
    n_blocks = builder.sdiv(builder.add(n_entries, whole), size)
    by_value, by_clicks = splat(builder, value_weight, LANES), splat(builder, click_weight, LANES)
    with cgutils.for_range(builder, n_blocks) as loop:
        at = builder.mul(loop.index, size)
        own = builder.fmul(by_value, load(builder, value, at, LANES))
        priced = builder.fmul(by_clicks, load(builder, clicks, at, LANES))
        _store(builder, builder.fadd(own, priced), scores, at)
    _store(builder, constant(-np.inf, WORD), scores, n_entries)
    return context.get_dummy_value()


@vector_pass(types.void, _score_code)
def score_list(
    value: Floats,
    clicks: Floats,
    value_weight: float,
    click_weight: float,
    n_entries: int,
    scores: Floats,
) -> None:
    """Write value_weight * value + click_weight * clicks, then a word of minus infinity.

    The arrays have room for whole blocks, the scores for a word more.
    """
    for k in range(n_entries):
        scores[k] = value_weight * value[k] + click_weight * clicks[k]
    scores[n_entries : n_entries + WORD] = -np.inf


def _extreme_code(is_least: bool) -> Codegen:
    def code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
        scores = numbers_of(context, builder, signature, arguments, 0)
        n_blocks, bound = arguments[1:]
        join = smaller(builder) if is_least else larger(builder)
        none = constant(np.inf if is_least else -np.inf, LANES)
        bounds = splat(builder, bound, LANES)
        best, count = Tally(builder, none), Tally(builder, ir.Constant(INT, 0))
        with cgutils.for_range(builder, n_blocks) as loop:
            at = builder.mul(loop.index, ir.Constant(INT, LANES))
            block = load(builder, scores, at, LANES)
            is_beyond = builder.fcmp_ordered(">" if is_least else "<", block, bounds)
            best.set(join(best.get(), builder.select(is_beyond, block, none)))
            counted = is_beyond if is_least else builder.not_(is_beyond)
            count.set(builder.add(count.get(), count_of(builder, counted)))
        found = reduce_lanes(builder, best.get(), join)
        return context.make_tuple(builder, signature.return_type, [found, count.get()])

    return code


_FLOAT_AND_COUNT = types.Tuple((types.float64, types.int64))


@vector_pass(_FLOAT_AND_COUNT, _extreme_code(is_least=True))
def least_above(scores: Floats, n_blocks: int, bound: float) -> tuple[float, int]:
    """Return the least score above `bound`, infinite where none is, and how many are above it."""
    least, count = np.inf, 0
    for k in range(LANES * n_blocks):
        if scores[k] > bound:
            least = min(least, scores[k])
            count += 1
    return least, count


@vector_pass(_FLOAT_AND_COUNT, _extreme_code(is_least=False))
def most_below(scores: Floats, n_blocks: int, bound: float) -> tuple[float, int]:
    """Return the largest score below `bound`, and how many scores are not below it."""
    most, count = -np.inf, 0
    for k in range(LANES * n_blocks):
        if scores[k] < bound:
            most = max(most, scores[k])
        else:
            count += 1
    return most, count


def _score_above_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    value, clicks, scores = (
        numbers_of(context, builder, signature, arguments, k) for k in (0, 1, 6)
    )
    n_entries, value_weight, click_weight, bound = arguments[2:6]
    by_value, by_clicks = splat(builder, value_weight, LANES), splat(builder, click_weight, LANES)
    none, bounds = constant(np.inf, LANES), splat(builder, bound, LANES)
    join, size = smaller(builder), ir.Constant(INT, LANES)
    best, count = Tally(builder, none), Tally(builder, ir.Constant(INT, 0))

    def score(start: Any) -> Any:
        own = builder.fmul(by_value, load(builder, value, start, LANES))
        priced = builder.fmul(by_clicks, load(builder, clicks, start, LANES))
        block = builder.fadd(own, priced)
        _store(builder, block, scores, start)
        is_beyond = builder.fcmp_ordered(">", block, bounds)
        best.set(join(best.get(), builder.select(is_beyond, block, none)))
        return builder.zext(builder.bitcast(is_beyond, ir.IntType(LANES)), INT)

    _store(builder, constant(-np.inf, WORD), scores, n_entries)
    n_blocks = builder.sdiv(n_entries, size)
    with cgutils.for_range(builder, n_blocks) as loop:
        bits = score(builder.mul(loop.index, size))
        count.set(builder.add(count.get(), builder.ctpop(bits)))
    # the last block overlaps the one before it instead of reaching beyond the arrays
    start = builder.sub(n_entries, size)
    n_done = builder.sub(builder.mul(n_blocks, size), start)
    count.set(builder.add(count.get(), builder.ctpop(builder.lshr(score(start), n_done))))
    found = reduce_lanes(builder, best.get(), join)
    return context.make_tuple(builder, signature.return_type, [found, count.get()])


@vector_pass(_FLOAT_AND_COUNT, _score_above_code)
def score_above(
    value: Floats,
    clicks: Floats,
    n_entries: int,
    value_weight: float,
    click_weight: float,
    bound: float,
    scores: Floats,
) -> tuple[float, int]:
    """Write value_weight * value + click_weight * clicks, then a word of minus infinity.

    Return what `least_above` returns for these scores. Needs at least `LANES` entries.
    """
    for k in range(n_entries):
        scores[k] = value_weight * value[k] + click_weight * clicks[k]
    scores[n_entries : n_entries + WORD] = -np.inf
    return least_above(scores, (n_entries + LANES - 1) // LANES, bound)


def _sums_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    scores, value, clicks = (
        numbers_of(context, builder, signature, arguments, k) for k in range(3)
    )
    n_entries, bound, last = arguments[3:]
    size = ir.Constant(INT, LANES)
    zero = constant(0.0, LANES)
    count = Tally(builder, ir.Constant(INT, 0))
    sums = [Tally(builder, zero) for _ in range(2)]
    slope = Tally(builder, zero)

    def add(at: Any, lanes: int, sums: list[Any], slope: Any) -> None:
        """Add some entries, one a lane."""
        bounds, lasts = splat(builder, bound, lanes), splat(builder, last, lanes)
        none = constant(0.0, lanes)
        block = load(builder, scores, at, lanes)
        is_in = builder.fcmp_ordered(">=", block, bounds)
        count.set(builder.add(count.get(), count_of(builder, is_in)))
        of_clicks = load(builder, clicks, at, lanes)
        parts = (load(builder, value, at, lanes), of_clicks)
        for tally, numbers in zip(sums, parts, strict=True):
            tally.set(builder.fadd(tally.get(), builder.select(is_in, numbers, none)))
        is_last = builder.fcmp_ordered("==", block, lasts)
        slope.set(larger(builder)(slope.get(), builder.select(is_last, of_clicks, none)))

    n_blocks = builder.sdiv(n_entries, size)
    with cgutils.for_range(builder, n_blocks) as loop:
        add(builder.mul(loop.index, size), LANES, sums, slope)
    # the entries after the last whole block, each in its lane: eight, four, two and one
    begin = builder.mul(n_blocks, size)
    n_left = builder.sub(n_entries, begin)
    lanes_of = [Lanes(builder, tally.get()) for tally in (*sums, slope)]
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        is_needed = builder.and_(n_left, ir.Constant(INT, lanes))
        with builder.if_then(builder.icmp_unsigned("!=", is_needed, ir.Constant(INT, 0))):
            lane = builder.and_(n_left, ir.Constant(INT, -2 * lanes))
            some = [tally.at(lane, lanes) for tally in lanes_of]
            add(builder.add(begin, lane), lanes, some[:2], some[2])
    totals = [reduce_lanes(builder, lanes.all(), builder.fadd) for lanes in lanes_of[:2]]
    steepest = reduce_lanes(builder, lanes_of[2].all(), larger(builder))
    parts = [count.get(), *totals, steepest]
    return context.make_tuple(builder, signature.return_type, parts)


@vector_pass(types.Tuple((types.int64, types.float64, types.float64, types.float64)), _sums_code)
def page_sums(
    scores: Floats, value: Floats, clicks: Floats, n_entries: int, bound: float, last: float
) -> tuple[int, float, float, float]:
    """Return how many scores are at least `bound`, with the sums of their values and clicks.

    And the most clicks of a link whose score is `last`.
    """
    count, slope = 0, 0.0
    sums = np.zeros((2, LANES))
    for k in range(n_entries):
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

        def note(bit: Any, place: Any, start: Any = start) -> None:
            builder.store(builder.add(start, bit), builder.gep(places, [place]))

        def note_tie(bit: Any, start: Any = start) -> None:
            place = counts[1].get()
            builder.store(builder.add(start, bit), builder.gep(ties, [place]))
            counts[1].set(builder.add(place, ir.Constant(INT, 1)))

        note_bits(builder, above, 8, counts[0], note)
        for_each_bit(builder, tied, note_tie)
    found = [count.get() for count in counts]
    return context.make_tuple(builder, signature.return_type, found)


@vector_pass(types.UniTuple(types.int64, 2), _split_code)
def split_page(
    scores: Floats, n_words: int, certain: float, least: float, places: Links, ties: Links
) -> tuple[int, int]:
    """List the places of scores of at least `certain`, and of the others of at least `least`.

    One place beyond the last of `places` may be overwritten.
    """
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
    value, clicks = (numbers_of(context, builder, signature, arguments, k) for k in (0, 1))
    n_entries, value_weight, click_weight, cut = arguments[2:6]
    listed, listed_value, listed_clicks = (
        numbers_of(context, builder, signature, arguments, k) for k in (6, 7, 8)
    )
    by_value, by_clicks = splat(builder, value_weight, WORD), splat(builder, click_weight, WORD)
    cuts, word_size = splat(builder, cut, WORD), ir.Constant(INT, WORD)
    count = Tally(builder, ir.Constant(INT, 0))
    n_words = builder.sdiv(builder.add(n_entries, ir.Constant(INT, WORD - 1)), word_size)
    last_start = builder.sub(n_entries, word_size)
    with cgutils.for_range(builder, n_words) as loop:
        # the last word overlaps the one before it instead of reaching beyond the arrays
        wanted = builder.mul(loop.index, word_size)
        is_whole = builder.icmp_signed("<=", wanted, last_start)
        start = builder.select(is_whole, wanted, last_start)
        done = builder.sub(wanted, start)
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


@vector_pass(types.int64, _list_code)
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
