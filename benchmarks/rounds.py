"""Rounds of the engine, in bare rounds; threads; pools that grow."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Row, at_least, at_most, cpu_seconds, note, wall_seconds
from benchmarks.solving import binding_floor
from slotwise.compile import compiled_first, hot
from slotwise.environments import BernoulliLinks
from slotwise.environments.datasets import Dataset, load_dataset
from slotwise.policies import CUCB, ConUCB, Exp3M, LExp, PacedBayes, Policy
from slotwise.problem import Problem
from slotwise.selection.confidence import paper_gamma, paper_upper
from slotwise.simulation import Experiment, run_experiment
from slotwise.simulation.engine import play_run

Floats = NDArray[np.float64]

N_ROUNDS = 50_000
SIZES = ("coupon-mild", "ads-like-binding", "edx-like")
CON_UCB_LIMITS = {"coupon-mild": 2.5, "ads-like-binding": 3.5, "edx-like": 3.0, "ad-clicks": 3.5}
AD_CLICKS_FLOOR = 12.0
"""The paper's floor of 10 does not bind on Ad-Clicks."""
TARGETS: tuple[tuple[str, Policy, float], ...] = (
    ("paced-bayes", PacedBayes(), 8.0),
    ("CUCB", CUCB(), 2.0),
    ("Exp3.M", Exp3M(), 8.0),
    ("LExp", LExp(), 8.0),
)


@compiled_first
@hot
def play_bare_rounds(
    n_rounds: int,
    n_slots: int,
    order: NDArray[np.int64],
    counts: Floats,
    bounds: Floats,
    gamma: float,
    rng: np.random.Generator,
) -> float:
    """Play rounds that do the least any round must.

    Draw 2L uniforms, update the counts and both bounds of L links, and take one maximum over
    K of value + price * clicks.
    """
    n_links = len(order)
    views, clicks, revenue = counts[0], counts[1], counts[2]
    value, click_bound = bounds[0], bounds[1]
    total = 0.0
    start = 0
    for _ in range(n_rounds):
        for slot in range(n_slots):
            link = order[(start + slot) % n_links]
            clicked = 1.0 if rng.random() < 0.2 else 0.0
            earned = clicked if rng.random() < 0.3 else 0.0
            views[link] += 1.0
            clicks[link] += clicked
            revenue[link] += earned
            click_bound[link] = paper_upper(clicks[link], views[link], gamma)
            value[link] = paper_upper(revenue[link], views[link], gamma)
        start = (start + n_slots) % n_links
        best = -np.inf
        for link in range(n_links):
            best = max(best, value[link] + 0.1 * click_bound[link])
        total += best
    return total


def bare_round(data: Dataset) -> float:
    """Return the seconds of a bare round at the sizes of `data`."""
    rng = np.random.default_rng(1)
    order = rng.permutation(data.n_links)
    counts, bounds = np.zeros((3, data.n_links)), np.ones((2, data.n_links))
    gamma = paper_gamma(data.n_links, N_ROUNDS, data.failure_probability) / 72
    n_rounds = 100_000
    played = cpu_seconds(
        lambda: play_bare_rounds(n_rounds, data.n_slots, order, counts, bounds, gamma, rng), 7
    )
    return played / n_rounds


def rounds() -> list[Row]:
    """Measure the rounds of the paper's policies at its three sizes, floors binding."""
    return [row for name in SIZES for row in _rows_on(load_dataset(name))]


def ad_clicks_rounds(folder: Path) -> list[Row]:
    """Measure the same on Ad-Clicks, whose file is in `folder`, at a floor that binds."""
    return _rows_on(load_dataset("ad-clicks", folder, click_floor=AD_CLICKS_FLOOR))


def _rows_on(data: Dataset) -> list[Row]:
    """Return the rows of one data set, a bare round first."""
    links = BernoulliLinks(data.click_rate, data.revenue_per_click)
    problem = Problem(data.n_links, data.n_slots, data.click_floor, horizon=N_ROUNDS)
    bare = bare_round(data)
    size = f"K = {data.n_links}, L = {data.n_slots}"
    rows = [note(f"bare round, {data.name}", f"{bare * 1e6:.3f} µs, {size}")]
    con_ucb = ("Con-UCB", ConUCB(gamma_scale=1 / 72), CON_UCB_LIMITS[data.name])
    for title, policy, limit in (con_ucb, *TARGETS):
        rows.append(_policy_row(f"{title}, {data.name}", policy, links, problem, bare, limit))
    return rows


def _policy_row(
    name: str,
    policy: Policy,
    links: BernoulliLinks,
    problem: Problem,
    bare: float,
    limit: float,
) -> Row:
    end = np.array([N_ROUNDS])
    played = cpu_seconds(lambda: play_run(policy, links, problem, end, 1, 0), 3) / N_ROUNDS
    return at_most(name, f"{played * 1e6:.2f} µs a round", played / bare, limit, "bare rounds")


def threads() -> list[Row]:
    """Measure two threads against one, by the clock: others on the machine spoil it."""
    data = load_dataset("ads-like-binding")
    links = BernoulliLinks(data.click_rate, data.revenue_per_click)
    problem = Problem(data.n_links, data.n_slots, data.click_floor, horizon=20_000)
    experiment = Experiment(links, problem, {"con-ucb": ConUCB(gamma_scale=1 / 72)}, 8, seed=1)
    one, two = (
        wall_seconds(lambda n=n: run_experiment(experiment, n_threads=n), 4)  # type: ignore[misc]
        for n in (1, 2)
    )
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    described = f"{one:.2f} s against {two:.2f} s, {load}"
    return [at_least("two threads against one, idle machine", described, one / two, 1.8, "times")]


def growth() -> list[Row]:
    """Measure rounds as the pool grows, every link already shown 100 times."""
    sizes = (1_000, 10_000, 100_000, 1_000_000)
    rows = [
        _growth_row(
            f"Con-UCB γ/{1 / scale:.0f}, pool of 10^3 to 10^6, L = 20",
            sizes,
            [_knowing_round(n_links, scale) for n_links in sizes],
            0.5,
        )
        for scale in (1 / 72, 1 / 1440)
    ]
    costs = [_paced_round(n_links) for n_links in sizes[:3]]
    rows.append(_growth_row("paced-bayes, pool of 10^3 to 10^5, L = 20", sizes[:3], costs, 0.7))
    return rows


def _growth_row(name: str, sizes: tuple[int, ...], costs: list[float], limit: float) -> Row:
    power = max(
        math.log(cost / costs[0]) / math.log(size / sizes[0])
        for size, cost in zip(sizes[1:], costs[1:], strict=True)
    )
    described = ", ".join(f"{cost * 1e6:.2f}" for cost in costs)
    grows = f"{described} µs a round; the largest growth from 10^3 links on"
    return at_most(name, grows, power, limit, "as a power of K")


def _paced_round(n_links: int) -> float:
    """Return the seconds of a round of paced-bayes after 2,000 rounds of warm-up."""
    n_slots, n_rounds = 20, 2_000
    rng = np.random.default_rng(3)
    clicks = 0.75 * rng.beta(1.0, 4.0, n_links)
    links = BernoulliLinks(clicks, rng.beta(1.0, 1.5, n_links) * np.exp(-4 * clicks))
    policy, problem = PacedBayes(), Problem(n_links, n_slots, 4.0)
    state = policy.start(problem)
    end = np.array([n_rounds])
    # the first call, which is not timed, is the warm-up
    return cpu_seconds(lambda: play_run(policy, links, problem, end, 1, 0, state), 1) / n_rounds


def _knowing_round(n_links: int, gamma_scale: float) -> float:
    """Return the seconds of a round of Con-UCB that has seen every link 100 times."""
    n_slots, n_rounds, n_views = 20, 2_000, 100
    rng = np.random.default_rng(3)
    clicks = 0.75 * rng.beta(1.0, 4.0, n_links)
    revenue = rng.beta(1.0, 1.5, n_links) * np.exp(-4 * clicks)
    clicked = rng.binomial(n_views, clicks)
    sums = np.array([clicked, rng.binomial(clicked, revenue)], float)
    knowledge = {"views": np.full((2, n_links), float(n_views)), "sums": sums}
    policy = ConUCB(horizon=1_000_000, gamma_scale=gamma_scale)
    start: Any = policy.restore(Problem(n_links, n_slots), knowledge)
    # Halfway between the bounds' best page and their most clicked one, where there is a way.
    estimates = policy.estimates(start)
    floor = min(binding_floor(estimates.value, estimates.clicks, n_slots), n_slots - 0.5)
    problem = Problem(n_links, n_slots, floor)
    state = policy.restore(problem, knowledge)
    links = BernoulliLinks(clicks, revenue)
    end = np.array([n_rounds])
    return cpu_seconds(lambda: play_run(policy, links, problem, end, 1, 0, state), 3) / n_rounds
