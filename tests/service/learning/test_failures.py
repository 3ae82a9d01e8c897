"""One pool that fails: the others learn, it shows its own page, and everybody is told."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.policies import POLICIES, default_policy
from slotwise.service.access.keys import new_key
from slotwise.service.clock import MAX_STEP_US, SteadyClock
from slotwise.service.learning import learner
from slotwise.service.learning.settled_rounds import settled_rounds
from slotwise.service.observability import ServiceMetrics
from slotwise.service.records import ClickEvent
from slotwise.service.reporting.pool_report import describe_trouble
from slotwise.service.service import Service
from tests.service.conftest import OpenService
from tests.service.learning.test_learning import visit
from tests.service.rows import T0, link, pool, seconds

FAR = seconds(10 * 86_400)
LINKS = [link(f"l{k}") for k in range(1, 6)]


def put(service: Service, pool_id: str, **settings: Any) -> None:
    home = {"policy": "uniform", "policy_settings": {}} | settings
    made = pool(pool_id=pool_id, own_page=("l4", "l2"), **home)
    service.directory.put_pool(made, "test", T0).result()
    service.directory.put_links(pool_id, LINKS, "test", T0).result()


def health_of(service: Service, pool_id: str) -> Any:
    return next(pool for pool in service.health().pools if pool.pool_id == pool_id)


def metrics_of(service: Service) -> list[str]:
    return ServiceMetrics(service.health, Counter()).text().decode().splitlines()


@pytest.fixture
def failing(open_service: OpenService, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Return a service whose first pool names a policy that is registered no more."""
    service = open_service()
    monkeypatch.setitem(POLICIES, "gone", POLICIES["uniform"])
    put(service, "a-first", policy="gone")
    put(service, "home")
    visit(service, random.Random(1), 30)
    monkeypatch.delitem(POLICIES, "gone")
    return service


def test_a_pool_that_fails_does_not_stop_the_others(failing: Service) -> None:
    version = health_of(failing, "home").policy_version
    failing.learner.learn(FAR)
    assert failing.reporter.stats("home").groups[0].click_views == 30
    assert health_of(failing, "home").policy_version == version + 1
    assert health_of(failing, "home").learned_us == FAR
    page = failing.decider.decide("a-first", FAR)
    assert (page.fallback, [one.link_id for one in page.shown]) == ("learning-failed", ["l4", "l2"])


def test_a_failure_is_counted_and_shown_until_it_is_over(
    failing: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing.learner.learn(FAR)
    failing.learner.learn(FAR + 1)
    state = health_of(failing, "a-first")
    assert (state.n_failures, state.learned_us) == (2, 0)
    assert "no policy is called 'gone'" in state.failure
    assert not failing.health().is_learning
    assert "shows its own page" in describe_trouble(failing.health(), "a-first")
    assert describe_trouble(failing.health(), "home") == ""
    assert 'slotwise_learning_failures_total{pool="a-first"} 2.0' in metrics_of(failing)
    learned = next(line for line in metrics_of(failing) if 'learned_seconds{pool="home"}' in line)
    assert float(learned.split()[-1]) == pytest.approx(FAR / 1e6)
    monkeypatch.setitem(POLICIES, "gone", POLICIES["uniform"])
    failing.learner.learn(FAR + 2)
    assert failing.health().is_learning
    assert failing.decider.decide("a-first", FAR + 3).fallback == ""


def test_a_service_starts_with_the_default_where_a_policy_is_gone(
    failing: Service, open_service: OpenService
) -> None:
    failing.close()
    service = open_service()
    service.learner.learn(FAR)
    assert service.directory.pool("a-first").policy == default_policy().name
    assert service.decider.decide("a-first", FAR).fallback == ""
    assert service.decider.decide("home", FAR).fallback == ""


def test_a_row_that_cannot_be_read_stops_its_pool_only(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = open_service()
    put(service, "a-first")
    put(service, "home")
    service.decider.decide("a-first", T0 + 5)
    visit(service, random.Random(1), 10)

    def unreadable(store: Any, pool_id: str, *rest: Any) -> Any:
        if pool_id == "a-first":
            raise msgspec.DecodeError("MessagePack data is malformed")
        return settled_rounds(store, pool_id, *rest)

    monkeypatch.setattr(learner, "settled_rounds", unreadable)
    service.learner.learn(FAR)
    assert service.reporter.stats("home").groups[0].click_views == 10
    assert health_of(service, "a-first").failure == "DecodeError: MessagePack data is malformed"
    monkeypatch.undo()
    service.learner.learn(FAR + 1)
    assert service.reporter.stats("a-first").groups[0].click_views == 1


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        ("paced-bayes", {"memory": 10**30}),
        ("con-ucb", {"horizon": 10**30}),
        ("con-ucb", {"horizon": 1e300}),
        ("con-ucb", {"horizon": float("nan")}),
        ("fixed-mix", {"probabilities": [1e30, 0.5, 0.5, 0.5, 0.5]}),
    ],
)
def test_settings_out_of_range_are_refused_when_the_pool_is_saved(
    service: Service, policy: str, settings: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match="policy"):
        service.directory.put_pool(pool(policy=policy, policy_settings=settings), "test", T0)


def test_a_clock_that_jumps_closes_no_window_and_raises_an_alarm(service: Service) -> None:
    wall_us, elapsed_us = [T0], [0]
    clock = SteadyClock(lambda: wall_us[0], lambda: elapsed_us[0])
    page = service.decider.decide("home", clock())
    wall_us[0] += 3_600 * 10**6
    elapsed_us[0] += 10**6
    service.learner.read_clock(clock)
    service.learner.learn(clock())
    assert service.health().closed_until_us == T0 + 10**6
    assert not service.reporter.decision(page.decision_id).clicks_settled
    assert service.health().clock_jump_us == 3_599 * 10**6
    assert "jumped by 3,599 s" in describe_trouble(service.health(), "home")
    assert "slotwise_clock_jump_seconds 3599.0" in metrics_of(service)
    wall_us[0] = T0 + elapsed_us[0] + MAX_STEP_US
    service.learner.read_clock(clock)
    assert service.health().is_learning
    assert clock() == wall_us[0]


def test_a_store_with_times_in_the_future_raises_an_alarm(service: Service) -> None:
    service.learner.learn(FAR)
    service.learner.learn(T0 + 1)
    assert service.health().store_ahead_us == FAR - T0 - 1
    assert not service.health().is_learning
    assert "in the future" in describe_trouble(service.health(), "home")


def delivered(service: Service) -> tuple[int, int]:
    """Return the page views and clicks under the floor, as the published version has them."""
    pages = dict(service.decider.stored_versions())["home"].delivered
    return pages.click_views, pages.clicks


def test_a_learner_that_dies_before_it_publishes_loses_no_delivered_click(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forgetting, purging and another floor are verified with the rest when the test ends."""
    service = open_service()
    put(service, "home")
    thief = new_key(["decide"], label="thief", now_us=T0).record
    service.directory.put_key(thief, "test", T0).result()

    def show_and_learn(day: int, key_id: str = "") -> tuple[int, int]:
        for second in range(20):
            at_us = seconds(86_400 * day + second)
            page = service.decider.decide("home", at_us, key_id=key_id)
            click = ClickEvent(decision_id=page.decision_id, link_id=page.shown[0].link_id)
            service.committer.submit_events([click], at_us + 1).result()
        service.learner.learn(seconds(86_400 * (day + 2)))
        return delivered(service)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(service.publisher, "publish", die)
    with pytest.raises(KeyboardInterrupt):
        show_and_learn(0)
    service.close()
    service = open_service(retention_days=20)
    assert show_and_learn(10) == (40, 40)
    assert show_and_learn(20, thief.key_id) == (60, 60)
    service.directory.forget_views(thief.key_id, T0, "test", seconds(23 * 86_400)).result()
    assert show_and_learn(30) == (60, 60)
    with service.store.reading() as reader:
        assert len(reader.views_after("home", 0, None, 0, 100).views) < 80
    service.directory.put_pool(
        replace(service.directory.pool("home"), click_floor=0.2), "test", seconds(60 * 86_400)
    ).result()
    assert show_and_learn(70) == (20, 20)
