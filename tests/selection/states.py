"""Floor programs as they come up in play, and others that are as hard on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from slotwise.compile import switching
from slotwise.environments import BernoulliLinks
from slotwise.environments.datasets import load_dataset
from slotwise.policies import LinkFeedback, Policy
from slotwise.policies.policy import NO_SLOTS, rng_of_choice
from slotwise.problem import Problem
from slotwise.selection import Solution, dense_probabilities, draw_page
from slotwise.selection.floor_program import PRICE, STATUS
from slotwise.selection.solve import STATUSES
from tests.selection.instances import FLOORS, RATES, Instance, make_floor, make_rates

NOBODY = np.zeros(1, np.int64)


HARD = ("nearly tied", "badly scaled", "exactly tied", "any")


def played_states(
    policy: Policy, dataset: str, n_rounds: int, seed: int
) -> Iterator[tuple[Instance, Solution]]:
    """Play a policy that keeps a floor program; yield every program with the mix it shows."""
    data = load_dataset(dataset)
    links = BernoulliLinks(data.click_rate, data.revenue_per_click)
    problem = Problem(data.n_links, data.n_slots, data.click_floor, horizon=50_000)
    state: Any = policy.start(problem)
    world = links.world(n_rounds)
    visitors, chance = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    shown, probabilities = np.zeros(data.n_slots, np.int64), np.zeros(data.n_slots)
    outcomes, views = np.zeros((2, data.n_slots)), np.ones(data.n_slots)
    choose, learn = switching(type(policy).choose), switching(type(policy).learn)
    for round_number in range(1, n_rounds + 1):
        choose(state, NOBODY, rng_of_choice(policy, chance))
        program = state.program
        instance = Instance(program.value, program.clicks, data.n_slots, data.click_floor)
        mix = dense_probabilities(state.mix)
        status = STATUSES[program.sizes[STATUS]]
        yield (
            instance,
            Solution(
                mix,
                np.inf if status == "infeasible" else float(program.numbers[PRICE]),
                status,
                float(mix @ program.value),
                float(mix @ program.clicks),
            ),
        )
        switching(draw_page)(state.mix, chance, shown, probabilities)
        switching(links.serving)(world, round_number, NOBODY, shown, visitors, outcomes)
        for level in range(2):
            learn(
                state,
                NOBODY,
                level,
                LinkFeedback(shown, NO_SLOTS, probabilities, views, outcomes[level]),
            )


def nearly_tied(rng: np.random.Generator) -> Instance:
    """Return a program in which many links have almost one score at the price of the floor.

    Bounds of links that were seen equally often come this close in play. How close is drawn,
    from differences that count down to the last digit.
    """
    n_links = int(rng.integers(4, 300))
    n_slots = int(rng.integers(1, max(2, n_links // 2)))
    price = 10.0 ** rng.uniform(-4, 0.5)
    clicks = rng.random(n_links) ** rng.integers(1, 4)
    threshold = price + rng.random()
    spread = threshold * 10.0 ** rng.uniform(-16, -8)
    score = threshold + spread * rng.standard_normal(n_links)
    is_apart = rng.random(n_links) < 0.3
    score[is_apart] += rng.uniform(-0.3, 0.3, is_apart.sum())
    value = np.clip((score - price * clicks) / (1.0 + threshold), 0.0, 1.0)
    return Instance(value, clicks, n_slots, make_floor("between", value, clicks, n_slots, rng))


def hard_instance(kind: str, rng: np.random.Generator) -> Instance:
    """Return a program of one of the kinds in `HARD`."""
    if kind == "nearly tied":
        return nearly_tied(rng)
    rates = rng.choice(["grid", "few values", "equal"] if kind == "exactly tied" else RATES)
    n_links = int(rng.integers(1, 200))
    n_slots = int(rng.integers(1, 1 + max(1, n_links // int(rng.integers(1, 10)))))
    value, clicks = make_rates(str(rates), n_links, rng)
    if kind == "badly scaled":
        value = value * 10.0 ** rng.uniform(-9, 0, n_links if rng.random() < 0.5 else 1)
        clicks = clicks * 10.0 ** rng.uniform(-9, 0, n_links if rng.random() < 0.5 else 1)
    return Instance(
        value, clicks, n_slots, make_floor(str(rng.choice(FLOORS)), value, clicks, n_slots, rng)
    )
