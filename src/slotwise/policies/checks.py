"""The rules that settings and problems of several policies share."""

from __future__ import annotations

from slotwise.errors import InvalidInput
from slotwise.policies.contract import Policy
from slotwise.problem import Problem, whole_number

__all__ = [
    "check_failure_probability",
    "check_horizon",
    "check_positive",
    "check_prior",
    "policy_for",
    "require_horizon",
    "require_last_level_reward",
    "require_no_rate_floors",
]

KEEP_RATES = "con-ucb and queue-ts keep floors on conditional rates"
WEIGH_LEVELS = "con-ucb, lexp, paced-bayes, paced-kl and queue-ts weigh levels"


def policy_for(policy: Policy, problem: Problem) -> Policy:
    """Return the policy to start on a problem; refuse one that keeps only some of its floors.

    Policies that keep no floor at all play any problem, for comparison.
    """
    player = policy.for_problem(problem)
    if problem.value_floors and player.keeps_floor and not player.keeps_value_floors:
        rule = "the default, paced-kl, where segments have floors"
        raise InvalidInput.of("policy", rule, policy.name)
    return player


def check_failure_probability(value: float) -> None:
    """Refuse a failure probability that is not one.

    >>> check_failure_probability(0.0)
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `failure_probability` must be in (0, 1), got 0.0
    """
    if not 0 < value < 1:
        raise InvalidInput.of("failure_probability", "in (0, 1)", value)


def check_horizon(value: int | None) -> None:
    """Refuse a horizon that is neither open nor a number of rounds."""
    if value is not None:
        whole_number("horizon", value, at_least=1)


def check_positive(name: str, value: float) -> None:
    """Refuse a setting that is not a positive number."""
    if not 0 < value < float("inf"):
        raise InvalidInput.of(name, "a positive number", value)


def check_prior(value: str) -> None:
    """Refuse a prior that does not exist."""
    if value not in ("uniform", "fitted"):
        raise InvalidInput.of("prior", '"uniform" or "fitted"', value)


def require_horizon(policy_name: str, horizon: int | None, problem: Problem) -> int:
    """Return the horizon of the policy or else of the problem; refuse if neither has one."""
    found = horizon if horizon is not None else problem.horizon
    if found is None:
        advice = f"{policy_name} plans for a number of rounds: say how many page views to expect"
        raise InvalidInput.of("horizon", "a whole number of rounds", None, advice)
    if found < 1:
        raise InvalidInput.of("horizon", "at least 1", found)
    return found


def require_no_rate_floors(policy_name: str, problem: Problem) -> None:
    """Refuse a problem with floors on conditional rates."""
    if any(floor.rate > 0.0 for floor in problem.active_floors):
        rule = f"empty for {policy_name}"
        raise InvalidInput.of("rate_floors", rule, dict(problem.rate_floors), KEEP_RATES)


def require_last_level_reward(policy_name: str, problem: Problem) -> None:
    """Refuse a problem that is to earn more than its last level."""
    if not problem.rewards_last_level_only:
        rule = f"on {problem.levels[-1]!r} only, with weight 1, for {policy_name}"
        raise InvalidInput.of("rewards", rule, dict(problem.rewards), WEIGH_LEVELS)
