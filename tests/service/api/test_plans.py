"""How much traffic a page needs, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from slotwise.service.records import Scope
from slotwise.simulation.simulated_log import RoughPage, plan_traffic
from tests.service.conftest import problem_of

pytestmark = pytest.mark.compiled

PAGE = {
    "links": 6,
    "slots": 2,
    "click_rate": 0.2,
    "revenue_per_click": 0.4,
    "click_floor": 0.3,
    "views_per_day": 500,
    "max_views": 2000,
    "cases": 12,
}


def test_days_are_those_of_the_engine(visitor: httpx.Client) -> None:
    """On the machine itself nobody needs a key for it."""
    with visitor.stream("POST", "/v1/plan", json=PAGE) as answer:
        assert answer.headers["content-type"] == "application/jsonl"
        lines = answer.iter_lines()
        first = json.loads(next(lines))
        assert first == {"done": 0.0}
        refused = visitor.post("/v1/plan", json=PAGE)
        rest = [json.loads(line) for line in lines]
    assert problem_of(refused)["type"] == "plan-running"
    assert refused.headers["retry-after"] == "30"
    done = [line["done"] for line in rest[:-1]]
    assert done == sorted(done)
    assert done[-1] == 1.0
    found = rest[-1]["plan"]
    again = plan_traffic(RoughPage(6, 2, 0.2, 0.4, 0.3), n_views=2000, n_cases=12)
    assert found["floor_kept"]["page_views"] == again.floor.views
    assert found["floor_kept"]["days"] == again.floor.views / 500
    assert found["floor_kept"]["low"] == again.floor.low / 500
    assert found["floors_in_reach"] == again.share_of_floors_in_reach


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"slots": 7}, "/slots"),
        ({"click_floor": 2}, "/click_floor"),
        ({"click_rate": 0}, "/click_rate"),
        ({"certainty": 1}, "/certainty"),
        ({"cases": 100_000}, "/cases"),
        ({"max_views": 10**9}, "/max_views"),
        ({"views_per_day": 0}, "/views_per_day"),
    ],
)
def test_what_breaks_a_rule_starts_nothing(
    visitor: httpx.Client, change: dict[str, float], pointer: str
) -> None:
    problem = problem_of(visitor.post("/v1/plan", json=PAGE | change))
    assert problem["errors"][0]["pointer"] == pointer


def test_a_key_that_tracks_may_not_simulate(keyed: Callable[[Scope], httpx.Client]) -> None:
    assert problem_of(keyed("track").post("/v1/plan", json=PAGE))["type"] == "wrong-scope"
