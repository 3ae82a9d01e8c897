"""Deficit feedback: ask for more clicks while too few came, by any floor-program policy.

    h_t = h + clip((h (t - 1) - clicks so far) / sqrt(T), 0, h / 4)

Optimistic bounds promise clicks that do not come, so a policy that only plans to keep the floor
falls behind it. Asking for a little more in proportion to what is missing makes up for that.
Without a horizon sqrt(T) is the root of the rounds so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from slotwise.policies.contract import Floats, Knowledge
from slotwise.policies.knowledge.evidence import EvidencePolicy
from slotwise.problem import Problem
from slotwise.selection.compiled import inner

__all__ = [
    "Deficit",
    "DeficitPolicy",
    "clicks_wanted",
    "new_deficit",
    "note_clicks",
    "restore_deficit",
    "with_deficit",
]

MOST_EXTRA = 0.25
"""The most that is asked for above the floor, as a share of it."""

PAGES, CLICKS = 0, 1


class Deficit(NamedTuple):
    """The floor, and the pages and clicks settled so far where they are fed back.

    `root_horizon` is zero where the horizon is not known.
    """

    floor: float
    n_slots: int
    root_horizon: float
    is_fed_back: bool
    totals: Floats


def new_deficit(problem: Problem, is_fed_back: bool, horizon: int | None) -> Deficit:
    """Return a floor that nothing is missing from yet."""
    root = math.sqrt(horizon) if horizon else 0.0
    return Deficit(problem.click_floor, problem.n_slots, root, bool(is_fed_back), np.zeros(2))


@inner
def note_clicks(deficit: Deficit, views: Floats, clicks: Floats) -> None:
    """Count settled page views, in pages, and the clicks that they brought."""
    if deficit.is_fed_back:
        for k in range(len(views)):
            deficit.totals[PAGES] += views[k] / deficit.n_slots
            deficit.totals[CLICKS] += clicks[k]


@inner
def clicks_wanted(deficit: Deficit) -> float:
    """Return the clicks to ask of the next page: the floor, and more where it was missed."""
    floor = deficit.floor
    if not deficit.is_fed_back:
        return floor
    pages = deficit.totals[PAGES]
    missing = floor * pages - deficit.totals[CLICKS]
    root = deficit.root_horizon if deficit.root_horizon > 0.0 else math.sqrt(max(1.0, pages))
    return floor + min(max(0.0, missing / root), MOST_EXTRA * floor)


class DeficitPolicy(EvidencePolicy):
    """A policy with a setting `deficit_feedback`, whose state holds `evidence` and `deficit`."""

    def knowledge(self, state: Any) -> Knowledge:
        """Return the evidence and, where they are fed back, the totals behind the deficit."""
        return with_deficit(super().knowledge(state), state)

    def restore_beyond_counts(self, state: Any, knowledge: Mapping[str, Floats]) -> None:
        """Give `state` the totals of `knowledge`."""
        restore_deficit(state, knowledge)


def with_deficit(knowledge: Knowledge, state: Any) -> Knowledge:
    """Return `knowledge` with the totals, where they are fed back."""
    if state.deficit.is_fed_back:
        knowledge["deficit"] = state.deficit.totals.copy()
    return knowledge


def restore_deficit(state: Any, knowledge: Mapping[str, Floats]) -> None:
    """Give `state` the totals of `knowledge`; they also count links that have left the pool."""
    if state.deficit.is_fed_back:
        state.deficit.totals[:] = knowledge["deficit"]
