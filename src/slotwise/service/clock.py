"""The service's clock: the system's time of day, without its jumps.

Used by `api`, `learning`, `reporting` and `service`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MAX_STEP_US = 10_000_000
"""Differences up to this are adopted: clocks are adjusted in small steps."""

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Includes the time that the machine slept, where the system supports it."""


class SteadyClock:
    """Returns the time of day in microseconds: the time at its start plus the elapsed time.

    Windows are never reopened, so a time of day that jumps ahead by an hour would make all feedback
    of that hour late. `compare` adopts small steps of the system's time of day; larger ones are
    only reported in `jump_us`, until the system's time is correct again or the process restarts.

    >>> wall_us, elapsed_us = [1_000_000_000], [0]
    >>> clock = SteadyClock(lambda: wall_us[0], lambda: elapsed_us[0])
    >>> wall_us[0] += 3_600_000_000
    >>> clock.compare()
    >>> clock(), clock.jump_us
    (1000000000, 3600000000)
    """

    def __init__(
        self,
        wall_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        elapsed_us: Callable[[], int] = lambda: time.clock_gettime_ns(_SINCE_BOOT) // 1000,
    ) -> None:
        self._wall_us = wall_us
        self._elapsed_us = elapsed_us
        self._start_us = wall_us() - elapsed_us()
        self.jump_us = 0
        """How far the system's time of day is ahead of this clock; negative if behind."""

    def __call__(self) -> int:
        """Return the microseconds since the epoch."""
        return self._start_us + self._elapsed_us()

    def compare(self) -> None:
        """Compare with the system's time of day."""
        ahead_us = self._wall_us() - self()
        if abs(ahead_us) <= MAX_STEP_US:
            self._start_us += ahead_us
            ahead_us = 0
        self.jump_us = ahead_us
