"""How late feedback comes, and the window that would catch nearly all of it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Delays", "describe_delays"]

MIN_EVENTS = 50
"""With fewer events a suggestion would be a guess."""
WINDOWS_S = (
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 4, 8, 12)),
    *(86_400 * days for days in (1, 2, 3, 7, 14, 30, 60, 90, 180)),
)


class Delays(msgspec.Struct, frozen=True, kw_only=True):
    """From page to event, over the latest events; times in seconds, None without events."""

    n_events: int
    median_s: float | None
    late_s: float | None
    """99 of 100 events come within this time."""
    suggested_window_s: int | None
    """The shortest usual window that 99 of 100 events keep; None with too few events."""


def describe_delays(delays_us: Sequence[int]) -> Delays:
    """Describe increasing delays.

    >>> describe_delays([n * 1_000_000 for n in range(1, 101)])
    Delays(n_events=100, median_s=51.0, late_s=100.0, suggested_window_s=120)
    >>> describe_delays([])
    Delays(n_events=0, median_s=None, late_s=None, suggested_window_s=None)
    """
    n_events = len(delays_us)
    if n_events == 0:
        return Delays(n_events=0, median_s=None, late_s=None, suggested_window_s=None)
    late_s = max(delays_us[min(n_events - 1, n_events * 99 // 100)], 0) / 1e6
    suggested = next((window for window in WINDOWS_S if window >= late_s), WINDOWS_S[-1])
    return Delays(
        n_events=n_events,
        median_s=max(delays_us[n_events // 2], 0) / 1e6,
        late_s=late_s,
        suggested_window_s=suggested if n_events >= MIN_EVENTS else None,
    )
