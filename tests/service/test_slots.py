"""Slots that differ: what is learned of them, and which link stands where."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service.records import SECOND_US, ClickEvent, ConversionEvent, DecisionRecord, Pin
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.rows import T0, learned_of, link, pool

LINKS = [f"l{k}" for k in range(6)]
RATES = {link_id: 0.05 + 0.05 * k for k, link_id in enumerate(LINKS)}
TRUE_WEIGHTS = (0.5, 1.7, 0.8)


def opened(service: Service, **changes: Any) -> Service:
    settings = {
        "slots": 3,
        "policy": "paced-bayes",
        "policy_settings": {},
        "click_window_s": 60,
        "revenue_window_s": 60,
        "click_floor": 0.2,
        **changes,
    }
    service.directory.put_pool(pool(**settings), "test", T0).result()
    service.directory.put_links("home", [link(one) for one in LINKS], "test", T0).result()
    return service


def visit(
    service: Service, n_views: int, now_us: int = T0, seed: int = 1, *, buy: bool = False
) -> list[DecisionRecord]:
    """Send visitors who look at the second slot first, and perhaps buy wherever they click."""
    chance, pages = random.Random(seed), []
    for k in range(n_views):
        now_us += SECOND_US // 20
        page = service.decider.decide("home", now_us)
        pages.append(page)
        clicked = [
            (page.decision_id, shown.link_id)
            for shown in page.shown
            if chance.random() < RATES[shown.link_id] * TRUE_WEIGHTS[shown.position - 1]
        ]
        events: list[Any] = [ClickEvent(*one) for one in clicked]
        if buy:
            events += [ConversionEvent("-".join(one), *one, 20_000_000, "EUR") for one in clicked]
        if events:
            service.committer.submit_events(events, now_us + 1).result()
        if k % 250 == 249:
            now_us += 61 * SECOND_US
            service.learner.learn(now_us)
    return pages


def exposure_of(service: Service) -> list[Any]:
    counts = learned_of(service).counts
    return [learned_of(service).slot_clicks.tolist(), counts.views.tolist(), counts.sums.tolist()]


def test_known_weights_put_the_best_link_into_the_best_slot(service: Service) -> None:
    opened(
        service, slot_weights=(0.5, 2.0, 0.5), policy="con-ucb", policy_settings={"horizon": 9000}
    )
    pages = visit(service, 1_500, buy=True)
    assert not any(page.random_order for page in pages)
    assert [shown.position for shown in pages[-1].shown] == [1, 2, 3]
    late = pages[-200:]
    rates = np.array([[RATES[shown.link_id] for shown in page.shown] for page in late])
    assert rates.mean(axis=0).argmax() == 1
    told = service.reporter.segments("home").slots
    assert [one.weight for one in told] == [0.5, 2.0, 0.5]
    assert all(one.low == one.weight == one.high for one in told)
    now = [service.decider.decide("home", T0 + 10**12) for _ in range(300)]
    for one in told:
        assert one.mostly is not None
        stood = [page.shown[one.position - 1].link_id == one.mostly.link_id for page in now]
        # Shares of 200 and of 300 pages: 0.3 is 6.5 standard errors of their difference.
        assert one.mostly.probability == pytest.approx(np.mean(stood), abs=0.3)
        assert one.mostly.probability > 1 / 6
    pinned = (Pin(link_id="l0", position=3),)
    service.directory.put_pool(
        replace(service.directory.pool("home"), pins=pinned), "test", T0 + 2 * 10**12
    ).result()
    last = service.reporter.segments("home").slots[2].mostly
    assert last is not None
    assert (last.link_id, last.probability) == ("l0", 1.0)


def test_weights_are_learned_from_pages_in_random_order(service: Service) -> None:
    """About 900 clicks on random pages: an error of 0.25 is more than five standard errors."""
    opened(service, slot_weights=(), learn_slot_weights=True, holdout=0.3)
    pages = visit(service, 4_000, buy=True)
    assert all(page.random_order for page in pages[:100])
    assert any(not page.random_order for page in pages[-500:])
    assert all(page.random_order for page in pages if page.holdout)
    weights = learned_of(service).slot_weights
    assert weights.mean() == pytest.approx(1.0)
    assert np.abs(weights - TRUE_WEIGHTS).max() < 0.25
    last = [page for page in pages[-250:] if not page.random_order]
    rates = np.array([[RATES[shown.link_id] for shown in page.shown] for page in last])
    assert rates.mean(axis=0).argmax() == 1
    told = service.reporter.segments("home").slots
    assert [one.weight for one in told] == weights.tolist()
    assert all(one.low < one.weight < one.high for one in told)
    published = service.decider.installed("home").stored
    shown = dict(zip(published.link_ids, published.rates().clicks.tolist(), strict=True))
    assert shown["l5"] == pytest.approx(RATES["l5"], abs=0.1)  # that of the average slot


def test_the_rows_teach_the_same_again(tmp_path: Path) -> None:
    options = ServiceOptions(seed=3, commit_every_ms=0.0)
    service = Service(SqliteStore(tmp_path / "store.db"), options)
    opened(service, learn_slot_weights=True)
    visit(service, 1_000)
    service.flush().result()
    before = exposure_of(service)
    assert sum(before[0]) > 100
    service.close()
    again = Service(SqliteStore(tmp_path / "store.db"), options)
    assert exposure_of(again) == before
    now_us = T0 + 10_000 * SECOND_US
    settings = again.directory.pool("home")
    alike = pool(**{**_asdict(settings), "learn_slot_weights": False})
    again.directory.put_pool(alike, "test", now_us).result()
    assert not again.decider.decide("home", now_us + 1).random_order
    again.directory.put_pool(settings, "test", now_us + 2).result()
    again.learner.learn(now_us + 3)
    assert exposure_of(again) == before
    assert verify(again.store).mismatches == ()
    again.close()


def _asdict(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


def test_pins_stay_and_other_lengths_of_pages_work(service: Service) -> None:
    opened(service, learn_slot_weights=True, pins=(Pin(link_id="l0", position=2),))
    for slots in (None, 1, 2, 5):
        for _ in range(30):
            page = service.decider.decide("home", T0, slots=slots)
            assert [one.position for one in page.shown] == list(range(1, (slots or 3) + 1))
            assert len({one.link_id for one in page.shown}) == len(page.shown)
            if len(page.shown) > 1:
                assert page.shown[1].link_id == "l0"
                assert not page.random_order
    service.learner.learn(T0 + 100 * SECOND_US)
    assert service.health().pools[0].failure == ""


@pytest.mark.parametrize("weights", [(1.0, 2.0), (1.0, -1.0, 1.0), (1.0, 0.0, 1.0)])
def test_weights_that_cannot_be_are_refused(service: Service, weights: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput, match="slot_weights") as refused:
        opened(service, slot_weights=weights)
    assert refused.value.argument == "slot_weights"
