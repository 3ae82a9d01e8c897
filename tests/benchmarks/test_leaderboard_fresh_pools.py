"""Pools drawn from a seed: varied, reproducible, with floors that a page can keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.leaderboard.board import Leaderboard, records
from benchmarks.leaderboard.cases import Effort
from benchmarks.leaderboard.ranking import MOST_CLICKS
from benchmarks.leaderboard.run import pick_entrants, plan_leaderboard, run_leaderboard
from benchmarks.leaderboard.suite import fresh_suite, pick_cases
from slotwise.environments.datasets import look_ahead
from tests.benchmarks.boards import Fared, make_board, make_case


def test_a_seed_gives_the_same_pools_and_another_seed_others() -> None:
    first, again, other = fresh_suite(3, 7), fresh_suite(5, 7), fresh_suite(3, 8)
    for one, same, another in zip(first.cases, again.cases, other.cases, strict=False):
        np.testing.assert_array_equal(one.dataset.click_rate, same.dataset.click_rate)
        assert one.dataset.click_floor == same.dataset.click_floor
        assert one.dataset.n_links != another.dataset.n_links


def test_pools_differ_in_size_and_floors_can_be_kept() -> None:
    datasets = [case.dataset for case in fresh_suite(60, 3).cases]
    sizes = [one.n_links for one in datasets]
    assert min(sizes) < 12
    assert max(sizes) > 300
    statuses = [look_ahead(one).floor for one in datasets]
    assert 0 < statuses.count("slack") < 30
    assert statuses.count("infeasible") == 0
    for one in datasets:
        assert 1 <= one.n_slots <= one.n_links // 3


def test_on_drawn_pools_a_policy_for_clicks_alone_is_played_but_not_ranked(tmp_path: Path) -> None:
    suite = pick_cases(fresh_suite(20, 2027), ["fresh-2027-11"])
    plan = plan_leaderboard(suite, pick_entrants([]), Effort(n_rounds=2_000, n_runs=4), tmp_path)
    board = run_leaderboard(plan, tmp_path / "parts", n_threads=1)
    (case,) = board.cases
    assert [one.label for one in case.standings] == ["paced-bayes"]
    assert case.most_clicked["shortfall"].mean == 0.0
    default = case.standings[0].measures
    # It ignores revenue: 1.97 times as much over 20 runs.
    assert case.most_clicked["regret"].mean > 1.4 * default["regret"].mean
    board.save(tmp_path / "board.json")
    assert Leaderboard.load(tmp_path / "board.json").cases[0].most_clicked.keys() == set(
        case.most_clicked
    )


def test_a_floor_that_not_even_clicks_alone_keep_in_time_is_not_counted_as_missed() -> None:
    missed, kept = Fared(20.0, missing=900.0), Fared(20.0, missing=0.0)
    too_early = make_case("early", {"paced-bayes": missed, MOST_CLICKS: missed})
    avoidable = make_case("avoidable", {"paced-bayes": missed, MOST_CLICKS: kept})
    by_another = make_case("another", {"paced-bayes": missed, "uniform": kept, MOST_CLICKS: missed})
    not_played = replace(too_early, name="unknown", most_clicked={})
    board = make_board(too_early, avoidable, by_another, not_played)
    (record,) = [one for one in records(board) if one.label == "paced-bayes"]
    assert record.floors_missed == ("avoidable", "another", "unknown")
