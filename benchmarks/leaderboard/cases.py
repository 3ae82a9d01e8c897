"""The cases of the leaderboard: an environment and how much of it is played.

Fresh pools are drawn from a seed of the reader's choice. Hard cases have expensive floors, large
pools or rare sales; the default was not tuned on them. In others visitors or slots differ, or seem
to and do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from benchmarks.leaderboard.drifting_segments import DriftingSegments
from benchmarks.shops import feature_shop, halfway_floor, segment_shop
from slotwise.environments import (
    BernoulliLinks,
    DriftingLinks,
    Environment,
    FixedPriceLinks,
    LateFeedback,
    SegmentLinks,
)
from slotwise.environments.datasets import Dataset, coupon_mild_recipe, load_dataset, look_ahead
from slotwise.environments.datasets.look_alikes import beta_from_uniforms, stable_uniforms
from slotwise.policies import Policy
from slotwise.problem import Problem
from slotwise.simulation.experiment import Experiment

PAPER_ROUNDS = 50_000
OTHER_ROUNDS = 20_000
"""Rounds of cases with an aim, and of the other cases unless the full suite is run."""

AIM_RUNS, OTHER_RUNS, LONG_RUNS = 20, 5, 3
"""Runs of cases with an aim, of other cases, and of cases with long runs."""


@dataclass(frozen=True)
class Case:
    """One environment of the suite, with enough rounds and runs to tell policies apart.

    `full_rounds` is the number of rounds of the full suite; `slot_weights` says what policies know
    of the slots. Where `is_drawn`, nobody has seen the pool: whether its floor can be learned in
    time is then found out by a policy that wants nothing but clicks.
    """

    name: str
    description: str
    dataset: Dataset
    links: Environment
    n_rounds: int = OTHER_ROUNDS
    n_runs: int = OTHER_RUNS
    full_rounds: int = PAPER_ROUNDS
    slot_weights: str | None = None
    is_drawn: bool = False

    def experiment(self, policies: Mapping[str, Policy], effort: Effort) -> Experiment:
        """Return the experiment in which `policies` meet this case."""
        own_rounds = self.full_rounds if effort.is_full else self.n_rounds
        n_rounds = own_rounds if effort.n_rounds is None else effort.n_rounds
        dataset = self.dataset
        return Experiment(
            environment=self.links,
            problem=Problem(
                dataset.n_links,
                dataset.n_slots,
                dataset.click_floor,
                horizon=n_rounds,
                features=self.links.features,
                slot_weights=self.slot_weights or (),
            ),
            policies=policies,
            n_runs=self.n_runs if effort.n_runs is None else effort.n_runs,
            seed=effort.seed,
            title=self.name,
            dataset={
                "name": dataset.name,
                "title": dataset.title,
                "look_alike": dataset.look_alike,
                "source": dataset.source,
                "notes": list(dataset.notes),
            },
            failure_probability=dataset.failure_probability,
        )


@dataclass(frozen=True)
class Effort:
    """Rounds and runs that replace those of the cases, and the seed."""

    n_rounds: int | None = None
    n_runs: int | None = None
    seed: int = 1
    is_full: bool = False


def plain_case(name: str, description: str, dataset: Dataset, n_runs: int = OTHER_RUNS) -> Case:
    """Return the case of a data set whose links are neither late nor drifting."""
    n_rounds = PAPER_ROUNDS if n_runs == AIM_RUNS else OTHER_ROUNDS
    return Case(name, description, dataset, plain_links(dataset), n_rounds, n_runs)


def plain_links(dataset: Dataset) -> BernoulliLinks:
    """Return links that are clicked and bought from at the rates of a data set."""
    return BernoulliLinks(dataset.click_rate, dataset.revenue_per_click)


POOLS_PER_SEED = 1_000


def fresh_cases(n_pools: int, seed: int) -> list[Case]:
    """Return cases of `n_pools` drawn pools; a seed always gives the same ones.

    6 to 600 links, 1 to 20 slots, click rates up to 0.02 to 0.8, revenue that falls with the click
    rate by more or less. One floor of six is slack; the others lie between a tenth and eight tenths
    of the way from the clicks of the page that earns most to the most clicks that a page can have.

    >>> [case.name for case in fresh_cases(2, seed=7)]
    ['fresh-7-0', 'fresh-7-1']
    """
    return [_fresh_case(seed, number) for number in range(n_pools)]


def _fresh_case(seed: int, number: int) -> Case:
    pool = _fresh_pool(f"fresh-{seed}-{number}", POOLS_PER_SEED * seed + number)
    outlook = look_ahead(pool)
    share = stable_uniforms(POOLS_PER_SEED * seed + number, n_rows=1, n_columns=8)[0, 7]
    free, most = outlook.clicks_without_floor, outlook.most_clicks
    is_slack = share < 1 / 6
    floor = 0.6 * free if is_slack else free + (0.1 + 0.84 * (share - 1 / 6)) * (most - free)
    pool = pool.with_floor(float(floor))
    price = look_ahead(pool).shadow_price
    words = f"{pool.n_slots} of {pool.n_links} drawn links; one more click costs {price:.2g}"
    return replace(plain_case(pool.name, words, pool), is_drawn=True)


def _fresh_pool(name: str, seed: int) -> Dataset:
    size, slots, highest, spread, fall, worth, _, _ = stable_uniforms(seed, 1, 8)[0]
    n_links = round(6.0 * 100.0**size)
    most = 0.02 * 40.0**highest
    rates = stable_uniforms(seed + 1_000_000_000, n_rows=2, n_columns=n_links)
    click_rate = most * beta_from_uniforms(rates[0], q=6.0**spread)
    revenue = beta_from_uniforms(rates[1], q=10.0**worth) * np.exp(-6.0 * fall * click_rate / most)
    return Dataset(
        name=name,
        title=name,
        click_rate=click_rate,
        revenue_per_click=revenue,
        n_slots=max(1, min(round(20.0**slots), n_links // 3)),
        click_floor=0.0,
        failure_probability=0.01,
        look_alike=True,
        source="look-alike of no particular site, drawn from a seed",
    )


N_STATIONS = 100
"""Rates swap within a hundredth of the experiment."""


class ExpensiveFloor(NamedTuple):
    """A pool in which clicks are expensive: the most clicked links earn next to nothing.

    a = most Beta(1, q),   b = U^(1/4) (1 - a / most)^fall
    """

    price: str
    seed: int
    n_links: int
    n_slots: int
    most: float
    q: float
    fall: float
    floor: float

    def dataset(self) -> Dataset:
        """Return the pool as a data set."""
        uniforms = stable_uniforms(self.seed, n_rows=2, n_columns=self.n_links)
        click_rate = self.most * beta_from_uniforms(uniforms[0], self.q)
        dearness = (1.0 - click_rate / self.most) ** self.fall
        return _dataset(
            f"expensive-{self.price}",
            click_rate,
            uniforms[1] ** 0.25 * dearness,
            self.n_slots,
            self.floor,
        )


EXPENSIVE = (
    ExpensiveFloor("0.3", seed=2, n_links=100, n_slots=5, most=0.3, q=2.0, fall=2.0, floor=0.95),
    ExpensiveFloor("0.6", seed=1, n_links=340, n_slots=12, most=0.4, q=1.5, fall=1.0, floor=4.0),
    ExpensiveFloor("1", seed=3, n_links=200, n_slots=8, most=0.4, q=1.2, fall=0.7, floor=2.82),
)


def hard_cases() -> list[Case]:
    """Return the cases of this file."""
    return [
        *_expensive_floors(),
        *_large_and_rare(),
        *_late_and_swapped(),
        *_late_and_fallen(),
        *_bait_sparse_and_bursts(),
        *_short(),
    ]


def _dataset(
    name: str,
    click_rate: np.ndarray,
    revenue_per_click: np.ndarray,
    n_slots: int,
    click_floor: float,
) -> Dataset:
    return Dataset(
        name=name,
        title=name,
        click_rate=click_rate,
        revenue_per_click=revenue_per_click,
        n_slots=n_slots,
        click_floor=click_floor,
        failure_probability=0.01,
        look_alike=True,
        source=f"look-alike of no particular site, drawn from the recipe of {name}",
    )


def _expensive_floors() -> list[Case]:
    return [
        plain_case(
            f"expensive-{pool.price}",
            f"{pool.n_slots} of {pool.n_links} links; one more click costs {pool.price} of revenue",
            pool.dataset(),
            AIM_RUNS if pool.price == "0.6" else OTHER_RUNS,
        )
        for pool in EXPENSIVE
    ]


def _large_and_rare() -> list[Case]:
    uniforms = stable_uniforms(seed=4, n_rows=2, n_columns=5_000)
    click_rate = 0.3 * beta_from_uniforms(uniforms[0], q=4.0)
    revenue = beta_from_uniforms(uniforms[1], q=1.5) * np.exp(-4.0 * click_rate)
    large = _dataset("huge-pool", click_rate, revenue, n_slots=20, click_floor=4.0)
    rare = stable_uniforms(seed=5, n_rows=3, n_columns=200)
    clicks = 0.3 * beta_from_uniforms(rare[0], q=4.0)
    sale_rate = 0.04 * beta_from_uniforms(rare[1], q=1.5)
    price = np.where(rare[2] < 0.1, 1.0, 0.05)
    heavy = _dataset("rare-sales", clicks, sale_rate * price, n_slots=10, click_floor=1.6)
    return [
        plain_case("huge-pool", "20 of 5,000 links", large, LONG_RUNS),
        Case(
            "rare-sales",
            "one click of 60 buys, and one link of ten sells at twenty times the others' price",
            heavy,
            FixedPriceLinks(clicks, sale_rate, price),
        ),
    ]


def _late_and_swapped() -> list[Case]:
    coupons = coupon_mild_recipe(1)
    links = plain_links(coupons)
    # Every second link changes places with its neighbour.
    swapped = np.arange(coupons.n_links)
    swapped[:-1:2], swapped[1::2] = swapped[1::2].copy(), swapped[:-1:2].copy()
    after = BernoulliLinks(coupons.click_rate[swapped], coupons.revenue_per_click[swapped])
    stations = [links] * (N_STATIONS // 2) + [after] * (N_STATIONS // 2)
    return [
        Case(
            "very-late",
            "the coupons, seed 1, with revenue known 5,000 rounds later",
            coupons,
            LateFeedback(links, click_delay=50, revenue_delay=5_000),
        ),
        Case(
            "swapped",
            "the coupons, seed 1, whose links change places half-way",
            coupons,
            DriftingLinks(stations),
        ),
    ]


def bait_pool(seed: int) -> Dataset:
    """Return 150 links of which three in ten are clicked on much and never sell."""
    clicks, revenue, kind = stable_uniforms(seed, n_rows=3, n_columns=150)
    is_bait = kind < 0.3
    click_rate = np.where(is_bait, 0.2 + 0.4 * clicks, 0.25 * beta_from_uniforms(clicks, q=4.0))
    worth = np.where(is_bait, 0.0, beta_from_uniforms(revenue, q=1.5))
    pool = _dataset("click-bait", click_rate, worth, n_slots=8, click_floor=0.0)
    outlook = look_ahead(pool)
    free, most = outlook.clicks_without_floor, outlook.most_clicks
    return pool.with_floor(round(free + 0.4 * (most - free), 2))


N_SPARSE = 1_200
"""Links of a sparse pool."""


class SparseSales(NamedTuple):
    """A pool whose links mostly never sell, and the environment in which its sales differ in size.

    a = 0.3 Beta(1, 6),   sale rate = 0.4 Beta(1, 2) for one link in ten, else 0
    price = min(1, 0.01 U^(-1 / 1.2)), a Pareto tail
    """

    dataset: Dataset
    links: FixedPriceLinks


def sparse_sales(seed: int) -> SparseSales:
    """Return 1,200 links of which nine in ten never sell; prices have a heavy tail."""
    clicks, sales, kind, size = stable_uniforms(seed, n_rows=4, n_columns=N_SPARSE)
    click_rate = 0.75 * beta_from_uniforms(clicks, q=4.0)
    sale_rate = np.where(kind < 0.1, beta_from_uniforms(sales, q=1.5), 0.0)
    price = np.minimum(1.0, 0.1 * (1.0 - size) ** (-1.0 / 1.2))
    pool = _dataset("sparse-sales", click_rate, sale_rate * price, n_slots=20, click_floor=0.0)
    outlook = look_ahead(pool)
    free, most = outlook.clicks_without_floor, outlook.most_clicks
    pool = pool.with_floor(round(free + 0.2 * (most - free), 2))
    return SparseSales(pool, FixedPriceLinks(click_rate, sale_rate, price))


def burst_links(pool: Dataset, seed: int) -> DriftingLinks:
    """Return links whose click rates are tripled, a tenth of them at a time, for short times.

    Ten times, for two of 100 stations each.
    """
    rng = np.random.default_rng(seed)
    stations = [plain_links(pool)] * N_STATIONS
    for start in range(5, N_STATIONS, 10):
        bursts = np.where(rng.random(pool.n_links) < 0.1, 3.0, 1.0)
        after = BernoulliLinks(np.minimum(1.0, bursts * pool.click_rate), pool.revenue_per_click)
        stations[start : start + 2] = [after] * 2
    return DriftingLinks(stations)


def _bait_sparse_and_bursts() -> list[Case]:
    bait, coupons = bait_pool(6), coupon_mild_recipe(1)
    return [
        plain_case("click-bait", "8 of 150 links; 3 of 10 are clicked on much, never sell", bait),
        Case(
            "sparse-sales",
            "20 of 1,200 links; 9 of 10 never sell, and prices of the others have a heavy tail",
            *sparse_sales(8),
            n_rounds=PAPER_ROUNDS,
            n_runs=LONG_RUNS,
        ),
        Case(
            "bursts",
            "the coupons, seed 1; ten times a tenth of the links is clicked on three times as much",
            coupons,
            burst_links(coupons, 1),
        ),
    ]


def _late_and_fallen() -> list[Case]:
    coupons = coupon_mild_recipe(1)
    links = plain_links(coupons)
    late = [
        Case(
            f"late-{delay}",
            f"the coupons, seed 1, with clicks and revenue known {delay:,} rounds later",
            coupons,
            LateFeedback(links, delay, delay),
        )
        for delay in (200, 1_000)
    ]
    after = BernoulliLinks(0.8 * coupons.click_rate, coupons.revenue_per_click)
    stations = [links] * (N_STATIONS // 2) + [after] * (N_STATIONS // 2)
    words = "the coupons, seed 1; all click rates fall by a fifth half-way"
    return [*late, Case("fallen", words, coupons, DriftingLinks(stations))]


def _short() -> list[Case]:
    """Return cases in which there is little time to learn."""
    coupons = coupon_mild_recipe(2)
    rates = stable_uniforms(seed=7, n_rows=2, n_columns=500)
    clicks = 0.3 * beta_from_uniforms(rates[0], q=4.0)
    many = _dataset("short-5000", clicks, beta_from_uniforms(rates[1], q=1.5), 10, 1.9)
    return [
        Case(
            f"short-{rounds}",
            words,
            pool,
            plain_links(pool),
            n_rounds=rounds,
            n_runs=AIM_RUNS,
            full_rounds=rounds,
        )
        for rounds, pool, words in (
            (500, coupons, "500 rounds of the coupons, seed 2"),
            (2_000, coupons, "2,000 rounds of the coupons, seed 2"),
            (5_000, many, "5,000 rounds of 10 of 500 links"),
        )
    ]


FEATURES = (2, 3, 4, 4, 5)
"""Values of five features, 480 combinations."""


def visitor_cases() -> list[Case]:
    """Return the cases of this file."""
    return [*_shops(), *_drifting_segment(), *_slot_cases()]


def _visitor_case(
    name: str,
    description: str,
    links: Environment,
    n_slots: int,
    floor: float,
    full_rounds: int,
    n_runs: int = OTHER_RUNS,
    slot_weights: str | None = None,
) -> Case:
    rates = links.rates(full_rounds)
    dataset = Dataset(
        name=name,
        title=name,
        click_rate=rates[0],
        revenue_per_click=rates[1] / rates[0],
        n_slots=n_slots,
        click_floor=floor,
        failure_probability=0.01,
        look_alike=True,
        source=f"look-alike of no particular site, drawn from the recipe of {name}",
    )
    return Case(
        name,
        description,
        dataset,
        links,
        n_runs=n_runs,
        full_rounds=full_rounds,
        slot_weights=slot_weights,
    )


def _shops() -> list[Case]:
    few, many, cold = segment_shop(60, 6), segment_shop(200, 24), segment_shop(1_000, 6, seed=5)
    additive, nothing = feature_shop(100, FEATURES, 0.7), feature_shop(60, FEATURES, 0.0)
    return [
        _visitor_case(
            "six-segments",
            "5 of 60 links for visitors of six segments",
            few,
            5,
            halfway_floor(few, 5),
            100_000,
        ),
        _visitor_case(
            "24-segments",
            "8 of 200 links for visitors of 24 segments",
            many,
            8,
            halfway_floor(many, 8),
            200_000,
            LONG_RUNS,
        ),
        _visitor_case(
            "480-combinations",
            "5 of 100 links for visitors with five features whose effects add up",
            additive,
            5,
            halfway_floor(additive, 5),
            200_000,
            LONG_RUNS,
        ),
        _visitor_case(
            "no-effect",
            "5 of 60 links for visitors with five features that do not matter",
            nothing,
            5,
            halfway_floor(nothing, 5),
            100_000,
        ),
        _visitor_case(
            "cold-links",
            "5 of 1,000 links for visitors of six segments: most links are hardly known",
            cold,
            5,
            halfway_floor(cold, 5),
            100_000,
            LONG_RUNS,
        ),
    ]


def with_moving_taste(shop: SegmentLinks) -> DriftingSegments:
    """Return a shop in which the largest segment's taste moves from link to link, three times."""
    known = shop.visitor_rates(1)
    largest = int(np.argmax(known.shares))
    clicks, revenue = known.rates[:, 0], known.rates[:, 1] / known.rates[:, 0]
    stations = []
    for step in range(4):
        moved = np.roll(np.arange(shop.n_links), 15 * step)
        rates = [clicks.copy(), revenue.copy()]
        for rate in rates:
            rate[largest] = rate[largest, moved]
        stations.append(SegmentLinks(rates[0], rates[1], known.shares))
    return DriftingSegments(stations)


def _drifting_segment() -> list[Case]:
    shop = segment_shop(60, 6)
    links = with_moving_taste(shop)
    description = "the six segments, of which the largest changes its taste three times"
    return [
        _visitor_case("drifting-segment", description, links, 5, halfway_floor(shop, 5), 100_000)
    ]


def _slot_cases() -> list[Case]:
    """Return Ad-Clicks' look-alike with slots that differ much, and not at all."""
    ads = load_dataset("ads-like-binding")
    weights = 1.0 / np.sqrt(np.arange(1.0, ads.n_slots + 1.0))
    weights /= weights.mean()
    scale = 1.0 / float(weights.max() * ads.click_rate.max())
    cases = []
    for name, description, used, learned in (
        (
            "slots-differ",
            "20 of 225 ads, clicks in slot l in proportion to 1/sqrt(l)",
            weights,
            "learn",
        ),
        (
            "slots-alike",
            "20 of 225 ads whose slots are alike, though policies do not know",
            None,
            "learn",
        ),
        ("slots-unknown", "the slots that differ, of which policies learn nothing", weights, None),
    ):
        rates = ([scale * ads.click_rate], [ads.revenue_per_click], [1.0])
        links = SegmentLinks(*rates, visitors=[{}], slot_weights=used)
        floor = scale * ads.click_floor
        cases.append(
            _visitor_case(
                name, description, links, ads.n_slots, floor, 50_000, slot_weights=learned
            )
        )
    return cases
