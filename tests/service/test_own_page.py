"""Pages of the own page's group: exact probabilities, rules, groups of visitors, the promise."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from slotwise.errors import InvalidInput
from slotwise.service.counting.attribution import ComparedKey, Counters, PageCounters
from slotwise.service.counting.counters import SHARE_UNIT
from slotwise.service.learning.promise_progress import PromiseProgress, compare_own_page
from slotwise.service.pool_version import PromiseState, group_shares
from slotwise.service.records import DecisionRecord, Event, Pin, PoolRule
from slotwise.service.reporting.counts_since_start import OutcomesSinceStart
from slotwise.service.reporting.overview import draw_pool
from slotwise.service.service import Service
from slotwise.service.storage.sql_reads import StoreReader
from tests.service.conftest import OpenService
from tests.service.rows import T0, click, conversion, link, pool, seconds

OWN = ("l4", "l2", "l1")


def links_of(page: DecisionRecord) -> list[str]:
    return [shown.link_id for shown in page.shown]


def set_up(service: Service, **changes: Any) -> None:
    settings = {"own_page": OWN, "slots": 3, "policy": "uniform", "policy_settings": {}} | changes
    service.directory.put_pool(pool(**settings), "test", T0 - 2).result()
    made = [link(f"l{k}", group="first" if k in (2, 4) else "") for k in range(1, 9)]
    service.directory.put_links("home", made, "test", T0 - 1).result()


COMBINATIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "random holdout": {"holdout": 0.02, "keep": 0.9},
    "learned slots": {"learn_slot_weights": True},
    "explored": {"explore": 0.2},
    "visitors": {"features": {"device": ["phone", "desktop"]}, "policy": "paced-bayes"},
    "short own page": {"own_page": ("l4",)},
    "short own page of visitors": {
        "own_page": ("l4",),
        "features": {"device": ["phone", "desktop"]},
        "policy": "paced-bayes",
    },
    "standing pin": {"pins": (Pin(link_id="l7", position=2),)},
}


@pytest.mark.parametrize("kind", COMBINATIONS)
@pytest.mark.parametrize("asked", [{}, {"exclude": ["l2"], "pin": [Pin(link_id="l5", position=1)]}])
def test_links_are_shown_as_often_as_is_logged(
    open_service: OpenService, kind: str, asked: dict[str, Any]
) -> None:
    """Chance of failing by accident: 1e-7 for each link and group."""
    service = open_service()
    changes = {"holdout": 0.4, "holdout_shows": "own"} | COMBINATIONS[kind]
    if "keep" in changes:
        changes["holdout_shows"] = "random"
    set_up(service, **changes)
    visitor = {"device": "phone"} if "features" in changes else {}
    n_pages, seen, expected, groups = 4_000, Counter[str](), dict[str, float](), Counter[str]()
    for k in range(n_pages):
        page = service.decider.decide("home", T0 + k, **asked, visitor=visitor)
        seen.update(links_of(page))
        groups[page.group] += 1
        for shown in page.shown:
            assert expected.setdefault(shown.link_id, shown.propensity) == shown.propensity
    for link_id, probability in expected.items():
        assert stats.binomtest(seen[link_id], n_pages, min(probability, 1.0)).pvalue > 1e-7
    assert sum(expected.values()) == pytest.approx(3, abs=0.02)
    shares = service.decider.installed("home").groups.shares
    for group, share in shares._asdict().items():
        assert stats.binomtest(groups[group], n_pages, share).pvalue > 1e-7
    assert groups["own"] > 0


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({}, ["l4", "l2", "l1"]),
        ({"slots": 2}, ["l4", "l2"]),
        ({"exclude": ["l2"]}, ["l4", "l1", "l3"]),
        ({"pin": [Pin(link_id="l8", position=2)]}, ["l4", "l8", "l2"]),
        ({"pin": [Pin(link_id="l4", position=3)]}, ["l2", "l1", "l4"]),
    ],
)
def test_the_own_page_is_in_its_order_within_the_constraints(
    open_service: OpenService, asked: dict[str, Any], shown: list[str]
) -> None:
    service = open_service()
    set_up(service, own_page=(*OWN, "gone", "l3"), holdout=1.0, holdout_shows="own")
    page = service.decider.decide("home", T0, **asked)
    assert (page.group, page.group_probability, links_of(page)) == ("own", 1.0, shown)
    assert [one.position for one in page.shown] == [1, 2, 3][: len(shown)]
    assert not page.fallback
    assert not page.random_order


def test_the_own_page_is_within_rules_and_dates(open_service: OpenService) -> None:
    service = open_service()
    set_up(service, own_page=(*OWN, "l3"), holdout=1.0, holdout_shows="own")
    rules = [PoolRule(name="first", group="first", at_most=1)]
    service.directory.put_rules("home", rules, "test", T0).result()
    assert links_of(service.decider.decide("home", T0 + 1)) == ["l4", "l1", "l3"]
    ended = link("l1", ends_us=T0 + 10)
    service.directory.put_links("home", [ended], "test", T0 + 2).result()
    service.directory.put_rules("home", [], "test", T0 + 3).result()
    assert links_of(service.decider.decide("home", T0 + 11)) == ["l4", "l2", "l3"]


def test_the_share_without_a_promise_is_what_the_holdout_leaves() -> None:
    assert group_shares(pool(holdout=0.25), None) == (0.75, 0.0, 0.25)
    own = pool(own_page=OWN, holdout=0.25, holdout_shows="own")
    assert group_shares(own, None) == (0.75, 0.25, 0.0)
    assert group_shares(pool(own_page=OWN), None) == (1.0, 0.0, 0.0)


def test_a_promise_starts_with_what_pages_that_earn_nothing_may_have() -> None:
    promised = pool(own_page=OWN, keep=0.9, own_page_us=7)
    assert group_shares(promised, None).chosen == pytest.approx(0.09)
    state = PromiseState(keep=0.9, since_us=7, share=0.5, rho=0.8, reason="evidence")
    assert group_shares(promised, state).chosen == 0.5
    other = PromiseState(keep=0.9, since_us=6, share=0.5, rho=0.8, reason="evidence")
    assert group_shares(promised, other).chosen == pytest.approx(0.09)


def test_the_same_visitor_stays_in_the_same_group(open_service: OpenService) -> None:
    service = open_service()
    set_up(service, holdout=0.5, holdout_shows="own")
    keys = [f"visitor-{k}" for k in range(400)]

    def groups() -> dict[str, str]:
        return {key: service.decider.decide("home", T0 + 5, visitor_key=key).group for key in keys}

    first = groups()
    assert groups() == first
    # Chance of failing by accident: 1e-7.
    n_own = sum(group == "own" for group in first.values())
    assert stats.binomtest(n_own, len(keys), 0.5).pvalue > 1e-7
    set_up(service, holdout=0.2, holdout_shows="own")
    later = groups()
    moved = {(first[key], later[key]) for key in keys}
    assert moved == {("chosen", "chosen"), ("own", "chosen"), ("own", "own")}


def test_a_key_decides_the_group_of_a_page_with_an_id_and_of_a_proposal(
    open_service: OpenService,
) -> None:
    service = open_service()
    set_up(service, holdout=0.5, holdout_shows="own")
    for k in range(30):
        key = f"visitor-{k}"
        group = service.decider.decide("home", T0, visitor_key=key).group
        by_id = service.decider.decide("home", T0, decision_id=f"d{k}", visitor_key=key)
        proposed = service.decider.propose("home", T0, visitor_key=key)
        assert (by_id.group, proposed.group) == (group, group)
    with pytest.raises(InvalidInput, match="`visitor_key` must be a text of 1 to 1000 characters"):
        service.decider.decide("home", T0, visitor_key="")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"keep": 0.9, "own_page": ()}, "`keep` needs an own page: set `own_page`"),
        ({"holdout": 0.1, "holdout_shows": "own", "own_page": ()}, "`holdout` needs an own page"),
        ({"keep": 1.0}, "`keep` must be at least 0 and less than 1, got 1"),
        ({"keep": 0.95, "holdout": 0.1}, "`holdout` must be at most 0.025 with random pages"),
        (
            {"keep": 0.95, "holdout": 0.001, "holdout_shows": "own"},
            "`holdout` must be 0 or at least 0.01 with a promise",
        ),
    ],
)
def test_a_promise_that_cannot_be_kept_is_refused(
    open_service: OpenService, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        set_up(open_service(), **changes)


def test_own_pages_count_for_the_floor(open_service: OpenService) -> None:
    service = open_service()
    set_up(service, holdout=0.5, holdout_shows="own")
    for k in range(60):
        page = service.decider.decide("home", T0 + k)
        if page.group == "own":
            events = [click(page.shown[0].link_id, page.decision_id)]
            service.committer.submit_events(events, T0 + k).result()
    service.learner.learn(seconds(10 * 86_400))
    stored = service.decider.installed("home").stored
    counters = service.publisher.runs["home"].counters
    assert stored.delivered.click_views == 60
    assert stored.delivered.clicks == counters.pages["own"].clicks > 0


def live(service: Service, ratio: float, n_views: int, first: int = 0) -> list[DecisionRecord]:
    """Show a page every minute; the own page sells on 30 % of its views, others `ratio` times that.

    Windows last half an hour; sales are reported, and the service learns, every ten minutes.
    """
    rng, pages = np.random.default_rng(first + 1), []
    events: list[Event] = []
    for k in range(first, first + n_views):
        now_us = seconds(60 * k)
        page = service.decider.decide("home", now_us)
        pages.append(page)
        if rng.random() < 0.3 * (1.0 if page.group == "own" else ratio):
            of = {"decision_id": page.decision_id, "link_id": page.shown[0].link_id}
            events += [click(**of), conversion(f"c-{page.decision_id}", 50_000_000, **of)]
        if k % 10 == 9:
            service.committer.submit_events(events, now_us + 1).result()
            events = []
            service.learner.learn(now_us + 2)
    return pages


WINDOWS = {"click_window_s": 1_800, "revenue_window_s": 1_800, "slots": 1, "click_floor": 0.0}


def state(service: Service) -> PromiseState:
    found = service.decider.installed("home").stored.promise
    assert found is not None
    return found


def test_better_pages_are_chosen_more_and_more(open_service: OpenService) -> None:
    """Chance of failing by accident: none, with this seed."""
    service = open_service()
    set_up(service, keep=0.8, **WINDOWS)
    pages = live(service, 3.0, 2_000)
    assert pages[0].group == "own"  # the first page could already break the promise
    n_chosen = np.cumsum([page.group == "chosen" for page in pages])
    assert n_chosen[100] <= 0.2 * 101
    assert max(page.chosen_share for page in pages) >= 0.6
    assert n_chosen[-1] > 0.2 * len(pages)  # more than pages that earn nothing may have
    run = service.publisher.runs["home"]
    compared = compare_own_page(run.counters, run.pool.settings)
    assert compared.lift is not None
    assert compared.lift.low < 2.0 < compared.lift.high


def test_pages_that_earn_nothing_stay_few(open_service: OpenService) -> None:
    service = open_service()
    set_up(service, keep=0.8, **WINDOWS)
    pages = live(service, 0.0, 1_000)
    n_chosen = np.cumsum([page.group == "chosen" for page in pages])
    assert (n_chosen <= 0.2 * np.arange(1, 1_001) + 1).all()
    run = service.publisher.runs["home"]
    assert compare_own_page(run.counters, run.pool.settings).is_worse


def test_share_and_evidence_survive_a_restart(open_service: OpenService) -> None:
    service = open_service()
    set_up(service, keep=0.8, **WINDOWS)
    live(service, 2.0, 600)
    before, counters = state(service), service.publisher.runs["home"].counters
    service.close()
    service = open_service()
    assert state(service) == before
    service.learner.learn(seconds(60 * 600))
    assert (
        service.publisher.runs["home"].counters.compared.items()
        >= {key: one for key, one in counters.compared.items() if one.revenue_views == 0}.items()
    )
    assert state(service).rho >= before.rho - 0.05
    live(service, 2.0, 60, first=600)


def test_another_own_page_starts_the_comparison_anew(open_service: OpenService) -> None:
    service = open_service()
    set_up(service, keep=0.8, **WINDOWS)
    live(service, 2.0, 300)
    changed = pool(**({"own_page": ("l1",), "keep": 0.8, "policy": "uniform"} | WINDOWS))
    changed = replace(changed, policy_settings={})
    service.directory.put_pool(changed, "test", seconds(60 * 300)).result()
    assert state(service).reason == "stopped"
    live(service, 2.0, 100, first=301)
    counters = service.publisher.runs["home"].counters
    assert {since_us for _, since_us, *_ in counters.compared} == {state(service).since_us}
    assert sum(one.click_views for one in counters.compared.values()) <= 100


def test_a_pool_whose_own_page_was_removed_compares_nothing(open_service: OpenService) -> None:
    service = open_service()
    set_up(service, keep=0.8, **WINDOWS)
    live(service, 2.0, 60)
    assert service.reporter.stats("home").comparison is not None
    changed = replace(service.directory.pool("home"), own_page=(), keep=0.0)
    service.directory.put_pool(changed, "test", seconds(60 * 60)).result()
    assert service.reporter.stats("home").comparison is None


def test_another_promise_keeps_the_evidence(open_service: OpenService) -> None:
    service = open_service()
    set_up(service, keep=0.9, **WINDOWS)
    live(service, 2.0, 300)
    since_us = state(service).since_us
    changed = pool(**({"own_page": OWN, "keep": 0.5, "policy": "uniform"} | WINDOWS))
    changed = replace(changed, policy_settings={})
    service.directory.put_pool(changed, "test", seconds(60 * 300)).result()
    assert (state(service).keep, state(service).since_us) == (0.5, since_us)


@pytest.mark.parametrize("change", [{"slots": 2}, {"max_revenue_micros": 1_000_000}])
def test_another_page_or_unit_of_revenue_starts_the_comparison_anew(
    open_service: OpenService, change: dict[str, int]
) -> None:
    """Sums of squares are in units of the largest revenue and would be too small in another."""
    service = open_service()
    set_up(service, keep=0.8, **WINDOWS)
    live(service, 2.0, 60)
    since_us = state(service).since_us
    changed = replace(service.directory.pool("home"), **change)
    service.directory.put_pool(changed, "test", seconds(60 * 60)).result()
    service.learner.learn(seconds(60 * 60) + 1)
    run = service.publisher.runs["home"]
    assert state(service).since_us > since_us
    assert compare_own_page(run.counters, run.pool.settings).lift is None


class NoPages:
    """A store in which no page was shown."""

    def counters(self, pool_id: str) -> Counters:
        return Counters()

    def open_groups(self, pool_id: str, since_us: int) -> tuple[int, int, int]:
        return 0, 0, 0


def test_the_share_of_the_last_version_counts_after_a_restart() -> None:
    """A share that was reached may stay where it would not be reached anew."""
    settings = pool(own_page=OWN, keep=0.8, own_page_us=7)
    compared: dict[ComparedKey, PageCounters] = {}
    keys: list[ComparedKey] = [("own", 7, 0.5, 0.5), ("policy", 7, 0.5, 0.5)]
    for key, n_sold in zip(keys, (8_000, 6_500), strict=True):
        compared[key] = PageCounters(
            revenue_views=40_000,
            revenue_micros=n_sold * settings.max_revenue_micros,
            revenue_squared=n_sold * SHARE_UNIT**2,
        )
    shares = {}
    for since_us in (6, 7):
        last = PromiseState(keep=0.8, since_us=since_us, share=0.95, rho=0.8, reason="all")
        progress = PromiseProgress(last)
        progress.count(cast(StoreReader, NoPages()), settings, 8)
        found = progress.state(settings, Counters(compared=compared))
        assert found is not None
        shares[since_us] = found.share
    assert shares[6] < shares[7] == 0.95


def test_changes_of_a_promise_are_in_the_change_log(open_service: OpenService) -> None:
    service = open_service()
    set_up(service, keep=0.9)
    made: list[dict[str, Any]] = [{"keep": 0.8}, {"own_page": ("l1", "l2")}, {"keep": 0.0}]
    for k, change in enumerate(made):
        changed = replace(service.directory.pool("home"), **change)
        service.directory.put_pool(changed, f"person {k}", T0 + k).result()
    picture = draw_pool(service.reporter, "home", T0 + 9, OutcomesSinceStart(T0), service.health())
    changes = [(line.changed_by, line.what) for line in picture.overview.changes]
    assert changes[:3] == [
        ("person 2", "changed the pool: keep 0.8 → 0.0"),
        ("person 1", "changed the pool: own page l4, l2, l1 → l1, l2"),
        ("person 0", "changed the pool: keep 0.9 → 0.8"),
    ]


def test_the_report_names_links_of_the_own_page_that_the_pool_does_not_have(
    open_service: OpenService,
) -> None:
    service = open_service()
    set_up(service, own_page=("typo1", *OWN, "typo2"), keep=0.9)
    found = service.reporter.stats("home").comparison
    assert found is not None
    assert found.missing_links == ("typo1", "typo2")
    service.directory.put_links("home", [link("typo1")], "test", T0).result()
    service.learner.learn(T0 + seconds(1))
    found = service.reporter.stats("home").comparison
    assert found is not None
    assert found.missing_links == ("typo2",)
