from __future__ import annotations

import importlib
import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import event, given, settings, strategies as st

from slotwise.errors import InvalidInput
from slotwise.selection import Solution, solve
from tests.reference.certificate import check_by_highs, check_certificate
from tests.reference.floor_program import (
    best_by_all_pages,
    best_clicks,
    clicks_of_best_value,
    mix_by_all_pairs,
)
from tests.selection.instances import Instance, instances
from tests.selection.warm_program import WarmProgram

pytestmark = pytest.mark.compiled

ACCURACY = 1e-9
"""More than the rounding of any sum here."""


def expected_status(instance: Instance) -> str | None:
    """Return what the status must be, or None where rounding alone decides."""
    free = clicks_of_best_value(instance.value, instance.clicks, instance.n_slots)
    most = best_clicks(instance.clicks, instance.n_slots)
    if abs(instance.floor - most) < 1e-9 or abs(instance.floor - free) < 1e-9:
        return None
    if instance.floor < free:
        return "slack"
    return "binding" if instance.floor < most else "infeasible"


def boundary_ties(best: Solution, instance: Instance) -> int:
    """Return how many links tie at the end of the page, at the solution's price."""
    score = instance.value + best.shadow_price * instance.clicks
    threshold = np.sort(score)[-instance.n_slots]
    return int(np.sum(np.abs(score - threshold) <= 1e-9 * threshold))


@settings(max_examples=250)
@given(instances())
def test_solve_equals_highs(instance: Instance) -> None:
    best = solve(*instance)
    event(best.status)
    check_certificate(best, *instance)
    reference = check_by_highs(best, *instance)
    if reference is None:
        return
    is_open = (best.probabilities > 0.0) & (best.probabilities < 1.0)
    if best.status == "binding":
        if boundary_ties(best, instance) == 2:
            assert is_open.sum() in (0, 2)
        is_mixed = (best.probabilities > 1e-3) & (best.probabilities < 1.0 - 1e-3)
        if is_mixed.any() and np.ptp(instance.clicks[is_mixed]) > 1e-5:
            # links with different clicks are truly mixed: only one price makes them tie
            assert best.shadow_price == pytest.approx(reference.price, rel=1e-6, abs=1e-6)


@st.composite
def grid_programs(draw: st.DrawFn) -> tuple[list[int], list[int], int, int]:
    n_links = draw(st.one_of(st.integers(1, 7), st.integers(5, 7)))
    eighths = st.lists(st.integers(0, 8), min_size=n_links, max_size=n_links)
    n_slots = draw(st.one_of(st.integers(1, max(1, n_links // 2)), st.integers(1, n_links)))
    return draw(eighths), draw(eighths), n_slots, draw(st.integers(0, 16 * n_slots))


@settings(max_examples=150)
@given(grid_programs())
def test_solve_equals_all_pages_in_fractions(
    program: tuple[list[int], list[int], int, int],
) -> None:
    values, clicks, n_slots, sixteenths = program
    exact = best_by_all_pages(
        [Fraction(v, 8) for v in values],
        [Fraction(c, 8) for c in clicks],
        n_slots,
        Fraction(sixteenths, 16),
    )
    instance = Instance(np.array(values) / 8, np.array(clicks) / 8, n_slots, sixteenths / 16)
    best = solve(*instance)
    check_certificate(best, *instance)
    event(best.status)
    if exact is None:
        assert best.status == "infeasible"
    else:
        assert best.status != "infeasible"
        assert best.value == pytest.approx(float(exact), abs=ACCURACY)


@settings(max_examples=250)
@given(instances())
def test_links_that_tie_share_as_documented(instance: Instance) -> None:
    best = solve(*instance)
    status, mix = mix_by_all_pairs(*instance)
    assert best.status == status
    if expected_status(instance) is not None:
        np.testing.assert_allclose(best.probabilities, mix, rtol=0, atol=1e-7)


@settings(max_examples=150)
@given(instances())
def test_equal_links_get_equal_probabilities(instance: Instance) -> None:
    best = solve(*instance)
    pairs = np.stack([instance.value, instance.clicks])
    _, kind = np.unique(pairs, axis=1, return_inverse=True)
    for one in range(kind.max() + 1):
        assert np.ptp(best.probabilities[kind == one]) <= 1e-12


@settings(max_examples=150)
@given(instances(), st.integers(0, 2**32 - 1))
def test_the_order_of_links_does_not_matter(instance: Instance, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(instance.value))
    best = solve(*instance)
    shuffled = solve(instance.value[order], instance.clicks[order], *instance[2:])
    assert shuffled.status == best.status
    assert shuffled.value == pytest.approx(best.value, abs=ACCURACY * (1 + len(order)))
    assert shuffled.clicks == pytest.approx(best.clicks, abs=ACCURACY)


def test_a_million_links_are_solved_exactly() -> None:
    rng = np.random.default_rng(3)
    clicks = rng.random(1_000_000) ** 4
    value = clicks * rng.random(1_000_000) * np.exp(-2 * clicks)
    instance = Instance(value, clicks, 20, 12.0)
    best = solve(*instance)
    assert best.status == "binding"
    check_certificate(best, *instance)


def test_close_clicks_make_a_steep_price_that_is_still_exact() -> None:
    value = np.array([0.9, 0.6, 0.2, 0.1])
    clicks = np.array([0.5, 0.5 + 1e-6, 0.5 + 2e-6, 0.5 + 3e-6])
    best = solve(value, clicks, 1, 0.5 + 1.5e-6)
    # the first and the last link, half each: a line above the two between them
    assert best.shadow_price == pytest.approx(0.8 / 3e-6, rel=1e-6)
    np.testing.assert_allclose(best.probabilities, [0.5, 0.0, 0.0, 0.5], atol=1e-6)


@pytest.mark.parametrize("spread", [1e-4, 1e-6, 1e-8])
def test_steep_prices_lose_nothing(spread: float) -> None:
    # clicks 1e-9 apart and less come near the 1e-12 within which scores are equal
    for seed in range(60):
        rng = np.random.default_rng(seed)
        value, clicks = rng.random(6), 0.5 + spread * rng.random(6)
        ordered = np.sort(clicks)
        fewest, most = ordered[:2].sum(), ordered[-2:].sum()
        floor = float(fewest + (most - fewest) * rng.uniform(0.3, 0.95))
        exact = best_by_all_pages(
            [Fraction(v) for v in value], [Fraction(c) for c in clicks], 2, Fraction(floor)
        )
        assert exact is not None
        assert solve(value, clicks, 2, floor).value == pytest.approx(float(exact), abs=1e-9)


def test_infeasible_says_the_most_clicks_that_can_be_had() -> None:
    best = solve([0.9, 0.1, 0.5, 0.4], [0.2, 0.8, 0.5, 0.5], n_slots=2, floor=1.5)
    assert best.status == "infeasible"
    assert best.probabilities.tolist() == [0.0, 1.0, 1.0, 0.0]  # equal clicks: more value
    assert best.clicks == pytest.approx(1.3)
    assert best.value == pytest.approx(0.6)


def test_a_floor_at_the_most_clicks_is_in_reach() -> None:
    clicks = np.array([0.1, 0.7, 0.2, 0.3])
    best = solve([0.5, 0.1, 0.9, 0.4], clicks, n_slots=3, floor=float(clicks[1:].sum()))
    assert best.status == "binding"
    assert best.probabilities.tolist() == [0.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("floor", [0.0, 0.9, 1.5])
def test_a_page_for_every_link_shows_all(floor: float) -> None:
    best = solve([0.3, 0.2], [0.5, 0.4], n_slots=2, floor=floor)
    assert best.probabilities.tolist() == [1.0, 1.0]
    assert best.status == ("infeasible" if floor > 0.9 else "slack")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_slots": 0}, "`n_slots` must be from 1 to the number of links (2), got 0"),
        ({"n_slots": 3}, "`n_slots` must be from 1 to the number of links (2), got 3"),
        ({"floor": -0.1}, "`floor` must be a finite number that is at least 0, got -0.1"),
        ({"floor": math.nan}, "`floor` must be a finite number that is at least 0, got nan"),
        ({"value": [0.1, math.nan]}, "`value` must be numbers in [0, 1], got nan"),
        ({"clicks": [0.1, 1.5]}, "`clicks` must be numbers in [0, 1], got 1.5"),
        ({"clicks": [0.1]}, "`clicks` must be as many numbers as `value` (2), got 1"),
        ({"value": []}, "`value` must be a list of at least one number, got []"),
    ],
)
def test_bad_input_is_named(change: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"value": [0.1, 0.2], "clicks": [0.3, 0.4], "n_slots": 1, "floor": 0}
    with pytest.raises(InvalidInput) as caught:
        solve(**{**good, **change})  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_slots": 0}, "`n_slots` must be from 1 to the number of links (40), got 0"),
        ({"n_slots": 41}, "`n_slots` must be from 1 to the number of links (40), got 41"),
        (
            {"n_slots": 10**30},
            f"`n_slots` must be from 1 to the number of links (40), got {10**30}",
        ),
        ({"floor": math.inf}, "`floor` must be a finite number that is at least 0, got inf"),
        ({"floor": math.nan}, "`floor` must be a finite number that is at least 0, got nan"),
        ({"clicks": np.full(39, 0.1)}, "`clicks` must be as many numbers as `value` (40), got 39"),
        ({"value": np.zeros(0)}, "`value` must be a list of at least one number, got array([]"),
    ],
)
def test_bad_input_is_named_where_arrays_are_taken_as_they_are(
    change: dict[str, object], message: str
) -> None:
    rates = np.linspace(0.1, 0.9, 40)
    good: dict[str, object] = {"value": rates, "clicks": rates, "n_slots": 3, "floor": 0.5}
    with pytest.raises(InvalidInput) as caught:
        solve(**{**good, **change})  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["value", "clicks"])
@pytest.mark.parametrize("wrong", [math.nan, -1e-300, 1.0 + 1e-15, math.inf, -math.inf])
def test_no_wrong_rate_is_overlooked(name: str, wrong: float) -> None:
    for n_links in (1, 2, 7, 64, 100):
        for place in range(n_links):
            rates = {"value": np.full(n_links, 0.5), "clicks": np.full(n_links, 0.5)}
            rates[name][place] = wrong
            with pytest.raises(InvalidInput, match=rf"`{name}` must be numbers in \[0, 1\]"):
                solve(**rates, n_slots=1, floor=0.1)


def test_however_arrays_are_given_the_answer_is_the_same() -> None:
    rng = np.random.default_rng(6)
    value, clicks = rng.random((2, 50)).astype(np.float32).astype(np.float64)
    best = solve(value, clicks, 5, 4.5)
    assert best.status == "binding"
    every_other = np.zeros(100)
    every_other[::2] = value
    frozen = clicks.copy()
    frozen.flags.writeable = False
    for other in (
        solve(value.tolist(), clicks.tolist(), 5, 4.5),
        solve(every_other[::2], clicks, 5, 4.5),
        solve(value.astype(np.float32), frozen, 5, 4.5),
        solve(value, clicks.astype(">f8"), 5, 4.5),
        solve(value, frozen, np.int64(5), np.float64(4.5)),  # type: ignore[arg-type]
    ):
        assert other.probabilities.tolist() == best.probabilities.tolist()
        assert other[1:] == best[1:]
        assert isinstance(other, Solution)


def test_where_the_search_starts_changes_no_answer() -> None:
    """Rates and floors in eighths: pages that have exactly the clicks of the floor are common."""
    rng = np.random.default_rng(7)
    n_exact = 0
    for _ in range(3000):
        n_links = int(rng.integers(2, 12))
        n_slots = int(rng.integers(1, n_links + 1))
        value, clicks = rng.integers(0, 9, (2, n_links)) / 8.0
        floor = int(rng.integers(0, 8 * n_slots + 1)) / 8.0
        best = solve(value, clicks, n_slots, floor)
        # a program that is kept starts its search from nothing
        kept = WarmProgram(value, clicks, n_slots, floor).solve()
        assert best.status == kept.status
        assert best.shadow_price == pytest.approx(kept.shadow_price, rel=1e-12)
        assert best.probabilities == pytest.approx(kept.probabilities, abs=1e-12)
        n_exact += best.status == "slack" and best.clicks == floor
    assert n_exact > 30


def test_interpreted_code_returns_plain_numbers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("slotwise.selection.solve")
    monkeypatch.setattr(module, "_solving", lambda: SimpleNamespace(call=module.solve_into))
    best = solve([0.9, 0.6, 0.1], [0.1, 0.5, 0.9], n_slots=1, floor=0.3)
    assert [type(one) for one in (best.shadow_price, best.value, best.clicks)] == [float] * 3
