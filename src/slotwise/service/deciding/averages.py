"""Averages over the latest versions of a pool: what people read must not change with each one.

A policy may keep the floor by turns, so that one version shows a link on every page and the next
one on none. The averages weigh each version by the time it was in use, with weights that fall to
37 % in ten minutes, and are handed out once a minute.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.service.deciding.snapshot import Snapshot
from slotwise.service.records import SECOND_US, PoolSettings

__all__ = ["AveragedVersion", "VersionAverages"]

Floats = NDArray[np.float64]

AVERAGED_US = 600 * SECOND_US
KEPT_US = 60 * SECOND_US


class AveragedVersion(NamedTuple):
    """The latest versions of a pool in one."""

    link_ids: tuple[str, ...]
    probabilities: Floats
    """The inclusion probabilities."""
    shadow_price: float | None
    """None when no page reached the floor by the last version."""


class VersionAverages:
    """Averages the versions of one pool.

    Other links or settings start over, and so does the first version after the fallback order.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._start(snapshot)

    def _start(self, snapshot: Snapshot) -> None:
        self._last = snapshot
        self._average = self.kept = _as_average(snapshot)
        self._kept_us = snapshot.published.published_us

    def add(self, snapshot: Snapshot) -> None:
        """Take over the next version."""
        last, self._last = self._last, snapshot
        if _subject(last) != _subject(snapshot):
            self._start(snapshot)
            return
        now_us = snapshot.published.published_us
        used_us = max(now_us - last.published.published_us, 0)
        weight = -math.expm1(-used_us / AVERAGED_US)
        before, used = self._average, _as_average(last)
        price = used.shadow_price
        if price is not None and before.shadow_price is not None:
            price = before.shadow_price + weight * (price - before.shadow_price)
        probabilities = before.probabilities + weight * (used.probabilities - before.probabilities)
        self._average = AveragedVersion(used.link_ids, probabilities, price)
        if now_us - self._kept_us >= KEPT_US:
            self.kept, self._kept_us = self._average, now_us


def _subject(snapshot: Snapshot) -> tuple[tuple[str, ...], PoolSettings, str]:
    """Return what versions that are averaged share."""
    return snapshot.link_ids, snapshot.pool.settings, snapshot.published.fallback


def _as_average(snapshot: Snapshot) -> AveragedVersion:
    return AveragedVersion(
        snapshot.link_ids, snapshot.shown_probabilities(), snapshot.published.shadow_price
    )
