"""Feedback of open views: how much has come by which age, and pages that use it at once."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from slotwise.service.alert_conditions import alerts_of
from slotwise.service.counting.attribution import (
    CLICKS,
    REVENUE,
    FoldPosition,
    StoredClick,
    StoredConversion,
    View,
)
from slotwise.service.counting.rates import LinkCounts
from slotwise.service.learning import early_feedback, version_pages
from slotwise.service.learning.early_feedback import AGES_S, EarlyFeedback, outcomes_by_age
from slotwise.service.pool import Pool
from slotwise.service.records import SECOND_US
from slotwise.service.reporting.counts_since_start import OutcomesSinceStart
from slotwise.service.reporting.overview import draw_pool
from slotwise.service.service import Service
from tests.service.conftest import OpenService
from tests.service.rows import MAX_REVENUE, T0, click, conversion, decision, link, pool, seconds

LINKS = ["l1", "l2"]
DAY_S = 86_400


def pool_of(**changes: Any) -> Pool:
    return Pool.of(pool(**changes), [link(one, place=k) for k, one in enumerate(LINKS)])


def view(
    number: int,
    at_s: float,
    clicks: dict[str, float],
    sales: dict[str, float],
    windows_s: tuple[int, int] = (1_800, DAY_S),
) -> View:
    """Return a view; clicks and sales come so many seconds after it."""
    name, closes = f"d{number:06}", [seconds(at_s) + one * SECOND_US for one in windows_s]
    shown = decision(
        name,
        issued_us=seconds(at_s),
        click_closes_us=closes[0],
        revenue_until_us=closes[1],
        revenue_closes_us=max(closes),
    )
    return View(
        shown,
        tuple(StoredClick(click(k, name), seconds(at_s + after)) for k, after in clicks.items()),
        tuple(
            StoredConversion(
                conversion(f"{name}-{k}", MAX_REVENUE // 4, decision_id=name, link_id=k),
                seconds(at_s + after),
            )
            for k, after in sales.items()
        ),
    )


class Rows:
    """The views of a store, as far as early feedback reads them."""

    def __init__(self, views: Iterable[View]) -> None:
        self._views = list(views)
        self._closes_us = [one.decision.click_closes_us for one in self._views]
        assert self._closes_us == sorted(self._closes_us)
        self.now_us = 0

    def read(self, after: FoldPosition, until_us: int, limit: int) -> list[View]:
        start = bisect_right(self._closes_us, after.closes_us)
        end = bisect_right(self._closes_us, until_us)
        return [self._as_of_now(one) for one in self._views[start:end][:limit]]

    def _as_of_now(self, one: View) -> View:
        clicks = tuple(item for item in one.clicks if item.received_us <= self.now_us)
        sales = tuple(item for item in one.conversions if item.received_us <= self.now_us)
        return View(one.decision, clicks, sales)


def watch(
    rows: Rows, until_s: int, *, every_s: int = 2, has_kinds: bool = False, **changes: Any
) -> EarlyFeedback:
    early, watched = EarlyFeedback(), pool_of(**changes)
    for at_s in range(0, until_s + 1, every_s):
        rows.now_us = seconds(at_s)
        early.refresh(rows.read, watched, (), seconds(at_s), has_kinds)
    return early


def visits(
    n_views: int,
    per_s: float,
    mean_s: dict[str, float],
    windows_s: tuple[int, int] = (1_800, DAY_S),
) -> list[View]:
    """Return views with clicks whose delays are exponential, in the mean as each link has it."""
    rng, views = np.random.default_rng(1), []
    for number in range(n_views):
        clicked = [one for one in LINKS if rng.random() < 0.3]
        came = {one: float(rng.exponential(mean_s[one])) for one in clicked}
        sales = {one: came[one] + float(rng.exponential(100.0)) for one in clicked[:1]}
        views.append(view(number, 0.5 + number / per_s, came, sales, windows_s))
    return views


@functools.cache
def usual_visits() -> list[View]:
    return visits(6_000, 20.0, {"l1": 10.0, "l2": 10.0})


@functools.cache
def after_usual_visits() -> EarlyFeedback:
    """Return what is known while all windows are open; tests only read it."""
    return watch(Rows(usual_visits()), 330)


def test_outcomes_are_those_that_had_come_by_each_age() -> None:
    one = view(1, 0.0, {"l1": 2.0, "l2": 100.0}, {"l1": 20.0})
    came = outcomes_by_age(one, 6)
    assert AGES_S[:6] == (1, 3, 9, 27, 81, 243)
    assert came["l1"].tolist() == [[0, 1, 1, 1, 1, 1], [0, 0, 0, 0.25, 0.25, 0.25]]
    assert came["l2"].tolist() == [[0, 0, 0, 0, 0, 1], [0] * 6]


def test_shares_are_estimated_before_any_window_closes() -> None:
    """6,000 views with 0.6 clicks: each ratio is off by 0.02 at most, 5 standard errors of it."""
    early = watch(Rows(usual_visits()), 600)
    ages = np.array(AGES_S)
    expected = 1.0 - np.exp(-ages / 10.0)
    np.testing.assert_allclose(early.shares(CLICKS)[:6], expected[:6], atol=0.08)
    assert (np.diff(early.shares(REVENUE)) >= 0).all()


def test_open_views_count_as_what_has_come_of_them() -> None:
    """About 3,600 clicks: rates are off by 0.04 at most, 5 standard errors."""
    counts = after_usual_visits().counts(LINKS, 0)
    rates = counts.sums[CLICKS] / counts.views[CLICKS]
    np.testing.assert_allclose(rates, [0.3, 0.3], atol=0.04)
    assert (counts.views[CLICKS] <= 6_000).all()
    assert (counts.views[CLICKS] > 4_000).all()
    assert (counts.views[REVENUE] < counts.views[CLICKS]).all()


def test_a_flood_of_different_visitors_takes_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Views of batches that are dropped count later; about 400 clicks, 0.12 is 5 deviations."""
    monkeypatch.setattr(early_feedback, "MAX_CELLS", 2_000)
    views = [
        replace(one, decision=replace(one.decision, visitor={"id": one.decision.decision_id}))
        for one in usual_visits()
    ]
    counts = watch(Rows(views), 330, has_kinds=True).counts(LINKS, 0)
    assert 0.0 < counts.views[CLICKS].sum() <= 2_000.0
    rates = counts.sums[CLICKS] / counts.views[CLICKS]
    np.testing.assert_allclose(rates, [0.3, 0.3], atol=0.12)


def test_a_link_with_delays_of_its_own_has_its_own_shares() -> None:
    """One link's clicks come 30 times as late: by the pool's shares it would look half as good."""
    early = watch(Rows(visits(8_000, 20.0, {"l1": 2.0, "l2": 60.0})), 1_200, every_s=3)
    quick, slow = early.shares(CLICKS, "l1"), early.shares(CLICKS, "l2")
    assert quick[2] > 0.9
    assert slow[2] < 0.35
    counts = early.counts(LINKS, 0)
    rates = counts.sums[CLICKS] / counts.views[CLICKS]
    np.testing.assert_allclose(rates, [0.3, 0.3], atol=0.06)


def test_bots_that_click_at_once_and_never_buy_bring_clicks_only() -> None:
    """A bot clicks the first link on every second page; about 3,600 clicks of people come, too."""

    def with_bot(number: int, one: View) -> View:
        issued_s = 0.5 + number / 20.0
        bot = StoredClick(click("l1", one.decision.decision_id), seconds(issued_s + 0.2))
        others = [item for item in one.clicks if item.event.link_id != "l1"]
        return View(one.decision, (bot, *others), one.conversions) if number % 2 else one

    visited = [with_bot(number, one) for number, one in enumerate(usual_visits())]
    before = after_usual_visits().counts(LINKS, 0)
    after = watch(Rows(visited), 330).counts(LINKS, 0)
    rates = after.sums[CLICKS] / after.views[CLICKS]
    np.testing.assert_allclose(rates, [0.65, 0.3], atol=0.06)
    earned = [one.sums[REVENUE] / one.views[REVENUE] for one in (before, after)]
    np.testing.assert_allclose(earned[1], earned[0], rtol=0.1)


def test_links_of_the_same_delays_share_them() -> None:
    early = after_usual_visits()
    assert early.shares(CLICKS, "l1").tolist() == early.shares(CLICKS).tolist()
    assert early.shares(CLICKS, "never seen").tolist() == early.shares(CLICKS).tolist()


def test_views_whose_windows_may_have_closed_do_not_count() -> None:
    """Whatever is settled is in the counters: counting it here, too, would count it twice."""
    rows = Rows(visits(4_000, 20.0, {"l1": 5.0, "l2": 5.0}, (100, 200)))
    early = watch(rows, 260, click_window_s=100, revenue_window_s=200)
    counts = early.counts(LINKS, seconds(260))  # views came until second 200
    assert counts.views[CLICKS].min() > 0.6 * 40 * 20
    assert counts.views[CLICKS].max() <= 40 * 20
    assert counts.views[REVENUE].max() <= 140 * 20
    assert early.counts(LINKS, seconds(460)).views.sum() == 0.0
    changed = watch(rows, 260, click_window_s=90, revenue_window_s=200)
    assert changed.counts(LINKS, seconds(260)).views.sum() == 0.0


def test_no_click_says_nothing_before_the_first_ones_came() -> None:
    early = watch(Rows([view(k, k / 10, {}, {}) for k in range(500)]), 60)
    assert early.counts(LINKS, 0).views.sum() == 0.0


def test_views_before_a_reset_do_not_count() -> None:
    rows = Rows(visits(2_000, 20.0, {"l1": 5.0, "l2": 5.0}))
    links = [link("l1", place=0, counted_from_us=seconds(50)), link("l2", place=1)]
    early, watched = EarlyFeedback(), Pool.of(pool(), links)
    for at_s in range(120):
        rows.now_us = seconds(at_s)
        early.refresh(rows.read, watched, (), seconds(at_s))
    views = early.counts(LINKS, 0).views[CLICKS]
    assert views[0] == pytest.approx(views[1] / 2, rel=0.05)


def test_after_a_start_open_views_are_read_again() -> None:
    known = after_usual_visits().counts(LINKS, 0)
    rows, started, watched = Rows(usual_visits()), EarlyFeedback(), pool_of()
    rows.now_us = seconds(330)
    for at_s in range(330, 350):
        started.refresh(rows.read, watched, (), seconds(at_s))
    again = started.counts(LINKS, 0)
    np.testing.assert_allclose(again.views[CLICKS], known.views[CLICKS], rtol=0.15)
    np.testing.assert_allclose(again.sums[CLICKS], known.sums[CLICKS], rtol=0.15)


def test_missing_sales_are_noticed_and_not_learned() -> None:
    views = visits(12_000, 20.0, {"l1": 5.0, "l2": 5.0}, (60, 120))
    early, watched = EarlyFeedback(), pool_of(click_window_s=60, revenue_window_s=120)
    rows = Rows(one if k < 6_000 else View(one.decision, one.clicks) for k, one in enumerate(views))
    was_missing = []
    for at_s in range(600):
        rows.now_us = seconds(at_s)
        early.refresh(rows.read, watched, (), seconds(at_s))
        closed = views[max(0, (at_s - 121) * 20) : max(0, (at_s - 120) * 20)]
        early.learn_settled(closed, REVENUE)
        was_missing.append(early.sales_are_missing)
    assert {type(one) for one in was_missing} == {bool}  # it is stored with the version
    assert not any(was_missing[:300])
    assert all(was_missing[400:])
    counts = early.counts(LINKS, seconds(598))
    assert counts.views[REVENUE].sum() == 0.0
    assert counts.views[CLICKS].sum() > 0.0


RATES = {f"l{k}": 0.05 + 0.1 * k for k in range(6)}


def visit(service: Service, n_views: int, start_s: float = 0.0, seed: int = 1) -> None:
    """Show pages, ten a second, to visitors who click within a second; learn every 4 seconds."""
    rng = np.random.default_rng(seed)
    for number in range(n_views):
        now_us = seconds(start_s + number / 10)
        page = service.decider.decide("home", now_us)
        clicked = [one.link_id for one in page.shown if rng.random() < RATES[one.link_id]]
        if clicked:
            events = [click(one, page.decision_id) for one in clicked]
            service.committer.submit_events(events, now_us + 1).result()
        if number % 40 == 39:
            service.learner.learn(now_us + 2)


def opened(service: Service, **changes: Any) -> Service:
    chosen = {"policy": "paced-bayes", "policy_settings": {}, "click_floor": 0.8, **changes}
    service.directory.put_pool(pool(**chosen), "test", T0).result()
    service.directory.put_links("home", [link(one) for one in RATES], "test", T0).result()
    return service


def expected_clicks(service: Service) -> float:
    shares = service.decider.installed("home").shares()
    return sum(share * RATES[one] for one, share in shares.items())


def test_pages_learn_while_all_windows_are_open(open_service: OpenService) -> None:
    """The best page has 1.0 clicks and a random one 0.6; nothing is stored as learned."""
    service = opened(open_service())
    visit(service, 600)
    assert expected_clicks(service) > 0.75
    report = service.reporter.stats("home")
    assert sum(row.click_views for row in report.groups) == 0
    assert service.decider.installed("home").stored.floor.status == "learning"
    learned = service.knowledge("home")
    assert learned is not None
    assert not any(learned.arrays["views"].ravel())
    service.close()
    again = open_service()
    for number in range(15):
        again.learner.learn(seconds(61 + number))
    assert expected_clicks(again) > 0.75


OF_PHONES = dict(zip(RATES, sorted(RATES.values(), reverse=True), strict=True))
"""Phones click on what others do not."""


def visit_by_device(service: Service, n_views: int, learn_every: int = 10) -> None:
    """Show pages to phones and desktops in turn, as `visit` does; learn after so many."""
    rng = np.random.default_rng(2)
    for number in range(n_views):
        now_us, is_phone = seconds(number / 10), number % 2 == 0
        said = {"device": "phone" if is_phone else "desktop"}
        page = service.decider.decide("home", now_us, visitor=said)
        rates = OF_PHONES if is_phone else RATES
        clicked = [one.link_id for one in page.shown if rng.random() < rates[one.link_id]]
        if clicked:
            events = [click(one, page.decision_id) for one in clicked]
            service.committer.submit_events(events, now_us + 1).result()
        if number % learn_every == learn_every - 1:
            service.learner.learn(now_us + 2)


def clicks_by_device(service: Service, at_s: float) -> list[float]:
    """Return the expected clicks of a page for a phone and for a desktop, over many draws."""
    found = []
    for said, rates in (("phone", OF_PHONES), ("desktop", RATES)):
        pages = [
            service.decider.propose("home", seconds(at_s), visitor={"device": said})
            for _ in range(50)
        ]
        shown = [rates[one.link_id] for page in pages for one in page.shown]
        found.append(sum(shown) / len(pages))
    return found


def test_pages_for_visitors_learn_while_all_windows_are_open(open_service: OpenService) -> None:
    """The best page of a kind has 1.0 clicks and a random one 0.6; nothing is stored as learned."""
    features = {"device": ["phone", "desktop"]}
    service = opened(open_service(), features=features, learn_slot_weights=True)
    visit_by_device(service, 500)
    assert min(clicks_by_device(service, 50.5)) > 0.7
    run = service.publisher.runs["home"]
    kinds = run.early.counts_by_kind(run.pool.active, run.closed_until_us)
    assert set(kinds) == {(("device", "phone"),), (("device", "desktop"),)}
    total = run.early.counts(run.pool.active, run.closed_until_us)
    np.testing.assert_allclose(sum(one.views for one in kinds.values()), total.views)
    learned = service.knowledge("home")
    assert learned is not None
    for name in ("views", "sums", "rounds", "owed", "value_views"):
        assert not learned.arrays[name].any(), name
    assert run._fed is not None
    assert not run._fed.player.counts.views.any()
    service.close()
    again = open_service()
    for number in range(15):
        again.learner.learn(seconds(51 + number))
    assert min(clicks_by_device(again, 67)) > 0.65


def test_of_too_many_kinds_of_visitors_those_with_most_views_are_learned(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_pages, "MAX_CELLS", 6)  # one kind of visitor at the level of clicks
    service = opened(open_service(), features={"device": ["phone", "desktop"]})
    visit_by_device(service, 150, learn_every=50)
    run = service.publisher.runs["home"]
    fed = run._fed
    assert fed is not None
    assert fed.ahead is not None
    kinds = run.early.counts_by_kind(run.pool.active, 0)
    kinds = {said: LinkCounts(counts.views.copy(), counts.sums) for said, counts in kinds.items()}
    for said, counts in kinds.items():
        counts.views[CLICKS] += 5.0 if said == (("device", "desktop"),) else 0.0
        counts.views[REVENUE] = 0.0
    fed.ahead._open_links[:] = 1_000.0
    learner = fed.ahead._with_early(kinds)
    expected = kinds[("device", "desktop"),].views[CLICKS]
    np.testing.assert_allclose(learner.form.knowledge(learner.state)["views"][CLICKS], expected)
    np.testing.assert_allclose(learner.open_views.views[CLICKS], 1_000.0 - expected)


def test_words_of_callers_fill_no_memory(
    open_service: OpenService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many kinds of visitors only those with most views have counts of their own."""
    service = opened(open_service(), features={"device": ["phone", "desktop"]})
    visit_by_device(service, 150, learn_every=50)
    run = service.publisher.runs["home"]
    all_kinds = run.early.counts_by_kind(run.pool.active, 0)
    total = run.early.counts(run.pool.active, 0).views
    monkeypatch.setattr(early_feedback, "MAX_KIND_COUNTS", len(run.pool.active))
    [(kind, counts)] = run.early.counts_by_kind(run.pool.active, 0).items()
    most = max(one.views.sum() for one in all_kinds.values())
    assert counts.views.sum() == pytest.approx(most)  # two kinds have equally many
    np.testing.assert_array_equal(counts.views, all_kinds[kind].views)
    np.testing.assert_array_equal(run.early.counts(run.pool.active, 0).views, total)


def test_windows_that_close_count_once(open_service: OpenService) -> None:
    service = opened(open_service(), click_window_s=20, revenue_window_s=40)
    visit(service, 600)
    run = service.publisher.runs["home"]
    shown = service.reporter.stats("home")
    settled = sum(row.click_views for row in shown.groups) * 2
    early = run.early.counts(run.pool.active, run.closed_until_us).views[CLICKS].sum()
    assert settled == pytest.approx(2 * 400, abs=20)
    assert early <= 2 * 600 - settled
    assert early > 0.5 * (2 * 600 - settled)


def test_an_outage_is_reported(open_service: OpenService) -> None:
    service = opened(open_service())
    visit(service, 60)
    service.publisher.runs["home"].early.sales_are_missing = True
    visit(service, 60, start_s=10.0)
    outcomes, health = OutcomesSinceStart(T0), service.health()
    overview = draw_pool(service.reporter, "home", seconds(30), outcomes, health).overview
    [alert] = alerts_of(overview)
    assert alert.kind == "feedback-stopped"
    assert "revenue is learned from closed windows only" in alert.detail
