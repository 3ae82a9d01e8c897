"""How often each link was shown, counted until learning asks for it."""

from __future__ import annotations

from collections import Counter

from slotwise.service.records import DecisionRecord

__all__ = ["ShownViews"]


class ShownViews:
    """Counts the views of links by pool; not safe for threads by itself.

    >>> from slotwise.service.records import ShownLink
    >>> views = ShownViews()
    >>> views.take("home")
    Counter()
    """

    def __init__(self) -> None:
        self._views: dict[str, Counter[str]] = {}

    def add(self, decision: DecisionRecord) -> None:
        """Count the links of a page that was shown."""
        views = self._views.get(decision.pool_id)
        if views is None:
            views = self._views[decision.pool_id] = Counter()
        views.update([shown.link_id for shown in decision.shown])

    def take(self, pool_id: str) -> Counter[str]:
        """Return the views of a pool since the last call."""
        return self._views.pop(pool_id, Counter())
