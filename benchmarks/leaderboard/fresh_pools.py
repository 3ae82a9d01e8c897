"""Pools that nobody has seen: sizes, rates and floors drawn from a seed of the reader's choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.leaderboard.case import Case, plain_case
from slotwise.environments.datasets import Dataset, look_ahead
from slotwise.environments.datasets.look_alikes.stable_draws import (
    beta_from_uniforms,
    stable_uniforms,
)

__all__ = ["fresh_cases"]

POOLS_PER_SEED = 1_000


def fresh_cases(n_pools: int, seed: int) -> list[Case]:
    """Return cases of `n_pools` drawn pools; a seed always gives the same ones.

    6 to 600 links, 1 to 20 slots, click rates up to 0.02 to 0.8, revenue that falls with the click
    rate by more or less. One floor of six is slack; the others lie between a tenth and eight tenths
    of the way from the clicks of the page that earns most to the most clicks that a page can have.

    >>> [case.name for case in fresh_cases(2, seed=7)]
    ['fresh-7-0', 'fresh-7-1']
    """
    return [_case(seed, number) for number in range(n_pools)]


def _case(seed: int, number: int) -> Case:
    pool = _pool(f"fresh-{seed}-{number}", POOLS_PER_SEED * seed + number)
    outlook = look_ahead(pool)
    share = stable_uniforms(POOLS_PER_SEED * seed + number, n_rows=1, n_columns=8)[0, 7]
    free, most = outlook.clicks_without_floor, outlook.most_clicks
    is_slack = share < 1 / 6
    floor = 0.6 * free if is_slack else free + (0.1 + 0.84 * (share - 1 / 6)) * (most - free)
    pool = pool.with_floor(float(floor))
    price = look_ahead(pool).shadow_price
    words = f"{pool.n_slots} of {pool.n_links} drawn links; one more click costs {price:.2g}"
    return replace(plain_case(pool.name, words, pool), is_drawn=True)


def _pool(name: str, seed: int) -> Dataset:
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
