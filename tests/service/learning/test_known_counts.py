"""Counts of the past as the start of a pool: learned first, stored as facts, void after a reset."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.policies import POLICIES
from slotwise.service.learning.pool_player import RunState, decode_state
from slotwise.service.records import ClickEvent, ImportedCounts
from slotwise.service.refusals import UnknownLink
from slotwise.service.service import Service
from slotwise.service.storage.backup import back_up
from slotwise.service.storage.contract import Store
from tests.service import rows
from tests.service.conftest import OpenService

BAD, GOOD = ImportedCounts(views=5000, clicks=25), ImportedCounts(views=5000, clicks=2500)
FEATURES = {"device": ["phone", "desktop"], "country": "text"}


def set_up(service: Service, now_us: int = rows.T0, **settings: Any) -> None:
    settings = {"policy": "paced-bayes", "policy_settings": {}, "click_floor": 0.0} | settings
    service.directory.put_pool(rows.pool(**settings), "test", now_us).result()


def start(service: Service, **settings: Any) -> None:
    set_up(service, **settings)
    links = [rows.link(f"l{k}") for k in range(1, 7)]
    service.directory.put_links("home", links, "test", rows.T0).result()


def earning(counts: ImportedCounts) -> ImportedCounts:
    return ImportedCounts(
        views=counts.views,
        clicks=counts.clicks,
        revenue_micros=counts.clicks * rows.MAX_REVENUE // 2,
    )


def put(service: Service, **counts: ImportedCounts | None) -> None:
    known = {link_id: [one] if one else [] for link_id, one in counts.items()}
    service.directory.put_known("home", known, "test", rows.seconds(1)).result()


def live(service: Service, n_views: int, start_s: float) -> None:
    for k in range(n_views):
        page = service.decider.decide("home", rows.seconds(start_s + k))
        if k % 3 == 0:
            click = ClickEvent(page.decision_id, page.shown[0].link_id)
            service.committer.submit_events([click], rows.seconds(start_s + k) + 1).result()
    service.learner.learn(rows.seconds(start_s + 100_000))
    service.learner.learn(rows.seconds(start_s + 100_001))


def shares(service: Service) -> dict[str, float]:
    return {link.link_id: link.probability for link in service.reporter.stats("home").links}


def state_of(store: Store) -> RunState:
    with store.reading() as reader:
        learned = reader.learned("home")
    assert learned is not None
    state = decode_state(learned.state)
    assert state is not None
    return state


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fixed-mix"])
def test_the_first_page_shows_what_is_known(policy: str, open_service: OpenService) -> None:
    service = open_service()
    named = {field.name for field in dataclasses.fields(POLICIES[policy])}  # type: ignore[arg-type]
    settings = {"horizon": 1000} if "horizon" in named else {}
    start(service, policy=policy, policy_settings=settings)
    known = dict.fromkeys(("l1", "l2", "l4", "l5"), BAD) | {"l3": GOOD, "l6": GOOD}
    if policy in ("lexp", "exp3-m"):
        with pytest.raises(InvalidInput, match="`policy` must be one that learns from counts"):
            put(service, **known)
        return
    put(service, **{link_id: earning(counts) for link_id, counts in known.items()})
    service.learner.learn(rows.seconds(2))
    if policy != "uniform":
        found = shares(service)
        assert min(found["l3"], found["l6"]) > 0.8
    report = service.reporter.stats("home")
    assert report.delivered_views == 0
    assert all(link.click_views == 0 for link in report.links)
    assert report.floor.attainable == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("slots", [False, True], ids=["equal-slots", "slots"])
@pytest.mark.parametrize("features", [{}, FEATURES], ids=["alike", "visitors"])
def test_it_is_the_same_after_a_restart_a_replay_and_a_backup(
    open_service: OpenService, tmp_path: Path, slots: bool, features: dict[str, Any]
) -> None:
    service = open_service()
    start(service, features=features, learn_slot_weights=slots)
    put(service, l1=BAD, l3=GOOD, l6=ImportedCounts(views=900, clicks=90, discount=0.1))
    live(service, 60, 10)
    before = state_of(service.store)
    assert before.known_us == rows.seconds(1)
    service.close()
    again = open_service()
    again.learner.learn(rows.seconds(200_000))
    assert state_of(again.store).arrays == before.arrays
    # Another policy and back: everything is learned from the rows and facts alone.
    set_up(again, rows.seconds(200_001), policy="uniform")
    again.learner.learn(rows.seconds(200_002))
    set_up(again, rows.seconds(200_003), features=features, learn_slot_weights=slots)
    for seconds in (200_004, 200_005):
        again.learner.learn(rows.seconds(seconds))
    replayed = state_of(again.store)
    for name, (shape, stored) in before.arrays.items():
        assert replayed.arrays[name][0] == shape
        found, wanted = np.frombuffer(replayed.arrays[name][1]), np.frombuffer(stored)
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12), name
    again.close()
    back_up(tmp_path / "store.db", tmp_path / "copy.db")
    (tmp_path / "copy.db").replace(tmp_path / "store.db")
    copied = open_service()
    assert copied.directory.link("home", "l6").known[0].discount == 0.1
    copied.close()


def test_a_discount_is_what_a_view_is_worth(open_service: OpenService) -> None:
    service = open_service()
    start(service)
    put(service, l1=ImportedCounts(views=1000, clicks=100, discount=0.2))
    service.learner.learn(rows.seconds(2))
    shape, stored = state_of(service.store).arrays["views"]
    assert np.frombuffer(stored).reshape(shape)[:, 0].tolist() == [200.0, 200.0]


def test_a_later_import_takes_the_place_of_the_first(open_service: OpenService) -> None:
    service = open_service()
    start(service)
    put(service, l1=GOOD, l2=GOOD)
    service.directory.put_known("home", {"l1": []}, "test", rows.seconds(3)).result()
    service.learner.learn(rows.seconds(4))
    shape, stored = state_of(service.store).arrays["views"]
    assert np.frombuffer(stored).reshape(shape)[0, :3].tolist() == [0.0, 5000.0, 0.0]


def test_changing_a_link_keeps_it_and_a_reset_makes_it_void(open_service: OpenService) -> None:
    service = open_service()
    start(service)
    put(service, l1=GOOD, l2=GOOD, l3=GOOD)
    renamed = rows.link("l1", title="anew")
    service.directory.put_links("home", [renamed], "test", rows.seconds(2)).result()
    reset = [rows.link("l2")]
    service.directory.put_links(
        "home", reset, "test", rows.seconds(3), reset_statistics=True
    ).result()
    for seconds, retired in ((4, True), (5, False)):
        links = [rows.link("l3", retired=retired)]
        service.directory.put_links("home", links, "test", rows.seconds(seconds)).result()
        service.learner.learn(rows.seconds(seconds))
    shape, stored = state_of(service.store).arrays["views"]
    assert np.frombuffer(stored).reshape(shape)[0, :4].tolist() == [5000.0, 0.0, 5000.0, 0.0]


def test_visitors_start_from_what_is_known_of_them(open_service: OpenService) -> None:
    service = open_service()
    start(service, slots=1, features=FEATURES)
    known = {
        link_id: [
            ImportedCounts(
                views=5000,
                clicks=2500 if likes == country else 50,
                revenue_micros=1_000 * rows.MAX_REVENUE if likes == country else rows.MAX_REVENUE,
                visitor={"country": country},
            )
            for country in ("DE", "FR")
        ]
        for link_id, likes in (("l1", "DE"), ("l2", "FR"))
    }
    others = {f"l{k}": [BAD] for k in range(3, 7)}
    service.directory.put_known("home", known | others, "test", rows.seconds(1)).result()
    service.learner.learn(rows.seconds(2))
    for country, liked in (("DE", "l1"), ("FR", "l2")):
        shown = [
            service.decider.decide("home", rows.seconds(3), visitor={"country": country})
            .shown[0]
            .link_id
            for _ in range(20)
        ]
        # An open list knows both words, although no visitor has come yet.
        assert shown.count(liked) >= 18, (country, shown)


@pytest.mark.parametrize("policy", ["lexp", "exp3-m"])
def test_a_policy_that_cannot_learn_them_is_refused_until_they_are_taken_back(
    policy: str, open_service: OpenService
) -> None:
    service = open_service()
    start(service)
    put(service, l1=GOOD, l2=GOOD)
    with pytest.raises(InvalidInput, match=r"`policy` must be one that learns .*: import 0 views"):
        set_up(service, rows.seconds(2), policy=policy, policy_settings={"horizon": 1000})
    assert service.directory.pool("home").policy == "paced-bayes"
    set_up(service, rows.seconds(3), policy="uniform")
    put(service, l1=None, l2=None)
    for seconds in (4, 5):
        set_up(service, rows.seconds(seconds), policy=policy, policy_settings={"horizon": 1000})
        put(service, l1=None)


@pytest.mark.parametrize(
    ("counts", "rule"),
    [
        (ImportedCounts(views=10, clicks=11), "`clicks` must be from 0 to the views"),
        (ImportedCounts(views=-1, clicks=0), "`views` must be from 0"),
        (
            ImportedCounts(views=10, clicks=0, revenue_micros=1),
            "`revenue_micros` must be 0 without",
        ),
        (ImportedCounts(views=10, clicks=1, discount=0.0), "`discount` must be more than 0"),
        (ImportedCounts(views=10, clicks=1, revenue_micros=2**63), "`revenue_micros` must be from"),
    ],
)
def test_what_cannot_have_been_counted_is_refused(
    service: Service, counts: ImportedCounts, rule: str
) -> None:
    with pytest.raises(InvalidInput, match=rule):
        put(service, l1=counts)
    with pytest.raises(InvalidInput, match="`counts` must be at most 256 rows"):
        service.directory.put_known("home", {"l1": [BAD] * 257}, "test", rows.T0)
    with pytest.raises(UnknownLink, match="has no link 'nobody'"):
        put(service, nobody=BAD)
    assert service.directory.link("home", "l1").known == ()
