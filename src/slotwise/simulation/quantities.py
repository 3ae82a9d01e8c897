"""The quantities that a run records of every level and floor, by their names in results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from slotwise.problem import Problem
from slotwise.simulation.engine import DEFICIT, TOTAL, VIOLATION

__all__ = ["quantities_of"]

Floats = NDArray[np.float64]


def quantities_of(
    problem: Problem, records: Floats, value_labels: Sequence[str] = ()
) -> dict[str, Floats]:
    """Return the quantities of records of shape (run, kind, row, checkpoint) by name.

    Rows are levels, then floors on rates. With more than two levels, or floors beyond the click
    floor, every level has a "total:LEVEL" and every floor its violation and deficit. The total of
    a rate, "total:cart/click", is its surplus: carts minus the rate times the clicks. Every value
    of a visitor's feature has its rounds, clicks and reward: "rounds:device phone".
    """
    levels = problem.levels
    quantities = {
        "reward": sum(
            weight * records[:, TOTAL, levels.index(level)]
            for level, weight in problem.rewards.items()
        ),
        "clicks": records[:, TOTAL, 0],
        "violation": records[:, VIOLATION, 0],
        "deficit": records[:, DEFICIT, 0],
    }
    if len(levels) > 2 or not problem.has_click_floor_only:
        of_rates = [floor.name for floor in problem.active_floors if floor.rate > 0.0]
        for row, name in enumerate([*levels, *of_rates]):
            quantities[f"total:{name}"] = records[:, TOTAL, row]
            if name in problem.floors or row >= len(levels):
                quantities[f"violation:{name}"] = records[:, VIOLATION, row]
                quantities[f"deficit:{name}"] = records[:, DEFICIT, row]
    row = len(levels) + sum(floor.rate > 0.0 for floor in problem.active_floors)
    for label in value_labels:
        quantities[f"rounds:{label}"] = records[:, TOTAL, row]
        quantities[f"clicks:{label}"] = records[:, TOTAL, row + 1]
        quantities[f"reward:{label}"] = sum(
            weight * records[:, TOTAL, row + 1 + levels.index(level)]
            for level, weight in problem.rewards.items()
        )
        row += 1 + len(levels)
    return {name: np.asarray(values) for name, values in quantities.items()}
