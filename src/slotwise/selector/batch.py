"""Many page views at once: totals per link, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidFeedback
from slotwise.problem import is_finite_number
from slotwise.rounds import Link
from slotwise.selector.open_pages import CLICKS_AND_REVENUE

__all__ = ["Batch", "read_batch"]

Floats = NDArray[np.float64]


class Batch(NamedTuple):
    """Totals of each link by level; None where a level is not settled. Money as it was given."""

    links: list[Link]
    views: Floats
    outcomes: list[Floats | None]

    def most_before(self, level: int) -> Floats:
        """Return the totals of the nearest settled level before, which no total can exceed."""
        settled = [totals for totals in self.outcomes[:level] if totals is not None]
        return settled[-1] if settled else self.views


def read_batch(views: Mapping[Any, int], given: Mapping[int, Any], names: tuple[str, ...]) -> Batch:
    """Return the totals as arrays; refuse what no page views can have brought.

    `given` has the totals of each level that is settled, `names` what the levels are called.
    """
    last = len(names) - 1
    outcomes: list[Floats | None] = [None] * len(names)
    batch = Batch(list(views), _totals("views", views, views, is_money=False), outcomes)
    before = "views"
    for level, name in enumerate(names):
        if given.get(level) is None:
            continue
        totals = _totals(name, given[level], views, is_money=level == last)
        for link, total, most in zip(batch.links, totals, batch.most_before(level), strict=True):
            if level < last and total > most:
                rule = f"at most its {before} ({most:g})"
                raise InvalidFeedback(f"`{name}` of {link!r} must be {rule}, got {total:g}")
            if level == last and total > 0 and most == 0:
                is_plain = names == CLICKS_AND_REVENUE
                rule = "that were clicked" if is_plain else f"with `{before}`"
                raise InvalidFeedback(f"`{name}` must be of links {rule}, got {link!r}")
        outcomes[level] = totals
        before = name
    return batch


def _totals(
    name: str, totals: Mapping[Any, float], views: Mapping[Any, int], is_money: bool
) -> Floats:
    """Return the total of each link that has `views`, 0 where `totals` has no entry."""
    if not isinstance(totals, Mapping):
        raise InvalidFeedback(f"`{name}` must be a mapping of links to totals, got {totals!r}")
    for link, total in totals.items():
        if link not in views:
            raise InvalidFeedback(f"`{name}` must be of links with `views`, got {link!r}")
        if not (is_finite_number(total) and total >= 0 and (is_money or total == int(total))):
            rule = f"a {'finite' if is_money else 'whole'} number that is at least 0"
            raise InvalidFeedback(f"`{name}` of {link!r} must be {rule}, got {total!r}")
    return np.array([totals.get(link, 0) for link in views], dtype=np.float64)
