"""The default in combinations: `python -m benchmarks.combinations [--only TEXT] [--seeds 1 2]`.

Each row combines sizes of sales, features, slots, floors, the time at which feedback comes, and
rules. Some rows are combinations that were once wrong; the others are chosen so that any two
settings meet in at least one row. A seed draws a fresh shop (`benchmarks.basket_shops`); the
policy plays it through `Selector`, as a program would. Printed for each row, as means over seeds
unless it says otherwise:

    share       expected revenue of the pages shown in the second half, over that of the best mix
    worst       the lowest share of a seed
    floor       expected outcome over the floor in the second half; with several floors the least
    delivered   what all pages brought over the floor, luck included; the lowest of the seeds
    µs          processor time of `select` and `update` per page view, in the second half

Expected is what the pages bring at the true rates: luck of clicks and sales is left out. `--only`
plays the rows whose name contains a text. `--json` writes all numbers.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.basket_shops import (
    FEATURES,
    N_SLOTS,
    SIZES,
    Demand,
    PageProgram,
    Shop,
    halfway,
    make_shop,
    some_rules,
)
from slotwise import Decision, Selector

SLOTS = ("slots equal", "slots learned", "slots known")
FLOORS = ("no floor", "click floor", "segment floors", "floors of two levels")
RULES = ("no rules", "rules")

CLICK, BASKET = 0, 1
JOINS_AFTER = 0.1
"""Share of the pages after which the dear link joins."""


@dataclass(frozen=True)
class Feedback:
    """When feedback comes: so many pages later, and in one call or click by click."""

    delay: int = 0
    is_click_by_click: bool = False


FEEDBACK = {
    "at once": Feedback(),
    "200 late": Feedback(200),
    "1,000 late": Feedback(1_000),
    "5,000 late": Feedback(5_000),
    "click by click": Feedback(is_click_by_click=True),
}

SETTINGS: dict[str, Sequence[str]] = {
    "sizes": tuple(SIZES),
    "features": tuple(FEATURES),
    "slots": SLOTS,
    "floors": FLOORS,
    "feedback": tuple(FEEDBACK),
    "rules": RULES,
}


@dataclass(frozen=True)
class Combination:
    """One row of the table: a setting of each kind."""

    sizes: str = "equal sales"
    features: str = "no features"
    slots: str = "slots equal"
    floors: str = "no floor"
    feedback: str = "at once"
    rules: str = "no rules"

    @property
    def name(self) -> str:
        """The settings that are not the simplest, which is equal sales without anything."""
        plain = Combination()
        own = [
            getattr(self, kind) for kind in SETTINGS if getattr(self, kind) != getattr(plain, kind)
        ]
        return "; ".join(own) or "equal sales"

    @property
    def is_possible(self) -> bool:
        """Whether there are segments where segments have floors."""
        return self.floors != "segment floors" or self.features != "no features"


ONCE_WRONG = (
    Combination(),
    Combination(floors="click floor"),
    Combination("a dear link joins"),
    Combination("a dear link joins", slots="slots learned"),
    Combination("a dear link joins", "one feature"),
    Combination("pay per click"),
    Combination("pay per click", "one feature"),
    Combination("equal sales, limit 50 times higher", slots="slots learned"),
    Combination("equal sales, limit 50 times higher", slots="slots known"),
    Combination("equal sales, limit 50 times higher", slots="slots learned", floors="click floor"),
    Combination(floors="click floor", feedback="click by click"),
    Combination("pay per click", floors="click floor", feedback="click by click"),
    Combination(features="one feature", floors="segment floors", feedback="click by click"),
    Combination(features="one feature", floors="segment floors", feedback="200 late"),
    Combination(features="one feature", floors="segment floors", feedback="1,000 late"),
    Combination(features="one feature", floors="segment floors", feedback="5,000 late"),
    Combination(features="one feature", floors="click floor", feedback="5,000 late"),
    Combination("lognormal sales (sd 1.2)", slots="slots learned", floors="click floor"),
    Combination(floors="floors of two levels", rules="rules"),
)
"""The simplest shops, and combinations in which the default was once far from the best."""


def all_combinations() -> list[Combination]:
    """Return those that were once wrong, and further ones until any two settings have met.

    Greedy: the next combination is the one with the most pairs of settings that have not met.

    >>> len(all_combinations()) >= 40
    True
    """
    chosen = list(ONCE_WRONG)
    possible = [
        one
        for one in itertools.starmap(Combination, itertools.product(*SETTINGS.values()))
        if one.is_possible
    ]
    pairs = {one: _pairs(one) for one in possible}
    missing = set().union(*pairs.values()).difference(*map(_pairs, chosen))
    while missing:
        best = max(possible, key=lambda one: len(pairs[one] & missing))
        chosen.append(best)
        missing -= pairs[best]
    return chosen


def _pairs(one: Combination) -> set[tuple[tuple[str, str], ...]]:
    settings = [(kind, getattr(one, kind)) for kind in SETTINGS]
    return set(itertools.combinations(settings, 2))


@dataclass(frozen=True)
class Task:
    """A shop, what is asked of its pages, and the best expected revenue of a page.

    `best` has it before and after a link joins.
    """

    shop: Shop
    demands: tuple[Demand, ...]
    options: Mapping[str, Any]
    best: tuple[float, float]


def make_task(one: Combination, seed: int) -> Task:
    """Draw the shop of a combination, and find its floors and its best mix."""
    has_baskets = one.floors == "floors of two levels"
    slots_differ = one.slots != "slots equal"
    shop = make_shop(SIZES[one.sizes], FEATURES[one.features], slots_differ, has_baskets, seed)
    rules = some_rules(shop) if one.rules == "rules" else ()
    programs = [PageProgram(shop, n, rules) for n in (shop.n_links_at_first, shop.n_links)]
    demands, asked = _floors(one.floors, shop, programs[0])
    values = [
        program.brings(program.best(demands), -1, program.everybody()) for program in programs
    ]
    weights: dict[str, Any] = {
        "slots equal": "equal",
        "slots learned": "learn",
        "slots known": shop.slot_effects.tolist(),
    }
    features = shop.features
    if one.features == "two open lists of words":
        features = dict.fromkeys(features, str)
    options = {
        "slot_weights": weights[one.slots],
        "features": features,
        "rules": rules,
        "max_revenue": shop.max_revenue,
        **asked,
    }
    return Task(shop, demands, options, (values[0], values[1]))


def _floors(
    kind: str, shop: Shop, program: PageProgram
) -> tuple[tuple[Demand, ...], dict[str, Any]]:
    """Return floors halfway to the most that is possible, and the options that ask for them."""
    if kind == "no floor":
        return (), {}
    if kind == "segment floors":
        name = next(iter(shop.features))
        members = {
            value: np.array([visitor[name] == value for visitor in shop.visitors])
            for value in shop.features[name]
        }
        largest = sorted(members, key=lambda value: -shop.shares[members[value]].sum())[:2]
        demands = tuple(halfway(program, CLICK, members[value]) for value in largest)
        floors = {value: one.least for value, one in zip(largest, demands, strict=True)}
        return demands, {"segment_floors": {name: floors}}
    clicks = halfway(program, CLICK, program.everybody())
    if kind == "click floor":
        return (clicks,), {"click_floor": clicks.least}
    baskets = halfway(program, BASKET, program.everybody(), (clicks,))
    floors = {"click": clicks.least, "basket": baskets.least}
    return (clicks, baskets), {"levels": ("click", "basket", "sale"), "floors": floors}


Outcome = list[list[int]]
"""The links of a page that reached each level before the last."""


class Visits:
    """The visitors of a shop: who comes, and what they click on and buy."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop = shop
        self.rng = random.Random(seed)
        self.reached = np.cumsum(shop.shares)[:-1].tolist()
        self.rates = shop.rates.tolist()
        self.effects = shop.slot_effects.tolist()
        self.amounts = shop.amounts.tolist()

    def arrive(self) -> int:
        """Return the kind of the next visitor."""
        draw = self.rng.random()
        return sum(draw >= share for share in self.reached)

    def look_at(self, shown: Sequence[int], kind: int) -> tuple[Outcome, dict[int, float]]:
        """Return the links that reached each level, and what each sale brought."""
        rng, rates = self.rng.random, self.rates
        left = [
            link
            for link, effect in zip(shown, self.effects, strict=True)
            if rng() < effect * rates[0][kind][link]
        ]
        outcome = [left]
        for level in rates[1:]:
            left = [link for link in left if rng() < level[kind][link]]
            outcome.append(left)
        bought = outcome.pop()
        spread = self.shop.sizes.spread
        return outcome, {
            link: self.amounts[link] * (1.0 + spread * (2.0 * rng() - 1.0)) for link in bought
        }


def report_feedback(
    selector: Selector[int],
    page: Decision[int],
    came: tuple[Outcome, dict[int, float]],
    is_click_by_click: bool,
) -> None:
    """Record what a page brought, in one call or one call for each click."""
    outcome, money = came
    names = ("clicks", "revenue") if len(outcome) == 1 else ("click", "basket", "sale")
    if not is_click_by_click:
        selector.update(page, **dict(zip(names, [*outcome, money], strict=True)))  # type: ignore[arg-type]
        return
    for name, links in zip(names, outcome, strict=False):
        for one in [[link] for link in links] or [[]]:
            selector.update(page, **{name: one})  # type: ignore[arg-type]
    selector.update(page, **{names[-1]: money})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Played:
    """The numbers of one row and one seed."""

    seed: int
    share: float
    floor: float | None
    delivered: float | None
    microseconds: float


def play(one: Combination, seed: int, n_pages: int, policy: str | None) -> Played:
    """Play a fresh shop and compare what the pages bring with the best mix."""
    task = make_task(one, seed)
    shop, feedback = task.shop, FEEDBACK[one.feedback]
    links = range(shop.n_links_at_first)
    horizon = None if policy is None else n_pages  # the default needs none
    selector = Selector(
        links, N_SLOTS, policy=policy, seed=seed, horizon=horizon, **dict(task.options)
    )
    visits, waiting = Visits(shop, seed + 1_000), deque[Any]()
    worth, effects = shop.outcomes(), shop.slot_effects
    kinds, pages = np.zeros(n_pages, int), np.zeros((n_pages, N_SLOTS), int)
    came = np.zeros((len(shop.rates) - 1, n_pages))
    joins_at, half, spent = int(JOINS_AFTER * n_pages), n_pages // 2, 0.0
    for t in range(n_pages):
        if t == joins_at and shop.sizes.dear_link_joins:
            selector.add_links([shop.n_links - 1])
        kind = visits.arrive()
        visitor = shop.visitors[kind] or None
        began = time.process_time()
        page = selector.select(visitor=visitor)
        chosen = time.process_time()
        outcome = visits.look_at(page.shown, kind)
        waiting.append((page, outcome))
        kinds[t], pages[t] = kind, page.shown
        came[:, t] = [len(links) for links in outcome[0]]
        updates = time.process_time()
        if len(waiting) > feedback.delay:
            page, outcome = waiting.popleft()
            report_feedback(selector, page, outcome, feedback.is_click_by_click)
        if t >= half:
            spent += time.process_time() - updates + chosen - began
    expected = (worth[:, kinds[:, None], pages] * effects).sum(axis=2)
    best = np.where(np.arange(n_pages) < joins_at, *task.best)
    in_half = np.arange(n_pages) >= half
    floors, delivered = [], []
    for level, members, least in task.demands:
        of = members[kinds]
        floors.append(float(expected[level, of & in_half].mean() / least))
        delivered.append(float(came[level, of].mean() / least))
    return Played(
        seed=seed,
        share=float(expected[-1, in_half].sum() / best[in_half].sum()),
        floor=min(floors, default=None),
        delivered=min(delivered, default=None),
        microseconds=1e6 * spent / (n_pages - half),
    )


def line_of(number: int, one: Combination, played: Sequence[Played]) -> str:
    """Return the line of a row: means over the seeds, and the worst of them."""
    shares = [each.share for each in played]
    floors = [each.floor for each in played if each.floor is not None]
    delivered = [each.delivered for each in played if each.delivered is not None]
    of_floors = f"{np.mean(floors):.3f} | {min(delivered):.3f}" if floors else " | "
    spent = np.mean([each.microseconds for each in played])
    shown = f"{np.mean(shares):.3f} | {min(shares):.3f} | {of_floors} | {spent:.0f}"
    return f"| {number} | {one.name} | {shown} |"


def summary(rows: Mapping[Combination, Sequence[Played]]) -> list[str]:
    """Return sentences about all rows."""
    shares = {one: float(np.mean([each.share for each in rows[one]])) for one in rows}
    low = sorted((one for one in rows if shares[one] < 0.9), key=shares.__getitem__)
    every = [each for played in rows.values() for each in played]
    delivered = [each.delivered for each in every if each.delivered is not None]
    missed = sum(floor < 0.99 for floor in delivered)
    far = sum(each.floor is not None and each.floor > 1.05 for each in every)
    spent = np.exp(np.mean(np.log([max(each.microseconds, 1e-3) for each in every])))
    mean, least = np.mean(list(shares.values())), min(shares.values())
    of_shares = f"share of the optimum {mean:.3f} on average, {least:.3f} at worst"
    excess = f"exceeded by more than 5 % in the second half: {far}"
    return [
        f"{len(rows)} combinations, {len(every)} runs: {of_shares}",
        f"below 0.90: {len(low)} combinations",
        *(f"  {shares[one]:.3f}  {one.name}" for one in low),
        f"floors missed by more than 1 %: {missed} of {len(delivered)} runs; {excess}",
        f"processor time per page view: {spent:.0f} µs (geometric mean)",
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Play the combinations and print the table."""
    os.environ.setdefault("SLOTWISE_COMPILE", "first")
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("--only", default="", metavar="TEXT")
    asked.add_argument("--rounds", type=int, default=40_000, metavar="N")
    asked.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    asked.add_argument("--policy", help="another policy than the default")
    asked.add_argument("--json", type=Path, metavar="PATH")
    given = asked.parse_args(arguments)
    rows: dict[Combination, list[Played]] = {}
    print("| # | combination | share | worst | floor | delivered | µs |")
    print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for number, one in enumerate(all_combinations(), 1):
        if given.only in one.name:
            rows[one] = [play(one, seed, given.rounds, given.policy) for seed in given.seeds]
            print(line_of(number, one, rows[one]), flush=True)
    if not rows:
        asked.error(f"no combination has {given.only!r} in its name")
    print()
    print("\n".join(summary(rows)))
    if given.json is not None:
        table = [
            {**vars(one), "name": one.name, "runs": [vars(each) for each in played]}
            for one, played in rows.items()
        ]
        written = {"rounds": given.rounds, "policy": given.policy, "combinations": table}
        given.json.write_text(json.dumps(written, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
