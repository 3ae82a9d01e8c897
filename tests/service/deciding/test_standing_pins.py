"""Pins of a pool: links that stand at a position of every page."""

from __future__ import annotations

from typing import Any

import pytest

from slotwise.errors import InvalidInput
from slotwise.service.pool import check_pool
from slotwise.service.records import Pin
from slotwise.service.service import Service
from tests.service.rows import T0, link, pool
from tests.stores.memory_store import MemoryStore


def service_with(*pins: Pin, n_links: int = 4, **settings: Any) -> Service:
    service = Service(MemoryStore())
    made = pool(policy="uniform", policy_settings={}, pins=pins, **settings)
    service.directory.put_pool(made, "t", T0).result()
    links = [link(f"l{number}") for number in range(1, n_links + 1)]
    service.directory.put_links("home", links, "t", T0).result()
    return service


def pin(link_id: str, position: int) -> Pin:
    return Pin(link_id=link_id, position=position)


def test_a_pinned_link_stands_at_its_position_of_every_page() -> None:
    service = service_with(pin("l3", 2))
    for number in range(20):
        shown = service.decider.decide("home", T0 + number).shown
        assert shown[1].link_id == "l3"
        assert shown[1].propensity == 1.0
        assert shown[0].propensity == pytest.approx(1 / 3)
    service.close()


def test_the_holdout_keeps_the_pins_too() -> None:
    service = service_with(pin("l3", 1), holdout=1.0)
    for number in range(20):
        decision = service.decider.decide("home", T0 + number)
        assert decision.holdout
        assert decision.shown[0].link_id == "l3"
    service.close()


def test_a_caller_may_exclude_move_or_replace_a_pinned_link() -> None:
    service = service_with(pin("l3", 1))
    shown = service.decider.decide("home", T0, exclude=["l3"]).shown
    assert "l3" not in {one.link_id for one in shown}
    shown = service.decider.decide("home", T0, pin=[pin("l3", 2)]).shown
    assert [one.link_id for one in shown].index("l3") == 1
    shown = service.decider.decide("home", T0, pin=[pin("l1", 1)]).shown
    assert shown[0].link_id == "l1"
    service.close()


def test_a_page_too_short_for_the_position_goes_without() -> None:
    service = service_with(pin("l3", 2), n_links=30)
    shown = [service.decider.decide("home", T0 + n, slots=1).shown[0].link_id for n in range(60)]
    assert len(set(shown)) > 5
    service.close()


def test_a_retired_link_is_pinned_no_more() -> None:
    service = service_with(pin("l3", 1))
    service.directory.put_links("home", [link("l3", retired=True)], "t", T0).result()
    shown = service.decider.decide("home", T0 + 1).shown
    assert "l3" not in {one.link_id for one in shown}
    service.close()


def test_reports_say_what_is_shown() -> None:
    service = service_with(pin("l3", 1))
    shares = {one.link_id: one.probability for one in service.reporter.stats("home").links}
    assert shares == pytest.approx({"l1": 1 / 3, "l2": 1 / 3, "l3": 1.0, "l4": 1 / 3})
    assert {one.link_id: one.probability for one in service.reporter.explain("home")} == shares
    service.close()


@pytest.mark.parametrize(
    ("pins", "rule"),
    [
        ([pin("l1", 3)], "`pins` must be from 1 to 2"),
        ([pin("l1", 0)], "`pins` must be from 1 to 2"),
        ([pin("l1", 1), pin("l2", 1)], "`pins` must be one link for each position"),
        ([pin("l1", 1), pin("l1", 2)], "`pins` must be different links"),
        ([pin("no id", 1)], "`pins` must be 1 to 64 characters"),
    ],
)
def test_pins_that_make_no_sense_are_refused(pins: list[Pin], rule: str) -> None:
    with pytest.raises(InvalidInput, match=rule):
        check_pool(pool(pins=tuple(pins)), 4)
