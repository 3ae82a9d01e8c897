"""Floors for all and for some visitors, against a general solver."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from slotwise.errors import InvalidInput
from slotwise.selection.solve import solve
from slotwise.selection.solve_segments import solve_segments

Floats = NDArray[np.float64]
Segment = tuple[NDArray[np.bool_], float]


def highs(
    value: Floats,
    clicks: Floats,
    n_slots: int,
    shares: Floats,
    floors: list[Segment],
) -> float | None:
    """Return the best value by HiGHS, or None where no mix keeps every floor."""
    n_kinds, n_links = value.shape
    rows = [-(np.where(kinds, shares, 0.0)[:, None] * clicks).ravel() for kinds, _ in floors]
    least = [-least * shares[kinds].sum() for kinds, least in floors]
    pages = np.kron(np.eye(n_kinds), np.ones(n_links))
    found = linprog(
        -(shares[:, None] * value).ravel(),
        A_ub=np.array(rows),
        b_ub=least,
        A_eq=pages,
        b_eq=np.full(n_kinds, n_slots),
        bounds=(0.0, 1.0),
        method="highs",
    )
    return float(-found.fun) if found.status == 0 else None


def instance(seed: int) -> tuple[Floats, Floats, int, Floats, float, list[Segment]]:
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
    return value, clicks, n_slots, shares, float(rng.uniform(0.0, 0.7) * n_slots), segments


@pytest.mark.parametrize("seed", range(80))
def test_the_best_mix_is_that_of_a_general_solver(seed: int) -> None:
    value, clicks, n_slots, shares, floor, segments = instance(seed)
    best = solve_segments(value, clicks, n_slots, shares, floor, segments)
    everybody = np.ones(len(shares), bool)
    floors = [(everybody, floor), *segments]
    expected = highs(value, clicks, n_slots, shares, floors)
    np.testing.assert_allclose(best.probabilities.sum(axis=1), n_slots, atol=1e-9)
    assert best.probabilities.min() >= 0.0
    assert best.probabilities.max() <= 1.0 + 1e-9
    of_kind = (best.probabilities * clicks).sum(axis=1)
    for j, (kinds, least) in enumerate(floors):
        where = np.asarray(kinds, bool)
        brought = (shares * of_kind)[where].sum() / shares[where].sum()
        assert best.clicks[j] == pytest.approx(brought, abs=1e-9)
        if np.isfinite(best.shadow_prices[j]):
            assert brought >= least - 1e-9
    assert (shares[:, None] * best.probabilities * value).sum() == pytest.approx(best.value)
    if expected is None:
        assert best.status == "infeasible"
        assert np.isinf(best.shadow_prices).any()
    else:
        assert best.status != "infeasible"
        assert best.value == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_without_segments_it_is_the_program_of_one_floor(seed: int) -> None:
    value, clicks, n_slots, shares, floor, _ = instance(seed)
    one = solve(value, clicks, n_slots, floor, shares)
    best = solve_segments(value, clicks, n_slots, shares, floor, [])
    assert best.value == pytest.approx(one.value, abs=1e-9)
    assert best.status == one.status
    if one.status == "binding":
        assert best.clicks[0] == pytest.approx(floor)


def test_a_segment_out_of_reach_gets_its_most_clicked_page_and_no_other_does() -> None:
    value = np.array([[0.9, 0.1], [0.9, 0.1]])
    clicks = np.array([[0.1, 0.5], [0.1, 0.5]])
    segment = (np.array([True, False]), 0.9)
    best = solve_segments(value, clicks, 1, np.array([0.5, 0.5]), 0.0, [segment])
    assert best.status == "infeasible"
    assert best.probabilities.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert best.shadow_prices.tolist() == [0.0, np.inf]


def test_a_segment_without_page_views_is_refused() -> None:
    rates = np.array([[0.5, 0.1]])
    with pytest.raises(InvalidInput, match="`segments` must be of kinds that have page views"):
        solve_segments(rates, rates, 1, np.ones(1), 0.0, [(np.array([False]), 0.1)])
