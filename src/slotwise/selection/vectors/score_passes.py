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

from slotwise.compile.vector_code import (
    INT,
    Builder,
    Tally,
    cgutils,
    constant,
    count_of,
    first_lanes,
    for_each_bit,
    ir,
    larger,
    load,
    load_lanes,
    note_bits,
    numbers_of,
    reduce_lanes,
    smaller,
    splat,
    store,
    types,
    vector_pass,
    words_of,
)

Floats = NDArray[np.float64]
Links = NDArray[np.int64]

LANES = 16
"""Numbers in a block, of which a word has several."""

WORD = 64
"""Numbers whose comparison fills a machine word."""


LINE = 64
"""Bytes in a line of memory: a vector that lies in two lines takes twice as long to read."""


def aligned_zeros(n_numbers: int) -> Floats:
    """Return zeros that start with a line of memory.

    >>> aligned_zeros(3).ctypes.data % LINE
    0
    """
    room = np.zeros(n_numbers + LINE // 8)
    start = -room.ctypes.data % LINE // 8
    return room[start : start + n_numbers]


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
        store(builder, scores, at, builder.fadd(own, priced))
    store(builder, scores, n_entries, constant(-np.inf, WORD))
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


class _Neighbours:
    """The scores on both sides of a bound, and how many are above it, as a loop finds them."""

    def __init__(self, builder: Builder, bound: Any) -> None:
        self._builder, self._bounds = builder, splat(builder, bound, LANES)
        self._below = Tally(builder, constant(-np.inf, LANES))
        self._above = Tally(builder, constant(np.inf, LANES))
        self._count = Tally(builder, ir.Constant(INT, 0))

    def add(self, block: Any, n_known: Any) -> None:
        """Take in a block of scores, of which the first `n_known` are counted already."""
        builder, below, above = self._builder, self._below.get(), self._above.get()
        is_above = builder.fcmp_ordered(">", block, self._bounds)
        self._above.set(builder.select(is_above, smaller(builder)(above, block), above))
        # a comparison of its own: the compiler makes no masked maximum of the first one's opposite
        is_below = builder.fcmp_ordered("<=", block, self._bounds)
        self._below.set(builder.select(is_below, larger(builder)(below, block), below))
        bits = builder.zext(builder.bitcast(is_above, ir.IntType(LANES)), INT)
        n_new = builder.ctpop(builder.lshr(bits, n_known))
        self._count.set(builder.add(self._count.get(), n_new))

    def all(self, context: Any, signature: Any) -> Any:
        """Return the largest score at or below the bound, the least above it, and the count."""
        builder = self._builder
        below = reduce_lanes(builder, self._below.get(), larger(builder))
        above = reduce_lanes(builder, self._above.get(), smaller(builder))
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


_NEIGHBOURS = types.Tuple((types.float64, types.float64, types.int64))


@vector_pass(_NEIGHBOURS, _neighbours_code)
def neighbours(scores: Floats, n_blocks: int, bound: float) -> tuple[float, float, int]:
    """Return the largest score at or below `bound`, the least above it, and how many are above.

    Where there is no such score, it is infinite.
    """
    below, above, n_above = -np.inf, np.inf, 0
    for k in range(LANES * n_blocks):
        if scores[k] > bound:
            above = min(above, scores[k])
            n_above += 1
        else:
            below = max(below, scores[k])
    return below, above, n_above


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


@vector_pass(_NEIGHBOURS, _score_all_code)
def score_all(
    value: Floats,
    clicks: Floats,
    n_entries: int,
    value_weight: float,
    click_weight: float,
    bound: float,
    scores: Floats,
) -> tuple[float, float, int]:
    """Write value_weight * value + click_weight * clicks, then a word of minus infinity.

    Return the `neighbours` of `bound` among these scores. Needs at least `LANES` entries.
    """
    for k in range(n_entries):
        scores[k] = value_weight * value[k] + click_weight * clicks[k]
    scores[n_entries : n_entries + WORD] = -np.inf
    return neighbours(scores, (n_entries + LANES - 1) // LANES, bound)


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
    join = larger(builder)

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
        add(n_done, first_lanes(builder, n_left, LANES))
    sums = [reduce_lanes(builder, tally.get(), builder.fadd) for tally in totals]
    parts = [count.get(), *sums, reduce_lanes(builder, slope.get(), join)]
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
