"""A store whose clock was ahead once: its times are set back, and it learns again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from slotwise.service.refusals import StoreUnavailable
from slotwise.service.storage.maintenance import set_times_back
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.conftest import OpenService
from tests.service.learning.test_learning import visit
from tests.service.rows import T0, click, link, pool, seconds

HOUR = seconds(3_600) - T0


@pytest.mark.parametrize("policy", ["uniform", "paced-bayes"])
def test_a_store_that_was_an_hour_ahead_learns_again(
    open_service: OpenService, tmp_path: Path, policy: str
) -> None:
    service = open_service()
    made = pool(policy=policy, policy_settings={}, click_window_s=60, revenue_window_s=60)
    service.directory.put_pool(made, "t", T0).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(1, 6)], "t", T0).result()
    visit(service, random.Random(1), 50)
    service.learner.learn(T0 + HOUR)
    visit(service, random.Random(2), 50, start_us=T0 + HOUR)
    service.close()

    path = tmp_path / "store.db"
    now_us = T0 + 5 * 10**6
    by_us = set_times_back(path, now_us)
    assert HOUR - 5 * 10**6 < by_us < HOUR
    store = SqliteStore(path)
    assert verify(store).mismatches == ()
    store.close()
    assert set_times_back(path, now_us) == 0

    service = open_service()
    page = service.decider.decide("home", now_us + 1)
    event = click(page.shown[0].link_id, page.decision_id)
    assert service.committer.submit_events([event], now_us + 2).result()[0].outcome == "accepted"
    service.learner.learn(now_us + 61 * 10**6)
    assert service.health().is_learning
    assert service.reporter.stats("home").groups[0].click_views == 101


def test_a_store_in_use_is_left_alone(open_service: OpenService, tmp_path: Path) -> None:
    open_service()
    with pytest.raises(StoreUnavailable, match="in use by process"):
        set_times_back(tmp_path / "store.db", T0)
