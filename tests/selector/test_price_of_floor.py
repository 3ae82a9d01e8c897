"""The price of the floor from a selector's estimates, and the band around it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from slotwise.policies import CUCB
from slotwise.selection import frontier
from slotwise.selector import Selector


def pool(
    n_links: int, seed: int
) -> tuple[np.random.Generator, list[int], list[float], list[float]]:
    rng = np.random.default_rng(seed)
    return rng, list(range(n_links)), rng.random(n_links).tolist(), rng.random(n_links).tolist()


def learned(seed: int, n_views: int, max_revenue: float = 8.0) -> tuple[Selector, object]:
    rng, links, click_rate, per_click = pool(12, seed)
    selector = Selector(
        links, 3, policy=CUCB(), click_floor=1.2, max_revenue=max_revenue, seed=seed
    )
    clicks = {link: int(rng.binomial(n_views, click_rate[link])) for link in links}
    sales = {link: rng.binomial(clicks[link], per_click[link]) * max_revenue for link in links}
    selector.update_batch(dict.fromkeys(links, n_views), clicks, sales)
    value = np.array(click_rate) * per_click * max_revenue
    return selector, frontier(value / max_revenue, click_rate, 3)


def test_the_estimate_is_the_frontier_of_the_means() -> None:
    selector, _ = learned(seed=1, n_views=500)
    price = selector.frontier()
    links = selector.report().links
    value = [link.revenue_rate.estimate / 8.0 for link in links]
    curve = frontier(value, [link.click_rate.estimate for link in links], 3)
    np.testing.assert_allclose(price.estimate.floors, curve.floors)
    np.testing.assert_allclose(price.estimate.values, 8.0 * curve.values)
    np.testing.assert_allclose(price.estimate.shadow_prices, 8.0 * curve.shadow_prices)
    assert (price.click_floor, price.n_unseen) == (1.2, 0)


def test_the_band_holds_the_true_curve() -> None:
    # Fails in less than one of twenty; over 40 pools more than 10 times below once in 10^6.
    n_missed = 0
    for seed in range(40):
        selector, true = learned(seed, n_views=300)
        price = selector.frontier()
        for floor in np.linspace(0.0, 3.0, 31):
            truth = 8.0 * true.value_at(floor)  # type: ignore[attr-defined]
            _, low, high = price.at(floor)
            is_inside = not (low > truth or high < truth)
            if math.isnan(truth):
                is_inside = math.isnan(low)
            if not is_inside:
                n_missed += 1
                break
    assert n_missed <= 10


def test_the_band_is_around_the_estimate_and_narrows() -> None:
    wide, narrow = (learned(2, n_views)[0].frontier() for n_views in (100, 100_000))
    for price in (wide, narrow):
        for floor in (0.0, 1.0, 1.5):
            estimate, low, high = price.at(floor)
            assert low <= estimate <= high or math.isnan(low)
    assert narrow.at(1.0)[2] - narrow.at(1.0)[1] < 0.2 * (wide.at(1.0)[2] - wide.at(1.0)[1])


def test_links_never_seen_bring_nothing_or_everything() -> None:
    selector = Selector(["a", "b"], 1, policy=CUCB(), max_revenue=5.0, seed=1)
    price = selector.frontier()
    assert price.n_unseen == 2
    assert price.at(0.0) == (0.0, 0.0, 5.0)
    assert math.isnan(price.at(0.5)[0])


def test_looking_changes_nothing_and_a_saved_selector_says_the_same(tmp_path: Path) -> None:
    selector, _ = learned(seed=3, n_views=50)
    twin, _ = learned(seed=3, n_views=50)
    before = selector.frontier()
    assert [selector.select().shown for _ in range(5)] == [twin.select().shown for _ in range(5)]
    selector.save(tmp_path / "selector.npz")
    after = Selector.load(tmp_path / "selector.npz").frontier()
    np.testing.assert_array_equal(after.high.values, before.high.values)


@pytest.mark.parametrize("n_views", [1, 7])
def test_few_views_give_a_wide_band(n_views: int) -> None:
    price = learned(4, n_views)[0].frontier()
    assert price.at(0.0)[2] > 8.0
