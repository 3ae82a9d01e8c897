"""Visitors of a service: what they may say, for whom pages are, and what is learned of them."""

from __future__ import annotations

import math
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from slotwise.errors import InvalidInput
from slotwise.features import Features
from slotwise.service.deciding.page_mix import MAX_CACHED
from slotwise.service.records import SECOND_US, ClickEvent, ConversionEvent, DecisionRecord, Pin
from slotwise.service.refusals import Conflict
from slotwise.service.reporting.counts_since_start import OutcomesSinceStart
from slotwise.service.reporting.overview import draw_pool
from slotwise.service.reporting.page_view_files import log_file
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.conftest import OpenService
from tests.service.rows import T0, arrays_of, link, pool
from tests.stores.store_rows import reads

FEATURES: dict[str, Any] = {"device": ["phone", "desktop"], "country": "text", "returning": "bool"}
DAYS: dict[str, Any] = {"days": [1, 7, 30]}
"""One more, where nothing is learned: interpreted, a round takes the longer the more there are."""
LINKS = [f"l{k}" for k in range(8)]
SHORT = {"click_window_s": 60, "revenue_window_s": 60, "policy_settings": {}}


def visitors_pool(**changes: Any) -> Any:
    return pool(**{"policy": "paced-bayes", "features": FEATURES, **SHORT, **changes})


def opened(service: Service, **changes: Any) -> Service:
    service.directory.put_pool(visitors_pool(**changes), "test", T0).result()
    service.directory.put_links("home", [link(one) for one in LINKS], "test", T0).result()
    return service


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Return a store in which 400 visitors were learned, and when all had settled."""
    path = tmp_path_factory.mktemp("trained") / "store.db"
    service = Service(SqliteStore(path), ServiceOptions(seed=1, commit_every_ms=0.0))
    now_us = visit(opened(service, explore=0.1, holdout=0.1), 400, T0)
    service.flush().result()
    service.close()
    return path, now_us


@pytest.fixture
def experienced(
    trained: tuple[Path, int], open_service: OpenService, tmp_path: Path
) -> tuple[Service, int]:
    """Return a service over a copy of the trained store, and when all had settled."""
    path, now_us = trained
    shutil.copy(path, tmp_path / "store.db")
    return open_service(), now_us


def click_rate(device: str, link_id: str) -> float:
    best = ("l0", "l1") if device == "phone" else ("l6", "l7")
    return 0.5 if link_id in best else 0.08


def visit(service: Service, n_views: int, now_us: int, seed: int = 1) -> int:
    """Send visitors whose device decides what they click on; return when all has settled."""
    chance = random.Random(seed)
    for k in range(n_views):
        now_us += SECOND_US // 20
        said = {"device": chance.choice(["phone", "desktop"]), "country": chance.choice("AB")}
        page = service.decider.decide("home", now_us, visitor=said)
        events: list[Any] = []
        for shown in page.shown:
            if chance.random() < click_rate(said["device"], shown.link_id):
                one = (page.decision_id, shown.link_id)
                events.append(ClickEvent(*one))
                sale = f"{page.decision_id}-{shown.link_id}"
                events.append(ConversionEvent(sale, *one, 20_000_000, "EUR"))
        if events:
            service.committer.submit_events(events, now_us + 1).result()
        if k % 100 == 99:
            now_us += 61 * SECOND_US
            service.learner.learn(now_us)
    return now_us


def links_for(service: Service, said: dict[str, Any], now_us: int, n_pages: int = 30) -> set[str]:
    pages = [service.decider.decide("home", now_us, visitor=said) for _ in range(n_pages)]
    return {shown.link_id for page in pages for shown in page.shown if shown.propensity > 0.5}


def test_a_visitor_is_stored_as_the_values_they_fall_into(service: Service) -> None:
    opened(service, features=FEATURES | DAYS)
    page = service.decider.decide(
        "home", T0, visitor={"device": "phone", "country": "DE", "returning": True, "days": 9}
    )
    assert page.visitor == {
        "device": "phone",
        "country": "DE",
        "returning": "True",
        "days": "7 to 30",
    }
    assert page.segment == {**page.visitor, "country": "(rare)"}
    nobody = service.decider.decide(
        "home", T0, visitor={"device": "toaster", "days": None, "country": ""}
    )
    assert nobody.visitor == {}
    assert nobody.segment == dict.fromkeys(FEATURES | DAYS, "(not known)")
    assert service.decider.decide("home", T0).segment == nobody.segment
    service.flush().result()
    assert service.reporter.decision(page.decision_id).decision.visitor == page.visitor
    assert service.reporter.decision(page.decision_id).decision.segment == page.segment


def test_what_was_not_declared_is_refused(service: Service) -> None:
    opened(service, features=FEATURES | DAYS)
    service.decider.decide("home", T0, visitor={"returning": True, "days": 1.0})
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"browser": "lynx"}, r"declared features only \(country, days, device, returning\)"),
        ({"device": 1}, "a word or None, got 1"),
        ({"country": True}, "a word or None"),
        ({"returning": 1}, "True, False or None"),
        ({"days": "many"}, "a number or None"),
        ({"days": ["x"]}, "a number or None"),
    ]
    for said, message in 2 * refusals:
        with pytest.raises(InvalidInput, match=message) as refused:
            service.decider.decide("home", T0, visitor=said)
        assert refused.value.argument == "visitor", said


def test_a_pool_without_features_takes_no_visitor(service: Service) -> None:
    service.directory.put_pool(pool(), "test", T0).result()
    service.directory.put_links("home", [link("l1")], "test", T0).result()
    with pytest.raises(InvalidInput, match=r"declared features only \(none is declared\)"):
        service.decider.decide("home", T0, visitor={"device": "phone"})
    assert service.decider.decide("home", T0, visitor={}).segment == {}


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"link": "text"}, "and not all, clicks, link"),
        ({"a b": "text"}, "named by a letter"),
        ({"x": "number"}, '"text" or "bool", got \'number\''),
        ({"x": []}, "1 to 64 words"),
        ({"x": [3, 1]}, "rising numbers"),
        ({"x": ["a", "a"]}, "different words"),
        ({"x": [True]}, "words or numbers"),
        ({"x": [float("nan")]}, "rising numbers"),
        ({f"f{k}": "bool" for k in range(17)}, "at most 16"),
        ({f"f{k}": "text" for k in range(9)}, "at most 256 values in all, got 288"),
    ],
)
def test_features_that_cannot_be_are_refused(
    service: Service, features: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message) as refused:
        service.directory.put_pool(visitors_pool(features=features), "test", T0)
    assert refused.value.argument == "features"
    assert "tuple" not in str(refused.value)


def test_the_same_id_for_another_visitor_is_another_request(service: Service) -> None:
    opened(service)
    first = service.decider.decide("home", T0, decision_id="mine", visitor={"device": "phone"})
    again = service.decider.decide("home", T0 + 1, decision_id="mine", visitor={"device": "phone"})
    assert again == first
    with pytest.raises(Conflict, match="made for another request"):
        service.decider.decide("home", T0, decision_id="mine", visitor={"device": "desktop"})


def frequencies_are_exact(pages: list[DecisionRecord]) -> None:
    """Compare how often links are shown with their propensities.

    A binomial count is further from its mean than 6.5 standard deviations (and 6.5 views) with a
    probability below 1e-9; fewer than a hundred are compared.
    """
    counts: Counter[tuple[str, str]] = Counter()
    n_pages: Counter[str] = Counter()
    logged: dict[tuple[str, str], float] = {}
    for page in pages:
        device = page.segment["device"]
        n_pages[device] += 1
        for shown in page.shown:
            counts[device, shown.link_id] += 1
            assert logged.setdefault((device, shown.link_id), shown.propensity) == shown.propensity
    for (device, link_id), count in counts.items():
        n, p = n_pages[device], logged[device, link_id]
        assert abs(count - n * p) <= 6.5 * math.sqrt(n * p * (1 - p)) + 6.5, (device, link_id)
    for device in n_pages:
        total = sum(p for (one, _), p in logged.items() if one == device)
        n_shown = len(pages[0].shown)
        if pages[0].min_propensity > 0:
            assert total == pytest.approx(n_shown)
            assert min(p for (one, _), p in logged.items() if one == device) == pytest.approx(
                next(page.min_propensity for page in pages if page.segment["device"] == device)
            )


@pytest.mark.parametrize(
    ("changes", "constraints"),
    [
        ({"click_floor": 0.75}, {}),
        ({"holdout": 0.3, "click_floor": 0.75}, {}),
        ({"explore": 0.2, "holdout": 0.2}, {}),
        ({"holdout": 0.3}, {"exclude": ["l0", "l3"], "pin": [Pin(link_id="l5", position=2)]}),
        ({"holdout": 0.3, "pins": (Pin(link_id="l5", position=1),)}, {"slots": 3}),
    ],
)
def test_propensities_are_exact_given_the_visitor(
    experienced: tuple[Service, int], changes: dict[str, Any], constraints: dict[str, Any]
) -> None:
    service, now_us = experienced
    service.directory.put_pool(visitors_pool(**changes), "test", now_us).result()
    devices = ["phone", "desktop", None]
    pages = [
        service.decider.decide("home", now_us, visitor={"device": devices[k % 3]}, **constraints)
        for k in range(3_000)
    ]
    frequencies_are_exact(pages)
    chances = {page.segment["device"]: {one.propensity for one in page.shown} for page in pages}
    assert len(chances) == 3


def test_it_learns_for_whom(experienced: tuple[Service, int]) -> None:
    service, now_us = experienced
    assert links_for(service, {"device": "phone"}, now_us) == {"l0", "l1"}
    assert links_for(service, {"device": "desktop"}, now_us) == {"l6", "l7"}
    phone = service.decider.decide("home", now_us, visitor={"device": "phone"})
    assert phone.floor.expected == pytest.approx(1.0, abs=0.2)
    assert phone.floor.status == "met"


def test_the_price_of_the_floor_is_that_of_the_kinds_who_came(
    experienced: tuple[Service, int],
) -> None:
    service, _ = experienced
    told, installed = service.reporter.frontier("home"), service.decider.installed("home")
    assert told.n_kinds == 4  # two devices, two countries
    kinds = installed.stored.kinds
    assert sum(one.share for one in kinds) == pytest.approx(1.0)
    shares, rates = zip(*installed.rates_of_kinds(4), strict=True)
    floors = [point.click_floor for point in told.points]
    assert floors == sorted(floors)
    # Each kind has its most clicked links at the last floor, and earns most at the first.
    most = sum(
        share * np.sort(one.clicks)[-2:].sum() for share, one in zip(shares, rates, strict=True)
    )
    best = sum(
        share * np.sort(one.value)[-2:].sum() for share, one in zip(shares, rates, strict=True)
    )
    assert floors[-1] == pytest.approx(most)
    assert told.points[0].revenue == pytest.approx(best)
    # Two links at 0.5 clicks and 0.4 a click; 150 views of each make a standard error of 0.016.
    assert best == pytest.approx(0.4, abs=0.08)
    assert 0.5 * best < told.expected_revenue < best


def test_clicks_owed_for_a_while_are_no_cost_of_the_floor(service: Service) -> None:
    features = {name: FEATURES[name] for name in ("device", "country")}
    now_us = visit(opened(service, click_floor=0.3, features=features), 200, T0)
    for k in range(200):  # more than the surplus of before covers
        said = {"device": ("phone", "desktop")[k % 2], "country": "ABBA"[k % 4]}
        service.decider.decide("home", now_us + k, visitor=said)
    service.learner.learn(now_us + 100 * SECOND_US)
    price = service.reporter.stats("home").shadow_price_micros
    assert price is not None
    assert price > 0
    seen = draw_pool(
        service.reporter, "home", now_us + 1, OutcomesSinceStart(T0), service.health()
    ).overview
    assert seen.shadow_price_micros == 0
    assert seen.frontier[0].click_floor > 0.3


def test_of_many_kinds_the_most_frequent_are_listed(service: Service) -> None:
    opened(service, features={"days": list(range(64)), "new": "bool"})
    for k in range(256):
        said = {"days": 0 if k % 2 else k % 64, "new": k % 128 < 64}
        service.decider.decide("home", T0 + k, visitor=said)
    service.learner.learn(T0 + 100 * SECOND_US)
    told = service.reporter.frontier("home")
    kinds = service.decider.installed("home").stored.kinds
    assert told.n_kinds == len(kinds) == 64
    assert sum(one.share for one in kinds) == pytest.approx(1.0)
    assert kinds[0].share > 0.2
    assert told.points


def test_a_policy_that_ignores_visitors_shows_everybody_the_same(service: Service) -> None:
    now_us = visit(opened(service, policy="con-ucb", policy_settings={"horizon": 1000}), 200, T0)
    pages = [
        service.decider.decide("home", now_us, visitor={"device": device})
        for device in ("phone", "desktop")
    ]
    assert pages[0].segment["device"] == "phone"
    chances = set(service.decider.installed("home").probabilities.tolist())
    assert {shown.propensity for page in pages for shown in page.shown} <= chances
    assert reads(service.store).counters("home").visitors["policy", "device", "phone"].click_views


def test_words_that_are_seen_often_get_a_place_where_views_settle(service: Service) -> None:
    opened(service, features={"country": "text"})
    for k in range(300):
        service.decider.decide("home", T0 + k, visitor={"country": "DE" if k % 3 else f"x{k}"})
    assert service.decider.decide("home", T0 + 400, visitor={"country": "DE"}).segment[
        "country"
    ] == ("(rare)")
    service.learner.learn(T0 + 100 * SECOND_US)
    later = service.decider.decide("home", T0 + 101 * SECOND_US, visitor={"country": "DE"})
    assert later.segment["country"] == "DE"
    rare = service.decider.decide("home", T0 + 101 * SECOND_US, visitor={"country": "x0"})
    assert (rare.visitor["country"], rare.segment["country"]) == ("x0", "(rare)")


def test_no_flood_of_values_makes_anything_grow(service: Service) -> None:
    opened(service, features=FEATURES | DAYS)
    known_visitors = service.decider.installed("home").known_visitors
    for k in range(20_000):
        known_visitors.know({"country": f"c{k}", "days": k / 7})
    assert len(known_visitors._cache) <= MAX_CACHED
    known = known_visitors.know({"country": "y" * 1_000})
    assert (known.values, known.segment["country"]) == ({"country": "(rare)"}, "(rare)")
    assert all("y" * 1_000 not in str(key) for key in known_visitors._cache)
    features = Features.of_json({"country": "text"})
    for k in range(60_000):
        features.stored_places({"country": f"c{k % 20_000}"}, is_counted=True)
    [plain] = features.plain()
    assert len(plain["words"]) <= 30
    assert len(plain["counts"]) <= 256


def test_words_that_mean_something_else_are_no_words(service: Service) -> None:
    opened(service, features={"country": "text"})
    words = ["(rare)", "(not known)", "\x00\x1b[2J", "\u200b"]
    for k in range(400):
        service.decider.decide("home", T0 + k, visitor={"country": words[k % 4]})
    service.learner.learn(T0 + 100 * SECOND_US)
    for word in words:
        page = service.decider.decide("home", T0 + 101 * SECOND_US, visitor={"country": word})
        expected = "(not known)" if word == "(not known)" else "(rare)"
        assert page.segment["country"] == expected, word
    assert service.decider.installed("home").stored.words == {"country": ()}


def test_counters_of_visitors_add_up_and_equal_the_rows(experienced: tuple[Service, int]) -> None:
    service, _ = experienced
    counters = reads(service.store).counters("home")
    for group, page in counters.pages.items():
        for name in FEATURES:
            of_values = [one for key, one in counters.visitors.items() if key[:2] == (group, name)]
            for field in page.__struct_fields__:
                assert sum(getattr(one, field) for one in of_values) == getattr(page, field)
    found = verify(service.store)
    assert found.mismatches == ()
    assert found.n_counters > 6 * len(counters.visitors)


def test_a_restart_shows_everybody_what_was_shown_before(
    experienced: tuple[Service, int], open_service: OpenService
) -> None:
    service, now_us = experienced
    service.directory.put_pool(visitors_pool(click_floor=0.75), "test", now_us).result()
    said = [{"device": "phone"}, {"device": "desktop", "country": "A"}, {}]

    def pages_of(service: Service) -> list[Any]:
        installed = service.decider.installed("home")
        assert installed.depends_on_visitors
        assert installed._visitors is not None
        known = [installed.known_visitors.know(one) for one in said]
        return [
            (one.segment, installed._visitors.rates(one.places, None).probabilities.tolist())
            for one in known
        ]

    service.learner.learn(now_us + 61 * SECOND_US)
    service.flush().result()
    before, knowledge = pages_of(service), arrays_of(service)
    service.close()
    again = open_service()
    for (segment, first), (later, second) in zip(before, pages_of(again), strict=True):
        assert later == segment
        np.testing.assert_allclose(second, first, atol=1e-6)
    assert arrays_of(again) == knowledge


@pytest.mark.parametrize("policy", ["queue-ts", "paced-bayes", "con-ucb"])
def test_every_policy_goes_on_after_a_restart(policy: str, tmp_path: Path) -> None:
    options = ServiceOptions(seed=3, commit_every_ms=0.0)
    service = Service(SqliteStore(tmp_path / "store.db"), options)
    settings = {"horizon": 1000} if policy == "con-ucb" else {}
    opened(service, policy=policy, policy_settings=settings)
    now_us = visit(service, 100, T0)
    service.flush().result()
    service.close()
    again = Service(SqliteStore(tmp_path / "store.db"), options)
    now_us = visit(again, 100, now_us)
    assert (again.health().pools[0].failure, again.decider.decide("home", now_us).fallback) == (
        "",
        "",
    )
    again.close()


def test_other_features_are_learned_from_the_rows_again(
    experienced: tuple[Service, int],
) -> None:
    service, now_us = experienced
    all_features = arrays_of(service)
    fewer = {"device": ["desktop", "phone", "tablet"]}
    service.directory.put_pool(visitors_pool(features=fewer), "test", now_us).result()
    service.learner.learn(now_us + 1)
    assert service.decider.decide("home", now_us + 2).segment == {"device": "(not known)"}
    assert links_for(service, {"device": "phone"}, now_us) == {"l0", "l1"}
    with pytest.raises(InvalidInput, match="declared features only"):
        service.decider.decide("home", now_us + 2, visitor={"country": "A"})
    service.directory.put_pool(visitors_pool(), "test", now_us + 3).result()
    service.learner.learn(now_us + 4)
    assert arrays_of(service) == all_features
    service.directory.put_pool(visitors_pool(features={}), "test", now_us + 5).result()
    service.learner.learn(now_us + 6)
    assert service.decider.decide("home", now_us + 7).segment == {}
    assert verify(service.store).mismatches == ()


def test_links_may_join_and_leave(experienced: tuple[Service, int]) -> None:
    service, now_us = experienced
    service.directory.put_links(
        "home", [link("l1", retired=True), link("new")], "test", now_us
    ).result()
    assert "l0" in links_for(service, {"device": "phone"}, now_us)
    pages = [service.decider.decide("home", now_us, visitor={"device": "phone"}) for _ in range(50)]
    assert "l1" not in {shown.link_id for page in pages for shown in page.shown}
    service.learner.learn(now_us + 61 * SECOND_US)
    assert service.health().pools[0].failure == ""
    assert verify(service.store).mismatches == ()


def test_explain_says_for_whom(experienced: tuple[Service, int]) -> None:
    service, now_us = experienced
    explained = {one.link_id: one.segments for one in service.reporter.explain("home")}
    assert explained["l0"].startswith("most likely for device phone (")
    assert "least for device desktop (" in explained["l0"]
    assert explained["l7"].startswith("most likely for device desktop (")
    told = service.reporter.segments("home")
    assert told.depends_on_visitors
    pages = reads(service.store).counters("home").pages["policy"]
    assert told.page_views == pages.click_views
    assert [one.feature for one in told.values] == sorted(
        (one.feature for one in told.values), key=list(FEATURES).index
    )
    values = {(one.feature, one.value): one for one in told.values}
    assert set(values) >= {("device", "phone"), ("device", "desktop"), ("returning", "(not known)")}
    phone = values["device", "phone"]
    counted = reads(service.store).counters("home").visitors["policy", "device", "phone"]
    assert phone.page_views == counted.click_views
    assert phone.clicks_per_view.mean == counted.clicks / counted.click_views
    assert phone.clicks_per_view.low < phone.clicks_per_view.mean < phone.clicks_per_view.high
    assert {one.link_id for one in phone.top_links[:2]} == {"l0", "l1"}
    service.directory.put_pool(visitors_pool(features={}), "test", now_us).result()
    assert service.reporter.segments("home").values == ()
    assert all(one.segments == "" for one in service.reporter.explain("home"))


def test_the_log_has_the_visitor_and_the_slot(service: Service) -> None:
    visit(opened(service, slot_weights=(1.5, 0.5)), 100, T0)
    settings = service.directory.pool("home")
    table = pq.read_table(log_file(settings, service.reporter.export("home")))
    names = [f"visitor.{name}" for name in FEATURES]
    assert [name for name in table.column_names if name.startswith("visitor.")] == names
    rows = table.to_pylist()
    assert {row["slot"] for row in rows} == {1, 2}
    assert {row["visitor.device"] for row in rows} == {"phone", "desktop"}
    assert {row["visitor.returning"] for row in rows} == {None}
    assert {row["random_order"] for row in rows} == {False}
    [first] = list(service.reporter.export("home"))[:1]
    by_page = {one.decision_id: one for one in first}
    for row in rows:
        page = by_page[row["page_id"]]
        assert page.visitor["device"] == row["visitor.device"]
        assert page.links[row["slot"] - 1] == row["link"]


def test_the_log_can_be_asked_about_another_floor(experienced: tuple[Service, int]) -> None:
    service, _ = experienced
    answered = service.reporter.evaluate("home", 0.2, 0, False)
    assert answered.pool_id == "home"
