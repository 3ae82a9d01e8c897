"""LExp, the paper's rival: exponential weights with a multiplier for the floor.

Found by the registry in `policies`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.compile import hot
from slotwise.errors import InvalidInput
from slotwise.policies.exponential_weights import (
    Weights,
    WeightsPolicy,
    new_weights,
    new_weights_mix,
    raise_weight,
)
from slotwise.policies.policy import (
    Feedback,
    Floats,
    Knowledge,
    Learn,
    LinkFeedback,
    Links,
    Visitor,
    require_horizon,
    require_no_rate_floors,
)
from slotwise.problem import Problem
from slotwise.selection.mix import Mix


class LExpRule(NamedTuple):
    """The settings as numbers; `regularisation` is the paper's delta, `step` its eta.

    Floor j requires `floors[j]` of level `floor_levels[j]`; `rewards` weights the levels.
    """

    n_slots: int
    exploration: float
    regularisation: float
    step: float
    floors: Floats
    floor_levels: Links
    rewards: Floats


class LExpState(NamedTuple):
    """Weights, the multiplier of each floor, and the mix over all links."""

    rule: LExpRule
    weights: Weights
    multiplier: Floats
    mix: Mix


@hot
def learn(state: LExpState, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    """Raise the weights by revenue and by priced clicks, then move the multipliers.

    Log-weights are additive, so each level adds its own part; a level with a floor is priced at the
    multiplier before this page's update.
    """
    links, _, probabilities, views, outcomes = feedback
    rule, multiplier = state.rule, state.multiplier
    if rule.exploration >= 1.0:
        return
    worth = rule.rewards[level]
    for j in range(len(rule.floors)):
        if rule.floor_levels[j] == level:
            worth += multiplier[j]
    page_total = 0.0
    n_views = 0.0
    for k in range(len(links)):
        n_views += views[k]
        if outcomes[k] > 0.0:
            rate = outcomes[k] / views[k] if views[k] > 0.0 else outcomes[k]
            page_total += rate
            if worth > 0.0 and probabilities[k] < 1.0:
                gain = worth * rate / probabilities[k]
                raise_weight(state.weights, links[k], rule.step * gain)
    for j in range(len(rule.floors)):
        if rule.floor_levels[j] == level:
            surplus = page_total / (1.0 - rule.exploration)
            kept = multiplier[j]
            if n_views > 0.0:  # later outcomes of these views add no debt
                surplus -= rule.floors[j]
                kept *= 1.0 - rule.regularisation * rule.step
            multiplier[j] = max(0.0, kept - rule.step * surplus)


@dataclass(frozen=True)
class LExp(WeightsPolicy):
    """LExp (Cai et al. 2017): exponential weights on revenue plus priced clicks.

        eta = gamma delta L / ((delta + L) K),   a^ = a/p,  g^ = g/p on shown links
        w <- w exp(eta (g^ + lambda a^)) outside the capped set, with the old lambda
        lambda <- [(1 - delta eta) lambda - eta (clicks of the page / (1 - gamma) - floor)]+

    `parameters="closed-form"`: gamma = min(1, (2/L) sqrt((2(e-2)K + KL) / (L ln(K/L) T^(2/3)))),
    delta = 4(e-2) gamma L / (1 - gamma). `parameters="theta"`: gamma = delta = T^(-1/3), whose
    steps are 35 to 75 times smaller. When gamma comes out as 1 (very short horizons, or a page
    that shows every link) play is uniform and nothing is learned.

    With m floors on levels there are m multipliers and eta = gamma delta L / ((delta + m L) K).
    Floors on conditional rates, whose two levels settle separately, are refused.

    >>> from slotwise.problem import Problem
    >>> state = LExp(horizon=50_000).start(Problem(n_links=271, n_slots=15, click_floor=4))
    >>> round(state.rule.exploration, 4), round(state.rule.regularisation, 3)
    (0.0367, 1.64)
    """

    horizon: int | None = None
    parameters: str = "closed-form"

    name: ClassVar[str] = "lexp"
    learn: ClassVar[Learn] = staticmethod(learn)
    needs: ClassVar[Feedback] = Feedback.PAGES_IN_ORDER

    def __post_init__(self) -> None:
        if self.parameters not in ("closed-form", "theta"):
            rule = '"closed-form" or "theta"'
            raise InvalidInput.of("parameters", rule, self.parameters)

    def _exploration(self, n_links: int, n_slots: int, horizon: int) -> tuple[float, float]:
        """Return the paper's gamma and delta."""
        if n_links == n_slots:
            return 1.0, 1.0
        if self.parameters == "theta":
            root = min(1.0, horizon ** (-1 / 3))
            return root, root
        spread = 2 * (math.e - 2) * n_links + n_links * n_slots
        shrink = n_slots * math.log(n_links / n_slots) * horizon ** (2 / 3)
        gamma = min(1.0, 2 / n_slots * math.sqrt(spread / shrink))
        if gamma == 1.0:
            return 1.0, 1.0
        return gamma, 4 * (math.e - 2) * gamma * n_slots / (1 - gamma)

    def start(self, problem: Problem) -> LExpState:
        """Return equal weights and a multiplier of zero for each floor."""
        require_no_rate_floors(self.name, problem)
        horizon = require_horizon(self.name, self.horizon, problem)
        n_links, n_slots = problem.n_links, problem.n_slots
        gamma, delta = self._exploration(n_links, n_slots, horizon)
        floors = {level: floor for level, floor in problem.floors.items() if floor > 0.0}
        floors = floors or {problem.levels[0]: 0.0}
        rule = LExpRule(
            n_slots=n_slots,
            exploration=gamma,
            regularisation=delta,
            step=gamma * delta * n_slots / ((delta + len(floors) * n_slots) * n_links),
            floors=np.array(list(floors.values())),
            floor_levels=np.array([problem.levels.index(level) for level in floors]),
            rewards=np.array([problem.rewards.get(level, 0.0) for level in problem.levels]),
        )
        multiplier = np.zeros(len(floors))
        return LExpState(rule, new_weights(n_links), multiplier, new_weights_mix(n_links))

    def knowledge(self, state: LExpState) -> Knowledge:
        """Return the log-weights and the multipliers."""
        return {**super().knowledge(state), "multiplier": state.multiplier.copy()}

    def move(self, state: LExpState, problem: Problem, kept: Links) -> Any:
        """Return a state for a changed pool; the floor of a level keeps its multiplier."""
        known = self._moved(state, kept)
        place_of = {level: k for k, level in enumerate(state.rule.floor_levels.tolist())}
        levels = self.start(problem).rule.floor_levels.tolist()
        before = [place_of.get(level) for level in levels]
        known["multiplier"] = np.array(
            [0.0 if place is None else state.multiplier[place] for place in before]
        )
        return self.restore(problem, known)

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> Any:
        """Return a state with these log-weights and multipliers."""
        state = super().restore(problem, knowledge)
        state.multiplier[:] = knowledge["multiplier"]
        return state
