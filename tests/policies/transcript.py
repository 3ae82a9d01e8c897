"""Play the policies and solve some programs; print all of it, to compare two ways of running.

Run as a module it prints what `transcript()` returns as JSON.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from slotwise.compile import compiles, switching
from slotwise.policies import (
    CUCB,
    ConUCB,
    Exp3M,
    FixedMix,
    LExp,
    Policy,
    QueueTS,
    Uniform,
)
from slotwise.policies.policy import NOBODY
from slotwise.problem import Problem
from slotwise.selection import Solution, dense_probabilities, solve
from tests.policies.playing import Visitors, draw, learn_page
from tests.selection.instances import RATES, make_rates
from tests.selection.warm_program import WarmProgram

PROBLEMS = [
    Problem(n_links=12, n_slots=3, click_floor=1.8, horizon=300),
    Problem(n_links=6, n_slots=4, click_floor=3.9, horizon=30),
    Problem(n_links=80, n_slots=5, click_floor=3.0, horizon=300),
]


def policies(problem: Problem) -> dict[str, Policy]:
    share = problem.n_slots / problem.n_links
    return {
        "con-ucb": ConUCB(),
        "con-ucb, narrow": ConUCB(gamma_scale=1 / 2000),
        "con-ucb, deficit": ConUCB(gamma_scale=1 / 2000, deficit_feedback=True),
        "queue-ts": QueueTS(memory=90),
        "queue-ts, fitted": QueueTS(prior="fitted"),
        "lexp": LExp(),
        "lexp, theta": LExp(parameters="theta"),
        "cucb": CUCB(),
        "exp3-m": Exp3M(),
        "uniform": Uniform(),
        "fixed-mix": FixedMix(probabilities=[share] * problem.n_links),
    }


def play(policy: Policy, problem: Problem, n_rounds: int) -> dict[str, Any]:
    """Return every page shown, what was known at the end and the last probabilities."""
    rates = np.random.default_rng(8).uniform(0.1, 0.9, problem.n_links)
    visitors = Visitors(rates, 4.0 * np.exp(-4.0 * rates), seed=9)
    rng = np.random.default_rng(10)
    state: Any = policy.start(problem)
    pages = []
    for _ in range(n_rounds):
        switching(type(policy).choose)(state, NOBODY, rng)
        page = visitors.answer(*draw(state, problem.n_slots, rng))
        pages.append(page.shown.tolist())
        learn_page(policy, state, page)
    type(policy).choose(state, NOBODY, rng)
    knowledge = {name: array.tolist() for name, array in policy.knowledge(state).items()}
    last = dense_probabilities(state.mix).tolist()
    return {"pages": pages, "numbers": {**knowledge, "probabilities": last}}


def numbers_of(best: Solution) -> list[float]:
    price = min(best.shadow_price, 1e300)  # JSON knows no infinity
    return [*best.probabilities.tolist(), price, best.value, best.clicks]


def programs() -> dict[str, list[list[float]]]:
    """Return the answers of programs of every kind, solved afresh and kept warm."""
    answers: dict[str, list[list[float]]] = {"solve": [], "WarmProgram": []}
    for kind in RATES:
        rng = np.random.default_rng(RATES.index(kind))
        value, clicks = make_rates(kind, 90, rng)
        floor = 0.8 * float(np.sort(clicks)[-6:].sum())
        warm = WarmProgram(value, clicks, 6, floor)
        for _ in range(12):
            links = rng.choice(90, size=6, replace=False)
            new_value, new_clicks = make_rates(kind, 90, rng)
            value[links], clicks[links] = new_value[links], new_clicks[links]
            warm.change(links.tolist(), value[links], clicks[links])
            answers["WarmProgram"].append(numbers_of(warm.solve()))
            answers["solve"].append(numbers_of(solve(value, clicks, 6, floor)))
    return answers


def capped_mix() -> list[float]:
    """Return a mix in which two neighbours are capped."""
    problem = Problem(n_links=7, n_slots=3)
    policy = Exp3M(horizon=100)
    logs = np.array([0.0, 1.0, 6.0, 5.5, 0.5, 0.0, 1.0])
    state: Any = policy.restore(problem, {"log_weights": logs})
    Exp3M.choose(state, NOBODY, np.random.default_rng(1))
    chances: list[float] = dense_probabilities(state.mix).tolist()
    assert chances[2] == chances[3] == 1.0
    return chances


def transcript() -> dict[str, Any]:
    """Return everything, and whether it ran compiled."""
    games = {
        f"{name} on {problem.n_links}": play(policy, problem, 150)
        for problem in PROBLEMS
        for name, policy in policies(problem).items()
    }
    return {
        "compiled": compiles(),
        "games": games,
        "capped mix": capped_mix(),
        "programs": programs(),
    }


if __name__ == "__main__":
    print(json.dumps(transcript()))
