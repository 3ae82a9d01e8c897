"""The cases of the leaderboard: small environments that are difficult for different reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.leaderboard.cases import (
    AIM_RUNS,
    LONG_RUNS,
    OTHER_RUNS,
    Case,
    fresh_cases,
    hard_cases,
    plain_case,
    plain_links,
    visitor_cases,
)
from slotwise.environments import (
    IntervalLinks,
    LateFeedback,
    drift_towards,
)
from slotwise.environments.datasets import (
    Dataset,
    coupon_mild_recipe,
    load_dataset,
    look_ahead,
    tiny_rates_recipe,
)
from slotwise.environments.datasets.look_alikes import beta_from_uniforms, stable_uniforms
from slotwise.errors import MissingData, UnknownName

FEW_LINKS_RUNS = 200
"""Chance moves the regret of five links by more than their policies differ over 20 runs."""

QUICK_CASES = ("coupon-mild", "coupon-infeasible", "few-links")
"""Few cases with the same kind of links, so that each policy is compiled once."""


class Suite(NamedTuple):
    """The cases, and sentences about those that were left out."""

    cases: tuple[Case, ...]
    notes: tuple[str, ...]


def build_suite(data: Path | None = None) -> Suite:
    """Return all cases, including those of original files that `data` holds.

    >>> [case.name for case in build_suite().cases][:3]
    ['coupon-mild', 'coupon-1', 'coupon-2']
    """
    original, notes = _original_cases(data)
    return Suite(
        (
            *_paper_sizes(),
            *original,
            *_floors(),
            *_changing(),
            *_sizes(),
            *hard_cases(),
            *visitor_cases(),
        ),
        notes,
    )


def fresh_suite(n_pools: int, seed: int) -> Suite:
    """Return cases of pools drawn from a seed, which no policy was tuned on."""
    return Suite(tuple(fresh_cases(n_pools, seed)), ())


def pick_cases(suite: Suite, names: Sequence[str]) -> Suite:
    """Return the suite with the cases of these names only.

    >>> [case.name for case in pick_cases(build_suite(), ["few-links"]).cases]
    ['few-links']
    """
    known = {case.name: case for case in suite.cases}
    for name in names:
        if name not in known:
            raise UnknownName(f"no case is called {name!r}; known: {', '.join(known)}")
    return suite._replace(cases=tuple(known[name] for name in known if name in names))


def _paper_sizes() -> list[Case]:
    coupons = [
        plain_case(
            f"coupon-{seed}", f"the coupon recipe again, seed {seed}", coupon_mild_recipe(seed)
        )
        for seed in (1, 2, 3)
    ]
    ads = load_dataset("ads-like-binding")
    return [
        plain_case(
            "coupon-mild",
            "the coupon recipe at the paper's sizes, seed 0; the floor binds",
            coupon_mild_recipe(0),
            AIM_RUNS,
        ),
        *coupons,
        plain_case("ads-like-12", "look-alike of Ad-Clicks with a floor that binds", ads),
        plain_case(
            "edx-like", "look-alike of edX-Course: a page of 60 links", load_dataset("edx-like")
        ),
    ]


ORIGINALS: tuple[tuple[str, str, str, float, int], ...] = (
    ("ad-clicks-12", "ad-clicks", "Ad-Clicks with a floor that binds", 12.0, AIM_RUNS),
    ("edx-9", "edx-course", "edX-Course with the floor just within reach", 9.0, AIM_RUNS),
    (
        "edx-10",
        "edx-course",
        "edX-Course at the paper's floor, which is infeasible",
        10.0,
        OTHER_RUNS,
    ),
)


def _original_cases(data: Path | None) -> tuple[list[Case], tuple[str, ...]]:
    if data is None:
        return [], ("original files were not given: ad-clicks-12, edx-9 and edx-10 are left out",)
    cases, notes = [], []
    for name, dataset_name, description, floor, n_runs in ORIGINALS:
        try:
            dataset = load_dataset(dataset_name, data, click_floor=floor)
        except MissingData as error:
            notes.append(f"{name} is left out: {error}")
        else:
            cases.append(plain_case(name, description, dataset, n_runs))
    return cases, tuple(notes)


def _floors() -> list[Case]:
    """Return cases with a slack, a tight and an infeasible floor."""
    coupons = coupon_mild_recipe(0)
    most = coupons.most_clicks
    return [
        plain_case(
            "ads-like-10",
            "look-alike of Ad-Clicks at the paper's floor, which is slack",
            load_dataset("ads-like"),
        ),
        plain_case(
            "coupon-tight",
            "the coupons with a floor of 95 % of the most clicks a page can have",
            coupons.with_floor(round(0.95 * most, 2)),
        ),
        plain_case(
            "coupon-infeasible",
            "the coupons with a floor of 110 % of the most clicks a page can have",
            coupons.with_floor(round(1.1 * most, 2)),
        ),
    ]


def _changing() -> list[Case]:
    coupons = coupon_mild_recipe(0)
    links = plain_links(coupons)
    interval = IntervalLinks(coupons.click_rate, coupons.revenue_per_click, views_per_round=100)
    return [
        Case(
            "drifting",
            "the coupons with rates that drift, by up to half, over four stations",
            coupons,
            drift_towards(links, seed=1),
        ),
        Case(
            "delayed",
            "the coupons with clicks known 50 rounds later and revenue 2,000 rounds later",
            coupons,
            LateFeedback(links, click_delay=50, revenue_delay=2_000),
        ),
        Case(
            "intervals",
            "the coupons in rounds of 100 views of one page; totals are per view",
            coupons,
            interval,
            n_rounds=2_000,
            full_rounds=5_000,
        ),
    ]


def _sizes() -> list[Case]:
    tiny = tiny_rates_recipe(0)
    return [
        replace(
            plain_case("few-links", "two of five links", _few_links(), AIM_RUNS),
            n_runs=FEW_LINKS_RUNS,
        ),
        plain_case("many-links", "20 of 2,500 links", _many_links(), LONG_RUNS),
        Case(
            "tiny-rates",
            "10 of 1,000 links with click rates of 0.001 to 0.02; the floor binds",
            tiny,
            plain_links(tiny),
            n_rounds=100_000,
            n_runs=LONG_RUNS,
            full_rounds=1_000_000,
        ),
    ]


def _few_links() -> Dataset:
    return Dataset(
        name="few-links",
        title="Five links",
        click_rate=np.array([0.5, 0.35, 0.3, 0.2, 0.1]),
        revenue_per_click=np.array([0.05, 0.3, 0.4, 0.7, 0.9]),
        n_slots=2,
        click_floor=0.6,
        failure_probability=0.01,
        look_alike=True,
        source="look-alike of no particular site, written down by hand",
    )


def _many_links() -> Dataset:
    """Return 2,500 links like the coupons, with a floor half way to the most clicks."""
    clicks, revenue = stable_uniforms(seed=0, n_rows=2, n_columns=2_500)
    click_rate = 0.75 * beta_from_uniforms(clicks, q=4.0)
    pool = Dataset(
        name="many-links",
        title="2,500 links",
        click_rate=click_rate,
        revenue_per_click=beta_from_uniforms(revenue, q=1.5) * np.exp(-4.0 * click_rate),
        n_slots=20,
        click_floor=0.0,
        failure_probability=0.01,
        look_alike=True,
        source="look-alike of no particular site, drawn like the coupon recipe with seed 0",
    )
    outlook = look_ahead(pool)
    half_way = (outlook.clicks_without_floor + outlook.most_clicks) / 2
    return replace(pool, click_floor=round(half_way, 1))
