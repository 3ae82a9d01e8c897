"""The average of the versions of a pool in the last minutes.

A policy may keep the floor by alternating, so that one version shows a link on every page and the
next one on none. The averages weight each version by the time it was in use, with weights that
decay to 37 % in ten minutes. They are renewed once a minute. Used by `decider` and `reporting`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from slotwise.arrays import Floats
from slotwise.service.deciding.installed_version import InstalledVersion
from slotwise.service.records import SECOND_US, PoolSettings

AVERAGED_US = 600 * SECOND_US
KEPT_US = 60 * SECOND_US


class AveragedVersion(NamedTuple):
    """The average of a pool's latest versions."""

    link_ids: tuple[str, ...]
    probabilities: Floats
    """The inclusion probabilities."""
    shadow_price: float | None
    """None if the last version has no page that reaches the floor."""


class VersionAverages:
    """Averages the versions of one pool.

    They start over when links or settings change, and after a version with the own page only.
    """

    def __init__(self, installed: InstalledVersion) -> None:
        self._start(installed)

    def _start(self, installed: InstalledVersion) -> None:
        self._last = installed
        self._average = self.kept = _as_average(installed)
        self._mass = 0.0
        """The sum of the weights so far, so that the first version has no extra weight."""
        self._kept_us = installed.stored.published_us

    def add(self, installed: InstalledVersion) -> None:
        """Add the next version."""
        last, self._last = self._last, installed
        if _subject(last) != _subject(installed):
            self._start(installed)
            return
        now_us = installed.stored.published_us
        used_us = max(now_us - last.stored.published_us, 0)
        fresh = -math.expm1(-used_us / AVERAGED_US)
        self._mass += fresh * (1.0 - self._mass)
        weight = fresh / self._mass if self._mass else 0.0
        before, used = self._average, _as_average(last)
        price = used.shadow_price
        if price is not None and before.shadow_price is not None:
            price = before.shadow_price + weight * (price - before.shadow_price)
        probabilities = before.probabilities + weight * (used.probabilities - before.probabilities)
        self._average = AveragedVersion(used.link_ids, probabilities, price)
        if now_us - self._kept_us >= KEPT_US:
            self.kept, self._kept_us = self._average, now_us


def _subject(installed: InstalledVersion) -> tuple[tuple[str, ...], PoolSettings, str]:
    """Return what must be equal in versions that are averaged."""
    return installed.link_ids, installed.pool.settings, installed.stored.fallback


def _as_average(installed: InstalledVersion) -> AveragedVersion:
    return AveragedVersion(
        installed.link_ids, installed.shown_probabilities(), installed.stored.shadow_price
    )
