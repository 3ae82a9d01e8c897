"""Running sums of probabilities, and where they pass whole numbers: what rounding looks at.

A sum that waits for the one before it takes four cycles an entry, and a search whose end the
processor cannot foresee costs more than the entries it reads. Both are written in LLVM's vectors,
as in `slotwise.selection.vectors.score_passes`; beside each pass stands the same in plain Python.

Every probability is first rounded to a multiple of the spacing of numbers as large as the page.
Sums of such multiples are exact: they are the same in any order, they never decrease, and they stay
the same where a probability is 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotwise.compile.decorators import inner, int64
from slotwise.compile.vector_code import (
    INT,
    Builder,
    Tally,
    cgutils,
    constant,
    ir,
    load,
    note_bits,
    numbers_of,
    splat,
    store,
    types,
    vector_pass,
)
from slotwise.selection.mix import INTEGRAL, SUMS_ROOM

Floats = NDArray[np.float64]
Links = NDArray[np.int64]

LANES = 8
"""Entries whose sums are computed at once. Fewer are searched one by one."""

WORD = 64
"""Entries that a machine word can mark."""

WINDOW = 32
"""Sums that a search compares at once: more than most stretches of a page have."""

assert SUMS_ROOM == 1 + WINDOW


def _shuffled(builder: Builder, first: Any, second: Any, lanes: list[int]) -> Any:
    chosen = ir.Constant(ir.VectorType(ir.IntType(32), LANES), lanes)
    return builder.shuffle_vector(first, second, chosen)


def _ends_of_groups(builder: Builder, vector: Any, zero: Any, n_lanes: int) -> Any:
    """Return, for every second group of so many lanes, the last lane before it; else 0.

    Moving all lanes by one, two and four instead takes instructions that are several times slower.
    """
    lanes = []
    for lane in range(LANES):
        group = lane // n_lanes
        lanes.append(group * n_lanes - 1 if group % 2 == 1 else LANES)
    return _shuffled(builder, vector, zero, lanes)


def _n_passed(builder: Builder, sums: Any) -> Any:
    """Return how many whole numbers each sum has reached."""
    takes = ir.FunctionType(sums.type, [sums.type])
    floor = cgutils.get_or_insert_function(builder.module, takes, f"llvm.floor.v{LANES}f64")
    return builder.call(floor, [builder.fadd(sums, constant(INTEGRAL, LANES))])


def _word_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    entries, sums = (numbers_of(context, builder, signature, arguments, k) for k in (0, 5))
    start, n_blocks, total, grid = arguments[1:5]
    zero, grids = constant(0.0, LANES), splat(builder, grid, LANES)
    before = Tally(builder, splat(builder, total, LANES))
    passed_before = Tally(builder, _n_passed(builder, before.get()))
    bits = Tally(builder, ir.Constant(INT, 0))
    with cgutils.for_range(builder, n_blocks) as loop:
        place = builder.mul(loop.index, ir.Constant(INT, LANES))
        at = builder.add(start, place)
        block = load(builder, entries, at, LANES)
        is_sure = builder.fcmp_ordered(">=", block, constant(1.0 - INTEGRAL, LANES))
        is_possible = builder.fcmp_ordered(">", block, constant(INTEGRAL, LANES))
        is_open = builder.and_(is_possible, builder.not_(is_sure))
        on_grid = builder.fsub(builder.fadd(block, grids), grids)
        parts = builder.select(is_open, on_grid, zero)
        n_lanes = 1
        while n_lanes < LANES:
            parts = builder.fadd(parts, _ends_of_groups(builder, parts, zero, n_lanes))
            n_lanes *= 2
        totals = builder.fadd(before.get(), parts)
        last = _shuffled(builder, parts, parts, [LANES - 1] * LANES)
        before.set(builder.fadd(before.get(), last))
        store(builder, sums, builder.add(at, ir.Constant(INT, 1)), totals)
        passed = _n_passed(builder, totals)
        lanes = list(range(LANES - 1, 2 * LANES - 1))  # the last one before, then all but the last
        earlier = _shuffled(builder, passed_before.get(), passed, lanes)
        passed_before.set(passed)
        is_noted = builder.or_(is_sure, builder.fcmp_ordered("!=", passed, earlier))
        of_block = builder.zext(builder.bitcast(is_noted, ir.IntType(LANES)), INT)
        bits.set(builder.or_(bits.get(), builder.shl(of_block, place)))
    reached = builder.extract_element(before.get(), ir.Constant(ir.IntType(32), 0))
    return context.make_tuple(builder, signature.return_type, [bits.get(), reached])


@vector_pass(types.Tuple((types.int64, types.float64)), _word_code)
def sum_word(
    entries: Floats, start: int, n_blocks: int, total: float, grid: float, sums: Floats
) -> tuple[int, float]:
    """Write the running sums of at most a word of whole blocks from `start` on.

    Return the entries that are sure or bring the sum to a whole number, one a bit, and the sum.
    """
    block = entries[start : start + LANES * n_blocks]
    is_sure = block >= 1.0 - INTEGRAL
    is_open = (block > INTEGRAL) & ~is_sure
    parts = np.where(is_open, (block + grid) - grid, 0.0)
    totals = total + np.concatenate([[0.0], np.cumsum(parts)])
    sums[start + 1 : start + 1 + len(block)] = totals[1:]
    is_noted = is_sure | (np.diff(np.floor(totals + INTEGRAL)) != 0.0)
    bits = sum(1 << k for k in np.flatnonzero(is_noted).tolist())
    return bits - (bits >> 63 << 64), float(totals[-1])


def _note_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    bits, start, count = arguments[:3]
    places = numbers_of(context, builder, signature, arguments, 3)
    n_noted = Tally(builder, count)

    def note(bit: Any, place: Any) -> None:
        builder.store(builder.add(start, bit), builder.gep(places, [place]))

    note_bits(builder, bits, 4, n_noted, note)
    return n_noted.get()


@vector_pass(types.int64, _note_code)
def note_places(bits: int, start: int, count: int, places: Links) -> int:
    """List the places of the bits of a word after the first `count`; return how many there are.

    One place beyond the last may be overwritten.
    """
    for k in range(WORD):
        if bits >> k & 1:
            places[count] = start + k
            count += 1
    return count


def _above_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    sums = numbers_of(context, builder, signature, arguments, 0)
    start, bound = arguments[1:]
    bounds, size = splat(builder, bound, WINDOW), ir.Constant(INT, WINDOW)
    found, at = Tally(builder, ir.Constant(INT, 0)), Tally(builder, builder.sub(start, size))
    body, end = (builder.append_basic_block(name) for name in ("window", "found"))
    builder.branch(body)
    builder.position_at_end(body)
    at.set(builder.add(at.get(), size))
    is_above = builder.fcmp_ordered(">", load(builder, sums, at.get(), WINDOW), bounds)
    found.set(builder.zext(builder.bitcast(is_above, ir.IntType(WINDOW)), INT))
    builder.cbranch(builder.icmp_unsigned("==", found.get(), ir.Constant(INT, 0)), body, end)
    builder.position_at_end(end)
    return builder.add(at.get(), builder.cttz(found.get(), ir.Constant(ir.IntType(1), 1)))


@vector_pass(types.int64, _above_code)
def first_above(sums: Floats, start: int, bound: float) -> int:
    """Return the first place from `start` on whose sum is above `bound`, of `running_sums`."""
    place = start
    while sums[place] <= bound:
        place += 1
    return place


def _fill_code(context: Any, builder: Builder, signature: Any, arguments: Any) -> Any:
    sums = numbers_of(context, builder, signature, arguments, 0)
    store(builder, sums, arguments[1], constant(np.inf, WINDOW))
    return context.get_dummy_value()


@vector_pass(types.void, _fill_code)
def end_sums(sums: Floats, end: int) -> None:
    """Write a window of infinite sums, at which every search ends."""
    sums[end : end + WINDOW] = np.inf


@inner
def add_entry(probability: float, total: float, grid: float) -> tuple[float, bool]:
    """Return the sum with one more entry, and whether the entry is sure or ends a stretch."""
    if probability <= INTEGRAL:
        return total, False
    if probability >= 1.0 - INTEGRAL:
        return total, True
    after = total + ((probability + grid) - grid)
    return after, math.floor(after + INTEGRAL) != math.floor(total + INTEGRAL)


@inner
def running_sums(entries: Floats, n_entries: int, n_slots: int, sums: Floats, places: Links) -> int:
    """Write the sum before each entry and the sum of all; after more than `LANES`, infinite ones.

    Entries that are sure or impossible add nothing. List in `places` the entries that are sure, and
    those with which the sum reaches a whole number; return how many there are.
    """
    grid = 1.0
    while 2.0 * grid <= n_slots:
        grid *= 2.0
    total = 0.0
    count = int64(0)
    sums[0] = 0.0
    n_whole = n_entries // LANES * LANES
    for start in range(0, n_whole, WORD):
        n_blocks = min(WORD, n_whole - start) // LANES
        bits, total = sum_word(entries, start, n_blocks, total, grid, sums)
        count = note_places(bits, start, count, places)
    for i in range(n_whole, n_entries):
        total, is_noted = add_entry(entries[i], total, grid)
        sums[i + 1] = total
        places[count] = i
        count += is_noted
    if n_entries > LANES:
        end_sums(sums, n_entries + 1)
    return count
