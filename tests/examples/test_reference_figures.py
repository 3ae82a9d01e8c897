"""Regret and shortfall over 50,000 rounds, near what was measured when the policies were new.

On the coupon recipe, seeds 0 and 1, one run each. Single runs spread by about 10 %; the ranges
are wide enough for that and narrow enough for a policy that stops learning, or stops keeping
its floor, to leave them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.environments import BernoulliLinks
from slotwise.environments.datasets.look_alikes import coupon_mild_recipe
from slotwise.policies import make_policy
from slotwise.simulation import simulate

N_ROUNDS = 50_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "regret", "shortfall"),
    [
        ("queue-ts", {}, 3_850, (0, 50)),
        ("queue-ts", {"prior": "fitted"}, 3_150, (0, 50)),
    ],
)
def test_policies_lose_as_much_as_they_did(
    name: str, settings: dict[str, Any], regret: float, shortfall: tuple[float, float]
) -> None:
    lost, missed = [], []
    for seed in range(2):
        pool = coupon_mild_recipe(seed)
        links = BernoulliLinks(pool.click_rate, pool.revenue_per_click)
        policy = {"played": make_policy(name, settings)}
        results = simulate(links, policy, 15, 4.0, N_ROUNDS, n_runs=1, seed=7 + seed)
        lost.append(results.final("played", "regret")[0])
        missed.append(results.final("played", "shortfall")[0])
    assert np.mean(lost) == pytest.approx(regret, rel=0.25)
    assert shortfall[0] <= np.mean(missed) <= shortfall[1]
