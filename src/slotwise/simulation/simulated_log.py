"""A log of simulated page views, in the format that `slotwise evaluate` reads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.environments import Environment
from slotwise.errors import InvalidInput
from slotwise.page_log import LoggedPage, LogWriter
from slotwise.policies import Policy
from slotwise.policies.policy import policy_for
from slotwise.problem import Problem, is_finite_number, whole_number
from slotwise.selection import dense_probabilities, dependent_rounding, draw_page
from slotwise.selection.mix import explored
from slotwise.selection.page_order import (
    expose,
    learn_slot_weights,
    new_page_order,
    order_page,
)
from slotwise.simulation.engine import CHANCE, VISITORS, run_generator
from slotwise.simulation.experiment import Experiment

__all__ = ["log_run", "simulate_log"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

US_A_ROUND = 1_000_000


class Page(NamedTuple):
    """A page whose feedback may still be on its way."""

    visitor: Places
    shown: Places
    probabilities: Floats
    outcomes: Floats
    random_order: bool


def simulate_log(
    path: str | os.PathLike[str],
    links: Environment,
    policy: Policy,
    n_slots: int,
    click_floor: float = 0.0,
    n_rounds: int = 50_000,
    *,
    explore: float = 0.05,
    slot_weights: Sequence[float] | str | None = None,
    seed: int = 1,
) -> None:
    """Let a policy learn on simulated links and log its pages to the folder at `path`.

    `explore` is that of `Selector`: the share of the page that random links get. Without it most
    policies show some links never again, and their log says nothing about those. Logged
    probabilities are exact. `slot_weights` is that of `simulate`. Links are named `link-0`,
    `link-1`, and so on.
    """
    horizon = whole_number("n_rounds", n_rounds, at_least=1)
    problem = Problem(
        links.n_links,
        n_slots,
        click_floor,
        levels=links.levels,
        horizon=horizon,
        feature_sizes=links.feature_sizes,
        slot_weights=slot_weights,  # type: ignore[arg-type]
    )
    log_run(Experiment(links, problem, {"policy": policy}, 1, seed), "policy", path, explore)


def log_run(
    experiment: Experiment,
    label: str,
    path: str | os.PathLike[str],
    explore: float = 0.0,
    run: int = 0,
) -> None:
    """Log the pages of one run of one policy of an experiment.

    With `explore` 0 they are the pages of that run in the experiment's results, draw for draw.
    """
    if not (is_finite_number(explore) and 0 <= explore <= 1):
        raise InvalidInput.of("explore", "from 0 to 1", explore)
    environment, problem = experiment.environment, experiment.problem
    if environment.views_per_round != 1:
        rule = "1 for a log, which has a row for every view of a link"
        raise InvalidInput.of("views_per_round", rule, environment.views_per_round)
    names = environment.feature_names
    writer = LogWriter(
        path,
        names,
        max_revenue=1.0,
        levels=problem.levels[1:-1],
        slots_differ=bool(problem.slot_weights),
    )
    policy = policy_for(experiment.policies[label], problem)
    for number, (page, least) in enumerate(_pages(experiment, policy, explore, run), start=1):
        clicked, *between, revenue = page.outcomes.tolist()
        writer.append(
            LoggedPage(
                page_id=f"{label}-{run}-{number}",
                time_us=US_A_ROUND * number,
                links=[f"link-{place}" for place in page.shown.tolist()],
                probabilities=page.probabilities.tolist(),
                clicked=[outcome > 0 for outcome in clicked],
                revenue=revenue,
                min_probability=least,
                policy=policy.name,
                visitor=_described(environment, page.visitor),
                levels=dict(zip(problem.levels[1:-1], between, strict=True)),
                random_order=page.random_order,
            )
        )
    writer.flush()


def _pages(experiment: Experiment, policy: Policy, explore: float, run: int) -> Any:
    """Play one run as the engine does; yield every page and the smallest probability on it."""
    environment, problem = experiment.environment, experiment.problem
    visitors, chance = (run_generator(experiment.seed, run, s) for s in (VISITORS, CHANCE))
    state, world = policy.start(problem), environment.world(experiment.n_rounds)
    choose, learn = type(policy).choose, type(policy).learn
    slots, views = np.arange(problem.n_slots), np.ones(problem.n_slots)
    order, exposure = new_page_order(problem), np.ones(problem.n_slots)
    waiting: deque[Page] = deque(maxlen=1 + max(environment.delays))
    for round_number in range(1, experiment.n_rounds + 1):
        visitor = np.zeros(len(environment.feature_sizes) + 1, np.int64)
        environment.arriving(world, round_number, visitors, visitor)
        choose(state, visitor[:-1], chance)
        probabilities = explored(dense_probabilities(state.mix), explore)
        shown, drawn = np.zeros(problem.n_slots, np.int64), np.zeros(problem.n_slots)
        if explore:
            shown = np.asarray(dependent_rounding(probabilities, chance))
            drawn = probabilities[shown]
        else:
            draw_page(state.mix, chance, shown, drawn)
        is_random = False
        if problem.slot_weights:
            type(policy).rank(state, shown, order.worth)
            is_random = bool(order_page(order, chance, shown, drawn))
        outcomes = np.zeros((problem.n_levels, problem.n_slots))
        environment.serving(world, round_number, visitor, shown, visitors, outcomes)
        page = Page(visitor[:-1], shown, drawn, outcomes, is_random)
        waiting.append(page)
        yield page, float(probabilities.min())
        for level, delay in enumerate(environment.delays):
            if delay < len(waiting):
                old = waiting[-1 - delay]
                brought = old.outcomes[level]
                if level == 0 and old.random_order:
                    learn_slot_weights(order, brought)
                expose(order, slots, views, exposure)
                seen = (old.shown, slots, old.probabilities, exposure, brought)
                learn(state, old.visitor, level, *seen)


def _described(environment: Environment, visitor: Places) -> dict[str, str | None]:
    """Return the value of every feature of a visitor by its label."""
    described: dict[str, str | None] = {}
    first = 0
    names = environment.feature_names
    for name, labels, place in zip(names, environment.value_labels, visitor.tolist(), strict=True):
        described[name] = labels[place - first].removeprefix(f"{name} ")
        first += len(labels)
    return described
