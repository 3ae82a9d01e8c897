"""What a pool has shown since its last version."""

from __future__ import annotations

from collections import Counter, deque
from itertools import chain
from operator import attrgetter

from slotwise.service.pool_version import Shown
from slotwise.service.records import DecisionRecord

MAX_LATEST = 250
"""Pages whose links are counted in one batch, which is cheaper than one by one."""
MAX_VIEWS = 5_000
"""Views of different visitors that are recorded between two versions of a pool."""

_shown = attrgetter("shown")
_link_id = attrgetter("link_id")


class ShownSince:
    """The pages that one pool has shown since the last version; not thread-safe.

    A page view only adds to `latest`. The caller that makes it longer than `MAX_LATEST` calls
    `count`.
    """

    def __init__(self) -> None:
        self.latest: list[DecisionRecord] = []
        """Pages that are not counted yet."""
        self._counted: Counter[str] = Counter()
        self._views: deque[DecisionRecord] = deque(maxlen=MAX_VIEWS)

    def count(self) -> None:
        """Count the latest pages."""
        latest, self.latest = self.latest, []
        self._counted.update(map(_link_id, chain.from_iterable(map(_shown, latest))))
        self._views.extend(decision for decision in latest if decision.segment)

    def sum(self) -> Shown:
        """Return what was shown."""
        self.count()
        return Shown(self._counted, self._views)
