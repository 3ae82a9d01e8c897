"""Selector and service report the same status of a floor for the same pages and rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise import Rule, Selector
from slotwise.service.records import ClickEvent, DecisionRecord, PoolRule
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.rows import T0, link, pool, seconds

LINKS = [f"l{k}" for k in range(6)]
CLICK_RATE = dict(zip(LINKS, (0.8, 0.7, 0.5, 0.3, 0.2, 0.1), strict=True))
RULES: dict[str, dict[str, Any]] = {
    "no rules": {},
    "cap": {"links": ("l0", "l1"), "at_most": 1.0},
    "guarantee": {"links": ("l4", "l5"), "at_least": 1.0},
}
FLOORS = (0.5, 1.55, 1.85)
"""A page of two links has at most 1.5 clicks; 1.3 with the cap, 1.0 with the guarantee."""


def played(path: Path, floor: float, rules: dict[str, Any]) -> tuple[str, list[Any]]:
    """Play a pool of the service; return the status of its floor, and its pages with clicks."""
    service = Service(SqliteStore(path), ServiceOptions(seed=1, commit_every_ms=0.0))
    settings: dict[str, Any] = {"policy": "uniform", "policy_settings": {}, "click_floor": floor}
    service.directory.put_pool(pool(**settings), "test", T0).result()
    service.directory.put_links("home", [link(one) for one in LINKS], "test", T0).result()
    if rules:
        asked = (PoolRule(name="rule", **rules),)
        service.directory.put_rules("home", asked, "test", T0).result()
    rng, pages = np.random.default_rng(3), []
    for k in range(600):
        page: DecisionRecord = service.decider.decide("home", T0 + k)
        shown = [one.link_id for one in page.shown]
        clicks = [one for one in shown if rng.random() < CLICK_RATE[one]]
        for one in clicks:
            event = ClickEvent(decision_id=page.decision_id, link_id=one)
            service.committer.submit_events([event], T0 + 1_000).result()
        pages.append((shown, clicks))
    service.learner.learn(seconds(200_000))
    [health] = service.health().pools
    service.close()
    return health.floor_status, pages


@pytest.mark.parametrize("rules", ["no rules", "cap", "guarantee"])
def test_the_status_of_a_floor_is_the_same_in_selector_and_service(
    rules: str, tmp_path: Path
) -> None:
    found = []
    for floor in FLOORS:
        status, pages = played(tmp_path / f"{floor}.db", floor, RULES[rules])
        asked = [Rule("rule", **RULES[rules])] if RULES[rules] else []
        selector: Selector[str] = Selector(
            LINKS, 2, policy="uniform", click_floor=floor, rules=asked, slot_weights="equal", seed=1
        )
        for shown, clicks in pages:
            selector.update(selector.select(pin=shown), clicks=clicks, revenue={})
        found.append((selector.report().delivered.status, status))
    assert "infeasible" in {status for _, status in found}
    for of_selector, of_service in found:
        assert of_selector == of_service
