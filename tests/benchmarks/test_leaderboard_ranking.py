"""The rule of the leaderboard, on numbers made up for it."""

from __future__ import annotations

import pytest

from benchmarks.leaderboard.board import best_without_horizon, records
from benchmarks.leaderboard.ranking import merge_boards
from slotwise.errors import InvalidInput
from tests.benchmarks.boards import Fared, make_board, make_case


def ranked(**policies: Fared) -> list[str]:
    return [one.label for one in make_case("case", policies).standings]


def test_the_lowest_regret_wins_among_those_that_keep_the_floor() -> None:
    order = ranked(greedy=Fared(100.0, 5_000.0), good=Fared(900.0, 0.0), slow=Fared(3_000.0, -50.0))
    assert order == ["good", "slow", "greedy"]


def test_those_that_miss_it_follow_by_their_shortfall() -> None:
    order = ranked(good=Fared(9_000.0, 0.0), far=Fared(-50.0, 9_000.0), near=Fared(500.0, 400.0))
    assert order == ["good", "near", "far"]


@pytest.mark.parametrize(("missing", "is_kept"), [(199.0, True), (201.0, False)])
def test_a_thousandth_of_the_promise_may_be_missing(missing: float, is_kept: bool) -> None:
    case = make_case("case", {"good": Fared(900.0, 0.0), "other": Fared(1_000.0, missing)})
    assert case.allowed_shortfall == 200.0
    other = case.find("other")
    assert other is not None
    assert other.keeps_floor is is_kept


def test_missing_clicks_are_paid_for() -> None:
    # 200 clicks are missing, which the rule allows, at half a unit of revenue each.
    case = make_case("case", {"sold": Fared(950.0, 200.0), "kept": Fared(1_000.0, 0.0)})
    assert [one.label for one in case.standings] == ["kept", "sold"]
    assert [one.loss for one in case.standings] == pytest.approx([1_000.0, 1_050.0], abs=1.0)


def test_of_a_small_promise_only_luck_may_be_missing() -> None:
    case = make_case("case", {"good": Fared(900.0, 0.0)}, floor=0.1)
    assert case.allowed_shortfall == pytest.approx(0.4 * (0.1 * case.n_rounds) ** 0.5)


def test_a_floor_out_of_reach_is_judged_by_what_could_have_been_clicked() -> None:
    # The most clicked page misses 1 click a round, 50,000 in all.
    policies = {"much": Fared(-900.0, 60_000.0), "little": Fared(500.0, 52_000.0)}
    case = make_case("case", policies, floor=7.0, status="infeasible")
    assert case.judged_by == "shortfall"
    assert [one.label for one in case.standings] == ["little", "much"]
    assert [one.ratio for one in case.standings] == pytest.approx([1.0, 5.0])
    assert not any(one.keeps_floor for one in case.standings)


def test_where_no_policy_keeps_a_floor_in_reach_shortfalls_are_compared() -> None:
    case = make_case("case", {"a": Fared(100.0, 4_000.0), "b": Fared(900.0, 2_000.0)})
    assert case.judged_by == "shortfall"
    assert [(one.label, one.ratio) for one in case.standings] == [("b", 1.0), ("a", 2.0)]


def test_regrets_below_what_runs_can_tell_are_equal() -> None:
    case = make_case("case", {"lucky": Fared(-300.0, 0.0), "good": Fared(40.0, 0.0)})
    assert [one.ratio for one in case.standings] == [1.0, 1.0]


def test_the_best_is_within_itself_whatever_its_spread() -> None:
    case = make_case(
        "case", {"best": Fared(40.0, -2_000.0, 900.0), "x": Fared(45.0, -2_000.0, 900.0)}
    )
    assert [one.is_within for one in case.standings] == [True, None]


def test_the_oracle_is_shown_and_not_ranked() -> None:
    case = make_case("case", {"good": Fared(900.0, 0.0)})
    assert [one.label for one in case.standings] == ["good"]
    assert case.oracle["regret"].mean == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("regret", "spread", "is_within"),
    [(1_200.0, 1.0, True), (1_400.0, 1.0, False), (1_299.0, 900.0, None)],
)
def test_the_factor_is_judged_by_the_interval_of_the_difference(
    regret: float, spread: float, is_within: bool | None
) -> None:
    case = make_case("case", {"best": Fared(1_000.0, 0.0), "x": Fared(regret, 0.0, spread)})
    standing = case.find("x")
    assert standing is not None
    assert standing.is_within is is_within


def test_time_is_that_of_a_round() -> None:
    standing = make_case("case", {"good": Fared(900.0, 0.0)}).standings[0]
    assert standing.measures["microseconds"].mean == pytest.approx(10.0)


def test_records_count_floors_missed_before_ratios() -> None:
    board = make_board(
        make_case("one", {"paced-bayes": Fared(1_000.0, 0.0), "x": Fared(500.0, 900.0)}),
        make_case("two", {"paced-bayes": Fared(2_000.0, -9.0), "x": Fared(1_000.0, -9.0)}),
    )
    first, second = records(board)
    assert (first.label, first.floors_missed, first.worst_ratio) == ("paced-bayes", (), 2.0)
    assert (second.label, second.floors_missed, second.n_wins) == ("x", ("one",), 1)
    assert first.worst_case == "two"
    assert first.mean_ratio == pytest.approx(2.0**0.5)


def test_a_floor_out_of_reach_is_not_missed() -> None:
    policies = {"paced-bayes": Fared(0.0, 52_000.0)}
    board = make_board(make_case("far", policies, floor=7.0, status="infeasible"))
    assert records(board)[0].floors_missed == ()


def test_the_recommendation_knows_no_horizon() -> None:
    case = make_case("one", {"queue-ts": Fared(500.0, 0.0), "paced-bayes": Fared(900.0, 0.0)})
    board = make_board(case)
    assert records(board)[0].label == "queue-ts"
    best = best_without_horizon(board)
    assert best is not None
    assert best.label == "paced-bayes"


def test_where_visitors_differ_the_share_of_their_gain_is_measured() -> None:
    policies = {"good": Fared(2_500.0, 0.0, spread=100.0)}
    case = make_case("case", policies, gains={"value_without_visitors": 0.8})
    share = case.standings[0].measures["gain_of_visitors"]
    # 2,500 of the 10,000 that knowing the visitors can bring are missing
    assert share.mean == pytest.approx(0.75)
    assert 0.74 < share.low < 0.75 < share.high < 0.76
    assert case.oracle["gain_of_visitors"].mean == pytest.approx(1.0)
    assert "gain_of_order" not in case.standings[0].measures


@pytest.mark.parametrize("gains", [None, {"value_without_visitors": 0.9995}])
def test_a_gain_that_does_not_exist_has_no_share(gains: dict[str, float] | None) -> None:
    case = make_case("case", {"good": Fared(900.0, 0.0)}, gains=gains)
    assert not {"gain_of_visitors", "gain_of_order"} & {*case.standings[0].measures}


def test_a_policy_that_is_played_again_takes_its_place_among_those_that_are_not() -> None:
    before = {
        "paced-bayes": Fared(900.0, -5.0),
        "queue-ts": Fared(600.0, -5.0),
        "cucb": Fared(10.0, 900.0),
    }
    earlier = make_board(make_case("coupons", before), make_case("other", before))
    again = make_board(make_case("coupons", {"paced-bayes": Fared(400.0, -5.0)}))
    merged = merge_boards(again, earlier)
    expected = make_case("coupons", {**before, "paced-bayes": Fared(400.0, -5.0)})
    assert merged.cases[0].standings == expected.standings
    assert merged.cases[1] == earlier.cases[1]
    assert merged.notes[-1].startswith("paced-bayes: commit ")


def test_a_floor_is_the_same_if_its_digits_in_a_file_are() -> None:
    fared = {"paced-bayes": Fared(900.0, -5.0)}
    now = make_case("shop", fared, floor=1.154995672783318)
    before = make_case("shop", {"cucb": Fared(900.0, -5.0)}, floor=1.155)
    merged = merge_boards(make_board(now), make_board(before))
    assert {one.label for one in merged.cases[0].standings} == {"paced-bayes", "cucb"}


def test_boards_of_other_runs_are_not_mixed() -> None:
    fared = {"paced-bayes": Fared(900.0, -5.0)}
    one, other = make_case("coupons", fared), make_case("coupons", fared, n_runs=7)
    with pytest.raises(InvalidInput, match="`n_runs` must be 7 on coupons"):
        merge_boards(make_board(one), make_board(other))
