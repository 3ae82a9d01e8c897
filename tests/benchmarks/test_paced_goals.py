"""Goals and budgets with a date in the engine: delivered by the end whatever traffic does."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.goals import TRAFFIC, play_engine
from benchmarks.paced_goals import GoalRule, play_paced, simulate_goals
from slotwise.environments import BernoulliLinks, IntervalLinks, SegmentLinks
from slotwise.errors import InvalidInput
from slotwise.policies import CUCB
from slotwise.problem import Problem, Rule
from slotwise.simulation.engine import SHOWN, TOTAL, play_run, simulated_rules

LINKS = BernoulliLinks([0.3, 0.2, 0.1, 0.15], [0.5, 0.6, 0.3, 0.2])


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("traffic", sorted(TRAFFIC))
def test_goals_are_reached_by_the_end(traffic: str) -> None:
    """What nobody can correct for is 0.0003 of the views and 0.0022 of the clicks."""
    views, clicks, budget = play_engine(TRAFFIC[traffic], "cucb", seed=401)
    assert views == pytest.approx(1.0, abs=0.001)
    assert clicks == pytest.approx(1.0, abs=0.01)
    assert 0.97 <= budget <= 1.005


def test_rules_and_floors_hold_beside_goals() -> None:
    goals = [GoalRule("partner", [2, 3], views=900), GoalRule("few", [0], budget=100)]
    rule = Rule("never two", [0, 1], at_most=1)
    found = simulate_goals(
        LINKS, goals, 2, [10] * 144, click_floor=0.3, rules=[rule], policy=CUCB()
    )
    # one of the last two is on every page where never two of the first two are
    assert found.views["partner"] >= 1_440
    assert found.clicks["few"] <= 110
    assert found.clicks_per_view > 0.25


def test_a_goal_out_of_reach_takes_all_slots_and_stops_nothing() -> None:
    goals = [GoalRule("all", [2], views=10_000), GoalRule("none", [0], budget=0)]
    found = simulate_goals(LINKS, goals, 1, [30] * 20, policy=CUCB())
    assert found.views["all"] >= 570  # nothing is paced before it is known how much traffic comes
    assert found.views["none"] == 0


def test_a_run_in_parts_is_the_run_as_a_whole() -> None:
    problem = Problem(4, 2, 0.3, horizon=400, rules=(Rule("some", [2, 3], at_least=0.3),))
    rules = simulated_rules(problem).for_page(None).rules
    whole = play_run(CUCB(), LINKS, problem, np.array([400]), 3, 0)
    ends = np.array([1, 90, 90, 250, 400])
    counts, totals = play_paced(CUCB(), LINKS, problem, ends, 3, lambda of_links: rules)
    assert np.array_equal(totals, whole[TOTAL, :2, 0])
    assert counts[SHOWN].sum() == 800


def test_bad_goals_are_named() -> None:
    with pytest.raises(InvalidInput, match="given for rule 'x', or `clicks` or `budget`"):
        GoalRule("x", [0])
    for name, wrong in (("views", -1), ("clicks", 1.5), ("budget", float("nan"))):
        with pytest.raises(InvalidInput, match=f"`{name}` must be"):
            GoalRule("x", [0], **{name: wrong})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="`links` must be a list for rule 'x', got 2"):
        GoalRule("x", 2, views=1)  # type: ignore[arg-type]
    goal = GoalRule("x", [0], views=1)
    with pytest.raises(InvalidInput, match="`page_views` must be from 1 to 1,000,000,000"):
        simulate_goals(LINKS, [goal], 1, [0, 0])
    with pytest.raises(InvalidInput, match="`page_views` must be from 1 to 1,000,000,000"):
        simulate_goals(LINKS, [goal], 1, [2**63])
    for interval_s in (0, 10**12):
        with pytest.raises(InvalidInput, match="`interval_s` must be"):
            simulate_goals(LINKS, [goal], 1, [5], interval_s=interval_s)
    with pytest.raises(InvalidInput, match="`seed` must be at least 0, got -1"):
        simulate_goals(LINKS, [goal], 1, [5], seed=-1)
    one_slot = SegmentLinks([[0.3] * 3], [[0.5] * 3], [1.0], slot_weights=[1.0])
    with pytest.raises(InvalidInput, match=r"`n_slots` must be as many as `slot_weights` \(1\)"):
        simulate_goals(one_slot, [goal], 2, [5])
    with pytest.raises(InvalidInput, match="`links` must be links with one page view a round"):
        simulate_goals(IntervalLinks([0.3], [0.5], views_per_round=10), [goal], 1, [5])
    with pytest.raises(InvalidInput, match="`links` of rule 'x' must be links of the pool, got 9"):
        simulate_goals(LINKS, [GoalRule("x", [9], views=1)], 1, [5])
