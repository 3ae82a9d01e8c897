"""Floors of segments in a service: checked, kept, counted, stored and told."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.frequent_words import MAX_WORDS
from slotwise.service.counting.attribution import Counters
from slotwise.service.deciding.installed_version import InstalledVersion
from slotwise.service.learning.publisher import stand_in
from slotwise.service.pool_version import LEARNING_FAILED
from slotwise.service.records import SECOND_US, ClickEvent, ConversionEvent, DecisionRecord
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.rows import MAX_REVENUE, T0, arrays_of, learned_of, link, pool
from tests.service.test_visitors import frequencies_are_exact
from tests.stores.store_rows import reads

FEATURES: dict[str, Any] = {"country": "text", "new": "bool"}
WITH_DEVICE: dict[str, Any] = {"device": ["phone", "desktop"], **FEATURES}
"""For tests that need it: interpreted, a round takes the longer the more features there are."""
LINKS = [f"l{k}" for k in range(8)]
OPTIONS = ServiceOptions(seed=3, commit_every_ms=0.0)


def opened(service: Service, segment_floors: Any, now_us: int = T0, **changes: Any) -> Service:
    settings: dict[str, Any] = {
        "policy": "paced-bayes",
        "policy_settings": {},
        "features": FEATURES,
        "click_floor": 0.2,
        "click_window_s": 60,
        "revenue_window_s": 60,
        "segment_floors": segment_floors,
        **changes,
    }
    service.directory.put_pool(pool(**settings), "test", now_us).result()
    if len(service.directory.links("home")) < len(LINKS):
        service.directory.put_links("home", [link(one) for one in LINKS], "test", now_us).result()
    return service


def visit(service: Service, n_views: int, now_us: int, seed: int = 1) -> tuple[int, list[Any]]:
    """Send visitors, one in five from DE; return when all has settled, and what each clicked on.

    The most clicked page has 0.62 clicks, the page that earns most about 0.35.
    """
    chance = random.Random(seed)
    seen = []
    for k in range(n_views):
        now_us += SECOND_US // 20
        country = "DE" if chance.random() < 0.2 else "FR"
        page = service.decider.decide(
            "home", now_us, visitor={"country": country, "new": k % 2 == 0}
        )
        events: list[Any] = []
        for shown in page.shown:
            number = int(shown.link_id[1:])
            if chance.random() < 0.05 + 0.04 * number:
                one = (page.decision_id, shown.link_id)
                earned = round((0.4 - 0.05 * number) * MAX_REVENUE)
                events.append(ClickEvent(*one))
                events.append(
                    ConversionEvent(f"{page.decision_id}-{shown.link_id}", *one, earned, "EUR")
                )
        if events:
            service.committer.submit_events(events, now_us + 1).result()
        seen.append((page, len(events) // 2))
        if k % 100 == 99:
            now_us += 61 * SECOND_US
            service.learner.learn(now_us)
    return now_us, seen


def delivered(seen: list[tuple[DecisionRecord, int]], country: str) -> float:
    clicks = [n for page, n in seen if page.visitor["country"] == country]
    return sum(clicks) / len(clicks)


def segment_arrays(service: Service) -> dict[str, list[float]]:
    """Return what is owed to the floors of segments; the floor for all comes first."""
    known = arrays_of(service)
    return {name: known[name][1:] for name in ("owed", "reserve", "floor_rounds")}


@pytest.mark.slow
def test_a_segment_keeps_a_floor_of_its_own(service: Service) -> None:
    opened(service, {"country": {"DE": 0.55}}, holdout=0.1)
    _, seen = visit(service, 4_000, T0)
    chosen = [one for one in seen[2_000:] if not one[0].holdout]
    # About 360 views with 0.55 clicks on average: 0.40 lies 4.9 standard errors below (0.03 each),
    # and without the floor they would have 0.35.
    assert delivered(chosen, "DE") > 0.4
    assert delivered(chosen, "FR") < 0.48


def test_what_was_delivered_to_a_segment_is_that_of_its_visitors(service: Service) -> None:
    opened(service, {"country": {"DE": 0.55}}, holdout=0.1)
    visit(service, 500, T0)
    [told] = service.decider.installed("home").stored.segment_floors
    assert (told.feature, told.value, told.floor.clicks) == ("country", "DE", 0.55)
    assert told.shadow_price > 0.05
    assert told.floor.expected > 0.5
    counted = reads(service.store).counters("home").visitors["policy", "country", "DE"]
    assert told.delivered.click_views == counted.click_views > 60
    assert told.delivered.clicks == counted.clicks
    assert verify(service.store).mismatches == ()


def test_what_is_owed_to_a_segment_is_that_of_its_visitors(service: Service) -> None:
    opened(service, {"country": {"DE": 0.4}, "new": {"True": 0.3}})
    _, seen = visit(service, 200, T0)
    rounds = [
        float(sum(page.visitor[name] == value for page, _ in seen))
        for name, value in (("country", "DE"), ("new", "True"))
    ]
    assert segment_arrays(service)["floor_rounds"] == rounds


def test_prices_of_a_visitor_add_up_over_their_segments(service: Service) -> None:
    opened(service, {"country": {"DE": 0.5}, "new": {"True": 0.45}})
    visit(service, 300, T0)
    installed = service.decider.installed("home")
    assert installed._visitors is not None
    pages: Any = installed._visitors._pages
    assert pages.prices.shape == (256, 3)

    def mean_price(**said: Any) -> float:
        places = np.array(installed.known_visitors.know(said).places)
        rows = pages._prices_of(places)
        assert len(rows) in (1, 16)
        return float(pages._last_price)

    for_all, of_de, of_new = pages.prices.mean(axis=0).tolist()
    assert of_de > 0
    assert of_new > 0
    assert mean_price(country="FR", new=False) == pytest.approx(for_all)
    assert mean_price(country="DE") == pytest.approx(for_all + of_de)
    assert mean_price(country="DE", new=True) == pytest.approx(for_all + of_de + of_new)
    assert installed.stored.shadow_price == pytest.approx(for_all)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"holdout": 0.3}, marks=pytest.mark.slow),
        {"explore": 0.2, "holdout": 0.2},
    ],
)
def test_propensities_are_exact_given_the_visitor(
    service: Service, changes: dict[str, Any]
) -> None:
    floors = {"device": {"phone": 0.5}, "new": {"True": 0.4}}
    opened(service, floors, features=WITH_DEVICE, **changes)
    now_us, _ = visit(service, 200, T0)
    devices = ["phone", "desktop", None]
    pages = [
        service.decider.decide("home", now_us, visitor={"device": devices[k % 3], "new": True})
        for k in range(3_000)
    ]
    frequencies_are_exact(pages)


def test_a_restart_goes_on_with_queues_pages_and_what_was_delivered(tmp_path: Path) -> None:
    floors = {"country": {"DE": 0.5, "AT": 0.2}, "new": {"True": 0.4}}
    service = Service(SqliteStore(tmp_path / "store.db"), OPTIONS)
    now_us, _ = visit(opened(service, floors), 300, T0)
    service.learner.learn(now_us + 61 * SECOND_US)
    service.flush().result()

    def everything(service: Service) -> Any:
        installed = service.decider.installed("home")
        told = [
            (one.feature, one.value, one.delivered, one.since_us)
            for one in installed.stored.segment_floors
        ]
        return segment_arrays(service), told, installed.stored.words

    def page_of(service: Service) -> list[float]:
        installed = service.decider.installed("home")
        assert installed._visitors is not None
        known = installed.known_visitors.know({"country": "DE", "new": True})
        return list(installed._visitors.rates(known.places, None).probabilities)

    before, page = everything(service), page_of(service)
    service.close()
    again = Service(SqliteStore(tmp_path / "store.db"), OPTIONS)
    assert again.directory.pool("home").segment_floors == floors
    np.testing.assert_allclose(page_of(again), page, atol=1e-6)
    assert everything(again) == before
    now_us, _ = visit(again, 100, now_us + 61 * SECOND_US, seed=2)
    assert again.health().pools[0].failure == ""
    again.close()


def test_floors_may_come_change_and_go_without_learning_anew(service: Service) -> None:
    now_us, _ = visit(opened(service, {"country": {"DE": 0.5}}), 200, T0)
    [before], views = segment_arrays(service)["floor_rounds"], arrays_of(service)["views"]
    assert before > 0.0
    opened(service, {"new": {"True": 0.3}, "country": {"FR": 0.4, "DE": 0.5}}, now_us)
    assert segment_arrays(service)["floor_rounds"] == [0.0, 0.0, before]
    opened(service, {"new": {"True": 0.3}, "country": {"FR": 0.4, "DE": 0.45}}, now_us + 1)
    assert segment_arrays(service)["floor_rounds"] == [0.0, 0.0, 0.0]  # as its report, anew
    assert arrays_of(service)["views"] == views
    [_, _, german] = service.decider.installed("home").stored.segment_floors
    assert (german.value, german.since_us, german.delivered.click_views) == ("DE", now_us + 1, 0)
    now_us, _ = visit(service, 100, now_us + 2, seed=5)
    opened(service, {}, now_us)
    assert segment_arrays(service)["floor_rounds"] == []
    assert service.decider.installed("home").stored.segment_floors == ()
    assert service.health().pools[0].failure == ""


def test_a_word_without_a_place_left_is_learned_from_the_rows(service: Service) -> None:
    only_country = {"country": "text"}
    opened(service, {}, features=only_country)
    for k in range(MAX_WORDS * 60):
        word = {"country": f"c{k % MAX_WORDS}"}
        service.decider.decide("home", T0 + k, visitor=word)
    service.learner.learn(T0 + 100 * SECOND_US)
    assert len(learned_of(service).words["country"]) == MAX_WORDS
    opened(service, {"country": {"DE": 0.5}}, T0 + 101 * SECOND_US, features=only_country)
    service.learner.learn(T0 + 102 * SECOND_US)
    words = learned_of(service).words["country"]
    assert words[0] == "DE"
    assert len(words) == MAX_WORDS
    assert arrays_of(service)["rounds"][0] == MAX_WORDS * 60
    page = service.decider.decide("home", T0 + 103 * SECOND_US, visitor={"country": "DE"})
    assert page.segment["country"] == "DE"


def test_visitors_of_a_segment_are_known_while_nothing_is_learned(service: Service) -> None:
    opened(service, {"country": {"DE": 0.5}})
    known = service.directory.all_pools()[0]
    version = stand_in(known, Counters(), 1, T0, LEARNING_FAILED)
    known_visitors = InstalledVersion(version).known_visitors
    assert known_visitors.know({"country": "DE"}).segment["country"] == "DE"
    assert known_visitors.know({"country": "FR"}).segment["country"] == "(rare)"


def test_slots_links_and_a_floor_above_what_a_page_can_have(service: Service) -> None:
    opened(service, {"country": {"DE": 1.9}})
    service.learner.learn(T0 + 1)
    assert segment_arrays(service)["owed"] == [0.0]
    gone = [link(one, retired=True) for one in LINKS[1:]]
    service.directory.put_links("home", gone, "test", T0 + 1).result()
    now_us, _ = visit(service, 200, T0 + 2)
    [told] = service.decider.installed("home").stored.segment_floors
    assert (told.floor.clicks, told.floor.status) == (1.9, "infeasible")
    assert told.floor.attainable < 0.3
    service.directory.put_links("home", [link(LINKS[0], retired=True)], "test", now_us).result()
    service.learner.learn(now_us + 61 * SECOND_US)
    assert service.health().pools[0].failure == ""
    assert (
        service.decider.decide("home", now_us + 62 * SECOND_US, visitor={"country": "DE"}).shown
        == ()
    )


@pytest.mark.parametrize(
    ("segment_floors", "message"),
    [
        ({"browser": {"lynx": 0.3}}, r"declared features \(device, country, new\), got 'browser'"),
        ({"device": {"fridge": 0.3}}, r"values of device \(\(not known\), phone, desktop\), got"),
        ({"new": {"maybe": 0.3}}, r"values of new \(\(not known\), False, True\), got 'maybe'"),
        ({"device": {"phone": 2.0}}, r"below slots \(2\) for device phone, got 2.0"),
        ({"device": {"phone": -0.1}}, "at least 0 and below slots"),
        ({"device": {"phone": float("nan")}}, "at least 0 and below slots"),
        ({"country": {"x" * 101: 0.1}}, "at most 100 printable characters"),
        ({"country": {"\x00": 0.1}}, "at most 100 printable characters"),
        ({"country": {"": 0.1}}, "at most 100 printable characters"),
        ({"country": {f"c{k}": 0.1 for k in range(31)}}, "at most 30 words of country"),
        (
            {
                "country": {f"c{k}": 0.1 for k in range(30)},
                "device": {"phone": 0.1, "desktop": 0.1, "(not known)": 0.1},
            },
            "at most 32 floors in all, got 33",
        ),
    ],
)
def test_floors_that_cannot_be_are_refused(
    service: Service, segment_floors: Any, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        opened(service, segment_floors, features=WITH_DEVICE)
    assert refused.value.argument == "segment_floors"


def test_only_a_policy_that_keeps_them_may_have_them(service: Service) -> None:
    with pytest.raises(
        InvalidInput, match=r"keeps floors of segments.*or leave `segment_floors` empty"
    ):
        opened(service, {"new": {"True": 0.1}}, policy="con-ucb", policy_settings={"horizon": 9})
    with pytest.raises(InvalidInput, match=r"declared features \(none is declared\)"):
        opened(service, {"new": {"True": 0.1}}, features={})
