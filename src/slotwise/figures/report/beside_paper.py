"""What policies that are not in the paper reach, beside the paper's algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from slotwise.figures.look.known_policies import SUBJECT, display_name
from slotwise.figures.look.style import measured
from slotwise.figures.results.setting import Setting
from slotwise.policies import default_policy
from slotwise.simulation.results import Results

__all__ = ["BesidePaper", "compare_beside"]

METRICS = ("regret", "shortfall")


class BesidePaper(NamedTuple):
    """One policy that is not in the paper: its means after the last round, beside Con-UCB's.

    A row is a data set. Its cells are the regret of the policy and of Con-UCB, then the shortfall
    of both; Con-UCB is that of the γ with the lowest regret.
    """

    name: str
    rows: list[tuple[str, list[str]]]


def compare_beside(results: Sequence[Results]) -> list[BesidePaper]:
    """Return a comparison for each policy that ran beside all of the paper's."""
    rows: dict[str, list[tuple[str, list[str]]]] = {}
    for each in results:
        setting = Setting.of(each)
        for label in each.labels:
            if not setting.is_in_paper(label):
                row = (setting.heading, _compared(each, setting, label))
                rows.setdefault(label, []).append(row)
    return [BesidePaper(_introduced(label), found) for label, found in rows.items()]


def _introduced(label: str) -> str:
    default = ", the default policy of slotwise" if label == default_policy().name else ""
    return f"{display_name(label, 60)}{default}"


def _compared(results: Results, setting: Setting, label: str) -> list[str]:
    def mean(one: str, metric: str) -> float:
        return float(results.final(one, metric).mean())

    ours = setting.labels_of_policy(results.labels, SUBJECT)
    best = min(ours, key=lambda one: mean(one, "regret"))
    name = display_name(best)
    cells = ((measured(mean(label, m)), f"{measured(mean(best, m))} ({name})") for m in METRICS)
    return [cell for pair in cells for cell in pair]
