"""`until` of a pool: the default policy plans for the page views expected until then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.player.player import Player
from slotwise.policies import NOBODY, PacedBayes
from slotwise.problem import Problem
from slotwise.service.counting.rates import LinkCounts, estimate_rates
from slotwise.service.learning.version_pages import AveragePages, totals_of
from slotwise.service.service import Service
from tests.service.conftest import OpenService
from tests.service.rows import T0, link, pool, seconds

END_S = 86_400


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the numbers of page views that versions are planned for, as they are made."""
    found: list[float] = []
    plan_for = PacedBayes.plan_for

    def noted(self: PacedBayes, state: Any, n_rounds: float) -> Any:
        found.append(n_rounds)
        return plan_for(self, state, n_rounds)

    monkeypatch.setattr(PacedBayes, "plan_for", noted)
    return found


def opened(service: Service, **changes: Any) -> Service:
    settings: dict[str, Any] = {"policy": "paced-bayes", "policy_settings": {}, "click_floor": 0.1}
    settings |= {"click_window_s": 30, "revenue_window_s": 60, "learn_slot_weights": True}
    service.directory.put_pool(pool(**{**settings, **changes}), "test", T0).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(5)], "test", T0).result()
    return service


def view(service: Service, from_s: int, until_s: int) -> None:
    """Show a page every two seconds and learn every minute."""
    for second in range(from_s, until_s, 2):
        service.decider.decide("home", seconds(second))
        if second % 60 == 0:
            service.flush().result()
            service.learner.learn(seconds(second))


def test_a_pool_plans_for_the_page_views_until_its_end(
    open_service: OpenService, planned: list[float]
) -> None:
    service = opened(open_service(), until_us=seconds(END_S))
    view(service, 0, 60)
    assert planned == []  # a minute is not enough to forecast
    view(service, 60, 3_600)
    assert planned[-1] == pytest.approx((END_S - 3_600) / 2, rel=0.05)
    service.close()
    service = open_service()
    planned.clear()
    view(service, 3_600, 3_720)
    assert planned
    assert planned[-1] == pytest.approx((END_S - 3_720) / 2, rel=0.05)
    planned.clear()
    view(service, END_S, END_S + 300)
    assert planned == []


def test_pages_of_a_version_depend_on_the_end() -> None:
    """Links with few views are tried where many page views are to come, and else not."""
    problem, rng = Problem(20, 2, click_floor=0.1), np.random.default_rng(1)
    views, clicks = np.full(20, 40.0), np.full(20, 0.1)
    views[:3], clicks[:3] = 2_000.0, 0.3
    counts = LinkCounts(np.stack([views, views]), np.stack([clicks, 0.5 * clicks]) * views)
    rates = estimate_rates(counts)

    def shown(n_views: float) -> float:
        player = Player.start(problem, PacedBayes(), range(20))
        player.learn_counts(totals_of(counts, NOBODY))
        pages = AveragePages(player)
        pages.plan_for(n_views)
        return float(pages.probabilities(rng, 64, rates)[3:].sum())

    assert shown(10.0) == 0.0
    assert shown(1e6) > 1.0


def test_no_end_is_guessed(open_service: OpenService, planned: list[float]) -> None:
    view(opened(open_service()), 0, 600)
    assert planned == []


def test_an_end_must_be_to_come(open_service: OpenService) -> None:
    service = open_service()
    with pytest.raises(InvalidInput, match=r"`until` must be in the future, got '2023-11-14T"):
        opened(service, until_us=T0)
    opened(service, until_us=seconds(10))
    ended = pool(policy="paced-bayes", policy_settings={}, until_us=seconds(10), slots=3)
    changed = service.directory.put_pool(ended, "test", seconds(20)).result()
    assert changed.until_us == seconds(10)  # what has passed may stay
