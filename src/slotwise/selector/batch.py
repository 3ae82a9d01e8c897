"""Many page views at once: counts per link, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidFeedback
from slotwise.problem import is_finite_number
from slotwise.rounds import Link

__all__ = ["Batch", "read_batch"]


class Batch(NamedTuple):
    """Totals of each link; None where a level is not settled. Revenue in the user's money."""

    links: list[Link]
    views: NDArray[np.float64]
    clicks: NDArray[np.float64] | None
    revenue: NDArray[np.float64] | None


def read_batch(
    views: Mapping[Any, int],
    clicks: Mapping[Any, int] | None,
    revenue: Mapping[Any, float] | None,
) -> Batch:
    """Return the totals as arrays; refuse what no page views can have brought."""
    n_views = _totals("views", views, views)
    n_clicks = None if clicks is None else _totals("clicks", clicks, views)
    earned = None if revenue is None else _totals("revenue", revenue, views)
    batch = Batch(list(views), n_views, n_clicks, earned)
    for place, link in enumerate(batch.links):
        if n_clicks is not None and n_clicks[place] > n_views[place]:
            rule = f"at most its views ({n_views[place]:g})"
            raise InvalidFeedback(f"`clicks` of {link!r} must be {rule}, got {n_clicks[place]:g}")
        most_clicks = n_views if n_clicks is None else n_clicks
        if earned is not None and earned[place] > 0 and most_clicks[place] == 0:
            raise InvalidFeedback(f"`revenue` must be of links that were clicked, got {link!r}")
    return batch


def _totals(
    name: str, totals: Mapping[Any, float], views: Mapping[Any, int]
) -> NDArray[np.float64]:
    """Return the total of each link that has `views`, 0 where `totals` has no entry."""
    if not isinstance(totals, Mapping):
        raise InvalidFeedback(f"`{name}` must be a mapping of links to totals, got {totals!r}")
    is_money = name == "revenue"
    for link, total in totals.items():
        if link not in views:
            raise InvalidFeedback(f"`{name}` must be of links with `views`, got {link!r}")
        if not (is_finite_number(total) and total >= 0 and (is_money or total == int(total))):
            rule = f"a {'finite' if is_money else 'whole'} number that is at least 0"
            raise InvalidFeedback(f"`{name}` of {link!r} must be {rule}, got {total!r}")
    return np.array([totals.get(link, 0) for link in views], dtype=np.float64)
