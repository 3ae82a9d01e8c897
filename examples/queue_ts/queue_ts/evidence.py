"""Counts of every link, which optionally give more weight to recent views.

With a memory of m rounds all counts are multiplied by 1 - 1/m in every round, so that a view has
the weight 1/e after m rounds and the counts of a link follow a rate that drifts. The discount is
lazy: the counts of a link are as of the round in which they were last added to, and are discounted
when read. Reading all links in every round would be slow, so links not shown are read again every m
/ 50 rounds: their counts are at most 2 % too large.

Rounds are counted by settled page views, `n_slots` views making one, separately for each level:
late revenue is discounted by the revenue that has settled, not by the clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.compile import hot, inner, switching
from slotwise.policies.policy import Floats, Knowledge, Policy, State
from slotwise.problem import Problem, whole_number
from slotwise.selection.passes import total_of

LOOKS_PER_MEMORY = 50


class Evidence(NamedTuple):
    """Counts per level and link with the round of these values, and rounds per level.

    `log_kept` is the logarithm of the discount per round; 0 means none.
    `looked` is the round in which all links were last read, a multiple of `look_every`.
    """

    views: Floats
    sums: Floats
    settled: Floats
    rounds: Floats
    looked: Floats
    n_slots: int
    log_kept: float
    look_every: float


def new_evidence(problem: Problem, memory: int | None = None) -> Evidence:
    """Return evidence of nothing."""
    shape = (problem.n_levels, problem.n_links)
    return Evidence(
        views=np.zeros(shape),
        sums=np.zeros(shape),
        settled=np.zeros(shape),
        rounds=np.zeros(problem.n_levels),
        looked=np.zeros(problem.n_levels),
        n_slots=problem.n_slots,
        log_kept=0.0 if memory is None else math.log1p(-1.0 / memory),
        look_every=math.inf if memory is None else max(1.0, memory / LOOKS_PER_MEMORY),
    )


@inner
def count_rounds(evidence: Evidence, level: int, views: Floats) -> None:
    """Advance the round count of a level by the newly settled page views."""
    evidence.rounds[level] += total_of(views) / evidence.n_slots


@inner
def add_views(evidence: Evidence, level: int, link: int, n_views: float, outcome: float) -> None:
    """Add settled views of one link to the discounted older ones."""
    if evidence.log_kept < 0.0:
        now = evidence.rounds[level]
        kept = math.exp(evidence.log_kept * (now - evidence.settled[level, link]))
        evidence.views[level, link] *= kept
        evidence.sums[level, link] *= kept
        evidence.settled[level, link] = now
    evidence.views[level, link] += n_views
    evidence.sums[level, link] += outcome


@inner
def weighted_counts(evidence: Evidence, level: int, link: int) -> tuple[float, float]:
    """Return the outcomes and views of a link, discounted to when all links were last read."""
    kept = 1.0
    if evidence.log_kept != 0.0:
        age = evidence.looked[level] - evidence.settled[level, link]
        kept = math.exp(evidence.log_kept * max(0.0, age))
    return kept * evidence.sums[level, link], kept * evidence.views[level, link]


@hot
def is_refresh_due(evidence: Evidence, level: int) -> bool:
    """Return whether all links must be read again, and record that they are."""
    if evidence.rounds[level] < evidence.looked[level] + evidence.look_every:
        return False
    periods = math.floor(evidence.rounds[level] / evidence.look_every)
    evidence.looked[level] = periods * evidence.look_every
    return True


def check_memory(memory: int | None) -> None:
    """Refuse a memory that is not a number of rounds."""
    if memory is not None:
        whole_number("memory", memory, at_least=2)


class EvidencePolicy(Policy):
    """A policy whose state has `evidence` and, for speed, bounds or posteriors made from it.

    `refresh(state)` recomputes all of those, after restoring and when counts have decayed.
    """

    per_link: ClassVar[frozenset[str]] = frozenset({"views", "sums", "settled"})
    refresh: ClassVar[Callable[[Any], None]]

    def knowledge(self, state: Any) -> Knowledge:
        """Return the counts, the rounds of these values, and the rounds settled."""
        evidence = state.evidence
        return {
            "views": evidence.views.copy(),
            "sums": evidence.sums.copy(),
            "settled": evidence.settled.copy(),
            "rounds": evidence.rounds.copy(),
        }

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> State:
        """Return the state that has seen exactly this, with its bounds or posteriors recomputed."""
        state: Any = self.start(problem)
        evidence = state.evidence
        evidence.views[:] = knowledge["views"]
        evidence.sums[:] = knowledge["sums"]
        evidence.settled[:] = knowledge["settled"]
        evidence.rounds[:] = knowledge["rounds"]
        self.restore_beyond_counts(state, knowledge)
        for level in range(problem.n_levels):
            is_refresh_due(evidence, level)
        switching(type(self).refresh)(state)
        return state

    def restore_beyond_counts(self, state: Any, knowledge: Mapping[str, Floats]) -> None:
        """Restore what `state` has learned besides its evidence, before the refresh."""
