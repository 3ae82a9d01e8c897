"""Aims are judged from the numbers, and only from enough of them."""

from __future__ import annotations

import pytest

from benchmarks.leaderboard.board import Leaderboard
from benchmarks.leaderboard.ranking import AimCheck, AimVerdict, check_aims
from tests.benchmarks.boards import Fared, make_board, make_case


def checked(board: Leaderboard, case: str) -> AimCheck:
    return next(one for one in check_aims(board) if one.case == case)


@pytest.mark.parametrize(
    ("regret", "missing", "verdict"),
    [
        (2_090.0, 45.0, AimVerdict.MET),
        (2_110.0, 0.0, AimVerdict.MISSED),
        (1_000.0, 60.0, AimVerdict.MISSED),
    ],
)
def test_the_coupons(regret: float, missing: float, verdict: AimVerdict) -> None:
    policies = {"paced-bayes": Fared(regret, missing), "queue-ts": Fared(3_900.0, 0.0)}
    check = checked(make_board(make_case("coupon-mild", policies)), "coupon-mild")
    assert check.verdict is verdict
    assert check.reference == "3,900 / 0"
    assert check.reached.startswith(f"{regret:,.0f} / ")


@pytest.mark.parametrize(("n_rounds", "n_runs"), [(20_000, 20), (50_000, 19)])
def test_too_few_runs_or_other_rounds_are_not_judged(n_rounds: int, n_runs: int) -> None:
    policies = {"paced-bayes": Fared(100.0, 0.0)}
    case = make_case("coupon-mild", policies, n_rounds=n_rounds, n_runs=n_runs)
    check = checked(make_board(case), "coupon-mild")
    assert check.verdict is AimVerdict.NOT_JUDGED
    assert (
        check.why == f"{n_runs} runs of {n_rounds:,} rounds; a verdict needs 20 or more of 50,000"
    )


@pytest.mark.parametrize(
    ("regret", "verdict"), [(1_290.0, AimVerdict.MET), (1_310.0, AimVerdict.MISSED)]
)
def test_few_links_are_to_be_near_the_best(regret: float, verdict: AimVerdict) -> None:
    policies = {"paced-bayes": Fared(regret, 0.0), "queue-ts": Fared(1_000.0, 0.0)}
    check = checked(make_board(make_case("few-links", policies)), "few-links")
    assert check.verdict is verdict
    assert check.aim.startswith(
        "priced regret at most 1.3 of the best policy's, shortfall at most "
    )


def test_on_tiny_rates_the_default_is_to_be_the_best() -> None:
    policies = {"paced-bayes": Fared(9_000.0, 0.0), "cucb": Fared(8_000.0, 0.0)}
    case = make_case("tiny-rates", policies, floor=0.12, n_rounds=1_000_000)
    check = checked(make_board(case), "tiny-rates")
    assert (check.verdict, check.why) == (AimVerdict.MISSED, "best is cucb")
    assert check.aim == "the best of all policies, shortfall at most 120"


def test_a_case_that_was_not_played_is_not_judged() -> None:
    board = make_board(make_case("else", {"paced-bayes": Fared(1.0, 0.0)}))
    check = checked(board, "ad-clicks-12")
    assert (check.verdict, check.why) == (AimVerdict.NOT_JUDGED, "not run")


def test_robustness_names_the_worst_case_and_all_that_fail() -> None:
    board = make_board(
        make_case("near", {"paced-bayes": Fared(1_200.0, 0.0), "x": Fared(1_000.0, 0.0)}),
        make_case("far", {"paced-bayes": Fared(1_500.0, 0.0), "x": Fared(1_000.0, 0.0)}),
        make_case("short", {"paced-bayes": Fared(900.0, 900.0), "x": Fared(1_000.0, 0.0)}),
    )
    check = checked(board, "all cases")
    assert check.verdict is AimVerdict.MISSED
    assert check.reached == "1.50 on far"
    assert check.why == "missed on far, short"


def test_robustness_is_met_by_being_near_everywhere() -> None:
    board = make_board(
        make_case("near", {"paced-bayes": Fared(1_200.0, 0.0), "x": Fared(1_000.0, 0.0)})
    )
    assert checked(board, "all cases").verdict is AimVerdict.MET
