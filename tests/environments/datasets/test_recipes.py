"""The look-alikes: the same numbers for ever, and the floors they were made for."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import spearmanr

from slotwise.environments.datasets import (
    DATASETS,
    Dataset,
    LookAlike,
    ads_recipe,
    coupon_mild_recipe,
    coupon_recipe,
    edx_recipe,
    load_dataset,
    look_ahead,
    shop_recipe,
    tiny_rates_recipe,
)

LOOK_ALIKES = [name for name, entry in DATASETS.items() if isinstance(entry, LookAlike)]
RECIPES = [
    coupon_recipe,
    coupon_mild_recipe,
    ads_recipe,
    edx_recipe,
    tiny_rates_recipe,
    shop_recipe,
]


def checksum(dataset: Dataset) -> int:
    """Return a checksum of the rates of all levels, rounded to millionths."""
    rates = dataset.rates_given_last
    return zlib.crc32(np.rint(1e6 * rates).astype("<i8").tobytes())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("coupon-like", 2793362931),
        ("coupon-mild", 48416982),
        ("ads-like", 2882199131),
        ("ads-like-binding", 2882199131),
        ("edx-like", 3032962588),
        ("tiny-rates", 2503636729),
        ("shop-like", 3518513959),
    ],
)
def test_the_numbers_never_change(name: str, expected: int) -> None:
    assert checksum(load_dataset(name)) == expected


@pytest.mark.parametrize(
    ("name", "sizes", "floor", "failure_probability"),
    [
        ("coupon-like", (271, 15), 4.0, 0.01),
        ("coupon-mild", (271, 15), 4.0, 0.01),
        ("ads-like", (225, 20), 10.0, 0.02),
        ("ads-like-binding", (225, 20), 12.0, 0.02),
        ("edx-like", (290, 60), 10.0, 0.05),
        ("tiny-rates", (1000, 10), 0.12, 0.01),
        ("shop-like", (120, 8), 2.6, 0.01),
    ],
)
def test_the_sizes_are_the_papers(
    name: str, sizes: tuple[int, int], floor: float, failure_probability: float
) -> None:
    dataset = load_dataset(name)
    assert (dataset.n_links, dataset.n_slots) == sizes
    assert dataset.click_floor == floor
    assert dataset.failure_probability == failure_probability
    assert dataset.name == name


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_look_alike_says_so(name: str) -> None:
    dataset = load_dataset(name)
    assert dataset.look_alike
    assert "look-alike" in dataset.title.lower()
    assert "look-alike" in dataset.source


@pytest.mark.parametrize(
    "name",
    ["coupon-like", "coupon-mild", "ads-like-binding", "edx-like", "tiny-rates", "shop-like"],
)
def test_the_floor_is_feasible_and_binds(name: str) -> None:
    outlook = look_ahead(load_dataset(name))
    assert outlook.floor == "binding"
    assert outlook.clicks_without_floor < outlook.clicks < outlook.most_clicks
    assert outlook.revenue < outlook.revenue_without_floor
    assert outlook.shadow_price > 0


def test_the_papers_floor_does_not_bind_on_ads_like_as_on_the_original() -> None:
    outlook = look_ahead(load_dataset("ads-like"))
    assert outlook.floor == "slack"
    assert outlook.shadow_price == 0
    assert outlook.revenue == outlook.revenue_without_floor


def test_the_binding_variant_has_the_links_of_ads_like() -> None:
    plain, binding = load_dataset("ads-like"), load_dataset("ads-like-binding")
    assert np.array_equal(plain.click_rate, binding.click_rate)
    assert np.array_equal(plain.revenue_per_click, binding.revenue_per_click)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_seed_decides_everything(recipe: Callable[[int], Dataset]) -> None:
    again, other = recipe(7), recipe(8)
    assert np.array_equal(recipe(7).click_rate, again.click_rate)
    assert not np.array_equal(again.click_rate, other.click_rate)
    assert "seed 7" in again.source


def test_coupons_that_sell_are_rarely_clicked_as_the_paper_says() -> None:
    """Without a floor a page earns far more, so policies that ignore it can earn more."""
    for seed in range(20):
        outlook = look_ahead(coupon_recipe(seed))
        assert outlook.revenue < 0.7 * outlook.revenue_without_floor
        assert outlook.clicks_without_floor < 0.6 * outlook.clicks


def test_coupon_rates_follow_their_recipe() -> None:
    """Means over 100 seeds, 27,100 draws: off by 5 standard errors with chance below 1e-6."""
    pools = [coupon_recipe(seed) for seed in range(100)]
    clicks = np.concatenate([pool.click_rate for pool in pools])
    revenue = np.concatenate([pool.revenue_per_click for pool in pools])
    is_rare = clicks < 0.1
    price = revenue[is_rare] * np.exp((clicks[is_rare] / 0.17) ** 6)
    assert abs(clicks.mean() - (0.02 + 0.5 / 3)) < 5 * clicks.std() / np.sqrt(len(clicks))
    assert price.max() < 1 + 1e-12
    # The mean of min(1, 1.5 sqrt(V)): (2/3)^2 below 1 on average 2/3, the rest at 1.
    mean = (2 / 3) ** 3 + 1 - (2 / 3) ** 2
    assert abs(price.mean() - mean) < 5 * price.std() / np.sqrt(len(price))


def test_mild_coupon_rates_follow_their_recipe() -> None:
    """Means over 100 seeds, 27,100 draws: off by 5 standard errors with chance below 1e-6."""
    clicks = np.concatenate([coupon_mild_recipe(seed).click_rate for seed in range(100)])
    revenue = np.concatenate([coupon_mild_recipe(seed).revenue_per_click for seed in range(100)])
    beta = revenue * np.exp(4 * clicks)
    n_draws = len(clicks)
    assert abs(clicks.mean() - 0.75 / 5) < 5 * clicks.std() / np.sqrt(n_draws)
    assert abs(beta.mean() - 1 / 2.5) < 5 * beta.std() / np.sqrt(n_draws)


def test_tiny_rates_are_tiny() -> None:
    rates = load_dataset("tiny-rates").click_rate
    assert 0.001 <= rates.min() < 0.0011
    assert 0.019 < rates.max() <= 0.02


def test_ads_like_resembles_ad_clicks(original_files: object) -> None:
    assert_resembles(load_dataset("ads-like"), load_dataset("ad-clicks", str(original_files)))


def test_edx_like_resembles_edx_course(original_files: object) -> None:
    assert_resembles(load_dataset("edx-like"), load_dataset("edx-course", str(original_files)))


def assert_resembles(look_alike: Dataset, original: Dataset) -> None:
    """Quartiles within 0.05 and 40 %, the rank correlation of the two rates within 0.1."""
    for name in ("click_rate", "revenue_per_click"):
        ours = np.quantile(getattr(look_alike, name), [0.25, 0.5, 0.75])
        theirs = np.quantile(getattr(original, name), [0.25, 0.5, 0.75])
        np.testing.assert_allclose(ours, theirs, rtol=0.4, atol=0)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.06)
    ranks = [
        spearmanr(one.click_rate, one.revenue_per_click).statistic for one in (look_alike, original)
    ]
    assert abs(ranks[0] - ranks[1]) < 0.1
