"""Every answer for kinds of visitors proves itself, over programs that rounding makes hard."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.selection import Solution, solve_kinds
from tests.reference.kinds import best_for_kinds_by_highs, extremes, kinds_faults
from tests.selection.instances import RATES, make_rates
from tests.selection.states import HARD

pytestmark = pytest.mark.compiled

Floats = NDArray[np.float64]
FLOORS = ("none", "slack", "between", "between", "between", "almost", "tightest", "out of reach")


class Program(NamedTuple):
    value: Floats
    clicks: Floats
    shares: Floats
    n_slots: int
    floor: float

    def solved(self) -> Solution:
        floors = [(np.ones(len(self.shares), bool), self.floor)]
        found = solve_kinds(self.value, self.clicks, self.shares, np.ones(self.n_slots), floors)
        price, clicks = float(found.shadow_prices[0]), float(found.clicks[0])
        return Solution(found.probabilities, price, found.status, found.value, clicks)


def _nearly_tied(n_kinds: int, n_links: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return rates with almost one score for many links of every kind, at one price for all."""
    price = 10.0 ** rng.uniform(-4, 0.5)
    clicks = rng.random((n_kinds, n_links)) ** rng.integers(1, 4)
    threshold = price + rng.random((n_kinds, 1))
    spread = threshold * 10.0 ** rng.uniform(-16, -8)
    score = threshold + spread * rng.standard_normal((n_kinds, n_links))
    is_apart = rng.random((n_kinds, n_links)) < 0.3
    score += np.where(is_apart, rng.uniform(-0.3, 0.3, score.shape), 0.0)
    return np.clip((score - price * clicks) / 5.0, 0.0, 1.0), clicks


def hard_program(kind: str, rng: np.random.Generator) -> Program:
    """Return a program of one of the kinds in `HARD`."""
    n_kinds, n_links = int(rng.integers(1, 9)), int(rng.integers(1, 60))
    n_slots = int(rng.integers(1, 1 + max(1, n_links // int(rng.integers(1, 10)))))
    if kind == "nearly tied":
        value, clicks = _nearly_tied(n_kinds, n_links, rng)
    else:
        names = ["grid", "few values", "equal"] if kind == "exactly tied" else RATES
        rows = [make_rates(str(rng.choice(names)), n_links, rng) for _ in range(n_kinds)]
        value, clicks = (np.array(row) for row in zip(*rows, strict=True))
    if kind == "badly scaled":
        shape = [(n_kinds, n_links), (n_kinds, 1), (1, 1)][rng.integers(3)]
        value = value * 10.0 ** rng.uniform(-9, 0, shape)
        clicks = clicks * 10.0 ** rng.uniform(-9, 0, shape)
    shares = rng.dirichlet(np.full(n_kinds, rng.choice([0.1, 1.5])))
    free, most = extremes(value, clicks, shares, n_slots)
    floor = {
        "none": 0.0,
        "slack": free * rng.random(),
        "between": free + (most - free) * rng.random(),
        "almost": free + 0.9999 * (most - free),
        "tightest": most,
        "out of reach": most + 0.01 + rng.random(),
    }[str(rng.choice(FLOORS))]
    return Program(value, clicks, shares, n_slots, floor)


def check(answer: Solution, program: Program) -> None:
    wrong = kinds_faults(answer, *program)
    assert not wrong, f"{', '.join(wrong)}: {answer}, {program}"


@pytest.mark.parametrize("kind", HARD)
def test_hard_programs(kind: str) -> None:
    for seed in range(150):
        program = hard_program(kind, np.random.default_rng([HARD.index(kind), seed]))
        check(program.solved(), program)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted({*HARD} - {"badly scaled"}))
def test_many_hard_programs(kind: str) -> None:
    """HiGHS gives up on one in thousands of programs whose costs span 15 orders of magnitude."""
    for seed in range(5_000):
        program = hard_program(kind, np.random.default_rng([20 + HARD.index(kind), seed]))
        check(program.solved(), program)


@pytest.mark.parametrize("kind", sorted({*HARD} - {"badly scaled"}))
def test_the_proof_agrees_with_highs_without_pieces(kind: str) -> None:
    """The program with a variable for each kind and link.

    Badly scaled programs have rates below the 1e-7 by which HiGHS may miss a floor there.
    """
    for seed in range(30):
        program = hard_program(kind, np.random.default_rng([10 + HARD.index(kind), seed]))
        best = program.solved()
        check(best, program)
        reference = best_for_kinds_by_highs(*program)
        if reference is not None and best.status != "infeasible":
            error = 2e-7 * program.n_slots * (1.0 + best.shadow_price)
            assert abs(best.value - reference.value) <= error


@pytest.mark.parametrize("scale", [1e-6, 1e-12, 1e-100])
def test_units_do_not_matter(scale: float) -> None:
    for seed in range(30):
        value, clicks, shares, n_slots, floor = hard_program(
            "nearly tied", np.random.default_rng(seed)
        )
        for in_units in (
            Program(value, scale * clicks, shares, n_slots, scale * floor),
            Program(scale * value, clicks, shares, n_slots, floor),
            Program(scale * value, scale * clicks, shares, n_slots, scale * floor),
        ):
            check(in_units.solved(), in_units)


WRONG: dict[str, dict[str, Any]] = {
    "a probability outside [0, 1]": {"probabilities": np.array([[1.5, -0.5], [0.5, 0.5]])},
    "the sum of probabilities": {"probabilities": np.array([[1.0, 0.0], [0.5, 0.0]])},
    "the value reported": {"value": 0.6},
    "the clicks reported": {"clicks": 0.21},
    "a gap to the bound of its price": {"shadow_price": 0.2},
    "the floor missed": {"probabilities": np.array([[1.0, 0.0], [0.4, 0.6]])},
    "more clicks than the floor": {"probabilities": np.array([[1.0, 0.0], [0.6, 0.4]])},
    "a price of a slack floor": {"status": "slack"},
    "a floor in reach called infeasible": {"status": "infeasible"},
}


@pytest.mark.parametrize("fault", WRONG)
def test_the_proof_finds_what_is_wrong(fault: str) -> None:
    program = Program(
        np.array([[0.9, 0.1], [0.2, 0.3]]),
        np.array([[0.1, 0.5], [0.5, 0.1]]),
        np.array([0.5, 0.5]),
        1,
        0.2,
    )
    best = program.solved()
    check(best, program)
    assert fault in kinds_faults(best._replace(**WRONG[fault]), *program)
