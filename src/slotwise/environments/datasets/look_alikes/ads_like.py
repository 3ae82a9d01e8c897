"""`ads-like` and `ads-like-binding`: a look-alike of Ad-Clicks under two floors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slotwise.environments.datasets.dataset import Dataset
from slotwise.environments.datasets.look_alikes.stable_draws import (
    beta_from_uniforms,
    stable_uniforms,
)

__all__ = ["ads_like", "ads_like_binding", "ads_recipe"]

N_LINKS = 225
POPULAR_SHARE = 1 / 6


def ads_like() -> Dataset:
    """Return the data set `ads-like`, whose floor of 10 does not bind, as on Ad-Clicks itself."""
    return ads_recipe(seed=0)


def ads_like_binding() -> Dataset:
    """Return the links of `ads-like` under a floor of 12, which binds."""
    return replace(
        ads_like().with_floor(12.0),
        name="ads-like-binding",
        title="Look-alike of Ad-Clicks, binding floor",
    )


def ads_recipe(seed: int) -> Dataset:
    """Draw a look-alike of Ad-Clicks.

    One link in six is popular, and a few of these have a high revenue. The others are clicked
    rarely, and their revenue rate g = ab hardly depends on their click rate:

        popular:  a = 0.55 + 0.33 U,             b = 0.7 V^3
        others:   a = 0.07 + 0.40 Beta(1, 2),    b = min(1, (0.038 + Exp(0.02)) / a)

    with U, V uniform on [0, 1) and Exp(m) exponential with mean m.

    >>> ads_recipe(seed=0).click_rate[:3].round(6).tolist()
    [0.228031, 0.186189, 0.603969]
    """
    group, clicks, revenue = stable_uniforms(seed, n_rows=3, n_columns=N_LINKS)
    popular = group < POPULAR_SHARE
    click_rate = np.where(
        popular, 0.55 + 0.33 * clicks, 0.07 + 0.40 * beta_from_uniforms(clicks, q=2.0)
    )
    revenue_rate = 0.038 - 0.02 * np.log(1.0 - revenue)
    revenue_per_click = np.where(
        popular, 0.7 * revenue**3, np.minimum(1.0, revenue_rate / click_rate)
    )
    return Dataset(
        name="ads-like",
        title="Look-alike of Ad-Clicks",
        click_rate=click_rate,
        revenue_per_click=revenue_per_click,
        n_slots=20,
        click_floor=10.0,
        failure_probability=0.02,
        look_alike=True,
        source=f"look-alike of Ad-Clicks, drawn from the ads recipe with seed {seed}",
    )
