from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from slotwise.errors import InvalidInput
from slotwise.selection import frontier, solve
from tests.reference.kinds import best_for_kinds_by_highs, extremes
from tests.selection.instances import RATES, make_rates

Floats = NDArray[np.float64]
Program = tuple[Floats, Floats, Floats, int, float]
ACCURACY = 1e-9


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw value, clicks, shares, slots and floor; each kind has a kind of rates of its own."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_kinds, n_links = int(rng.integers(1, 9)), int(rng.integers(1, 40))
    n_slots = int(rng.integers(1, draw(st.sampled_from([n_links, 1 + n_links // 4])) + 1))
    kinds = [make_rates(draw(st.sampled_from(RATES)), n_links, rng) for _ in range(n_kinds)]
    value, clicks = (np.array(rows) for rows in zip(*kinds, strict=True))
    shares = rng.dirichlet(np.full(n_kinds, draw(st.sampled_from([0.1, 1.5]))))
    if n_kinds > 2 and draw(st.booleans()):
        shares[0] = 0.0
        shares /= shares.sum()
    free, most = extremes(value, clicks, shares, n_slots)
    place = draw(st.sampled_from([0.0, 0.5, 0.9, 1.0, 1.0 - 1e-6, 2.0, -0.5]))
    place = place * rng.random() if draw(st.booleans()) else place
    return (
        value,
        clicks,
        shares,
        n_slots,
        max(0.0, free + place * (most - free + 1e-3 * (place > 1))),
    )


@settings(max_examples=400)
@given(programs())
def test_kinds_are_solved_as_by_highs_and_proven_by_their_price(program: Program) -> None:
    value, clicks, shares, n_slots, floor = program
    best = solve(value, clicks, n_slots, floor, shares)
    event(best.status)
    chances = best.probabilities
    assert chances.min() >= 0.0
    assert chances.max() <= 1.0
    np.testing.assert_allclose(chances.sum(axis=1), n_slots, atol=ACCURACY)
    assert best.value == pytest.approx(shares @ (chances * value).sum(axis=1), abs=ACCURACY)
    assert best.clicks == pytest.approx(shares @ (chances * clicks).sum(axis=1), abs=ACCURACY)
    free, most = extremes(value, clicks, shares, n_slots)
    if best.status == "infeasible":
        assert floor > most - ACCURACY
        assert best.clicks == pytest.approx(most, abs=ACCURACY)
        assert math.isinf(best.shadow_price)
        return
    assert best.clicks >= floor - ACCURACY
    if best.status == "binding":
        assert best.clicks == pytest.approx(floor, abs=ACCURACY)
    else:
        assert best.shadow_price == 0.0
        assert free >= floor - ACCURACY
    # no mix beats the best scores at any price, less what the floor is worth
    price = best.shadow_price
    scores = np.sort(value + price * clicks, axis=1)[:, -n_slots:].sum(axis=1)
    assert best.value >= shares @ scores - price * floor - 1e-9 * n_slots * (1.0 + price)
    reference = best_for_kinds_by_highs(*program)
    if reference is None:
        assert floor > most - 1e-6
        return
    assert best.value == pytest.approx(reference.value, abs=2e-7 * n_slots * (1.0 + price))


def test_at_most_two_entries_are_fractional_in_all() -> None:
    rng = np.random.default_rng(3)
    n_binding = 0
    for _ in range(200):
        n_kinds, n_links = int(rng.integers(1, 25)), int(rng.integers(5, 60))
        value, clicks = rng.random((2, n_kinds, n_links))
        shares = rng.dirichlet(np.full(n_kinds, 1.5))
        free, most = extremes(value, clicks, shares, 5)
        best = solve(value, clicks, 5, free + rng.random() * (most - free), shares)
        n_open = ((best.probabilities > 0.0) & (best.probabilities < 1.0)).sum()
        assert n_open <= 2
        n_binding += best.status == "binding"
    assert n_binding > 100


def test_one_kind_is_the_program_without_kinds() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        value, clicks = rng.random((2, 30))
        floor = 6.0 * rng.random()
        alone, one = solve(value, clicks, 6, floor), solve([value], [clicks], 6, floor, [1.0])
        assert one.status == alone.status
        np.testing.assert_allclose(one.probabilities[0], alone.probabilities, atol=1e-9)
        assert one.shadow_price == pytest.approx(alone.shadow_price)


@settings(max_examples=100)
@given(programs())
def test_the_frontier_of_kinds_equals_solve(program: Program) -> None:
    value, clicks, shares, n_slots, _ = program
    curve = frontier(value, clicks, n_slots, shares)
    free, most = extremes(value, clicks, shares, n_slots)
    assert curve.floors[0] == pytest.approx(free)
    assert curve.floors[-1] == pytest.approx(most)
    assert np.all(np.diff(curve.shadow_prices) >= 0.0)
    for place in (0.1, 0.5, 0.9):
        floor = min(free + place * (most - free), curve.floors[-1])
        best = solve(value, clicks, n_slots, floor, shares)
        price = min(best.shadow_price, 1e6)
        assert curve.value_at(floor) == pytest.approx(best.value, abs=1e-8 * n_slots * (1 + price))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.1, 0.2]], [[0.1, 0.2]], 1, 0.0, None), "`shares` must be a list of at least one"),
        (([0.1, 0.2], [0.1, 0.2], 1, 0.0, [1.0]), "`value` must be a row of rates for each kind"),
        (([[0.1, 0.2]], [[0.1]], 1, 0.0, [1.0]), r"`clicks` must be of the shape of `value` \(1"),
        (([[0.1, 0.2]], [[0.1, 2.0]], 1, 0.0, [1.0]), r"`clicks` must be numbers in \[0, 1\]"),
        (([[0.1, 0.2]], [[0.1, 0.2]], 1, 0.0, [0.5, 0.5]), "`shares` must be one number a kind"),
        (([[0.1, 0.2]], [[0.1, 0.2]], 1, 0.0, [0.5]), "`shares` must be numbers that sum to 1"),
        (([[0.1, 0.2]], [[0.1, 0.2]], 3, 0.0, [1.0]), "`n_slots` must be from 1 to the number"),
        (([[0.1, 0.2]], [[0.1, 0.2]], 1, math.nan, [1.0]), "`floor` must be a finite number"),
    ],
)
def test_bad_input_is_named(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{message}"):
        solve(*arguments)  # type: ignore[arg-type]
