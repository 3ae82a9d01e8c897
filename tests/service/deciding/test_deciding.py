"""Pages: exact propensities, constraints kept, the same question answered the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from threading import Barrier, BrokenBarrierError
from typing import Any

import msgspec
import pytest
from scipy import stats

from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.service.deciding.installed_version import MAX_CACHED_CONSTRAINTS
from slotwise.service.deciding.page_request import ANY_PAGE, PageRequest
from slotwise.service.pool_version import MAX_LATEST, Shown, StoredVersion
from slotwise.service.records import DecisionRecord, Pin
from slotwise.service.refusals import Conflict, StoreUnavailable, UnknownLink, UnknownPool
from slotwise.service.service import Service
from tests.service.conftest import OpenService
from tests.service.rows import T0, click, conversion, link, pool, seconds

FAR = seconds(10 * 86_400)


def links_of(page: DecisionRecord) -> list[str]:
    return [shown.link_id for shown in page.shown]


def teach(service: Service, rates: dict[str, float], n_views: int = 60, start_us: int = T0) -> None:
    """Let a few views close whose clicks follow `rates`, in a fixed pattern."""
    for k in range(n_views):
        page = service.decider.decide("home", start_us + k)
        clicked = [item for item in links_of(page) if (k * 7 + 3) % 20 < 20 * rates[item]]
        events = [click(item, page.decision_id) for item in clicked]
        service.committer.submit_events(events, start_us + k).result()
    service.learner.learn(start_us + FAR - T0)


def test_a_page_has_as_many_different_links_as_slots_in_order(service: Service) -> None:
    for k in range(50):
        page = service.decider.decide("home", T0 + k)
        assert len(set(links_of(page))) == 2
        assert [shown.position for shown in page.shown] == [1, 2]
        assert page.click_closes_us == T0 + k + 1_800 * 10**6
        assert page.revenue_closes_us == T0 + k + 86_400 * 10**6
        assert not page.fallback


@pytest.mark.parametrize(
    ("policy", "settings"),
    [("con-ucb", {"horizon": 1000}), ("uniform", {}), ("exp3-m", {"horizon": 1000})],
)
def test_shown_frequencies_match_the_logged_propensities(
    service: Service, policy: str, settings: dict[str, object]
) -> None:
    changed = pool(policy=policy, policy_settings=settings, holdout=0.3)
    service.directory.put_pool(changed, "test", T0).result()
    teach(service, {f"l{k}": k / 10 for k in range(1, 6)})
    n_pages = 6_000
    shown: Counter[str] = Counter()
    expected: dict[str, float] = {}
    for k in range(n_pages):
        page = service.decider.decide("home", FAR + k)
        shown.update(links_of(page))
        expected.update({item.link_id: item.propensity for item in page.shown})
        assert page.min_propensity <= min(item.propensity for item in page.shown)
    assert sum(expected.values()) == pytest.approx(2.0)
    assert min(expected.values()) == pytest.approx(page.min_propensity)
    assert page.min_propensity >= 0.3 * 2 / 5 - 1e-9
    # Chance of failing by accident: 1e-7 for each of the five links.
    for link_id, probability in expected.items():
        assert stats.binomtest(shown[link_id], n_pages, min(probability, 1.0)).pvalue > 1e-7


@pytest.mark.parametrize(
    ("pin", "exclude"), [((), ()), ((Pin(link_id="l2", position=1),), ()), ((), ("l5", "l4"))]
)
def test_propensities_are_those_of_exploration_holdout_and_wishes_together(
    service: Service, pin: tuple[Pin, ...], exclude: tuple[str, ...]
) -> None:
    """Exploration gives each free link its share, the holdout another; pages of both log both."""
    service.directory.put_pool(pool(holdout=0.2, explore=0.1), "test", T0).result()
    teach(service, {f"l{k}": k / 10 for k in range(1, 6)})
    n_pages = 4_000
    shown: Counter[str] = Counter()
    expected: dict[str, float] = {}
    n_holdout = 0
    for k in range(n_pages):
        page = service.decider.decide("home", FAR + k, pin=pin, exclude=exclude)
        shown.update(links_of(page))
        n_holdout += page.holdout
        expected.update({item.link_id: item.propensity for item in page.shown})
    n_free, n_slots = 5 - len(pin) - len(exclude), 2 - len(pin)
    assert set(expected) == {"l1", "l2", "l3", "l4", "l5"} - set(exclude)
    assert sum(expected.values()) == pytest.approx(2.0)
    least = (0.8 * 0.1 + 0.2) * n_slots / n_free
    assert min(expected.values()) >= least - 1e-9
    assert page.min_propensity == (0.0 if exclude else pytest.approx(min(expected.values())))
    # Chance of failing by accident: 1e-7 for each link and for the holdout.
    assert stats.binomtest(n_holdout, n_pages, 0.2).pvalue > 1e-7
    for link_id, probability in expected.items():
        assert stats.binomtest(shown[link_id], n_pages, min(probability, 1.0)).pvalue > 1e-7


def test_a_page_knows_from_which_links_it_was_drawn(service: Service) -> None:
    first, second = (service.decider.decide("home", T0 + k).pool_key for k in range(2))
    assert first == second != 0
    service.directory.put_links("home", [link("l6")], "test", T0 + 5).result()
    assert service.decider.decide("home", T0 + 10).pool_key != first


def test_the_holdout_plays_uniformly_with_its_own_propensities(service: Service) -> None:
    service.directory.put_pool(pool(holdout=1.0), "test", T0).result()
    page = service.decider.decide("home", T0)
    assert page.holdout
    assert {shown.propensity for shown in page.shown} == {0.4}


def test_excluded_links_never_show_and_the_rest_fills_the_page(service: Service) -> None:
    teach(service, {f"l{k}": k / 10 for k in range(1, 6)})
    for k in range(30):
        page = service.decider.decide("home", FAR + k, exclude=["l5", "l4"])
        assert set(links_of(page)) <= {"l1", "l2", "l3"}
        assert len(page.shown) == 2
    assert (
        service.decider.decide("home", FAR, exclude=["l1", "l2", "l3", "l4"]).shown[0].propensity
        == 1.0
    )


def test_a_pin_stands_where_it_was_asked_for(service: Service) -> None:
    for k in range(20):
        page = service.decider.decide("home", T0 + k, pin=[Pin(link_id="l3", position=2)])
        assert page.shown[1].link_id == "l3"
        assert page.shown[1].propensity == 1.0
        assert links_of(page).count("l3") == 1
        assert len(page.shown) == 2


def test_pins_on_a_page_that_is_short_of_links_move_up(service: Service) -> None:
    others = ["l1", "l2", "l4", "l5"]
    page = service.decider.decide("home", T0, exclude=others, pin=[Pin(link_id="l3", position=2)])
    assert [(shown.link_id, shown.position) for shown in page.shown] == [("l3", 1)]


def test_slots_may_be_asked_for(service: Service) -> None:
    assert len(service.decider.decide("home", T0, slots=4).shown) == 4
    assert len(service.decider.decide("home", T0, slots=1).shown) == 1
    assert len(service.decider.decide("home", T0, slots=100).shown) == 5
    assert service.decider.decide("home", T0, slots=5).floor.expected > 0


@pytest.mark.parametrize(
    ("constraints", "error", "message"),
    [
        ({"pin": [Pin(link_id="l9", position=1)]}, UnknownLink, "shows no link 'l9'"),
        ({"pin": [Pin(link_id="l1", position=3)]}, InvalidInput, r"from 1 to the slots \(2\)"),
        ({"pin": [Pin(link_id="l1", position=0)]}, InvalidInput, "`position` must be from 1"),
        (
            {"pin": [Pin(link_id="l1", position=1), Pin(link_id="l2", position=1)]},
            InvalidInput,
            "`position` must be pinned once, got 1",
        ),
        (
            {"pin": [Pin(link_id="l1", position=1), Pin(link_id="l1", position=2)]},
            InvalidInput,
            "`pin` must be different links",
        ),
        (
            {"pin": [Pin(link_id="l1", position=1)], "exclude": ["l1"]},
            InvalidInput,
            "links that are not excluded",
        ),
        (
            {"exclude": ["l1", "nope"]},
            InvalidInput,
            "`exclude` must be links of pool 'home', got 'nope'",
        ),
        ({"slots": 0}, InvalidInput, "`slots` must be from 1 to"),
        ({"decision_id": "a b"}, InvalidInput, "`decision_id` must be 1 to 64 characters"),
    ],
)
def test_a_wish_that_breaks_a_rule_is_named(
    service: Service, constraints: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        service.decider.decide("home", T0, **constraints)  # type: ignore[arg-type]


def test_unknown_and_archived_pools_do_not_decide(service: Service) -> None:
    with pytest.raises(UnknownPool, match="no pool 'away'"):
        service.decider.decide("away", T0)
    service.directory.archive_pool("home", "test", T0).result()
    with pytest.raises(UnknownPool, match="'home' is archived"):
        service.decider.decide("home", T0)
    service.directory.put_pool(pool(), "test", T0).result()
    assert service.decider.decide("home", T0).pool_id == "home"


def test_the_same_decision_id_gets_the_same_page_also_after_a_restart(
    service: Service, open_service: OpenService
) -> None:
    first = service.decider.decide("home", T0, decision_id="visit-1", exclude=["l1"])
    assert service.decider.decide("home", T0 + 5, decision_id="visit-1", exclude=["l1"]) == first
    with pytest.raises(Conflict, match="'visit-1' was made for another request"):
        service.decider.decide("home", T0, decision_id="visit-1")
    service.close()
    again = open_service().decider.decide("home", T0 + 9, decision_id="visit-1", exclude=["l1"])
    assert (again.shown, again.issued_us) == (first.shown, first.issued_us)


def test_made_ids_are_unique_and_sorted_by_time(service: Service) -> None:
    made = [service.decider.decide("home", T0 + k).decision_id for k in range(100)]
    assert len(set(made)) == 100
    assert made == sorted(made)


def test_a_new_link_shows_and_a_retired_one_does_not_at_once(service: Service) -> None:
    before = service.decider.decide("home", T0).policy_version
    retired = [link(f"l{k}", retired=True) for k in range(1, 5)]
    service.directory.put_links("home", [*retired, link("l6")], "test", T0).result()
    page = service.decider.decide("home", T0)
    assert sorted(links_of(page)) == ["l5", "l6"]
    assert page.policy_version > before


def test_an_empty_pool_answers_an_empty_page_and_says_so(open_service: OpenService) -> None:
    service = open_service()
    service.directory.put_pool(pool(), "test", T0).result()
    page = service.decider.decide("home", T0)
    assert (page.shown, page.fallback, page.floor.status) == ((), "empty-pool", "infeasible")
    assert service.decider.decide("home", T0, slots=3).shown == ()


def test_a_policy_that_fails_is_replaced_by_the_own_page(service: Service) -> None:
    broken = pool(
        policy="fixed-mix",
        policy_settings={"probabilities": [0.5, 0.5, 0.5, 0.25, 0.25]},
        own_page=("l4", "l2"),
    )
    service.directory.put_pool(broken, "test", T0).result()
    assert service.decider.decide("home", T0).fallback == ""
    service.directory.put_links("home", [link("l6")], "test", T0).result()
    page = service.decider.decide("home", T0)
    assert (page.fallback, links_of(page)) == ("policy-failed", ["l4", "l2"])
    assert links_of(service.decider.decide("home", T0, exclude=["l4"])) == ["l2", "l1"]
    assert service.health().pools[0].fallback == "policy-failed"


def test_pages_with_wishes_are_kept_but_not_without_end(service: Service) -> None:
    for k in range(MAX_CACHED_CONSTRAINTS + 40):
        excluded = [f"l{1 + place}" for place in range(3) if k >> place & 1]
        service.decider.decide("home", T0, exclude=excluded, slots=1 + k // 8)
    installed = service.decider.installed("home")
    assert len(installed._pages) <= MAX_CACHED_CONSTRAINTS + 1


def test_versions_count_up_over_restarts(service: Service, open_service: OpenService) -> None:
    versions = [service.decider.decide("home", T0).policy_version]
    for life in range(3):
        now_us = T0 + life * 2 * (FAR - T0)
        teach(service, {f"l{k}": 0.2 for k in range(1, 6)}, n_views=3, start_us=now_us)
        versions.append(service.decider.decide("home", now_us + FAR - T0).policy_version)
        service.close()
        service = open_service()
        versions.append(service.decider.decide("home", now_us + FAR - T0).policy_version)
    assert all(first <= second for first, second in pairwise(versions))
    assert versions[1] == versions[2]
    assert versions[-1] == versions[-2] == versions[0] + 3


def test_settings_put_just_before_a_crash_hold_after_it(
    service: Service, open_service: OpenService
) -> None:
    assert len(service.decider.decide("home", T0).shown) == 2
    service.directory.put_pool(pool(slots=4), "test", T0 + 1).result()
    service.close()
    assert len(open_service().decider.decide("home", T0 + 2).shown) == 4


def test_decide_answers_from_its_snapshot_while_the_store_is_away(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    teach(service, {f"l{k}": 0.2 for k in range(1, 6)}, n_views=5)
    version = service.decider.decide("home", FAR).policy_version

    def away(*_: object) -> None:
        raise StoreUnavailable("the cable is out")

    monkeypatch.setattr(service.committer, "RETRY_S", 0.001)
    monkeypatch.setattr(service.store, "commit", away)
    page = service.decider.decide("home", FAR + 1)
    assert (len(page.shown), page.policy_version) == (2, version)
    with pytest.raises(StoreUnavailable):
        service.committer.submit_events([click("l1", page.decision_id)], FAR + 2).result(600)
    with pytest.raises(StoreUnavailable):
        service.learner.learn(FAR + 3)
    assert not service.health().store_available
    assert service.decider.decide("home", FAR + 4, exclude=["l1"]).shown
    monkeypatch.undo()
    while not service.health().store_available:
        service.committer.commit_waiting()
    assert service.reporter.decision(page.decision_id).decision.shown == page.shown
    sale = conversion(decision_id=page.decision_id, link_id=page.shown[0].link_id)
    outcome = service.committer.submit_events([sale], FAR + 5).result(600)
    assert outcome[0].outcome == "accepted"


def test_two_requests_with_one_id_at_once_get_the_same_page(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look the id up before either has decided."""
    looked_up = Barrier(2, timeout=5)
    reading = service.store.reading

    @contextmanager
    def slow_reading() -> Iterator[Any]:
        with suppress(BrokenBarrierError):  # a second reader never comes: that is the point
            looked_up.wait(0.2)
        with reading() as reader:
            yield reader

    monkeypatch.setattr(service.store, "reading", slow_reading)
    for k in range(5):
        decided = [
            service.decider.threads.submit(
                service.decider.decide, "home", T0 + n, decision_id=f"visit-{k}"
            )
            for n in range(2)
        ]
        first, second = (one.result(600) for one in decided)
        assert first == second
        looked_up.reset()
    other = service.decider.threads.submit(
        service.decider.decide, "home", T0, exclude=["l1"], decision_id="visit-0"
    )
    assert isinstance(other.exception(600), Conflict)


def test_only_what_is_in_memory_is_answered_at_once(service: Service) -> None:
    def at_once(**fields: Any) -> DecisionRecord | None:
        return service.decider.answer_at_once("home", T0, PageRequest(**fields), "")

    assert at_once() is not None
    assert at_once(exclude=["l1"]) is None
    page = service.decider.decide("home", T0, exclude=["l1"])
    assert at_once(exclude=["l1"]) is not None
    assert at_once(decision_id="visit-1") is None
    page = service.decider.decide("home", T0, decision_id="visit-1")
    assert at_once(decision_id="visit-1") == page
    with pytest.raises(Conflict, match="'visit-1' was made for another request"):
        at_once(exclude=["l1"], decision_id="visit-1")
    service.directory.put_pool(pool(holdout=0.5), "test", T0 + 1).result()
    assert at_once(exclude=["l1"]) is None


def test_a_repeated_request_for_any_page_is_that_of_its_pool_key_and_version(
    service: Service,
) -> None:
    def at_once(pool_id: str, key_id: str) -> DecisionRecord:
        made = service.decider.answer_at_once(pool_id, T0 + 9, ANY_PAGE, key_id)
        assert made is not None
        return made

    service.directory.put_pool(pool(pool_id="news"), "test", T0).result()
    service.directory.put_links("news", [link("only", pool_id="news")], "test", T0).result()
    for _ in range(2):
        pages = [at_once(*of) for of in [("home", "a"), ("news", "a"), ("home", "b")]]
        assert [(one.pool_id, one.key_id) for one in pages] == [
            ("home", "a"),
            ("news", "a"),
            ("home", "b"),
        ]
    before = pages[0].policy_version
    service.directory.put_pool(pool(holdout=0.5), "test", T0 + 10).result()
    assert at_once("home", "a").policy_version > before


def test_only_pages_that_were_seen_count_as_shown_with_what_was_on_them(service: Service) -> None:
    proposals = [service.decider.propose("home", T0 + k) for k in range(20)]
    assert service.decider.take_shown("home").links == {}
    for _ in range(2):  # a browser may tell twice
        service.decider.record_view(proposals[3], T0 + 60)
    assert service.decider.take_shown("home").links == Counter(links_of(proposals[3]))
    service.directory.put_pool(pool(holdout=1.0), "test", T0 + 1).result()
    pages = [
        service.decider.decide("home", T0, pin=[Pin(link_id="l5", position=1)]) for _ in range(10)
    ]
    assert all(page.holdout for page in pages)
    shown = Counter(link_id for page in pages for link_id in links_of(page))
    assert service.decider.take_shown("home").links == shown
    assert shown["l5"] == 10


def test_pages_are_counted_across_the_blocks_they_are_counted_in(service: Service) -> None:
    pages = [service.decider.decide("home", T0 + k) for k in range(2 * MAX_LATEST + 3)]
    assert len(service.decider._shown["home"].latest) == 3  # bounded, whether or not it is read
    shown = Counter(link_id for page in pages for link_id in links_of(page))
    assert service.decider.take_shown("home").links == shown
    assert service.decider.take_shown("home").links == {}


def test_pages_that_count_are_those_decided_and_seen(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.directory.put_pool(pool(holdout=0.3), "test", T0).result()
    decider, taken = service.decider, Counter[str]()
    take_shown = decider.take_shown

    def take(pool_id: str) -> Shown:  # the learner takes, too, when the pool is changed
        found = take_shown(pool_id)
        taken.update(found.links)
        return found

    monkeypatch.setattr(decider, "take_shown", take)
    shown: Counter[str] = Counter()
    for k in range(1_500):
        if k % 5 == 0:
            service.decider.propose("home", T0 + k)  # not seen
        if k % 7 == 0:
            service.decider.record_view(seen := service.decider.propose("home", T0 + k), T0 + k)
            shown.update(links_of(seen))
        if k % 11 == 0:
            shown.update(links_of(service.decider.decide("home", T0 + k, exclude=["l1"])))
        shown.update(links_of(service.decider.decide("home", T0 + k)))
        if k in (300, 900):
            take("home")
        if k in (600, 1_200):
            service.directory.put_pool(pool(holdout=0.1 + k / 1e4), "test", T0 + k).result()
    take("home")
    assert taken == shown


def test_a_version_of_another_format_is_named_though_its_fields_are_others() -> None:
    with pytest.raises(UnsupportedState, match="published version has format 99"):
        StoredVersion.decode(msgspec.msgpack.encode({"format": 99, "other": "fields"}))
