from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slotwise.environments.datasets import Dataset
from slotwise.errors import InvalidInput


@pytest.fixture
def pool() -> Dataset:
    return Dataset(
        name="pool",
        title="A pool",
        click_rate=np.array([0.5, 0.2, 0.1]),
        revenue_per_click=np.array([0.1, 0.5, 1.0]),
        n_slots=2,
        click_floor=0.6,
        failure_probability=0.01,
        look_alike=False,
        source="made up",
    )


def test_revenue_rate_is_the_product_of_the_two_rates(pool: Dataset) -> None:
    np.testing.assert_allclose(pool.revenue_rate, [0.05, 0.1, 0.1])
    assert pool.n_links == 3
    assert pool.most_clicks == pytest.approx(0.7)


def test_rates_are_copied_and_read_only(pool: Dataset) -> None:
    rates = np.array([0.5, 0.2, 0.1])
    copied = replace(pool, click_rate=rates)
    rates[0] = 0.9
    assert copied.click_rate[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        copied.click_rate[0] = 0.9


def test_another_floor_changes_nothing_else(pool: Dataset) -> None:
    changed = pool.with_floor(0.65)
    assert changed.click_floor == 0.65
    assert pool.click_floor == 0.6
    assert np.array_equal(changed.click_rate, pool.click_rate)
    assert changed.name == pool.name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"click_rate": [0.5, 1.5, 0.1]}, r"`click_rate` must be from 0 to 1 .* got 1.5; .*link 1"),
        ({"click_rate": [0.5, np.nan, 0.1]}, r"`click_rate` must be from 0 to 1 .* got nan"),
        ({"click_rate": [[0.5, 0.1, 0.1]]}, r"`click_rate` must be one number for each link"),
        ({"revenue_per_click": [-0.1, 0, 0]}, r"`revenue_per_click` must be from 0 to 1"),
        ({"revenue_per_click": [0.1]}, r"`revenue_per_click` must be as long as .* \(3\), got 1"),
        ({"n_slots": 4}, r"`n_slots` must be from 1 to the number of links \(3\), got 4"),
        ({"n_slots": 0}, r"`n_slots` must be from 1 to the number of links \(3\), got 0"),
        ({"click_floor": 2.0}, r"`click_floor` must be at least 0 and below n_slots \(2\), got 2"),
        ({"click_floor": np.nan}, r"`click_floor` must be at least 0"),
        ({"failure_probability": 0.0}, r"`failure_probability` must be between 0 and 1, got 0"),
        ({"link_names": ("a",)}, r"`link_names` must be as many different names .* \(3\), got 1"),
        ({"link_names": ("a", "b", "a")}, r"`link_names` must be as many .* \(3\), got 2"),
    ],
)
def test_what_breaks_a_rule_is_named(
    pool: Dataset, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        replace(pool, **changes)  # type: ignore[arg-type]


def levels(**rates: Any) -> Dataset:
    return Dataset.of_levels(
        rates,
        name="shop",
        title="Shop",
        n_slots=1,
        click_floor=0.1,
        failure_probability=0.01,
        look_alike=False,
        source="made up",
    )


def test_revenue_per_click_is_the_product_of_the_later_levels() -> None:
    shop = levels(click=[0.5, 0.2], cart=[0.4, 0.5], purchase=[0.5, 1.0])
    assert shop.levels == ("click", "cart", "purchase")
    assert shop.revenue_per_click.tolist() == [0.2, 0.5]
    assert shop.rates_given_last.tolist() == [[0.5, 0.2], [0.4, 0.5], [0.5, 1.0]]
    assert shop.with_floor(0.3).levels == shop.levels


def test_two_levels_are_click_and_revenue(pool: Dataset) -> None:
    assert pool.levels == ("click", "revenue")
    assert pool.rates_given_last.tolist() == [[0.5, 0.2, 0.1], [0.1, 0.5, 1.0]]


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ({"click": [0.5]}, "`rates` must be of the level 'click' first and of one level or more"),
        ({"cart": [0.5], "click": [0.5]}, "`rates` must be of the level 'click' first"),
        ({"click": [0.5], "cart": [1.5]}, "`cart` must be from 0 to 1 for every link, got 1.5"),
        ({"click": [0.5], "cart": [0.1, 0.2]}, r"`cart` must be as long as the click rate \(1\)"),
        ({"click": [-0.5], "cart": [0.1]}, "`click_rate` must be from 0 to 1 for every link"),
    ],
)
def test_wrong_levels_are_refused(rates: dict[str, list[float]], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        levels(**rates)
