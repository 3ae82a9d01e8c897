"""Every policy keeps the floors it is given, or says that it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.policies import POLICIES, FixedMix, LExp, LinkFeedback, Policy, make_policy
from slotwise.policies.policy import KEEP_RATES, NO_SLOTS, NOBODY, WEIGH_LEVELS
from slotwise.problem import Problem

LEVELS = ("click", "cart", "purchase")
SHOP = {"n_links": 8, "n_slots": 2, "levels": LEVELS, "horizon": 1000}
ASKS_FOR_MORE = {
    "a further floor": Problem(**SHOP, floors={"click": 0.5, "cart": 0.2}),  # type: ignore[arg-type]
    "a rate": Problem(**SHOP, rate_floors={"cart": 0.2}),  # type: ignore[arg-type]
    "rewards": Problem(**SHOP, rewards={"click": 0.1, "purchase": 1.0}),  # type: ignore[arg-type]
}
KEEPS = {
    "con-ucb": {*ASKS_FOR_MORE},
    "paced-bayes": {"a further floor", "rewards"},
    "lexp": {"a further floor", "rewards"},
}
IGNORE_FLOORS = ("cucb", "exp3-m", "uniform", "fixed-mix")  # by design, and they say so


def policy_of(name: str) -> Policy:
    if name == FixedMix.name:
        return make_policy(name, {"probabilities": [0.25] * 8})
    return make_policy(name)


def starts(name: str, asked: str) -> bool:
    policy = policy_of(name)
    try:
        policy = policy.for_problem(ASKS_FOR_MORE[asked])
        state: Any = policy.start(ASKS_FOR_MORE[asked])
    except InvalidInput as refusal:
        if f"for {name}" not in str(refusal):
            raise
        return False
    type(policy).choose(state, NOBODY, np.random.default_rng(1))
    return True


@pytest.mark.parametrize("asked", ASKS_FOR_MORE)
@pytest.mark.parametrize("name", KEEPS)
def test_what_a_policy_cannot_do_is_refused(name: str, asked: str) -> None:
    assert starts(name, asked) == (asked in KEEPS[name])


def test_every_policy_is_sorted_here() -> None:
    assert {*KEEPS, *IGNORE_FLOORS} == {*POLICIES}


@pytest.mark.parametrize(
    ("name", "asked", "sentence"),
    [("paced-bayes", "a rate", KEEP_RATES), ("cucb", "rewards", WEIGH_LEVELS)],
)
def test_a_refusal_names_the_policies_that_can(name: str, asked: str, sentence: str) -> None:
    can = sorted(one for one, kinds in KEEPS.items() if asked in kinds)
    listed = " and ".join(filter(None, (", ".join(can[:-1]), can[-1])))
    assert sentence.startswith(f"{listed} ")
    with pytest.raises(InvalidInput, match=f"; {sentence}$"):
        policy_of(name).start(ASKS_FOR_MORE[asked])


@pytest.mark.parametrize("name", IGNORE_FLOORS)
def test_policies_without_floors_ignore_all_of_them(name: str) -> None:
    assert not POLICIES[name].keeps_floor
    assert starts(name, "a further floor")
    assert starts(name, "a rate")


@pytest.mark.parametrize("name", ["cucb", "exp3-m"])
def test_rewards_that_cannot_be_weighed_are_refused(name: str) -> None:
    assert not starts(name, "rewards")


def test_lexp_has_a_multiplier_a_floor() -> None:
    policy = LExp(horizon=50_000)
    one: Any = policy.start(Problem(40, 5, levels=LEVELS, floors={"click": 2.0}))
    two: Any = policy.start(Problem(40, 5, levels=LEVELS, floors={"click": 2.0, "cart": 1.0}))
    gamma, delta = one.rule.exploration, one.rule.regularisation
    assert one.rule.step == pytest.approx(gamma * delta * 5 / ((delta + 5) * 40))
    assert two.rule.step == pytest.approx(gamma * delta * 5 / ((delta + 2 * 5) * 40))
    page = np.arange(5), NO_SLOTS, np.full(5, 0.125), np.ones(5)
    nothing, all_clicked = np.zeros(5), np.ones(5)
    policy.learn(two, NOBODY, 0, LinkFeedback(*page, all_clicked))
    policy.learn(two, NOBODY, 1, LinkFeedback(*page, nothing))
    # 5 clicks are enough; no cart raises the price of carts by one step of the whole floor
    assert two.multiplier.tolist() == pytest.approx([0.0, two.rule.step * 1.0])
    before = two.weights.logs.copy()
    policy.learn(two, NOBODY, 1, LinkFeedback(*page, all_clicked))
    priced = two.rule.step * (two.rule.step * 1.0) / 0.125
    assert (two.weights.logs - before)[:5].tolist() == pytest.approx([priced] * 5)
