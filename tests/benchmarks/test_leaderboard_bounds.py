"""Lower bounds of the regret against the exact stopping problem, and on a case."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.leaderboard.board import Leaderboard
from benchmarks.leaderboard.bounds import (
    bound_case,
    least_loss,
    simulate_paths,
    stopping_value,
    with_bounds,
)
from benchmarks.leaderboard.suite import build_suite, pick_cases
from tests.benchmarks.boards import Fared, make_board, make_case
from tests.reference import stopping

CLICKS = np.array([0.1, 0.3, 0.6, 0.4, 0.2])
REVENUE = np.array([0.9, 0.5, 0.1, 0.6, 0.2])


@pytest.mark.parametrize("theta", [0.08, 0.15, 0.22])
def test_the_versions_enclose_the_exact_value(theta: float) -> None:
    paths = simulate_paths(CLICKS, REVENUE, 0.2, n_slots=1, horizon=24, n_paths=20_000, seed=3)
    exact = stopping.stopping_value(CLICKS, REVENUE, 0.2, 24, theta)
    blind = stopping_value(paths, theta, is_informed=False)
    informed = stopping_value(paths, theta, is_informed=True)
    # A view brings up to 0.32, so 24 views of 20,000 links leave a standard error below 0.02.
    assert exact - 0.1 <= blind <= exact + 0.1
    assert exact - 0.1 <= informed <= 1.3 * exact + 0.1


def test_nothing_is_lost_where_all_links_are_alike() -> None:
    alike = np.full(6, 0.3)
    paths = simulate_paths(alike, alike, 0.1, n_slots=2, horizon=50, n_paths=2_000, seed=1)
    worth = alike * (alike + 0.1)
    assert least_loss(paths, worth, 2, is_informed=True) == pytest.approx(0.0, abs=1e-4)


def test_a_case_has_an_interval_and_changing_rates_have_none() -> None:
    few, drifting = pick_cases(build_suite(), ["few-links", "drifting"]).cases[::-1]
    low, high = bound_case(few, 1_000, n_paths=4_000) or (0.0, 0.0)
    assert 0.0 < low <= high < 40.0
    assert bound_case(drifting, 1_000) is None
    for other in pick_cases(build_suite(), ["intervals", "rare-sales"]).cases:
        assert bound_case(other, 1_000) is None  # a hundred views a round, sales of two sizes


def test_late_feedback_has_the_bound_of_immediate_feedback() -> None:
    at_once, late = pick_cases(build_suite(), ["coupon-1", "late-200"]).cases
    bound = bound_case(late, 1_000, n_paths=1_000)
    assert bound is not None
    assert bound == bound_case(at_once, 1_000, n_paths=1_000)


def test_bounds_are_computed_for_the_cases_that_are_given() -> None:
    played = {"paced-bayes": Fared(900.0, 0.0)}
    board = make_board(make_case("few-links", played), make_case("other", played))
    few, other = with_bounds(board, pick_cases(build_suite(), ["few-links"]).cases).cases
    assert few.bound is not None
    assert other == board.cases[1]


def test_bounds_are_kept_in_the_file(tmp_path: Path) -> None:
    case = make_case("one", {"paced-bayes": Fared(900.0, 0.0)})
    board = make_board(case)
    bounded = type(board)(
        **{**board.__dict__, "cases": (type(case)(**{**case.__dict__, "bound": (1.0, 2.0)}),)}
    )
    bounded.save(tmp_path / "board.json")
    assert Leaderboard.load(tmp_path / "board.json").cases[0].bound == (1.0, 2.0)
