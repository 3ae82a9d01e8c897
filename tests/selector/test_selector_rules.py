"""Rules of a Selector: every page keeps them, whatever the policy, and the report says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slotwise
from slotwise.errors import InvalidInput
from slotwise.policies import POLICIES
from slotwise.problem import Problem, Rule
from tests.selection.chance import are_centred

LINKS = ("a1", "a2", "b1", "b2", "c1", "c2")
RULES = (
    Rule("one of a", links=("a1", "a2"), at_most=1),
    Rule("partner", links=("b1", "b2"), at_least=0.5),
    Rule("new", links=("c1",), at_least=0.05, at_most=0.2),
)
RATES = {"a1": 0.4, "a2": 0.3, "b1": 0.1, "b2": 0.05, "c1": 0.3, "c2": 0.2}


def selector_with(rules: Any = RULES, **settings: Any) -> slotwise.Selector[str]:
    return slotwise.Selector(LINKS, 3, rules=rules, horizon=2_000, seed=3, **settings)


def play(selector: slotwise.Selector[str], n_pages: int, seed: int = 1) -> np.ndarray[Any, Any]:
    """Play pages that keep the rules; return how often each link was shown."""
    rng, n_shown = np.random.default_rng(seed), dict.fromkeys(LINKS, 0)
    for _ in range(n_pages):
        page = selector.select()
        assert len(set(page.shown)) == 3
        assert len({"a1", "a2"} & set(page.shown)) <= 1
        assert page.probabilities["a1"] + page.probabilities["a2"] <= 1.0 + 1e-9
        assert page.probabilities["b1"] + page.probabilities["b2"] >= 0.5 - 1e-9
        assert 0.05 - 1e-9 <= page.probabilities["c1"] <= 0.2 + 1e-9
        assert sum(page.probabilities.values()) == pytest.approx(3.0)
        clicked = [link for link in page.shown if rng.random() < RATES[link]]
        selector.update(page, clicks=clicked, revenue=dict.fromkeys(clicked, 0.5))
        for link in page.shown:
            n_shown[link] += 1
    return np.array([n_shown[link] for link in LINKS])


@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"fixed-mix"}))
def test_every_page_of_every_policy_keeps_the_rules(name: str) -> None:
    selector = selector_with(policy=name, click_floor=0.2)
    n_shown = play(selector, 150)
    report = selector.report()
    assert [row.name for row in report.rules] == ["one of a", "partner", "new"]
    assert [row.violated for row in report.rules] == [False] * 3
    assert report.rules[1].slots_delivered == pytest.approx(n_shown[2:4].sum() / 150)
    assert "rule partner: " in str(report)


def test_exploration_keeps_the_rules() -> None:
    play(selector_with(explore=0.3), 150)


def test_without_rules_pages_are_the_same() -> None:
    plain, empty = slotwise.Selector(LINKS, 3, seed=3), selector_with(())
    changed = selector_with()
    changed.set_rules([])
    assert changed.report().rules == ()
    pages = [[one.select() for _ in range(20)] for one in (plain, empty, changed)]
    assert [page.shown for page in pages[0]] == [page.shown for page in pages[1]]
    assert [page.shown for page in pages[0]] == [page.shown for page in pages[2]]


def test_pins_and_exclusions_come_before_rules() -> None:
    selector = selector_with()
    for _ in range(20):
        assert {"a1", "a2"} <= set(selector.select(pin=["a1", "a2"]).shown)
        shown = selector.select(exclude=["b1", "b2"]).shown
        assert not {"b1", "b2"} & set(shown)
        assert len({"a1", "a2"} & set(shown)) <= 1


@pytest.mark.parametrize(
    ("n_links", "n_slots", "crossing", "most", "pin", "exclude"),
    [
        (6, 4, (3, 4, 5), 0.5, [2, 4], [5]),
        (10, 3, (0, 1, 2, 3, 5, 6, 7, 8, 9), 1.5, [3, 5], [2]),
        (11, 3, (0, *range(2, 11)), 1.0, [0, 6], [1, 3]),
    ],
)
def test_pins_and_exclusions_hold_where_a_cap_is_on_all_links(
    n_links: int,
    n_slots: int,
    crossing: tuple[int, ...],
    most: float,
    pin: list[int],
    exclude: list[int],
) -> None:
    rules = [Rule("all", range(n_links), at_most=1.5), Rule("most", crossing, at_most=most)]
    for policy in ("uniform", "paced-bayes"):
        selector = slotwise.Selector(range(n_links), n_slots, policy=policy, rules=rules, seed=1)
        for _ in range(5):
            page = selector.select(pin=pin, exclude=exclude)
            assert set(pin) <= set(page.shown)
            assert not set(exclude) & set(page.shown)


def test_visitors_and_slots_keep_the_rules() -> None:
    selector = selector_with(
        features={"device": ["phone", "desktop"]}, slot_weights=[2.0, 1.0, 0.5]
    )
    for k in range(60):
        page = selector.select(visitor={"device": ("phone", "desktop")[k % 2]})
        assert len({"a1", "a2"} & set(page.shown)) <= 1
        assert page.probabilities["b1"] + page.probabilities["b2"] >= 0.5 - 1e-9
        selector.update(page, clicks=page.shown[:1], revenue={})


def test_rules_survive_saving_and_retired_links(tmp_path: Path) -> None:
    selector = selector_with()
    play(selector, 30)
    selector.save(tmp_path / "shop")
    loaded = slotwise.Selector.load(tmp_path / "shop")
    assert loaded.problem.rules == RULES
    assert loaded.report().rules == selector.report().rules
    pages = [[one.select().shown for _ in range(20)] for one in (selector, loaded)]
    assert pages[0] == pages[1]
    selector.retire(["b1", "b2"])
    partner = selector.report().rules[1]
    assert partner.violated
    assert partner.granted == "at least 0 instead of 0.5"
    selector.save(tmp_path / "shop")
    assert slotwise.Selector.load(tmp_path / "shop").report().rules[1].violated


def test_a_rule_that_cannot_be_kept_is_named_and_pages_go_on() -> None:
    rules = [Rule("all a", ["a1", "a2"], at_least=2), Rule("b", ["b1", "b2"], at_least=2)]
    selector = selector_with(rules)
    assert {"a1", "a2"} <= set(selector.select().shown)
    rows = selector.report().rules
    assert [row.violated for row in rows] == [False, True]
    assert rows[1].granted == "at least 1 instead of 2"
    assert "rule b: " in str(selector.report())


def test_the_cost_of_a_guarantee_is_what_is_lost() -> None:
    selector = selector_with([Rule("weak", ["b2"], at_least=1)], max_revenue=10.0)
    views = dict.fromkeys(LINKS, 1000)
    clicks = {link: round(1000 * rate) for link, rate in RATES.items()}
    selector.update_batch(views, clicks, {link: 10.0 * n for link, n in clicks.items()})
    [row] = selector.report().rules
    assert row.cost == pytest.approx(10 * (0.3 - 0.05))
    assert row.price == pytest.approx(10 * (0.3 - 0.05))


def test_a_boost_ranks_links_higher() -> None:
    plain, boosted = (selector_with(rules) for rules in ((), [Rule("up", ["b2"], boost=20)]))
    for one in (plain, boosted):
        views = dict.fromkeys(LINKS, 2000)
        clicks = {link: round(2000 * rate) for link, rate in RATES.items()}
        one.update_batch(views, clicks, {link: 0.5 * n for link, n in clicks.items()})
    assert plain.report().links[3].probability < 0.5
    assert boosted.report().links[3].probability > 0.99
    assert boosted.report().rules[0].cost > 0.0


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (("", ["a1"]), "`name` must be the name of a rule"),
        (("x", "a1"), "`links` of rule 'x' must be a list of links"),
        (("x", []), "`links` of rule 'x' must be at least one link, each of them once"),
        (("x", ["a1", "a1"]), "`links` of rule 'x' must be at least one link, each of them once"),
        (("x", ["a1"], -1), "`at_least` of rule 'x' must be a number that is at least 0, got -1"),
        (("x", ["a1"], float("nan")), "`at_least` of rule 'x' must be a number"),
        (("x", ["a1"], 0.5, 0.1), "`at_most` of rule 'x' must be at least 0.5, got 0.1"),
        (("x", ["a1"]), "rule 'x' must have `at_least`, `at_most` or `boost`"),
        (("x", ["a1"], 0, None, -0.5), "`boost` of rule 'x' must be a number that is at least 0"),
        (("x", ["a1"], 2), "`at_least` of rule 'x' must be at most 1, of 3 slots and 1 links"),
        (("x", ["a1"], 0, 4), r"`at_most` of rule 'x' must be at most n_slots \(3\), got 4"),
        (("x", ["zz"], 1), "`links` of rule 'x' must be links of the pool, got 'zz'"),
    ],
)
def test_bad_rules_are_refused_in_one_sentence(rule: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        selector_with([Rule(*rule)])


def test_bad_lists_of_rules_are_refused() -> None:
    with pytest.raises(InvalidInput, match="`rules` must be a list of rules, got 'x'"):
        selector_with("x")
    with pytest.raises(InvalidInput, match="`rules` must be a list of rules, got 5"):
        selector_with([5])
    twice = [Rule("x", ["a1"], 1), Rule("x", ["a2"], 1)]
    with pytest.raises(InvalidInput, match="`rules` must be rules with different names, got 'x'"):
        selector_with(twice)
    with pytest.raises(InvalidInput, match=r"`at_leest` is not .*; did you mean `at_least`"):
        Problem(4, 2, rules=({"name": "x", "links": [1], "at_leest": 2},))  # type: ignore[arg-type]
    selector = selector_with()
    with pytest.raises(InvalidInput, match="links of the pool"):
        selector.set_rules([Rule("x", ["zz"], 1)])
    assert selector.problem.rules == RULES


def test_groups_that_cross_hold_on_average() -> None:
    rules = [Rule("a", ["a1", "a2"], at_most=1), Rule("ones", ["a1", "b1", "c1"], at_least=1.5)]
    selector = selector_with(rules)
    rng = np.random.default_rng(2)
    for _ in range(60):
        page = selector.select()
        assert len({"a1", "a2"} & set(page.shown)) <= 1
        assert sum(page.probabilities[link] for link in ("a1", "b1", "c1")) >= 1.5 - 1e-8
        clicked = [link for link in page.shown if rng.random() < RATES[link]]
        selector.update(page, clicks=clicked, revenue=dict.fromkeys(clicked, 0.5))


def test_the_frontier_and_the_page_are_those_within_the_rules() -> None:
    rules = [Rule("weak", ["b1", "b2"], at_least=2)]
    free, ruled = (selector_with(given, click_floor=0.6) for given in ((), rules))
    for one in (free, ruled):
        views = dict.fromkeys(LINKS, 1000)
        clicks = {link: round(1000 * rate) for link, rate in RATES.items()}
        one.update_batch(views, clicks, {link: 0.5 * n for link, n in clicks.items()})
    assert free.frontier().estimate.floors[-1] == pytest.approx(0.4 + 0.3 + 0.3)
    assert ruled.frontier().estimate.floors[-1] == pytest.approx(0.4 + 0.1 + 0.05)
    assert (free.report().page.status, ruled.report().page.status) == ("slack", "infeasible")
    assert ruled.report().page.most_clicks == pytest.approx(0.55)


@pytest.mark.parametrize("policy", ["paced-bayes", "con-ucb"])
def test_probabilities_are_exact_under_all_restrictions_together(policy: str) -> None:
    """Whole and fractional bounds, pins, exclusions, exploration, slot weights and visitors."""
    selector = selector_with(
        policy=policy,
        click_floor=0.3,
        explore=0.2,
        slot_weights=[1.3, 1.0, 0.7],
        features={"device": ["phone", "desktop"]},
    )
    rng = np.random.default_rng(4)
    differences: dict[Any, list[list[float]]] = {}
    for n_page in range(1_500):
        visitor = {"device": "phone" if rng.random() < 0.4 else "desktop"}
        asked: list[Any] = [{}, {"pin": ["c2"]}, {"exclude": ["a1"]}]
        asked.append({"pin": ["a2"], "exclude": ["b2"]})
        page = selector.select(**asked[n_page % 4], visitor=visitor)
        row = [(link in page.shown) - page.probabilities[link] for link in LINKS]
        differences.setdefault((n_page % 4, visitor["device"]), []).append(row)
        clicked = [link for link in page.shown if rng.random() < RATES[link]]
        selector.update(page, clicks=clicked, revenue=dict.fromkeys(clicked, 0.5))
    assert len(differences) == 8
    for rows in differences.values():
        assert are_centred(np.array(rows))
    everything = np.array([row for rows in differences.values() for row in rows])
    assert are_centred(everything)
    wrong = everything + np.array([0.06, -0.06, 0.0, 0.0, 0.0, 0.0])
    assert not are_centred(wrong)
