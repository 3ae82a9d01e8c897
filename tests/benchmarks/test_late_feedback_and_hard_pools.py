"""The benchmarks of late feedback and of hard pools print their tables, at tiny sizes."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import hard_pools, late
from benchmarks.leaderboard.cases import SparseSales
from slotwise.environments import FixedPriceLinks
from slotwise.environments.datasets import ads_recipe
from slotwise.environments.datasets.dataset import Dataset


def small_pool(seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    fields = {
        "click_rate": rng.uniform(0.1, 0.5, 12),
        "revenue_per_click": rng.random(12),
        "n_slots": 2,
        "click_floor": 0.6,
        "name": "small",
    }
    return Dataset(**{**ads_recipe(1).__dict__, **fields})


def small_sparse_sales(seed: int) -> SparseSales:
    pool = small_pool(seed)
    sale_rate = np.where(np.arange(12) < 3, pool.revenue_per_click, 0.0)
    pool = replace(pool, revenue_per_click=0.5 * sale_rate)
    return SparseSales(pool, FixedPriceLinks(pool.click_rate, sale_rate, np.full(12, 0.5)))


@pytest.mark.parametrize("policy", late.POLICIES)
def test_the_table_of_late_feedback(
    policy: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(late, "pools", lambda seed: [small_pool(seed), small_pool(seed + 1)])
    late.main(["--policy", policy, "--runs", "1", "--rounds", "120", "--delays", "0", "40"])
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split("|")[3:7] for line in lines if line.startswith("| small")]
    assert [int(row[0]) for row in rows] == [0, 40, 0, 40]
    for delay, before, after, ratio in rows:
        assert (before == after) == (int(delay) == 0)
        assert int(delay) > 0 or float(ratio) == 1.0
    means = (
        r"delay 0: geometric mean of the ratios 1\.00 ± 0\.00, of the times [\d.]+, at most [\d.]+"
    )
    assert re.fullmatch(means, lines[-2])


@pytest.mark.parametrize("kind", ["bait", "sparse", "bursts", "large", "tiny"])
def test_the_rows_of_hard_pools(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("bait_pool", "large_pool", "tiny_pool", "ads_recipe"):
        monkeypatch.setattr(hard_pools, name, small_pool)
    monkeypatch.setattr(hard_pools, "sparse_sales", small_sparse_sales)
    hard_pools.main([kind, "--pools", "2", "--runs", "1", "--rounds", "100"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{kind}, default: ")
    assert lines[0].count("(+0.0 ± 0.0 against the default)") == 2
    names = [line.partition(", ")[2].partition(":")[0] for line in lines[1:]]
    if kind in ("bait", "sparse", "bursts"):
        assert names == ["queue-ts", *["pooled prior"] * (kind != "bursts")]
    else:
        assert names == [
            "20 views of each link known",
            "100 views of each link known",
            "earlier pool",
            "earlier pool, clicks x 3",
        ]


def test_an_earlier_pool_is_known_as_one_click_on_each_link() -> None:
    known = hard_pools.means_of_earlier_pool(small_pool, 4)
    views, clicks, sales = known(small_pool(5), np.random.default_rng(1))
    earlier = small_pool(4)
    assert clicks / views == pytest.approx([earlier.click_rate.mean()] * 12)
    assert sales / clicks == pytest.approx([earlier.revenue_per_click.mean()] * 12)
