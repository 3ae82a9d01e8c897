from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings, strategies as st
from numpy.typing import NDArray

from slotwise.errors import InvalidInput, MissingPackage
from slotwise.selection import KindsSolution, SlotRule, frontier, solve, solve_kinds
from slotwise.selection.rules import settle_rules
from tests.reference.kinds import best_for_kinds_by_highs, best_order_by_highs, extremes
from tests.selection.instances import RATES, make_rates

Floats = NDArray[np.float64]
Program = tuple[Floats, Floats, Floats, int, float]
Segment = tuple[NDArray[np.bool_], float]
ACCURACY = 1e-9


def solve_one_floor(program: Program) -> KindsSolution:
    """Solve for slots that are alike and a floor for all visitors."""
    value, clicks, shares, n_slots, floor = program
    floors = [(np.ones(len(shares), bool), floor)]
    return solve_kinds(value, clicks, shares, np.ones(n_slots), floors)


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


@settings(max_examples=200)
@given(programs())
def test_kinds_are_solved_as_by_highs_and_proven_by_their_price(program: Program) -> None:
    value, clicks, shares, n_slots, floor = program
    best = solve_one_floor(program)
    event(best.status)
    chances = best.probabilities
    assert chances.min() >= 0.0
    assert chances.max() <= 1.0
    np.testing.assert_allclose(chances.sum(axis=1), n_slots, atol=ACCURACY)
    assert best.value == pytest.approx(shares @ (chances * value).sum(axis=1), abs=ACCURACY)
    brought, price = float(best.clicks[0]), float(best.shadow_prices[0])
    assert brought == pytest.approx(shares @ (chances * clicks).sum(axis=1), abs=ACCURACY)
    free, most = extremes(value, clicks, shares, n_slots)
    if best.status == "infeasible":
        assert floor > most - ACCURACY
        assert brought == pytest.approx(most, abs=ACCURACY)
        assert math.isinf(price)
        return
    assert brought >= floor - ACCURACY
    if best.status == "binding":
        assert brought == pytest.approx(floor, abs=ACCURACY)
    else:
        assert price == 0.0
        assert free >= floor - ACCURACY
    # no mix beats the best scores at any price, less what the floor is worth
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
        floor = free + rng.random() * (most - free)
        best = solve_one_floor((value, clicks, shares, 5, floor))
        n_open = ((best.probabilities > 0.0) & (best.probabilities < 1.0)).sum()
        assert n_open <= 2
        n_binding += best.status == "binding"
    assert n_binding > 100


def test_one_kind_is_the_program_without_kinds() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        value, clicks = rng.random((2, 30))
        floor = 6.0 * rng.random()
        alone = solve(value, clicks, 6, floor)
        one = solve_one_floor((value[None], clicks[None], np.ones(1), 6, floor))
        assert one.status == alone.status
        np.testing.assert_allclose(one.probabilities[0], alone.probabilities, atol=1e-9)
        assert one.shadow_prices[0] == pytest.approx(alone.shadow_price)


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
        best = solve_one_floor((value, clicks, shares, n_slots, floor))
        price = min(float(best.shadow_prices[0]), 1e6)
        assert curve.value_at(floor) == pytest.approx(best.value, abs=1e-8 * n_slots * (1 + price))


def instance(seed: int) -> tuple[Floats, Floats, Floats, int, list[Segment]]:
    """Return a program with a floor for all visitors and floors for one to three segments."""
    rng = np.random.default_rng(seed)
    n_kinds, n_links = int(rng.integers(2, 7)), int(rng.integers(3, 12))
    n_slots = int(rng.integers(1, n_links))
    clicks = rng.random((n_kinds, n_links))
    value = rng.random((n_kinds, n_links)) * (1.0 - 0.7 * clicks)
    if seed % 4 == 0:  # ties
        clicks, value = clicks.round(1), value.round(1)
    shares = rng.dirichlet(np.ones(n_kinds))
    segments = []
    for _ in range(int(rng.integers(1, 4))):
        kinds = rng.random(n_kinds) < 0.5
        kinds[rng.integers(n_kinds)] = True
        segments.append((kinds, float(rng.uniform(0.2, 0.75) * n_slots)))
    floor = float(rng.uniform(0.0, 0.7) * n_slots)
    return value, clicks, shares, n_slots, [(np.ones(n_kinds, bool), floor), *segments]


@pytest.mark.parametrize("are_alike", [True, False])
def test_segments_and_slots_are_solved_as_by_highs(are_alike: bool) -> None:
    statuses = set()
    for seed in range(80):
        value, clicks, shares, n_slots, floors = instance(seed)
        weights = np.ones(n_slots) if are_alike else np.random.default_rng(seed).random(n_slots)
        weights *= n_slots / weights.sum()
        best = solve_kinds(value, clicks, shares, weights, floors)
        statuses.add(best.status)
        np.testing.assert_allclose(best.probabilities.sum(axis=1), n_slots, atol=ACCURACY)
        assert best.probabilities.min() >= 0.0
        assert best.probabilities.max() <= 1.0
        is_kept = best.clicks >= [least - ACCURACY for _, least in floors]
        assert np.array_equal(is_kept, np.isfinite(best.shadow_prices))
        if are_alike:
            of_kind = (best.probabilities * clicks).sum(axis=1)
            for j, (kinds, _) in enumerate(floors):
                brought = (shares * of_kind)[kinds].sum() / shares[kinds].sum()
                assert best.clicks[j] == pytest.approx(brought)
            mean = (shares[:, None] * best.probabilities * value).sum()
            assert best.value == pytest.approx(mean)
        expected = best_order_by_highs(value, clicks, shares, weights, floors)
        if expected is None:
            assert best.status == "infeasible"
        else:
            assert best.status != "infeasible"
            assert best.value == pytest.approx(expected, abs=1e-8)
    assert statuses == {"slack", "binding", "infeasible"}


def test_pages_of_different_sizes_share_one_floor() -> None:
    from scipy.optimize import linprog

    for seed in range(30):
        value, clicks, shares, _, ((everybody, _), *_) = instance(seed)
        n_kinds, n_links = value.shape
        sizes = np.random.default_rng(seed).integers(1, n_links + 1, n_kinds)
        floor = float(np.random.default_rng(seed).uniform(0.2, 0.8) * (shares @ sizes))
        is_slot = np.arange(sizes.max()) < sizes[:, None]
        best = solve_kinds(value, clicks, shares, is_slot.astype(float), [(everybody, floor)])
        np.testing.assert_allclose(best.probabilities.sum(axis=1), sizes, atol=ACCURACY)
        expected = linprog(
            -(shares[:, None] * value).ravel(),
            A_ub=-(shares[:, None] * clicks).ravel()[None],
            b_ub=[-floor],
            A_eq=np.kron(np.eye(n_kinds), np.ones(n_links)),
            b_eq=sizes,
            bounds=(0.0, 1.0),
        )
        assert (best.status == "infeasible") == (expected.status == 2)
        if expected.status == 0:
            assert best.value == pytest.approx(-expected.fun, abs=1e-8)


def test_a_row_of_slots_is_needed_for_each_kind() -> None:
    rates = [[0.5, 0.1], [0.5, 0.1]]
    with pytest.raises(InvalidInput, match=r"`slot_weights` must be a row for each kind \(2\)"):
        solve_kinds(rates, rates, [0.5, 0.5], [[1.0]], [(np.ones(2, bool), 0.1)])


@pytest.mark.parametrize("are_alike", [True, False])
def test_rules_hold_for_every_kind_as_by_highs(are_alike: bool) -> None:
    statuses, n_rules = set(), 0
    for seed in range(60):
        value, clicks, shares, n_slots, floors = instance(seed)
        rng = np.random.default_rng(seed)
        weights = np.ones(n_slots) if are_alike else rng.random(n_slots)
        weights *= n_slots / weights.sum()
        group, n_links = rng.integers(0, 3, value.shape[1]), value.shape[1]
        asked = [
            SlotRule(links, *np.sort(rng.uniform(0.0, len(links), 2).round(seed % 2)).tolist())
            for links in (np.flatnonzero(group == k) for k in range(2))
            if len(links)
        ]
        kept = settle_rules(asked, n_links, n_slots).granted
        best = solve_kinds(value, clicks, shares, weights, floors, asked)
        statuses.add(best.status)
        np.testing.assert_allclose(best.probabilities.sum(axis=1), n_slots, atol=ACCURACY)
        for links, fewest, most in kept:
            slots = best.probabilities[:, links].sum(axis=1)
            assert slots.min() >= fewest - ACCURACY
            assert slots.max() <= most + ACCURACY
            n_rules += 1
        expected = best_order_by_highs(value, clicks, shares, weights, floors, kept)
        if expected is None:
            assert best.status == "infeasible"
        else:
            assert best.status != "infeasible"
            assert best.value == pytest.approx(expected, abs=1e-8)
    assert statuses == {"slack", "binding", "infeasible"}
    assert n_rules > 80


def test_rules_that_cross_are_refused_where_slots_differ() -> None:
    crossing = [SlotRule(np.array(links), 0.0, 1.0) for links in ([0, 1], [1, 2])]
    rates, everybody = np.full((1, 4), 0.5), [(np.ones(1, bool), 0.0)]
    rates[0, 0] = 0.9
    best = solve_kinds(rates, rates, np.ones(1), np.ones(2), everybody, crossing)
    assert best.probabilities[0, :2].sum() <= 1.0 + ACCURACY
    with pytest.raises(InvalidInput, match="`rules` must be about groups that do not cross where"):
        solve_kinds(rates, rates, np.ones(1), [1.5, 0.5], everybody, crossing)


def test_a_segment_out_of_reach_gets_its_most_clicked_page_and_no_other_does() -> None:
    value = np.array([[0.9, 0.1], [0.9, 0.1]])
    clicks = np.array([[0.1, 0.5], [0.1, 0.5]])
    floors = [(np.array([True, True]), 0.0), (np.array([True, False]), 0.9)]
    best = solve_kinds(value, clicks, np.array([0.5, 0.5]), [1.0], floors)
    assert best.status == "infeasible"
    assert best.probabilities.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert best.shadow_prices.tolist() == [0.0, np.inf]


def test_a_segment_without_page_views_is_refused() -> None:
    rates, everybody = np.array([[0.5, 0.1]]), np.array([True])
    floors = [(everybody, 0.0), (~everybody, 0.1)]
    with pytest.raises(InvalidInput, match="`floors` must be of kinds that have page views"):
        solve_kinds(rates, rates, np.ones(1), [1.0], floors)


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    value, clicks = np.array([[0.9, 0.1]] * 2), np.array([[0.1, 0.5]] * 2)
    with pytest.raises(MissingPackage, match="visitors that differ needs the package scipy"):
        solve_one_floor((value, clicks, np.array([0.5, 0.5]), 1, 0.3))
    assert solve_one_floor((value, clicks, np.array([0.5, 0.5]), 1, 0.1)).status == "slack"


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
def test_bad_input_is_named(arguments: tuple[Any, ...], message: str) -> None:
    value, clicks, n_slots, floor, shares = arguments
    floors = [(np.ones(len(value), bool), floor)]
    with pytest.raises(InvalidInput, match=f"^{message}"):
        solve_kinds(value, clicks, shares, np.ones(n_slots), floors)
