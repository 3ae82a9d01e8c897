"""A cache of reports, so that many open dashboards cost no more than one."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

__all__ = ["KeptReports"]

Report = TypeVar("Report")

MAX_KEPT = 64
MAX_NAMES = 1_000
MAX_OLD_S = 60.0
"""How long after its expiry `latest` still returns a report."""


class _Kept(NamedTuple):
    report: object
    state: Hashable
    until_s: float


class KeptReports(Generic[Report]):
    """Makes a report at most every `keep_s`, and takes at most a twentieth of one core.

    `clock_s` is monotonic time in seconds.
    """

    def __init__(self, keep_s: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._keep_s = keep_s
        self._clock_s = clock_s
        self._lock = Lock()
        self._making: dict[str, Lock] = {}
        self._kept: dict[str, _Kept] = {}

    def latest(self, name: str, state: Hashable, make: Callable[[], Report]) -> Report:
        """Return the last report called `name`, even an expired one, unless `state` changed since.

        For calls that must not wait for a new report.
        """
        kept = self._kept.get(name)
        if kept is not None and kept.state == state and self._clock_s() < kept.until_s + MAX_OLD_S:
            return kept.report  # type: ignore[return-value]
        return self.get(name, state, make)

    def get(self, name: str, state: Hashable, make: Callable[[], Report]) -> Report:
        """Return the report called `name`; make it again when `state` changed or it expired."""
        with self._lock:
            if len(self._making) >= MAX_NAMES:  # callers choose names: those of periods, say
                self._making = {one: lock for one, lock in self._making.items() if lock.locked()}
            making = self._making.setdefault(name, Lock())
        with making:
            kept = self._kept.get(name)
            started = self._clock_s()
            if kept is not None and kept.state == state and started < kept.until_s:
                return kept.report  # type: ignore[return-value]
            report = make()
            took = self._clock_s() - started
            until_s = started + took + max(self._keep_s, 20 * took)
            with self._lock:
                while len(self._kept) >= MAX_KEPT:
                    del self._kept[next(iter(self._kept))]
                self._kept[name] = _Kept(report, state, until_s)
            return report
