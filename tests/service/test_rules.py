"""Rules of pools and dates of links: kept on every page, stored, counted and reported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.service.alert_conditions import alerts_of
from slotwise.service.deciding.page_request import ANY_PAGE
from slotwise.service.records import (
    ClickEvent,
    DecisionRecord,
    ImportedCounts,
    Pin,
    PoolRule,
    to_time,
)
from slotwise.service.reporting.counts_since_start import OutcomesSinceStart
from slotwise.service.reporting.overview import draw_pool
from slotwise.service.service import Service
from slotwise.service.storage.move_store import move_store
from slotwise.service.storage.sqlite import SqliteStore
from tests.selection.chance import are_centred
from tests.service.conftest import OpenService
from tests.service.private_postgresql import PrivatePostgresql
from tests.service.rows import T0, link, pool, seconds
from tests.stores.store_rows import reads

OUTCOMES = OutcomesSinceStart(T0)
GROUPS = {"a": ["a1", "a2", "a3"], "b": ["b1", "b2"], "c": ["c1", "c2", "c3"]}
RULES = (
    PoolRule(name="one of a", group="a", at_most=1),
    PoolRule(name="partner", links=("b1", "b2"), at_least=0.5),
    PoolRule(name="new", links=("c1",), at_most=0.2),
)


def opened(service: Service, rules: tuple[PoolRule, ...] = RULES, **changes: Any) -> Service:
    """Open a pool of eight links in three groups, with rules."""
    settings: dict[str, Any] = {"policy": "uniform", "policy_settings": {}, "slots": 3, **changes}
    service.directory.put_pool(pool(**settings), "test", T0).result()
    links = [link(one, group=group) for group, of in GROUPS.items() for one in of]
    service.directory.put_links("home", links, "test", T0).result()
    service.directory.put_rules("home", rules, "test", T0).result()
    return service


def pages(service: Service, n: int, now_us: int = T0, **asked: Any) -> list[DecisionRecord]:
    return [service.decider.decide("home", now_us + k, **asked) for k in range(n)]


def slots_of(page: DecisionRecord, names: list[str]) -> int:
    return sum(one.link_id in names for one in page.shown)


def shares(found: list[DecisionRecord]) -> dict[str, float]:
    shown = Counter(one.link_id for page in found for one in page.shown)
    return {name: n / len(found) for name, n in shown.items()}


def test_a_rule_that_gives_up_the_floor_costs_something_and_is_named(
    open_service: OpenService,
) -> None:
    """The blog alone has many clicks and earns little: without it no page reaches the floor."""
    service = open_service()
    service.directory.put_pool(pool(click_floor=0.35, max_revenue_micros=100), "test", T0).result()
    names = ("blog", "sale", "new", "gifts")
    service.directory.put_links("home", [link(one) for one in names], "test", T0).result()
    clicks = {"blog": 3500, "sale": 1000, "new": 600, "gifts": 300}
    earns = {"blog": 500, "sale": 50_000, "new": 30_000, "gifts": 10_000}
    known = {
        one: [ImportedCounts(views=10_000, clicks=clicks[one], revenue_micros=earns[one])]
        for one in names
    }
    service.directory.put_known("home", known, "test", T0).result()
    service.learner.learn(seconds(1))
    capped = PoolRule(name="blog cap", links=("blog",), at_most=0)
    idle = PoolRule(name="idle", links=("gifts",), at_most=1)
    check = service.reporter.check_rules("home", [capped, idle], seconds(2))
    assert check.most_clicks == pytest.approx(0.16, rel=0.01)
    assert check.clicks_missed == pytest.approx(0.19, rel=0.02)
    assert check.cost_micros is None
    assert [row.cost_micros for row in check.rules] == [None, 0]
    has = "With these rules a page has at most 0.16 clicks;"
    assert check.conflicts == (f"{has} the floor of 0.35 will be missed by 0.19.",)
    before = draw_pool(service.reporter, "home", seconds(2), OUTCOMES, service.health()).overview
    assert before.rules_below_floor == ()
    assert before.frontier[-1].click_floor == pytest.approx(0.45, rel=0.01)
    service.directory.put_rules("home", (capped, idle), "test", seconds(3)).result()
    after = draw_pool(service.reporter, "home", seconds(4), OUTCOMES, service.health()).overview
    assert after.rules_below_floor == ("blog cap",)
    assert after.frontier[-1].click_floor == pytest.approx(after.floor.attainable, rel=1e-6)
    assert after.shadow_price_micros is None
    assert after.floor.status == "infeasible"


@pytest.mark.parametrize(
    ("policy", "policy_settings"),
    [
        ("uniform", {}),
        ("paced-bayes", {}),
        ("con-ucb", {"horizon": 1000}),
        ("queue-ts", {}),
    ],
)
def test_every_page_is_within_the_rules(
    open_service: OpenService, policy: str, policy_settings: dict[str, Any]
) -> None:
    changes: dict[str, Any] = {"policy": policy, "policy_settings": policy_settings}
    service = opened(open_service(), holdout=0.3, explore=0.1, **changes)
    for page in pages(service, 100):
        click = ClickEvent(page.decision_id, page.shown[0].link_id)
        service.committer.submit_events([click], T0 + 200).result()
    service.learner.learn(seconds(100_000))
    assert service.decider.installed("home").stored.fallback == ""
    found = pages(service, 1_500, seconds(100_001))
    assert {page.holdout for page in found} == {False, True}
    assert all(slots_of(page, GROUPS["a"]) <= 1 and len(page.shown) == 3 for page in found)
    of = shares(found)
    # 1,500 draws of a share of 0.2 or 0.5 miss it by 0.07 with a chance below 1e-6
    assert of["b1"] + of["b2"] >= 0.5 - 0.07
    assert of["c1"] <= 0.2 + 0.07
    logged = {one.link_id: one.propensity for page in found for one in page.shown}
    assert all(abs(of[name] - logged[name]) < 0.07 for name in of)


@pytest.mark.parametrize("policy", ["uniform", "paced-bayes"])
def test_groups_may_cross(open_service: OpenService, policy: str) -> None:
    rules = (
        PoolRule(name="one of a", group="a", at_most=1),
        PoolRule(name="category", links=("a1", "b1", "c1", "c2"), at_least=1.5),
    )
    service = opened(open_service(), rules, policy=policy, holdout=0.5)
    found = pages(service, 1_000)
    assert all(slots_of(page, GROUPS["a"]) <= 1 and len(page.shown) == 3 for page in found)
    of = shares(found)
    assert sum(of.get(one, 0.0) for one in rules[1].links) >= 1.5 - 0.1
    random = shares([page for page in found if page.holdout])
    assert len(random) == 8  # every link is on some page at random


def test_pins_exclusions_and_fewer_slots_leave_the_rules_in_force(
    open_service: OpenService,
) -> None:
    service = opened(open_service())
    pinned = pages(service, 200, pin=[Pin(link_id="a2", position=2)])
    assert {page.shown[1].link_id for page in pinned} == {"a2"}
    assert all(slots_of(page, GROUPS["a"]) == 1 for page in pinned)
    without = pages(service, 200, exclude=["b1", "c1", "c2"])
    assert all(slots_of(page, GROUPS["a"]) <= 1 for page in without)
    assert "b1" not in shares(without)
    short = pages(service, 200, slots=2)
    assert all(slots_of(page, GROUPS["a"]) <= 1 and len(page.shown) == 2 for page in short)
    # pins come before caps
    both = pages(service, 5, pin=[Pin(link_id="a1", position=1), Pin(link_id="a2", position=2)])
    assert all(slots_of(page, GROUPS["a"]) == 2 for page in both)


def test_propensities_are_exact_under_all_restrictions_together(open_service: OpenService) -> None:
    """Rules, pins, exclusions, exploration, holdout, slot weights and visitors; a chi-square.

    A link is logged with the probability p that it is on the page, so the mean of 1 / p over the
    pages that have it, and 0 over the others, is 1.
    """
    service = opened(
        open_service(),
        policy="paced-bayes",
        holdout=0.3,
        explore=0.3,
        slot_weights=(1.3, 1.0, 0.7),
        features={"device": ["phone", "desktop"]},
    )
    asked: list[dict[str, Any]] = [
        {},
        {"pin": [Pin(link_id="c2", position=2)]},
        {"exclude": ["a1"]},
        {"pin": [Pin(link_id="a2", position=1)], "exclude": ["b2"]},
    ]
    names = [name for links in GROUPS.values() for name in links]
    n_pages = 0
    for version in range(2):
        for constraints in asked:
            out = {
                *constraints.get("exclude", ()),
                *(one.link_id for one in constraints.get("pin", ())),
            }
            for device in ("phone", "desktop"):
                found = pages(
                    service,
                    700,
                    seconds(1 + 4_000 * version),
                    **constraints,
                    visitor={"device": device},
                )
                probabilities = [{one.link_id: one.propensity for one in p.shown} for p in found]
                # a pinned link of a group that may have one leaves none for the others
                seen = {name for page in probabilities for name in page} - out
                rows = [
                    [1.0 / page[name] - 1.0 if name in page else -1.0 for name in sorted(seen)]
                    for page in probabilities
                ]
                assert are_centred(np.array(rows))
                assert not are_centred(1.3 * np.array(rows) + 0.3)
                assert len(seen) >= len(names) - len(out) - 2
                n_pages += len(found)
                clicks = [ClickEvent(p.decision_id, p.shown[0].link_id) for p in found[::3]]
                now_us = seconds(100 + 4_000 * version)
                service.committer.submit_events(clicks, now_us).result()
        service.flush().result()
        service.learner.learn(seconds(3_999))
    assert n_pages == 11_200


def test_visitors_and_the_own_page_are_within_the_rules(open_service: OpenService) -> None:
    features = {"device": ["phone", "desktop"]}
    changes: dict[str, Any] = {
        "policy": "paced-bayes",
        "holdout": 0.2,
        "own_page": ("a1", "a2", "a3"),
    }
    service = opened(open_service(), features=features, **changes)
    found = pages(service, 300, visitor={"device": "phone"})
    assert all(slots_of(page, GROUPS["a"]) <= 1 and len(page.shown) == 3 for page in found)
    run = service.publisher.runs["home"]
    with service.publisher.guarding(run, T0):
        raise RuntimeError("broken")
    page = service.decider.decide("home", T0)
    assert page.fallback == "learning-failed"
    assert slots_of(page, GROUPS["a"]) == 1


def test_a_rule_that_cannot_be_kept_stops_no_page_and_is_named(open_service: OpenService) -> None:
    rules = (
        PoolRule(name="none", group="b", at_most=0),
        PoolRule(name="partner", links=("b1",), at_least=1),
        PoolRule(name="full", group="a", at_least=3),
    )
    service = opened(open_service(), rules)
    found = pages(service, 50)
    assert all(slots_of(page, GROUPS["a"]) == 3 for page in found)
    rows = {row.name: row for row in service.reporter.rules("home", T0)}
    assert [rows[name].violated for name in ("none", "partner", "full")] == [False, True, False]
    assert rows["partner"].detail == ("Rule 'partner' has at least 0 instead of 1 slots per page.")
    outcomes = OutcomesSinceStart(T0)
    picture = draw_pool(service.reporter, "home", T0, outcomes, service.health())
    [alert] = [one for one in alerts_of(picture.overview) if one.kind == "rule-violated"]
    assert "'partner'" in alert.detail
    # all links of a rule leave: the pool still answers
    gone = [link(one, group="a", retired=True) for one in GROUPS["a"]]
    service.directory.put_links("home", gone, "test", seconds(1)).result()
    assert len(service.decider.decide("home", seconds(2)).shown) == 3
    rows = {row.name: row for row in service.reporter.rules("home", seconds(2))}
    assert rows["full"].violated
    assert rows["full"].n_links == 0


def test_what_rules_deliver_and_cost_is_counted_over_a_restart(
    open_service: OpenService,
) -> None:
    service = opened(open_service())
    delivered = pages(service, 100)
    service.flush().result()
    service.learner.learn(seconds(2_000))
    service.close()
    service = open_service()
    delivered += pages(service, 60, seconds(2_001))
    service.flush().result()
    service.learner.learn(seconds(90_000))
    [first, partner, new] = service.reporter.stats("home").rules
    assert (first.name, first.page_views) == ("one of a", 160)
    assert round(160 * first.slots_delivered) == sum(slots_of(x, GROUPS["a"]) for x in delivered)
    assert round(160 * partner.slots_delivered) == sum(slots_of(x, GROUPS["b"]) for x in delivered)
    assert new.slots_now <= 0.2 + 1e-9
    # a rule whose links change starts over, and another bound does not
    changed = (
        *(
            PoolRule(name=one.name, group=one.group, links=one.links, at_most=2)
            for one in RULES[:2]
        ),
        PoolRule(name="new", links=("c2",), at_most=0.2),
    )
    service.directory.put_rules("home", changed, "test", seconds(90_001)).result()
    rows = service.reporter.stats("home").rules
    assert [row.page_views for row in rows] == [160, 160, 0]
    assert [row.since for row in rows] == [to_time(x) for x in (T0, T0, seconds(90_001))]


def test_rules_are_part_of_the_audit_and_stay_when_the_pool_is_replaced(
    open_service: OpenService,
) -> None:
    service = opened(open_service())
    settings: dict[str, Any] = {"policy": "uniform", "policy_settings": {}, "slots": 4}
    service.directory.put_pool(pool(**settings), "test", seconds(5)).result()
    assert [rule.name for rule in service.directory.pool("home").rules] == [x.name for x in RULES]
    outcomes = OutcomesSinceStart(T0)
    picture = draw_pool(service.reporter, "home", seconds(6), outcomes, service.health())
    told = [line.what for line in picture.overview.changes]
    assert any("added the rule one of a (group a, at most 1)" in what for what in told)
    many = PoolRule(name="four", group="c", at_least=3)
    service.directory.put_rules("home", [many], "test", seconds(7)).result()
    with pytest.raises(InvalidInput, match="`at_least` of rule 'four' must be at most 2"):
        service.directory.put_pool(pool(**{**settings, "slots": 2}), "test", seconds(8))


def test_links_are_shown_within_their_dates_only(open_service: OpenService) -> None:
    service = opened(open_service(), (), policy="paced-bayes", holdout=0.3)
    dated = [
        link("b1", group="b", ends_us=seconds(100)),
        link("b2", group="b", starts_us=seconds(200)),
    ]
    service.directory.put_links("home", dated, "test", seconds(1)).result()
    kept = service.decider.installed("home")

    def shown(at_s: float) -> set[str]:
        found = pages(service, 300, seconds(at_s))
        assert all(len(page.shown) == 3 for page in found)
        return set(shares(found))

    assert shown(2) >= {"b1", "a1"}
    assert "b2" not in shown(99)
    assert not {"b1", "b2"} & shown(100)
    assert service.decider.answer_at_once("home", seconds(200), ANY_PAGE, "") is None  # not solved
    assert "b2" in shown(200)
    assert service.decider.installed("home").version == kept.version  # nothing was published
    assert {"b1", "b2"} <= service.decider.installed("home").pool.links.keys()
    # the caller of a page may pin a link outside its dates
    pinned = service.decider.decide("home", seconds(300), pin=[Pin(link_id="b1", position=1)])
    assert pinned.shown[0].link_id == "b1"


def test_a_pool_whose_links_have_all_ended_answers(open_service: OpenService) -> None:
    service = opened(open_service(), RULES)
    ended = [link(one, group="a", ends_us=seconds(9)) for of in GROUPS.values() for one in of[1:]]
    service.directory.put_links("home", ended, "test", seconds(1)).result()
    page = service.decider.decide("home", seconds(10))
    assert {one.link_id for one in page.shown} == {"a1", "b1", "c1"}
    ended = [link(of[0], group="a", ends_us=seconds(9)) for of in GROUPS.values()]
    service.directory.put_links("home", ended, "test", seconds(11)).result()
    page = service.decider.decide("home", seconds(12))
    assert (page.shown, page.fallback) == ((), "empty-pool")
    assert [row.violated for row in service.reporter.rules("home", seconds(12))] == [
        False,
        True,
        False,
    ]


def test_a_pool_with_rules_whose_links_are_all_retired_answers(open_service: OpenService) -> None:
    service = opened(open_service())
    gone = [link(one, retired=True) for of in GROUPS.values() for one in of]
    service.directory.put_links("home", gone, "test", T0 + 1).result()
    page = service.decider.decide("home", T0 + 2)
    assert (page.shown, page.fallback) == ((), "empty-pool")
    service.learner.learn(seconds(100))
    assert len(service.reporter.rules("home", seconds(100))) == 3
    service.directory.put_links("home", [link("a1", group="a")], "test", T0 + 3).result()
    assert [one.link_id for one in pages(service, 1, T0 + 4)[0].shown] == ["a1"]


def test_what_is_known_of_a_link_outlasts_its_dates(open_service: OpenService) -> None:
    service = opened(open_service(), (), policy="paced-bayes")
    pages(service, 200)
    service.flush().result()
    service.learner.learn(seconds(100_000))
    before = service.knowledge("home")
    assert before is not None
    off = [link("b1", group="b", starts_us=seconds(300_000))]
    service.directory.put_links("home", off, "test", seconds(100_001)).result()
    service.learner.learn(seconds(100_002))
    after = service.knowledge("home")
    assert after is not None
    assert after.arrays.keys() == before.arrays.keys()
    assert all(np.array_equal(after.arrays[name], before.arrays[name]) for name in after.arrays)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"links": ("a1",), "at_least": 2}, "`at_least` of rule 'r' must be at most 1, of 3 slots"),
        ({"group": "a", "at_most": 4}, "`at_most` of rule 'r' must be at most slots"),
        ({"group": "x", "at_most": 1}, "`group` of rule 'r' must be the group of a link"),
        ({"links": ("x",), "at_most": 1}, "`links` of rule 'r' must be links of the pool, got 'x'"),
        ({"links": ("a1", "a1"), "at_most": 1}, "`links` of rule 'r' must be .* each of them once"),
        ({"links": ("a1",), "group": "a", "at_most": 1}, "`group` of rule 'r' must be given, or"),
        ({"group": "a"}, "rule 'r' must have `at_least`, `at_most` or"),
        ({"group": "a", "at_least": 1, "at_most": 0.5}, "`at_most` of rule 'r' must be at least 1"),
    ],
)
def test_bad_rules_are_refused_in_one_sentence(
    open_service: OpenService, rule: dict[str, Any], message: str
) -> None:
    service = opened(open_service(), ())
    with pytest.raises(InvalidInput, match=message):
        service.directory.put_rules("home", [PoolRule(name="r", **rule)], "test", T0)
    good = PoolRule(name="r", group="a", at_most=1)
    with pytest.raises(InvalidInput, match="`name` of rule 'r' must be different"):
        service.directory.put_rules("home", [good, good], "test", T0)


def test_rules_and_dates_move_to_another_store(
    open_service: OpenService, tmp_path: Path, postgresql: PrivatePostgresql
) -> None:
    service = opened(open_service())
    dated = link("b1", group="b", starts_us=seconds(-5), ends_us=seconds(500))
    service.directory.put_links("home", [dated], "test", seconds(1)).result()
    rules = service.directory.pool("home").rules
    service.close()
    target = postgresql.new_database()
    move_store(f"sqlite:///{tmp_path / 'store.db'}", target)
    moved = tmp_path / "moved.db"
    move_store(target, f"sqlite:///{moved}")
    store = SqliteStore(moved)
    assert reads(store).pools()[0].rules == rules
    [found] = [one for one in reads(store).links("home") if one.link_id == "b1"]
    assert (found.group, found.starts_us, found.ends_us) == ("b", seconds(-5), seconds(500))
    store.close()
