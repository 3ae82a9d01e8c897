"""What each pool has shown since learning last asked."""

from __future__ import annotations

from collections import Counter, deque
from itertools import chain
from operator import attrgetter

from slotwise.service.deciding.page_mix import PageMix
from slotwise.service.published import Shown
from slotwise.service.records import DecisionRecord

__all__ = ["MAX_LATEST", "ShownSince"]

MAX_LATEST = 250
"""Pages whose links are counted together: the sum is cheaper than its terms."""
MAX_VIEWS = 5_000
"""Views of visitors that differ which are kept between two versions of a pool."""

_shown = attrgetter("shown")
_link_id = attrgetter("link_id")


class ShownSince:
    """The pages of one pool; not safe for threads by itself.

    A page view only adds to `latest`. Whoever makes it longer than `MAX_LATEST` calls `count`.
    Mixes that are drawn from often count their pages themselves.
    """

    def __init__(self) -> None:
        self.latest: list[DecisionRecord] = []
        """Pages that are not counted yet."""
        self.mixes: set[PageMix] = set()
        """Those that have counted pages."""
        self._counted: Counter[str] = Counter()
        self._views: deque[DecisionRecord] = deque(maxlen=MAX_VIEWS)

    def count(self) -> None:
        """Count the latest pages."""
        latest, self.latest = self.latest, []
        self._counted.update(map(_link_id, chain.from_iterable(map(_shown, latest))))
        self._views.extend(decision for decision in latest if decision.segment)

    def take_counts(self) -> None:
        """Take over what the mixes have counted; nobody may draw from them meanwhile."""
        for mix in self.mixes:
            self._counted.update(mix.take_shown())

    def sum(self) -> Shown:
        """Return what was shown, after `take_counts`."""
        self.count()
        return Shown(self._counted, self._views)
