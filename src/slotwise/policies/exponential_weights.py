"""Exponential weights with capping, shared by Exp3.M and LExp.

    p = L ((1 - gamma) w~ / sum of w~ + gamma / K)

where w~ caps the weights at the level alpha that makes the largest probability exactly 1:

    alpha = beta * sum of min(w, alpha),      beta = (1/L - gamma/K) / (1 - gamma)

The right side is concave in alpha, so a positive solution is unique; it is found by capping all
larger weights, which only lowers alpha, until no weight is larger. Capped links (the set S) have
probability exactly 1.0, by which `learn` recognises them. Used by `exp3m` and `lexp`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.compile import hot, int64, switching
from slotwise.compile.decorators import LANES
from slotwise.policies.policy import (
    Choose,
    Feedback,
    Floats,
    Knowledge,
    Links,
    Policy,
    Rank,
    Visitor,
    moved_links,
)
from slotwise.problem import Problem
from slotwise.selection.mix import N_OPEN, Mix, new_mix
from slotwise.selection.passes import sum_below

LARGEST_LOG = 60.0
"""When a weight exceeds e to this power, all weights are rescaled by the largest."""

SMALLEST_LOG = -600.0
"""Smaller weights count as e to this power: zero weights could not share a page."""


class Weights(NamedTuple):
    """Log-weights, and the weights relative to e to the power `base[0]`.

    The relative weights are followed by zeros up to a whole number of blocks.
    """

    logs: Floats
    relative: Floats
    base: Floats


def new_weights(n_links: int) -> Weights:
    """Return equal weights."""
    relative = np.zeros((n_links + LANES - 1) // LANES * LANES)
    relative[:n_links] = 1.0
    return Weights(logs=np.zeros(n_links), relative=relative, base=np.zeros(1))


def new_weights_mix(n_links: int) -> Mix:
    """Return a mix in which every link is open."""
    mix = new_mix(n_links)
    mix.open[:] = np.arange(n_links)
    mix.sizes[N_OPEN] = n_links
    return mix


@hot
def _rebase(weights: Weights) -> None:
    base = weights.logs[0]
    for link in range(len(weights.logs)):
        base = max(base, weights.logs[link])
    weights.base[0] = base
    for link in range(len(weights.logs)):
        weights.relative[link] = math.exp(max(weights.logs[link] - base, SMALLEST_LOG))


@hot
def raise_weight(weights: Weights, link: int, amount: float) -> None:
    """Multiply the weight of a link by e to the power `amount`."""
    weights.logs[link] += amount
    above = weights.logs[link] - weights.base[0]
    if above > LARGEST_LOG:
        _rebase(weights)
    else:
        weights.relative[link] = math.exp(max(above, SMALLEST_LOG))


@hot
def mix_weights(weights: Weights, exploration: float, n_slots: int, mix: Mix) -> None:
    """Write the capped and mixed probabilities of all links into `mix`."""
    relative, probabilities = weights.relative, mix.probabilities
    n_links = len(weights.logs)
    if n_slots == n_links or exploration >= 1.0:
        probabilities[:] = n_slots / n_links
        return
    beta = (1.0 / n_slots - exploration / n_links) / (1.0 - exploration)
    n_blocks = len(relative) // LANES
    n_capped = int64(0)
    total, _ = sum_below(relative, n_blocks, np.inf)
    uncapped = total
    while True:
        lower = beta * uncapped / (1.0 - n_capped * beta)
        below, n_more = sum_below(relative, n_blocks, lower)
        if n_more <= n_capped:
            break
        n_capped, uncapped = n_more, below
    cap = np.inf
    if n_capped > 0:
        cap = lower
        total = n_capped * lower + uncapped
    scale = n_slots * (1.0 - exploration) / total
    share = n_slots * exploration / n_links
    for link in range(n_links):
        weight = relative[link]
        probabilities[link] = 1.0 if weight >= cap else min(1.0, scale * weight + share)


@hot
def choose(state: Any, visitor: Visitor, rng: np.random.Generator) -> None:
    """Mix the capped weights with uniform play."""
    mix_weights(state.weights, state.rule.exploration, state.rule.n_slots, state.mix)


@hot
def rank(state: Any, links: Links, worth: Floats) -> None:
    """Write the weights of links, as logarithms."""
    for k in range(len(links)):
        worth[k] = state.weights.logs[links[k]]


class WeightsPolicy(Policy):
    """A policy whose knowledge is its log-weights; it needs the probabilities of every page.

    Its state has `weights`, `mix` and a `rule` with the numbers `n_slots` and `exploration`.
    """

    choose: ClassVar[Choose] = staticmethod(choose)
    rank: ClassVar[Rank] = staticmethod(rank)

    per_link: ClassVar[frozenset[str]] = frozenset({"log_weights"})
    needs: ClassVar[Feedback] = Feedback.PAGES

    def knowledge(self, state: Any) -> Knowledge:
        """Return the log-weights."""
        return {"log_weights": state.weights.logs.copy()}

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> Any:
        """Return a state with these log-weights."""
        state: Any = self.start(problem)
        state.weights.logs[:] = knowledge["log_weights"]
        switching(_rebase)(state.weights)
        return state

    def move(self, state: Any, problem: Problem, kept: Links) -> Any:
        """Return a state for a changed pool, where links that join start at the mean weight."""
        return self.restore(problem, self._moved(state, kept))

    def _moved(self, state: Any, kept: Links) -> Knowledge:
        """Return the knowledge for other links, of which those that join have the mean weight."""
        logs, known = state.weights.logs, moved_links(self, state, kept)
        highest = logs.max()
        known["log_weights"][kept < 0] = highest + np.log(np.mean(np.exp(logs - highest)))
        return known
