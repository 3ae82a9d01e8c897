"""How well the service earns when feedback comes late: `python -m benchmarks.windows`.

A pool of the default policy is shown to simulated visitors, with windows of so many page views. For
each sixth of the views it prints the expected revenue against that of the best fixed mix, and the
expected clicks against the floor. Nothing is measured in seconds: the numbers are the same on every
machine.

Feedback comes at once and counts when its window closes. Three cases have feedback that comes
before that, by a simulated clock (`--case`), with and without learning from open views:

    shop    60 links; windows of 1,800 s and a day; 95 % of clicks come within a minute and half of
            the revenue within an hour. Prints the revenue of two days against that with immediate
            feedback. Many views a second take hours: `--thin 10 --full-hours 3` plays every tenth
            view after the first three hours.
    early   four pools; windows of 5,000 page views; 95 % of clicks and half of the revenue come
            within a fiftieth of the window. Prints the revenue against that with windows of 100
            page views, and the clicks of each thousand views against the floor.
    visitors
            the same in shops whose visitors are of six segments.
    until   20 fresh pools that end after so many views, at five views a second and windows of 100
            views. Prints the regret plus priced shortfall where the pool's `until` says so, against
            that where it does not.

`--links` gives some links delays of their own, `--bots` adds bots that click at once and never buy,
and `--outage` loses the sales of the third sixth of the views.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import itertools
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.leaderboard.cases import fresh_cases
from benchmarks.shops import halfway_floor, segment_shop
from slotwise import SegmentLinks
from slotwise.policies import default_policy
from slotwise.problem import Problem
from slotwise.selection.solve import solve
from slotwise.service.learning.early_feedback import EarlyFeedback
from slotwise.service.records import (
    DAY_US,
    SECOND_US,
    ClickEvent,
    ConversionEvent,
    Event,
    LinkRecord,
    PoolSettings,
)
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.simulation.optimum import find_optimum
from tests.stores.memory_store import MemoryStore

Floats = NDArray[np.float64]

START_US = 1_800_000_000 * SECOND_US
VIEWS_PER_S = 100
MAX_REVENUE = 1_000_000
POOL = "windows"


class Visitors(NamedTuple):
    """True rates of links: clicks, and revenue of a click as a share of the most there is.

    Where visitors differ, they have a row for each segment, and `shares` how many visitors it has.
    """

    clicks: Floats
    revenue_per_click: Floats
    n_slots: int
    click_floor: float
    shares: Floats | None = None

    def arrive(self, rng: np.random.Generator) -> tuple[Visitors, dict[str, str]]:
        """Return the rates of the next visitor, and what is said of it."""
        if self.shares is None:
            return self, {}
        number = int(rng.choice(len(self.shares), p=self.shares))
        rates = {"clicks": self.clicks[number], "revenue_per_click": self.revenue_per_click[number]}
        return self._replace(shares=None, **rates), {"kind": f"s{number}"}


class Sixth(NamedTuple):
    """What a sixth of the views brought."""

    revenue: float
    """Against the best fixed mix."""
    clicks: float
    """A page view."""


def make_visitors(n_links: int = 40, n_slots: int = 5, seed: int = 7) -> Visitors:
    """Return links of which the most clicked bring the least, so that the floor costs revenue."""
    rng = np.random.default_rng(seed)
    clicks = np.sort(rng.uniform(0.02, 0.2, n_links))
    revenue_per_click = np.sort(rng.uniform(0.05, 0.9, n_links))[::-1].copy()
    return Visitors(clicks, revenue_per_click, n_slots, click_floor=0.5)


def play(
    visitors: Visitors, window_views: int, n_views: int, policy: str, seed: int, n_unseen: int = 0
) -> list[Sixth]:
    """Show pages to visitors whose feedback settles `window_views` views later.

    For each page that is seen, `n_unseen` are proposed and never seen.
    """
    revenue, best = visitors.clicks * visitors.revenue_per_click, _best(visitors)
    earned, clicked = np.zeros(n_views), np.zeros(n_views)
    for number, shown in enumerate(_pages(visitors, window_views, n_views, policy, seed, n_unseen)):
        earned[number], clicked[number] = revenue[shown].sum(), visitors.clicks[shown].sum()
    parts = zip(np.array_split(earned, 6), np.array_split(clicked, 6), strict=True)
    return [Sixth(float(part.mean() / best), float(clicks.mean())) for part, clicks in parts]


def _pages(
    visitors: Visitors, window_views: int, n_views: int, policy: str, seed: int, n_unseen: int
) -> Iterator[list[int]]:
    service = Service(MemoryStore(), ServiceOptions(seed=seed, commit_by_hand=True))
    window_s = max(1, window_views // VIEWS_PER_S)
    _make_pool(service, visitors, window_s, window_s, policy)
    yield from _shown(
        service, visitors, VIEWS_PER_S, n_views, np.random.default_rng(seed), n_unseen
    )


def _shown(
    service: Service,
    visitors: Visitors,
    views_per_s: int,
    n_views: int,
    rng: np.random.Generator,
    n_unseen: int = 0,
) -> Iterator[list[int]]:
    """Yield the links of pages whose feedback comes at once; a version is made every 100 views."""
    for number in range(n_views):
        now_us = START_US + number * SECOND_US // views_per_s
        if number % 100 == 0:
            service.learner.learn(now_us)
        for _ in range(n_unseen):
            service.decider.propose(POOL, now_us)
        page = service.decider.propose(POOL, now_us)
        service.decider.record_view(page, now_us)
        shown = [int(link.link_id[1:]) for link in page.shown]
        service.committer.submit_events(
            _feedback(page.decision_id, shown, visitors, rng), now_us + 1
        )
        yield shown
    service.close()


def _make_pool(
    service: Service,
    visitors: Visitors,
    click_window_s: int,
    revenue_window_s: int,
    policy: str,
    until_us: int = 0,
) -> None:
    settings = PoolSettings(
        pool_id=POOL,
        slots=visitors.n_slots,
        click_floor=visitors.click_floor,
        max_revenue_micros=MAX_REVENUE,
        currency="EUR",
        click_window_s=click_window_s,
        revenue_window_s=revenue_window_s,
        policy=policy,
        until_us=until_us,
        features={"kind": [f"s{k}" for k in range(len(visitors.clicks))]}
        if visitors.shares is not None
        else {},
    )
    links = [
        LinkRecord(pool_id=POOL, link_id=f"l{k}", url="/") for k in range(visitors.clicks.shape[-1])
    ]
    pool_made = service.directory.put_pool(settings, "benchmark", START_US)
    service.committer.commit_waiting()
    pool_made.result()
    links_made = service.directory.put_links(POOL, links, "benchmark", START_US)
    service.committer.commit_waiting()
    links_made.result()


def _feedback(
    decision_id: str, shown: list[int], visitors: Visitors, rng: np.random.Generator
) -> list[Event]:
    events: list[Event] = []
    for place in shown:
        if rng.random() < visitors.clicks[place]:
            link_id = f"l{place}"
            events.append(ClickEvent(decision_id=decision_id, link_id=link_id))
            if rng.random() < visitors.revenue_per_click[place]:
                events.append(
                    ConversionEvent(
                        conversion_id=f"{decision_id}-{place}",
                        decision_id=decision_id,
                        link_id=link_id,
                        revenue_micros=MAX_REVENUE,
                        currency="EUR",
                    )
                )
    return events


class Delays(NamedTuple):
    """When feedback comes: a share of it soon, the rest evenly until its window closes."""

    quick_share: tuple[float, float]
    quick_s: tuple[float, float]
    """By level: clicks, then revenue. Quick feedback comes evenly up to this time."""
    window_s: tuple[int, int]
    slow_links: int = 0
    """Every so many links have no quick feedback."""
    bots: float = 0.0
    """Bots a page view: each clicks a tenth of the links, and buys nothing."""
    outage: tuple[float, float] = (1.0, 1.0)
    """Sales of this part of the views are lost."""

    def draw(self, level: int, link: int, rng: np.random.Generator) -> float:
        """Return after how many seconds an outcome comes."""
        is_slow = self.slow_links and link % self.slow_links == 0
        if rng.random() < self.quick_share[level] and not is_slow:
            return float(rng.uniform(0.0, self.quick_s[level]))
        return float(rng.uniform(self.quick_s[level], self.window_s[level]))


def make_pool(number: int) -> Visitors:
    """Return one of several pools; even numbers were used for tuning, odd ones for reporting."""
    rng = np.random.default_rng(100 + number)
    n_links, n_slots = ((40, 5), (120, 8), (200, 12), (60, 6))[number // 2 % 4]
    clicks = 0.6 * rng.beta(1.0, 5.0, n_links) + 0.005
    revenue_per_click = rng.beta(1.0, 1.5, n_links) * np.exp(-3.0 * clicks)
    best = np.sort(clicks)[::-1][:n_slots].sum()
    free = np.argsort(-clicks * revenue_per_click)[:n_slots]
    return Visitors(clicks, revenue_per_click, n_slots, float((best + clicks[free].sum()) / 2))


def make_shop(number: int) -> Visitors:
    """Return 60 links whose rates differ in six segments of visitors."""
    links, n_slots = segment_shop(60, 6, seed=number), 5
    click_rate, revenue_per_click = links.world(1).conditional.transpose(1, 0, 2)
    floor, shares = halfway_floor(links, n_slots), links.visitor_rates(1).shares
    return Visitors(click_rate, revenue_per_click, n_slots, floor, shares)


def play_delayed(
    visitors: Visitors, delays: Delays, times_s: Floats, every: int, seed: int
) -> tuple[Floats, Floats]:
    """Return the expected revenue and clicks of pages at some times.

    A version is made every so many views.
    """
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "windows.db")
        service = Service(store, ServiceOptions(seed=seed, commit_by_hand=True))
        _make_pool(service, visitors, *delays.window_s, default_policy().name)
        rng, coming = np.random.default_rng(seed), list[tuple[int, int, Event]]()
        n_views, number_of_event = len(times_s), 0
        earned, clicked = np.zeros(n_views), np.zeros(n_views)
        for number in range(n_views):
            now_us = START_US + round(times_s[number] * SECOND_US)
            due = []
            while coming and coming[0][0] <= now_us:
                due.append(heapq.heappop(coming)[2])
            if due:
                service.committer.submit_events(due, now_us)
            if number % every == 0:
                service.committer.commit_waiting()
                service.learner.learn(now_us)
            one, said = visitors.arrive(rng)
            page = service.decider.propose(POOL, now_us, visitor=said)
            service.decider.record_view(page, now_us)
            shown = [int(link.link_id[1:]) for link in page.shown]
            clicked[number] = one.clicks[shown].sum()
            earned[number] = (one.clicks * one.revenue_per_click)[shown].sum()
            is_lost = delays.outage[0] <= number / n_views < delays.outage[1]
            events = _feedback(page.decision_id, shown, one, rng)
            if rng.random() < delays.bots:
                events += [
                    ClickEvent(decision_id=page.decision_id, link_id=f"l{place}")
                    for place in shown
                    if rng.random() < 0.1
                ]
            clicked_at: dict[str, float] = {}
            for event in events:
                assert isinstance(event, ClickEvent | ConversionEvent)
                place = int(event.link_id[1:])
                if isinstance(event, ClickEvent):
                    after_s = clicked_at[event.link_id] = delays.draw(0, place, rng)
                elif is_lost:
                    continue
                else:
                    after_s = max(clicked_at[event.link_id], delays.draw(1, place, rng))
                number_of_event += 1
                at_us = now_us + 1 + round(after_s * SECOND_US)
                heapq.heappush(coming, (at_us, number_of_event, event))
        service.close()
    return earned, clicked


def immediate(window_s: int) -> Delays:
    """Return feedback that is there at once."""
    return Delays((1.0, 1.0), (0.0, 0.0), (window_s, window_s))


def early_case(
    delays: Delays, pools: list[int], n_views: int, seed: int, make: Callable[[int], Visitors]
) -> None:
    """Print the case of four pools and windows of 5,000 page views."""
    times_s = np.arange(n_views) / VIEWS_PER_S
    for number in pools:
        visitors = make(number)
        best = _best(visitors)
        soon, clicks = play_delayed(visitors, immediate(1), times_s, 100, seed)
        print(
            f"pool {number}, windows of 100: {soon.mean() / best:.3f} of the best; "
            f"{_thousands(clicks, visitors)}",
            flush=True,
        )
        for name, learning in with_and_without():
            with learning:
                late, clicks = play_delayed(visitors, delays, times_s, 100, seed)
            print(
                f"pool {number}, {name} open views: {late.mean() / best:.3f} of the best, "
                f"{late.mean() / soon.mean():.3f} of windows of 100; "
                f"{_thousands(clicks, visitors)}",
                flush=True,
            )


def _thousands(clicks: Floats, visitors: Visitors) -> str:
    """Return the clicks of thousands of views over the floor."""
    delivered = clicks[: len(clicks) // 1000 * 1000].reshape(-1, 1000).mean(axis=1)
    first = " ".join(f"{one / visitors.click_floor:.2f}" for one in delivered[:8])
    rest = delivered[1:].mean() / visitors.click_floor
    return f"clicks over floor {rest:.3f} from the second thousand on; by thousands {first}"


def shop_times(views_per_s: float, full_hours: float, thin: int) -> tuple[Floats, Floats]:
    """Return when a shop's pages of two days are seen, and how many views each one stands for.

    After the first hours only every `thin`-th view is played. What is learned from then on is
    learned more slowly than in the shop, with immediate feedback as well as without.
    """
    until_s = 2 * DAY_US / SECOND_US
    full_s = min(until_s, 3_600.0 * full_hours) if thin > 1 else until_s
    full = np.arange(0.0, full_s, 1.0 / views_per_s)
    thinned = np.arange(full_s, until_s, thin / views_per_s)
    stands_for = np.repeat([1.0, float(thin)], [len(full), len(thinned)])
    return np.concatenate([full, thinned]), stands_for


def shop_case(delays: Delays, times: tuple[Floats, Floats], every: int, seed: int) -> None:
    """Print the case of a shop in its first two days."""
    visitors, (times_s, stands_for) = make_pool(7), times
    best = _best(visitors)

    def by_span(earned: Floats) -> list[float]:
        ends = [0.0, 1.0, 6.0, 24.0, 48.0]
        spans = [(0.0, 48.0), *itertools.pairwise(ends)]
        inside = [(times_s >= 3_600 * a) & (times_s < 3_600 * b) for a, b in spans]
        return [float(np.average(earned[one], weights=stands_for[one])) for one in inside]

    soon = by_span(play_delayed(visitors, immediate(60), times_s, every, seed)[0])
    print(
        f"{len(times_s)} views played for {stands_for.sum():.0f}, a version every {every} views; "
        f"revenue of two days, then of hour 1, 2 to 6, 7 to 24 and of the second day\n"
        f"immediate, of the best: {_row(one / best for one in soon)}",
        flush=True,
    )
    for name, learning in with_and_without():
        with learning:
            late, clicks = play_delayed(visitors, delays, times_s, every, seed)
        ratios = (one / other for one, other in zip(by_span(late), soon, strict=True))
        print(
            f"{name} open views, of immediate: {_row(ratios)}; clicks "
            f"{by_span(clicks)[0]:.3f} of {visitors.click_floor:.3f}",
            flush=True,
        )


def _row(numbers: Iterable[float]) -> str:
    return " ".join(f"{one:.3f}" for one in numbers)


def until_case(n_pools: int, n_views: int, seed: int) -> None:
    """Print what pools lose that know their end, over what they lose without."""
    logs, views_per_s = [], 5
    for case in fresh_cases(n_pools, seed):
        pool = case.dataset
        rates = pool.click_rate, pool.revenue_per_click
        visitors = Visitors(*rates, pool.n_slots, pool.click_floor)
        program = solve(rates[0] * rates[1], rates[0], pool.n_slots, pool.click_floor)
        price = program.shadow_price if math.isfinite(program.shadow_price) else 1.0
        lost = []
        for until_us in (0, START_US + n_views * SECOND_US // views_per_s):
            service = Service(MemoryStore(), ServiceOptions(seed=seed, commit_by_hand=True))
            windows_s = (100 // views_per_s, 100 // views_per_s)
            _make_pool(service, visitors, *windows_s, default_policy().name, until_us)
            rng, revenue, clicks = np.random.default_rng(seed), 0.0, 0.0
            for shown in _shown(service, visitors, views_per_s, n_views, rng):
                revenue += (rates[0] * rates[1])[shown].sum()
                clicks += rates[0][shown].sum()
            missing = max(0.0, pool.click_floor * n_views - clicks)
            lost.append(program.value * n_views - revenue + price * missing)
        logs.append(math.log(lost[1] / lost[0]))
        print(f"{case.name}: {lost[0]:,.1f}, with until {lost[1]:,.1f}", flush=True)
    error = 2.0 * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
    print(f"geometric mean of the ratios {math.exp(np.mean(logs)):.3f} ± {error:.3f}", flush=True)


def _best(visitors: Visitors) -> float:
    """Return the revenue of the best mix; where visitors differ, of the best that knows them."""
    if visitors.shares is not None:
        links = SegmentLinks(visitors.clicks, visitors.revenue_per_click, visitors.shares)
        n_links = visitors.clicks.shape[1]
        problem = Problem(n_links, visitors.n_slots, visitors.click_floor, features=links.features)
        return float(find_optimum(links, problem, 1).value)
    revenue = visitors.clicks * visitors.revenue_per_click
    return float(solve(revenue, visitors.clicks, visitors.n_slots, visitors.click_floor).value)


@contextlib.contextmanager
def learn_when_settled() -> Iterator[None]:
    """Let views count only when their windows close."""
    refresh = EarlyFeedback.refresh
    EarlyFeedback.refresh = lambda *_, **__: False  # type: ignore[method-assign]
    try:
        yield
    finally:
        EarlyFeedback.refresh = refresh  # type: ignore[method-assign]


def with_and_without() -> list[tuple[str, contextlib.AbstractContextManager[None]]]:
    """Return how the service learns from open views, and how it does not."""
    return [("with", contextlib.nullcontext()), ("without", learn_when_settled())]


def main() -> None:
    """Print a row for each window."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, nargs="+", default=[100, 1_000, 10_000])
    parser.add_argument("--views", type=int, default=60_000)
    parser.add_argument("--policy", default=default_policy().name)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unseen", type=int, default=0, help="pages not seen, for each seen one")
    parser.add_argument("--case", choices=["shop", "early", "visitors", "until"])
    parser.add_argument("--pools", type=int, nargs="+", default=[1, 3, 5, 7])
    parser.add_argument("--rate", type=float, default=1.0, help="page views a second of the shop")
    parser.add_argument("--links", type=int, default=0, help="every so many links are slow")
    parser.add_argument("--bots", type=float, default=0.0, help="bots a page view")
    parser.add_argument("--outage", action="store_true")
    parser.add_argument("--thin", type=int, default=1, help="play every so many views later on")
    parser.add_argument("--full-hours", type=float, default=3.0, help="hours that are not thinned")
    parser.add_argument("--every", type=int, default=100, help="views from version to version")
    asked = parser.parse_args()
    odd = (asked.links, asked.bots, (1 / 3, 1 / 2) if asked.outage else (1.0, 1.0))
    if asked.case in ("early", "visitors"):
        make = make_pool if asked.case == "early" else make_shop
        delays = Delays((0.95, 0.5), (1.0, 1.0), (50, 50), *odd)
        early_case(delays, asked.pools, asked.views, asked.seed, make)
        return
    if asked.case == "until":
        until_case(20, asked.views, asked.seed)
        return
    if asked.case == "shop":
        shop = Delays((0.95, 0.5), (60.0, 3_600.0), (1_800, 86_400), *odd)
        times = shop_times(asked.rate, asked.full_hours, asked.thin)
        shop_case(shop, times, asked.every, asked.seed)
        return
    visitors = make_visitors()
    print(
        f"{asked.policy}, {asked.views} views, floor {visitors.click_floor}: revenue/best (clicks)"
    )
    for window in asked.windows:
        sixths = play(visitors, window, asked.views, asked.policy, asked.seed, asked.unseen)
        row = "  ".join(f"{sixth.revenue:.3f} ({sixth.clicks:.3f})" for sixth in sixths)
        print(f"{window:>7}  {row}", flush=True)


if __name__ == "__main__":
    main()
