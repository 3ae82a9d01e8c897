"""The frontier of a built-in data set: what `slotwise frontier coupon-mild` draws."""

from __future__ import annotations

from matplotlib.figure import Figure

from slotwise.environments.datasets import load_dataset
from slotwise.figures import FrontierPicture, draw_frontier
from slotwise.selection import frontier


def draw_coupon_frontier() -> Figure:
    """Draw best revenue and shadow price of the coupons for every floor."""
    data = load_dataset("coupon-mild")
    curve = frontier(data.revenue_rate, data.click_rate, data.n_slots)
    sizes = f"{data.n_links} links, {data.n_slots} slots"
    free = f"a floor of {curve.floors[0]:.2g} clicks is free, more than {curve.floors[-1]:.2g}"
    return draw_frontier(
        FrontierPicture(
            title="What each click floor costs",
            subtitle=f"{data.title}: {sizes}  ·  {free} cannot be had",
            curve=curve,
            floor=data.click_floor,
            revenue_word="revenue a page view, scaled",
        )
    )
