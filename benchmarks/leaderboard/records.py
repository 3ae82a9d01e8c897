"""The record of each policy over the whole suite, and the recommendation."""

from __future__ import annotations

import math
from typing import NamedTuple

from benchmarks.leaderboard.board import CaseBoard, Leaderboard, Standing

__all__ = ["RECOMMENDATION_RULE", "Record", "best_without_horizon", "records"]

RECOMMENDATION_RULE = (
    "Policies are ordered by the number of cases on which they miss a floor that can be kept, "
    "then by the largest of their ratios over all cases. The recommendation is the first that "
    "needs no horizon."
)
"""The rule by which one policy is recommended; pages print it."""


class Record(NamedTuple):
    """A policy over all its cases.

    Ratios of cases whose floor it missed are included; they may be small, but mean little.
    """

    label: str
    knows_horizon: bool
    n_cases: int
    n_wins: int
    floors_missed: tuple[str, ...]
    worst_ratio: float
    worst_case: str
    mean_ratio: float
    microseconds: float | None

    @property
    def order(self) -> tuple[int, float]:
        """The sort key of records."""
        return len(self.floors_missed), self.worst_ratio


def records(board: Leaderboard) -> list[Record]:
    """Return the record of every policy, the best first."""
    return sorted((_record(board, label) for label in board.labels), key=lambda one: one.order)


def best_without_horizon(board: Leaderboard) -> Record | None:
    """Return the recommendation: the best record of a policy that uses no horizon."""
    return next((one for one in records(board) if not one.knows_horizon), None)


def _record(board: Leaderboard, label: str) -> Record:
    played: list[tuple[CaseBoard, Standing]] = [
        (case, standing) for case in board.cases if (standing := case.find(label)) is not None
    ]
    worst_case, worst = max(played, key=lambda pair: pair[1].ratio)
    times = sorted(
        standing.measures["microseconds"].mean
        for _, standing in played
        if "microseconds" in standing.measures
    )
    logs = [math.log(standing.ratio) for _, standing in played]
    return Record(
        label=label,
        knows_horizon=worst.knows_horizon,
        n_cases=len(played),
        n_wins=sum(standing.rank == 1 for _, standing in played),
        floors_missed=tuple(
            case.name
            for case, standing in played
            if case.can_keep_floor and not standing.keeps_floor
        ),
        worst_ratio=worst.ratio,
        worst_case=worst_case.name,
        mean_ratio=math.exp(sum(logs) / len(logs)),
        microseconds=times[len(times) // 2] if times else None,
    )
