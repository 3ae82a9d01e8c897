"""Cases that the default was not tuned on: expensive floors, large pools, rare sales."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.leaderboard.case import (
    AIM_RUNS,
    LONG_RUNS,
    OTHER_RUNS,
    Case,
    plain_case,
    plain_links,
)
from slotwise.environments import (
    BernoulliLinks,
    DriftingLinks,
    FixedPriceLinks,
    LateFeedback,
)
from slotwise.environments.datasets import Dataset, coupon_recipe
from slotwise.environments.datasets.look_alikes.stable_draws import (
    beta_from_uniforms,
    stable_uniforms,
)

__all__ = ["hard_cases"]

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
    return [*_expensive_floors(), *_large_and_rare(), *_late_and_swapped()]


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
    coupons = coupon_recipe(1)
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
