"""`tiny-rates`: a large pool of links with tiny click rates, as on most real pages."""

from __future__ import annotations

import numpy as np

from slotwise.environments.datasets.dataset import Dataset
from slotwise.environments.datasets.look_alikes.stable_draws import stable_uniforms

__all__ = ["tiny_rates", "tiny_rates_recipe"]

N_LINKS = 1000


def tiny_rates() -> Dataset:
    """Return the data set `tiny-rates`: seed 0 of its recipe."""
    return tiny_rates_recipe(seed=0)


def tiny_rates_recipe(seed: int) -> Dataset:
    """Draw a pool with click rates between 0.1 % and 2 %.

        a = 0.001 * 20^U,   b = V exp(-a / 0.008)

    with U, V uniform on [0, 1): rates log-uniform, revenue falling with clicks. The best page
    has about 0.08 clicks per view and the most clicked page about 0.197, so the floor of 0.12
    binds.

    >>> tiny_rates_recipe(seed=0).click_rate[:3].round(6).tolist()
    [0.006741, 0.002244, 0.001131]
    """
    clicks, revenue = stable_uniforms(seed, n_rows=2, n_columns=N_LINKS)
    click_rate = 0.001 * 20.0**clicks
    return Dataset(
        name="tiny-rates",
        title="Look-alike of a large pool with tiny click rates",
        click_rate=click_rate,
        revenue_per_click=revenue * np.exp(-click_rate / 0.008),
        n_slots=10,
        click_floor=0.12,
        failure_probability=0.01,
        look_alike=True,
        source=f"look-alike of no particular site, drawn from the tiny-rates recipe, seed {seed}",
    )
