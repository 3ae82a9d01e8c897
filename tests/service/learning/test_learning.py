"""Learning: the same rows give the same statistics, whatever happened in between."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event as Signal
from typing import Any

import numpy as np
import pytest

from slotwise.player.player import Player
from slotwise.policies import NO_SLOTS, NOBODY, POLICIES, LinkFeedback, policy_class
from slotwise.service.counting.attribution import (
    CLICKS,
    FOLD_START,
    LEVELS,
    Counters,
    Level,
    LinkCounters,
    View,
    attribute,
)
from slotwise.service.counting.counters import add_counters, count_settled
from slotwise.service.learning import learner
from slotwise.service.learning.pool_player import RoundPosition
from slotwise.service.learning.settled_rounds import settled_rounds, starts_after
from slotwise.service.pool import Pool, policy_of, problem_of
from slotwise.service.records import ConversionEvent, DecisionRecord, Event
from slotwise.service.service import Service
from slotwise.service.storage.verify import verify
from tests.service.conftest import OpenService
from tests.service.rows import (
    CLICK_WINDOW_S,
    REVENUE_WINDOW_S,
    T0,
    adjustment,
    arrays_of,
    click,
    conversion,
    learned_of,
    link,
    pool,
    seconds,
)
from tests.stores.store_rows import reads

FAR = seconds(10 * 86_400)
LINKS = tuple(f"l{k}" for k in range(1, 6))
SETTINGS: dict[str, dict[str, Any]] = {"fixed-mix": {"probabilities": [0.4] * 5}}


def settings_of(policy: str) -> dict[str, Any]:
    """Return settings with which a policy can run five links and two slots."""
    if policy in SETTINGS:
        return SETTINGS[policy]
    fields = getattr(policy_class(policy), "__dataclass_fields__", {})
    return {"horizon": 1000} if "horizon" in fields else {}


def visit(service: Service, chance: random.Random, n_views: int, start_us: int = T0) -> None:
    """Send visitors who click and buy more on links with higher numbers."""
    for k in range(n_views):
        now_us = start_us + k * 1_000
        page = service.decider.decide("home", now_us)
        service.committer.submit_events(events_of(page, chance), now_us + 500).result()


def events_of(page: DecisionRecord, chance: random.Random) -> list[Event]:
    events: list[Event] = []
    for shown in page.shown:
        if chance.random() < int(shown.link_id[1:]) / 10:
            events.append(click(shown.link_id, page.decision_id))
            if chance.random() < 0.5:
                order = f"{page.decision_id}-{shown.link_id}"
                amount = chance.randrange(50_000_000)
                events.append(
                    conversion(order, amount, decision_id=page.decision_id, link_id=shown.link_id)
                )
    return events


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_runs_a_pool(open_service: OpenService, policy: str) -> None:
    service = open_service()
    service.directory.put_pool(
        pool(policy=policy, policy_settings=settings_of(policy)), "t", T0
    ).result()
    service.directory.put_links("home", [link(item) for item in LINKS], "t", T0).result()
    visit(service, random.Random(5), 40)
    service.learner.learn(FAR)
    report = service.reporter.stats("home")
    assert report.groups[0].click_views == 40
    assert sum(item.probability for item in report.links) == pytest.approx(2.0)
    page = service.decider.decide("home", FAR, exclude=["l1"])
    assert (page.fallback, len(page.shown), page.policy) == ("", 2, policy)
    service.close()
    again = open_service()
    assert again.decider.decide("home", FAR).policy_version == report.policy_version
    assert again.reporter.stats("home").links == report.links
    again.learner.learn(FAR + 1)
    assert again.decider.decide("home", FAR, pin=[], slots=3).fallback == ""


def test_views_count_for_clicks_first_and_for_revenue_when_both_windows_closed(
    service: Service,
) -> None:
    page = service.decider.decide("home", T0)
    first = page.shown[0].link_id
    order = conversion(decision_id=page.decision_id, link_id=first)
    service.committer.submit_events([click(first, page.decision_id), order], T0 + 5).result()

    def counted() -> LinkCounters:
        return reads(service.store).counters("home").links.get(("policy", first), LinkCounters())

    service.learner.learn(seconds(CLICK_WINDOW_S) - 1)
    assert counted() == LinkCounters()
    service.learner.learn(seconds(CLICK_WINDOW_S))
    assert counted() == LinkCounters(click_views=1, clicks=1)
    refund = adjustment()
    assert (
        service.committer.submit_events([refund], seconds(7_200)).result()[0].outcome == "accepted"
    )
    service.learner.learn(seconds(REVENUE_WINDOW_S))
    assert counted() == LinkCounters(
        click_views=1, clicks=1, revenue_views=1, revenue_micros=6_000_000
    )


def test_how_often_windows_are_folded_does_not_matter(open_service: OpenService) -> None:
    often = open_service()
    often.directory.put_pool(pool(policy="lexp", holdout=0.2), "t", T0).result()
    often.directory.put_links("home", [link(item) for item in LINKS], "t", T0).result()
    visit(often, random.Random(3), 120)
    for hours in range(30):
        often.learner.learn(seconds(hours * 3_600))
    reader = reads(often.store)
    whole, floors = Counters(), reader.counters("home").delivered
    for level in LEVELS:
        until_us = often.health().closed_until_us
        views = reader.closed_views("home", level, FOLD_START, until_us, 10**6)
        whole = add_counters(whole, count_settled(views, level, {}, floors))
    assert reader.counters("home") == whole
    assert whole.pages["policy"].click_views + whole.pages["holdout"].click_views == 120
    assert verify(often.store).mismatches == ()


def learn_one(player: Player, view: View, level: Level) -> None:
    """Feed a policy one view at one level: the slow twin of `Player.learn_many`."""
    decision = view.decision
    if level == CLICKS:
        clicked = attribute(view, decision.click_closes_us).clicked
        outcomes = [float(link.link_id in clicked) for link in decision.shown]
    else:
        revenue = attribute(view, decision.revenue_closes_us).revenue_micros
        scale = decision.max_revenue_micros
        outcomes = [revenue.get(link.link_id, 0) / scale for link in decision.shown]
    type(player.form).learn(
        player.state,
        NOBODY,
        level,
        LinkFeedback(
            np.array([LINKS.index(link.link_id) for link in decision.shown]),
            NO_SLOTS,
            np.array([link.propensity for link in decision.shown]),
            np.ones(len(outcomes)),
            np.array(outcomes),
        ),
    )


@pytest.mark.parametrize("policy", ["lexp", "exp3-m", "paced-bayes", "queue-ts"])
def test_a_policy_fed_by_rounds_knows_the_same_after_restarts_and_replays(
    open_service: OpenService, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "MAX_FED_ROUNDS", 37)
    service = open_service()
    changed = pool(policy=policy, policy_settings=settings_of(policy), holdout=0.2)
    service.directory.put_pool(changed, "t", T0).result()
    service.directory.put_links("home", [link(item) for item in LINKS], "t", T0).result()
    visit(service, random.Random(3), 60)
    for day in range(3):
        service.learner.learn(seconds(day * 86_400))
        service.close()
        service = open_service()
    for _ in range(6):
        service.learner.learn(FAR)
    learned = service.learner._runs["home"]
    replayed = Player.start(problem_of(5, 2, 0.3), policy_of(learned.pool.settings), LINKS)
    n_rounds = 0
    start = starts_after(RoundPosition())
    for position, view in settled_rounds(service.store, "home", start, FAR):
        learn_one(replayed, view, position.level)
        n_rounds += 1
    assert n_rounds == 120
    assert learned.fed_to == position
    twins = {name: array.tolist() for name, array in replayed.knowledge().arrays.items()}
    assert arrays_of(service) == twins
    assert any(array.any() for array in replayed.knowledge().arrays.values())


def test_a_change_of_policy_learns_from_the_whole_log(service: Service) -> None:
    visit(service, random.Random(3), 60)
    service.learner.learn(FAR)
    before = reads(service.store).counters("home")
    service.directory.put_pool(pool(policy="exp3-m"), "t", FAR).result()
    service.learner.learn(FAR + 1)
    assert reads(service.store).counters("home") == before
    weights = learned_of(service).arrays["log_weights"]
    assert weights.argmax() in (3, 4)
    service.directory.put_pool(pool(), "t", FAR).result()
    service.learner.learn(FAR + 2)
    assert reads(service.store).counters("home") == before


def test_rounds_come_by_time_of_closing_then_level_then_id_from_any_place(
    service: Service,
) -> None:
    # Revenue of the first page closes at the very moment when clicks of the second do.
    service.directory.put_pool(pool(click_window_s=10, revenue_window_s=30), "t", T0).result()
    for offset in (0, 0, 20, 20, 35):
        service.decider.decide("home", seconds(offset))
    service.learner.learn(FAR)
    order = [
        position
        for position, _ in settled_rounds(service.store, "home", starts_after(RoundPosition()), FAR)
    ]
    assert order == sorted(order)
    assert len(order) == 10
    assert [position.level for position in order[2:6]] == [0, 0, 1, 1]
    for done, position in enumerate(order):
        rest = settled_rounds(service.store, "home", starts_after(position), FAR)
        assert [place for place, _ in rest] == order[done + 1 :]


def test_a_reset_forgets_old_views_also_those_still_open(service: Service) -> None:
    visit(service, random.Random(3), 40)
    service.learner.learn(seconds(CLICK_WINDOW_S + 1))
    known = {item.link_id: item.click_views for item in service.reporter.stats("home").links}
    assert known["l1"] > 0
    reset = [link("l1"), link("l2")]
    service.directory.put_links("home", reset, "t", seconds(4_000), reset_statistics=True).result()
    service.learner.learn(FAR)
    after = {item.link_id: item for item in service.reporter.stats("home").links}
    assert (after["l1"].click_views, after["l1"].revenue_views) == (0, 0)
    assert after["l3"].click_views == known["l3"]
    assert after["l3"].revenue_views == known["l3"]
    assert verify(service.store).mismatches == ()


def test_statistics_survive_retirement(service: Service) -> None:
    visit(service, random.Random(3), 40)
    service.learner.learn(FAR)
    before = service.reporter.stats("home").links
    service.directory.put_links("home", [link("l1", retired=True)], "t", FAR).result()
    service.directory.put_links("home", [link("l1")], "t", FAR).result()
    after = service.reporter.stats("home").links
    assert [item.click_views for item in after] == [item.click_views for item in before]


def send_all(service: Service, sender: list[list[Event]]) -> list[str]:
    return [
        outcome.outcome
        for batch in sender
        for outcome in service.committer.submit_events(batch, seconds(60)).result(600)
    ]


def count_shuffled_duplicates(service: Service, n_events: int) -> None:
    """Send shuffled events, 30 % of them twice, from four threads; compare every count."""
    chance = random.Random(11)
    pages: list[DecisionRecord] = []
    events: list[Event] = []
    while len(events) < n_events:
        page = service.decider.decide("home", seconds(len(pages) / 10_000))
        pages.append(page)
        if len(pages) % 50_000 == 0:
            service.flush().result()  # no more than 100,000 may wait for their commit
        for shown in page.shown:
            events.append(click(shown.link_id, page.decision_id))
            events.append(
                conversion(
                    f"{page.decision_id}-{shown.link_id}",
                    chance.randrange(10_000_000),
                    decision_id=page.decision_id,
                    link_id=shown.link_id,
                )
            )
    sent = [*events, *(event for event in events if chance.random() < 0.3)]
    chance.shuffle(sent)
    batches = [sent[start : start + 200] for start in range(0, len(sent), 200)]
    with ThreadPoolExecutor(4) as senders:
        futures = [senders.submit(send_all, service, batches[k::4]) for k in range(4)]
        wait(futures)
    outcomes = [outcome for future in futures for outcome in future.result()]
    assert outcomes.count("accepted") == len(events)
    assert outcomes.count("duplicate") == len(sent) - len(events)
    service.learner.learn(FAR)
    counters = reads(service.store).counters("home").links.values()
    assert sum(item.clicks for item in counters) == len(events) // 2
    assert sum(item.click_views for item in counters) == 2 * len(pages)
    revenue = sum(item.revenue_micros for item in events if isinstance(item, ConversionEvent))
    assert sum(item.revenue_micros for item in counters) == revenue
    assert verify(service.store).mismatches == ()


def test_nothing_is_counted_twice_in_shuffled_duplicates_of_four_senders(
    service: Service,
) -> None:
    count_shuffled_duplicates(service, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("n_events", [100_000, 1_000_000])
def test_nothing_is_counted_twice_in_many_shuffled_duplicates(
    service: Service, n_events: int
) -> None:
    count_shuffled_duplicates(service, n_events)


def test_a_change_reaches_pages_although_the_pool_is_read_again_meanwhile(
    service: Service,
) -> None:
    publisher: Any = service.publisher
    settings, resume = pool(policy="uniform", policy_settings={}), Signal()
    publisher._publisher.submit(resume.wait)  # changes wait for their turn
    publisher.change(Pool.of(settings, [link("l1"), link("l2")]), T0)
    service.learner._load_again("home")  # as a replica does when another process has learned
    changed = publisher.change(Pool.of(settings, [link(f"l{k}") for k in range(1, 5)]), T0)
    resume.set()
    changed.result()
    published = dict(service.decider.stored_versions())["home"]
    assert len(published.link_ids) == 4
