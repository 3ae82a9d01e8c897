"""The page to fill from a data set: slots, floor and failure probability."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Page"]


@dataclass(frozen=True)
class Page:
    """Slots, click floor and failure probability; `Dataset` checks them against its links."""

    n_slots: int
    click_floor: float
    failure_probability: float = 0.01
