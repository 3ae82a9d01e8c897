"""Pools drawn from a seed: varied, reproducible, with floors that a page can keep."""

from __future__ import annotations

import numpy as np

from slotwise.environments.datasets import look_ahead
from slotwise.simulation.leaderboard import fresh_suite


def test_a_seed_gives_the_same_pools_and_another_seed_others() -> None:
    first, again, other = fresh_suite(3, 7), fresh_suite(5, 7), fresh_suite(3, 8)
    for one, same, another in zip(first.cases, again.cases, other.cases, strict=False):
        np.testing.assert_array_equal(one.dataset.click_rate, same.dataset.click_rate)
        assert one.dataset.click_floor == same.dataset.click_floor
        assert one.dataset.n_links != another.dataset.n_links


def test_pools_differ_in_size_and_floors_can_be_kept() -> None:
    datasets = [case.dataset for case in fresh_suite(60, 3).cases]
    sizes = [one.n_links for one in datasets]
    assert min(sizes) < 12
    assert max(sizes) > 300
    statuses = [look_ahead(one).floor for one in datasets]
    assert 0 < statuses.count("slack") < 30
    assert statuses.count("infeasible") == 0
    for one in datasets:
        assert 1 <= one.n_slots <= one.n_links // 3
