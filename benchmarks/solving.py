"""The floor program: cold, warm, very large, and against a general solver."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from benchmarks.measuring import Row, at_least, at_most, cpu_seconds
from slotwise.compile import compiled, compiled_first, hot
from slotwise.selection import solve, solve_floors
from slotwise.selection.floor_program import (
    Program,
    new_program,
    set_clicks,
    set_value,
    solve_program,
)
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_within_rules import solve_within
from slotwise.selection.rules import SlotRule, settle_rules
from slotwise.selection.solve import solve_into

Floats = NDArray[np.float64]

N_LINKS, N_SLOTS, N_CHANGED = 271, 15, 15
N_INSTANCES, N_STEPS = 300, 2_000


class Instances(NamedTuple):
    """Many floor programs of one size, each with a floor that binds."""

    value: Floats
    clicks: Floats
    floors: Floats


def binding_floor(value: Floats, clicks: Floats, n_slots: int) -> float:
    """Return a floor halfway between what the best page has and the most that can be had."""
    best = np.argpartition(-value, n_slots)[:n_slots]
    most = np.sort(clicks)[-n_slots:].sum()
    return float((clicks[best].sum() + most) / 2)


def draw_instances(n_instances: int, n_links: int, n_slots: int) -> Instances:
    """Draw rates like those of coupons: what is clicked often earns less."""
    rng = np.random.default_rng(11)
    clicks = 0.75 * rng.beta(1.0, 4.0, (n_instances, n_links))
    value = clicks * rng.beta(1.0, 1.5, (n_instances, n_links)) * np.exp(-4 * clicks)
    floors = [binding_floor(v, a, n_slots) for v, a in zip(value, clicks, strict=True)]
    return Instances(value, clicks, np.array(floors))


@compiled_first
@compiled
def solve_each(value: Floats, clicks: Floats, floors: Floats, n_slots: int) -> float:
    """Solve every instance afresh, inside compiled code."""
    total = 0.0
    for i in range(len(floors)):
        probabilities = np.zeros(value.shape[1])
        total += solve_into(value[i], clicks[i], n_slots, floors[i], probabilities)[2]
    return total


@compiled_first
@hot
def solve_on(
    program: Program, links: NDArray[np.int64], value: Floats, clicks: Floats, page: Any
) -> None:
    """Change a few links and solve again, over and over, inside compiled code."""
    n_slots, floor = page
    for step in range(len(links)):
        for k in range(links.shape[1]):
            set_value(program, links[step, k], value[step, k])
            set_clicks(program, links[step, k], clicks[step, k])
        solve_program(program, n_slots, floor)


@compiled_first
@hot
def stream(value: Floats, clicks: Floats, price: float) -> float:
    """Pass once over two arrays."""
    best = -np.inf
    for i in range(len(value)):
        best = max(best, value[i] + price * clicks[i])
    return best


def solving() -> list[Row]:
    """Measure `solve` and the warm floor program."""
    return [
        *against_a_general_solver(),
        *several_floors(),
        *warm_against_cold(),
        with_rules(),
        large_pool(),
    ]


def against_a_general_solver() -> list[Row]:
    """Compare a cold solve with HiGHS through scipy, both called from Python."""
    instances = draw_instances(N_INSTANCES, N_LINKS, N_SLOTS)
    few = 30
    ones = np.ones((1, N_LINKS))

    def highs() -> None:
        for i in range(few):
            found = linprog(
                -instances.value[i],
                A_ub=-instances.clicks[i : i + 1],
                b_ub=[-instances.floors[i]],
                A_eq=ones,
                b_eq=[N_SLOTS],
                bounds=(0, 1),
                method="highs",
            )
            assert found.success

    def ours() -> None:
        for value, clicks, floor in zip(*instances, strict=True):
            assert solve(value, clicks, N_SLOTS, floor).status == "binding"

    general = cpu_seconds(highs, repeats=3) / few
    cold = cpu_seconds(ours) / N_INSTANCES
    size = f"K = {N_LINKS}, L = {N_SLOTS}"
    return [
        at_least(
            "solve, cold, against HiGHS",
            f"{cold * 1e6:.1f} µs against {general * 1e6:,.0f} µs (scipy linprog), {size}, "
            "both called from Python",
            general / cold,
            300.0,
            "times faster",
        )
    ]


def several_floors() -> list[Row]:
    """Compare the simplex method for several floors with HiGHS, both called from Python."""
    rng = np.random.default_rng(1)
    n_floors = 2
    levels = rng.beta(1.0, 4.0, (N_INSTANCES, n_floors, N_LINKS)).cumprod(axis=1)
    value = levels[:, -1] * rng.random((N_INSTANCES, N_LINKS))
    # 60 % of the most that a page can bring of each level
    floors = 0.6 * np.sort(levels, axis=2)[:, :, -N_SLOTS:].sum(axis=2)
    few = 30
    ones = np.ones((1, N_LINKS))

    def highs() -> None:
        for i in range(few):
            linprog(
                -value[i],
                A_ub=-levels[i],
                b_ub=-floors[i],
                A_eq=ones,
                b_eq=[N_SLOTS],
                bounds=(0, 1),
                method="highs",
            )

    def ours() -> None:
        for i in range(few):
            solve_floors(value[i], levels[i], N_SLOTS, floors[i])

    general, own = cpu_seconds(highs, repeats=3) / few, cpu_seconds(ours) / few
    measured = f"{own * 1e6:.0f} µs against {general * 1e6:,.0f} µs (scipy linprog), K = {N_LINKS}"
    return [
        at_least(
            f"solve_floors, {n_floors} floors, against HiGHS",
            measured,
            general / own,
            10.0,
            "times faster",
        )
    ]


def warm_against_cold() -> list[Row]:
    """Compare solving again after some links changed with solving afresh."""
    instances = draw_instances(N_INSTANCES, N_LINKS, N_SLOTS)
    value, clicks, floor = (part[0] for part in instances)
    rng = np.random.default_rng(12)
    links = np.array([rng.choice(N_LINKS, N_CHANGED, replace=False) for _ in range(N_STEPS)])
    near = rng.normal(1.0, 0.02, (2, N_STEPS, N_CHANGED))
    new_value = np.clip(value[links] * near[0], 0, 1)
    new_clicks = np.clip(clicks[links] * near[1], 0, 1)
    program = new_program(value, clicks)
    page = (N_SLOTS, float(floor))
    warm = cpu_seconds(lambda: solve_on(program, links, new_value, new_clicks, page)) / N_STEPS
    cold = cpu_seconds(lambda: solve_each(*instances, N_SLOTS)) / N_INSTANCES
    return [
        at_most(
            f"solve, warm after {N_CHANGED} links changed",
            f"{warm * 1e6:.2f} µs against {cold * 1e6:.1f} µs cold, both inside compiled code",
            warm / cold,
            0.2,
            "of cold",
        ),
    ]


@compiled_first
@hot
def solve_each_within(rules: PageRules, value: Floats, clicks: Floats, floors: Floats) -> float:
    """Solve every instance afresh under the same rules, inside compiled code."""
    total = 0.0
    for i in range(len(floors)):
        total += solve_within(rules, value[i], clicks[i], floors[i]).value
    return total


def with_rules() -> Row:
    """Compare a cold solve with rules for 20 groups with one without rules."""
    instances = draw_instances(N_INSTANCES, N_LINKS, N_SLOTS)
    group = np.random.default_rng(13).integers(0, 20, N_LINKS)
    asked = [
        SlotRule(np.flatnonzero(group == place), (0.0, 0.5, 0.0, 1.0)[place % 4], 1.0 + place % 2)
        for place in range(20)
    ]
    rules = settle_rules(asked, N_LINKS, N_SLOTS).rules
    ruled = plain = np.inf
    for _ in range(20):  # in turns: the clock rate of a processor changes
        within = cpu_seconds(lambda: solve_each_within(rules, *instances), 3) / N_INSTANCES
        free = cpu_seconds(lambda: solve_each(*instances, N_SLOTS), 3) / N_INSTANCES
        ruled, plain = min(ruled, within), min(plain, free)
    return at_most(
        f"solve, cold, K = {N_LINKS}, L = {N_SLOTS}, 20 groups with rules",
        f"{ruled * 1e6:.1f} µs against {plain * 1e6:.1f} µs without rules",
        ruled / plain,
        3.0,
        "of a solve without rules",
    )


def large_pool() -> Row:
    """Compare a cold solve of a million links with passing over them."""
    n_links, n_slots = 1_000_000, 20
    (value,), (clicks,), (floor,) = draw_instances(1, n_links, n_slots)
    one_pass = cpu_seconds(lambda: stream(value, clicks, 0.3), repeats=15)
    cold = cpu_seconds(lambda: solve(value, clicks, n_slots, floor))
    assert solve(value, clicks, n_slots, floor).status == "binding"
    return at_most(
        "solve, cold, K = 10^6, L = 20",
        f"{cold * 1e3:.1f} ms against {one_pass * 1e3:.2f} ms for a streaming pass",
        cold / one_pass,
        25.0,
        "passes",
    )
