"""`shop-like`: a pool with three levels of feedback, click, cart and purchase."""

from __future__ import annotations

import numpy as np

from slotwise.environments.datasets.dataset import Dataset
from slotwise.environments.datasets.look_alikes.stable_draws import (
    beta_from_uniforms,
    stable_uniforms,
)

__all__ = ["shop_like", "shop_recipe"]

N_LINKS = 120


def shop_like() -> Dataset:
    """Return the data set `shop-like`: seed 0 of the shop recipe."""
    return shop_recipe(seed=0)


def shop_recipe(seed: int) -> Dataset:
    """Draw the links of a shop, whose visitors click, put into the cart and buy.

        click:                a = 0.6 Beta(1, 3)
        cart given click:     c = 1 - Beta(1, 2)
        purchase given cart:  p = Beta(1, 2) exp(-3a)

    Links that are clicked often are bought rarely, so a floor on clicks costs purchases and works
    against a floor on the part of the carts that is bought. The click floor of 2.6 binds.

    >>> shop_recipe(seed=0).levels
    ('click', 'cart', 'purchase')
    """
    clicks, carts, purchases = stable_uniforms(seed, n_rows=3, n_columns=N_LINKS)
    click_rate = 0.6 * beta_from_uniforms(clicks, q=3.0)
    return Dataset.of_levels(
        {
            "click": click_rate,
            "cart": 1.0 - beta_from_uniforms(carts, q=2.0),
            "purchase": beta_from_uniforms(purchases, q=2.0) * np.exp(-3.0 * click_rate),
        },
        name="shop-like",
        title="Look-alike of a shop",
        n_slots=8,
        click_floor=2.6,
        failure_probability=0.01,
        look_alike=True,
        source=f"look-alike of no particular site, drawn from the shop recipe with seed {seed}",
    )
