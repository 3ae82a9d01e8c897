"""Time things against each other: processor time, best of several repeats."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

REPEATS = 5


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, against what, the target and what came out."""

    name: str
    measured: str
    target: str = ""
    reached: float | None = None
    limit: float | None = None
    is_upper_limit: bool = True
    unit: str = "x"

    @property
    def verdict(self) -> str:
        """Whether the target is met; a row without one only informs."""
        if self.reached is None or self.limit is None:
            return ""
        met = self.reached <= self.limit if self.is_upper_limit else self.reached >= self.limit
        return "met" if met else "missed"

    @property
    def reading(self) -> str:
        """What came out, as people read it."""
        if self.reached is None:
            return ""
        number = f"{self.reached:.3g}" if self.reached < 100 else f"{self.reached:,.0f}"
        return f"{number} {self.unit}"


def at_most(name: str, measured: str, reached: float, limit: float, unit: str = "x") -> Row:
    """Return a row whose target is an upper limit."""
    return Row(name, measured, f"at most {limit:g} {unit}", reached, limit, unit=unit)


def at_least(name: str, measured: str, reached: float, limit: float, unit: str = "x") -> Row:
    """Return a row whose target is a lower limit."""
    return Row(
        name,
        measured,
        f"at least {limit:g} {unit}",
        reached,
        limit,
        is_upper_limit=False,
        unit=unit,
    )


def note(name: str, measured: str, reached: float | None = None, unit: str = "x") -> Row:
    """Return a row without a target."""
    return Row(name, measured, reached=reached, unit=unit)


def _best(clock: Callable[[], float], work: Callable[[], object], repeats: int) -> float:
    """Return the shortest of several times: what others do on the machine only adds."""
    work()  # compiles, and warms the caches
    best = float("inf")
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repeats):
            start = clock()
            work()
            best = min(best, clock() - start)
    finally:
        if is_collecting:
            gc.enable()
    return best


def cpu_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the least processor time of `work`, which is run once before."""
    return _best(time.process_time, work, repeats)


def wall_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the least time on the clock, for what several threads do together."""
    return _best(time.perf_counter, work, repeats)
