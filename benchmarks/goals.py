"""Goals and budgets of rules over a service with a simulated clock.

    python -m benchmarks.goals [SEED] [--traffic KIND]   # a service, four days
    python -m benchmarks.goals --campaigns 250 [SEED]    # its pacing alone, 1,000 days
    python -m benchmarks.goals --engine 5 [SEED]         # the engine, 20 days of each kind

Page views are learned every ten minutes. Traffic is constant, doubles or halves after a day, or
follows hours of the day and days of the week. A goal of views, a goal of clicks and two budgets,
one of them hard, end after four days. Clicks come 20 minutes late.

The second form plays the service's own forecast and pacing (`pace_rule`) with binomial views and
clicks, without a store: it shows how much of a miss is luck. The row "luck" is the standard
deviation of the clicks that views of the last half hour bring, over the clicks asked for: nobody
can correct for these. The third form plays whole pages with the engine (`simulate_goals`), whose
clicks come 278 page views late.
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.paced_goals import GoalRule, simulate_goals
from slotwise.environments import BernoulliLinks, LateFeedback
from slotwise.player.pacing import Traffic
from slotwise.policies import make_policy
from slotwise.service.learning.rule_goals import pace_rule
from slotwise.service.pool_version import RuleCount
from slotwise.service.records import (
    SECOND_US,
    ClickBudget,
    ClickEvent,
    ClicksUntil,
    ConversionEvent,
    LinkRecord,
    PoolRule,
    PoolSettings,
    ViewsUntil,
)
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore

T0 = 1_700_000_000 * SECOND_US // (86_400 * SECOND_US) * 86_400 * SECOND_US
DAY_S = 86_400
RATES = {"a": 0.10, "b": 0.06, "c": 0.05, "d": 0.12, "e": 0.08, "f": 0.09, "g": 0.11, "h": 0.07}
REVENUE = {"a": 9, "b": 2, "c": 3, "d": 8, "e": 9, "f": 5, "g": 6, "h": 7}
"""Clicks per view, and what a click is worth; goals are on links that earn less than others."""

POOL = PoolSettings(
    pool_id="home",
    slots=3,
    click_floor=0.0,
    max_revenue_micros=10_000_000,
    currency="EUR",
    click_window_s=1800,
    revenue_window_s=1800,
    policy="cucb",
)
TRAFFIC: dict[str, Callable[[float], float]] = {
    "constant": lambda day: 1.0,
    "doubles": lambda day: 2.0 if day >= 1 else 1.0,
    "halves": lambda day: 0.5 if day >= 1 else 1.0,
    "weekly": lambda day: (
        (1.0 + 0.8 * math.sin(2 * math.pi * day)) * (0.6 if day % 7 >= 3 else 1.2)
    ),
}


class Delivered(NamedTuple):
    """What was delivered by the date, over what was asked for."""

    views: float
    clicks: float
    budget: float
    hard: float
    first_hour: float
    """The largest share of a goal or a budget that went in the first hour."""


def _rules(n_pages: float, until_us: int) -> tuple[PoolRule, ...]:
    """Return a goal of views, one of clicks, a budget and a hard budget, for so many pages."""
    views, clicks = round(0.3 * n_pages), round(0.3 * n_pages * RATES["b"])
    soft, hard = round(0.2 * n_pages * RATES["d"]), round(0.15 * n_pages * RATES["e"])
    return (
        PoolRule(
            name="views", links=("c",), views_until=ViewsUntil(views=views, until_us=until_us)
        ),
        PoolRule(
            name="clicks", links=("b",), clicks_until=ClicksUntil(clicks=clicks, until_us=until_us)
        ),
        PoolRule(name="soft", links=("d",), budget=ClickBudget(clicks=soft, until_us=until_us)),
        PoolRule(
            name="hard", links=("e",), budget=ClickBudget(clicks=hard, until_us=until_us, hard=True)
        ),
    )


def _asked(rules: tuple[PoolRule, ...]) -> list[int]:
    """Return what each rule asks for or allows."""
    goals = [one.views_until or one.clicks_until or one.budget for one in rules]
    return [one.views if isinstance(one, ViewsUntil) else one.clicks for one in goals if one]


def live(
    folder: Path,
    traffic: Callable[[float], float],
    per_day: int,
    days: int = 5,
    step_s: int = 600,
    seed: int = 1,
) -> Delivered:
    """Let a service live for some days; goals end a day before."""
    until_s = (days - 1) * DAY_S
    pages = per_day * sum(traffic(k / 24) / 24 for k in range(24 * (days - 1)))
    until_us = T0 + until_s * SECOND_US
    rules = _rules(pages, until_us)
    views, clicks, soft, hard = _asked(rules)
    service = _service(folder, rules, seed)
    chance = random.Random(seed)
    counted = dict.fromkeys(("views", "clicks", "soft", "hard"), 0)
    of_link = {"b": "clicks", "d": "soft", "e": "hard"}
    first_hour = 0.0
    waiting: deque[tuple[int, ClickEvent]] = deque()

    def report_until(now_us: int) -> None:
        """Report clicks and sales in the order of time."""
        while waiting and waiting[0][0] <= now_us:
            came_us, click = waiting.popleft()
            one = (click.decision_id, click.link_id)
            worth = REVENUE[click.link_id] * 1_000_000
            sale = ConversionEvent(f"{one[0]}-{one[1]}", *one, worth, "EUR")
            service.committer.submit_events([click, sale], came_us).result()
            if click.link_id in of_link:
                counted[of_link[click.link_id]] += 1

    for start_s in range(0, until_s, step_s):
        here = traffic(start_s / DAY_S) * per_day * step_s / DAY_S
        n_pages = int(here) + (chance.random() < here % 1)
        for k in range(n_pages):
            now_us = T0 + round((start_s + step_s * (k + 0.5) / n_pages) * SECOND_US)
            report_until(now_us)
            page = service.decider.decide("home", now_us)
            for one in page.shown:
                counted["views"] += one.link_id == "c"
                if chance.random() < RATES[one.link_id]:
                    click = ClickEvent(page.decision_id, one.link_id)
                    waiting.append((now_us + 1200 * SECOND_US, click))
        end_us = T0 + (start_s + step_s) * SECOND_US
        report_until(end_us)
        service.flush().result()
        service.learner.learn(end_us)
        if start_s + step_s == 3600:
            spent = (counted["views"] / views, counted["clicks"] / clicks, counted["soft"] / soft)
            first_hour = max(*spent, counted["hard"] / hard)
    service.close()
    return Delivered(
        counted["views"] / views,
        counted["clicks"] / clicks,
        counted["soft"] / soft,
        counted["hard"] / hard,
        first_hour,
    )


STEP_S, LATE_STEPS, OPEN_STEPS = 600, 2, 3
"""A step is learned at once; clicks come two steps late, and windows close after three."""


def play(traffic: Callable[[float], float], per_day: int, days: int, seed: int) -> Delivered:
    """Play the pacing alone: each rule has a link with the slots that it needs or may have."""
    chance = np.random.default_rng(seed)
    until_us = T0 + days * DAY_S * SECOND_US
    steps = np.arange(days * DAY_S // STEP_S)
    expected = np.array([traffic(k * STEP_S / DAY_S) * per_day * STEP_S / DAY_S for k in steps])
    rules = _rules(float(expected.sum()), until_us)
    asked = _asked(rules)
    pages = chance.poisson(expected)
    forecast, first_hour = Traffic(), 0.0
    views, clicks = np.zeros((2, len(rules), len(steps)), np.int64)
    for k in steps.tolist():
        now_us = T0 + k * STEP_S * SECOND_US
        closed, came = max(0, k - OPEN_STEPS), max(0, k - LATE_STEPS)
        for place, rule in enumerate(rules):
            n_closed, n_clicks = int(views[place, :closed].sum()), int(clicks[place, :closed].sum())
            count = RuleCount(
                rule.name,
                T0,
                int(pages[:k].sum()),
                int(views[place, :k].sum()),
                n_clicks,
                now_us,
                int(views[place, closed:k].sum()),
                int(clicks[place, closed:came].sum()),
            )
            rate = (n_clicks + 1.0) / (n_closed + 12.0)
            paced = pace_rule(rule, count, forecast, rate, POOL, now_us)
            share = min(1.0, paced.at_most if rule.budget else paced.at_least)
            shown = int(chance.binomial(pages[k], share))
            if paced.quota >= 0:
                shown = min(shown, paced.quota)
            views[place, k] = shown
            clicks[place, k] = chance.binomial(shown, RATES[rule.links[0]])
        forecast.add(int(pages[k]), now_us, now_us + STEP_S * SECOND_US)
        if (k + 1) * STEP_S == 3600:
            early = (views[0].sum(), *clicks[1:].sum(axis=1))
            first_hour = max(n / of for n, of in zip(early, asked, strict=True))
    done = (views[0].sum(), *clicks[1:, : len(steps) - LATE_STEPS].sum(axis=1))
    shares = (n / of for n, of in zip(done, asked, strict=True))
    return Delivered._make([*shares, first_hour])


def print_campaigns(n_campaigns: int, seed: int) -> None:
    """Print the mean and the worst of many campaigns for each kind of traffic."""
    print("traffic              views    clicks   budget   hard     first hour")
    for name, traffic in TRAFFIC.items():
        found = np.array([play(traffic, 20_000, 4, seed + k) for k in range(n_campaigns)])
        steps = [traffic(k / 144) * 20_000 / 144 for k in range(4 * 144)]
        luck = math.sqrt(0.3 * RATES["b"] * sum(steps[-3:])) / (0.3 * RATES["b"] * sum(steps))
        rows = [("mean", found.mean(axis=0)), ("least", found.min(axis=0))]
        for label, row in (*rows, ("largest", found.max(axis=0))):
            print(f"{name:10} {label:8} " + " ".join(f"{one:8.4f}" for one in row), flush=True)
        missed = float((found[:, 1] < 0.99).mean())
        print(f"{name:10} luck     clicks {luck:.4f}; below 0.99 of the clicks: {missed:.3f}")


def play_engine(traffic: Callable[[float], float], policy: str, seed: int) -> list[float]:
    """Return views, clicks and the clicks of a budget over those asked for, after four days."""
    expected = [traffic(k / 144) * 20_000 / 144 for k in range(4 * 144)]
    views, clicks, soft, _ = _asked(_rules(sum(expected), 0))
    links = BernoulliLinks(list(RATES.values()), [one / 10 for one in REVENUE.values()])
    place = {link: number for number, link in enumerate(RATES)}
    goals = [
        GoalRule("views", [place["c"]], views=views),
        GoalRule("clicks", [place["b"]], clicks=clicks),
        GoalRule("soft", [place["d"]], budget=soft),
    ]
    pages = np.random.default_rng(seed).poisson(expected).tolist()
    late = LateFeedback(links, 278, 278)
    found = simulate_goals(late, goals, 3, pages, policy=make_policy(policy), seed=seed)
    done = found.views["views"] / views, found.clicks["clicks"] / clicks
    return [*done, found.clicks["soft"] / soft]


def print_engine(n_runs: int, seed: int) -> None:
    """Print the least and the largest of some runs of the engine."""
    print("policy       traffic              views    clicks   budget")
    for policy in ("paced-bayes", "con-ucb", "cucb"):
        for name, traffic in TRAFFIC.items():
            found = np.array([play_engine(traffic, policy, seed + k) for k in range(n_runs)])
            for label, row in (("least", found.min(axis=0)), ("largest", found.max(axis=0))):
                numbers = " ".join(f"{one:8.4f}" for one in row)
                print(f"{policy:12} {name:10} {label:8} {numbers}", flush=True)


def _service(folder: Path, rules: tuple[PoolRule, ...], seed: int) -> Service:
    options = ServiceOptions(seed=seed, commit_every_ms=0.0)
    service = Service(SqliteStore(folder / "store.db"), options)
    service.directory.put_pool(POOL, "benchmark", T0).result()
    links = [LinkRecord("home", name, f"https://shop.example/{name}") for name in RATES]
    service.directory.put_links("home", links, "benchmark", T0).result()
    service.directory.put_rules("home", rules, "benchmark", T0).result()
    return service


def main() -> None:
    """Print a row for each kind of traffic."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("--campaigns", type=int, default=0)
    parser.add_argument("--traffic", nargs="+", choices=list(TRAFFIC), default=list(TRAFFIC))
    parser.add_argument("--engine", type=int, default=0)
    asked = parser.parse_args()
    seed = asked.seed
    if asked.campaigns:
        print_campaigns(asked.campaigns, seed)
        return
    if asked.engine:
        print_engine(asked.engine, seed)
        return
    print("traffic    views    clicks   budget   hard     first hour")
    for name in asked.traffic:
        with tempfile.TemporaryDirectory() as folder:
            found = live(Path(folder), TRAFFIC[name], per_day=20_000, seed=seed)
        print(f"{name:10} " + " ".join(f"{number:8.4f}" for number in found), flush=True)


if __name__ == "__main__":
    main()
