"""The shortest policy that learns, and a data set: copy this file and change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.environments.datasets import Dataset
from slotwise.policies import compiled
from slotwise.policies.policy import CountingPolicy, Counts, new_counts
from slotwise.problem import Problem
from slotwise.selection import Mix, new_mix, set_probabilities


class State(NamedTuple):
    """What was counted, the probabilities of the next page, and the answer."""

    n_slots: int
    counts: Counts
    probabilities: np.ndarray
    mix: Mix


@compiled
def choose(state, visitor, rng):
    """Show each link in proportion to (clicks + 1) / (views + 2), half of the page at random."""
    views, clicks = state.counts.views[0], state.counts.sums[0]
    n_links = len(views)
    total = 0.0
    most = 0.0
    for link in range(n_links):
        rate = (clicks[link] + 1.0) / (views[link] + 2.0)
        state.probabilities[link] = rate
        total += rate
        most = max(most, rate)
    # as much of the proportional page as leaves every probability at most 1
    uniform = state.n_slots / n_links
    peak = state.n_slots * most / total
    share = 0.5 if peak <= uniform else min(0.5, (1.0 - uniform) / (peak - uniform))
    for link in range(n_links):
        proportional = state.n_slots * state.probabilities[link] / total
        state.probabilities[link] = (1.0 - share) * uniform + share * proportional
    set_probabilities(state.mix, state.probabilities)


@compiled
def learn(state, visitor, level, feedback):
    """Count."""
    links, views, outcomes = feedback.links, feedback.views, feedback.outcomes
    for k in range(len(links)):
        state.counts.views[level, links[k]] += views[k]
        state.counts.sums[level, links[k]] += outcomes[k]


@dataclass(frozen=True)
class FollowClicks(CountingPolicy):
    """Show links in proportion to their click rates, half of the page at random."""

    name: ClassVar[str] = "follow-clicks"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    keeps_floor: ClassVar[bool] = False

    def start(self, problem: Problem) -> State:
        """Return a state that knows nothing."""
        n_links = problem.n_links
        return State(problem.n_slots, new_counts(problem), np.zeros(n_links), new_mix(n_links))


def three_links() -> Dataset:
    """Return three links for one slot."""
    return Dataset(
        name="three-links",
        title="Three links",
        click_rate=np.array([0.3, 0.2, 0.1]),
        revenue_per_click=np.array([0.1, 0.5, 0.9]),
        n_slots=1,
        click_floor=0.2,
        failure_probability=0.01,
        look_alike=False,
        source="made up",
    )
