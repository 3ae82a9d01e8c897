"""Several floors: equal to HiGHS, to the one-floor program, and to themselves when kept warm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import event, given, settings, strategies as st
from numpy.typing import NDArray

from slotwise.compile import switching
from slotwise.errors import InvalidInput
from slotwise.selection import FloorsSolution, dense_probabilities, solve, solve_floors
from slotwise.selection.several_floors import STATUS, new_floors_program, solve_floors_program
from slotwise.selection.solve import STATUSES
from tests.reference.several_floors import best_value_by_highs, compromise_by_highs
from tests.selection.instances import Instance, instances

ACCURACY = 1e-9
"""More than the 1e-10 by which HiGHS may miss a floor and still call it kept."""

RATES = (
    "continuous",
    "rare",
    "grid",
    "few values",
    "equal links",
    "zeros",
    "equal rows",
    "proportional",
    "capped at one",
)
FLOORS = ("none", "kept by some page", "each within reach", "tightest", "out of reach")

Floats = NDArray[np.float64]


class Program(NamedTuple):
    value: Floats
    demands: Floats
    n_slots: int
    floors: Floats


def make_rates(
    kind: str, n_links: int, n_floors: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    value: Floats = rng.random(n_links)
    demands: Floats = rng.random((n_floors, n_links))
    if kind == "rare":
        demands[0] = 0.05 * demands[0] ** 3
        demands = demands.cumprod(axis=0)
        value *= demands[-1]
    elif kind == "grid":
        value, demands = (8 * value).round() / 8, (8 * demands).round() / 8
    elif kind == "few values":
        value = rng.choice([0.0, 0.3, 1.0], n_links)
        demands = rng.choice([0.1, 0.7, 1.0], (n_floors, n_links))
    elif kind == "equal links":
        value[:], demands[:] = value[0], demands[:, :1]
    elif kind == "zeros":
        value[rng.random(n_links) < 0.5] = 0.0
        demands[rng.random((n_floors, n_links)) < 0.5] = 0.0
    elif kind == "equal rows":
        demands[:] = demands[0]
    elif kind == "proportional":
        demands[:] = demands[0] * rng.random((n_floors, 1))
        value = 1.0 - demands[0]
    elif kind == "capped at one":
        value, demands = np.minimum(1.0, 1.5 * value), np.minimum(1.0, 1.5 * demands)
    return value, demands


def make_floors(kind: str, demands: Floats, n_slots: int, rng: np.random.Generator) -> Floats:
    most = np.sort(demands, axis=1)[:, -n_slots:].sum(axis=1)
    shown = rng.permutation(demands.shape[1])[:n_slots]
    floors: Floats = {
        "none": np.zeros(len(demands)),
        "kept by some page": demands[:, shown].sum(axis=1),
        "each within reach": most * rng.random(len(demands)),
        "tightest": most,
        "out of reach": most + 0.01 + rng.random(len(demands)),
    }[kind]
    return floors.clip(min=0.0)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Draw a kind of rates, a kind of floors and sizes; the numbers come from a drawn seed."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_links = int(rng.integers(1, draw(st.sampled_from([8, 60, 200])) + 1))
    n_slots = int(rng.integers(1, draw(st.sampled_from([n_links, 1 + n_links // 8])) + 1))
    n_floors = int(rng.integers(1, 5))
    value, demands = make_rates(draw(st.sampled_from(RATES)), n_links, n_floors, rng)
    if n_floors > 1 and draw(st.booleans()):
        demands[-1] = demands[-1] - rng.random() * demands[0]  # a floor on a conditional rate
        floors = make_floors(draw(st.sampled_from(FLOORS)), demands, n_slots, rng)
        floors[-1] = 0.0
    else:
        floors = make_floors(draw(st.sampled_from(FLOORS)), demands, n_slots, rng)
    return Program(value, demands, n_slots, floors)


def check_is_a_mix(best: FloorsSolution, program: Program) -> None:
    assert best.probabilities.shape == program.value.shape
    assert best.probabilities.min() >= 0.0
    assert best.probabilities.max() <= 1.0
    assert best.probabilities.sum() == pytest.approx(program.n_slots, abs=ACCURACY)


def check_certificate(best: FloorsSolution, program: Program) -> None:
    """Prove the mix optimal from its own prices: no mix that keeps the floors beats the bound."""
    value, demands, n_slots, floors = program
    prices = best.shadow_prices
    assert prices.min() >= 0.0
    assert np.all(best.amounts >= floors - ACCURACY)
    bound = np.sort(value + prices @ demands)[-n_slots:].sum() - prices @ floors
    assert best.value >= bound - ACCURACY * (1.0 + prices.sum())
    # a floor that is kept with room to spare costs nothing
    spare = best.amounts - floors
    assert np.all(prices * spare <= ACCURACY * (1.0 + prices))


def check_compromise(best: FloorsSolution, program: Program) -> None:
    nearest = compromise_by_highs(*program)
    assert best.largest_shortfall == pytest.approx(nearest.shortfall, abs=1e-8)
    # close to the smallest shortfall a little more of it can buy much value
    assert best.value >= nearest.value - 1e-4
    is_missed = best.amounts < program.floors - ACCURACY
    np.testing.assert_array_equal(np.isinf(best.shadow_prices), is_missed)


def check_equals_highs(program: Program) -> None:
    best = solve_floors(*program)
    event(best.status)
    check_is_a_mix(best, program)
    by_highs = best_value_by_highs(*program)
    if best.status == "infeasible":
        check_compromise(best, program)
        # where HiGHS takes the floors for kept, they are missed by less than it can tell
        assert by_highs == -np.inf or best.largest_shortfall < 1e-8
        return
    check_certificate(best, program)
    if by_highs > -np.inf:
        tolerance = ACCURACY * (1.0 + best.shadow_prices.sum())
        assert best.value == pytest.approx(by_highs, abs=10 * tolerance)


@settings(max_examples=120)
@given(programs())
def test_the_mix_is_that_of_highs(program: Program) -> None:
    check_equals_highs(program)


@pytest.mark.slow
@settings(max_examples=2000)
@given(programs())
def test_many_more_mixes_are_those_of_highs(program: Program) -> None:
    check_equals_highs(program)


@settings(max_examples=150)
@given(instances())
def test_one_floor_is_the_floor_program(instance: Instance) -> None:
    value, clicks, n_slots, floor = instance
    one = solve(value, clicks, n_slots, floor)
    several = solve_floors(value, [clicks], n_slots, [floor])
    assert several.value == pytest.approx(one.value, abs=ACCURACY)
    assert several.amounts[0] == pytest.approx(one.clicks, abs=ACCURACY)
    if several.status == one.status:
        price = several.shadow_prices[0]
        is_equal = price == pytest.approx(one.shadow_price, rel=1e-6, abs=1e-9)
        # at a corner of the frontier every price between those of its two pieces is right
        assert is_equal or one.status == "binding"
        if one.status == "binding":
            check_certificate(several, Program(value, clicks[None], n_slots, np.array([floor])))
    else:
        most = np.sort(clicks)[-n_slots:].sum()
        assert abs(most - floor) < ACCURACY or one.status == "slack" or several.status == "slack"


@settings(max_examples=40)
@given(programs(), st.integers(0, 2**32 - 1))
def test_a_warm_program_answers_like_a_fresh_one(program: Program, seed: int) -> None:
    rng = np.random.default_rng(seed)
    warm = new_floors_program(program.value, program.demands, program.floors)
    value, demands, floors = warm.simplex.value, warm.simplex.demands, warm.simplex.floors
    for _ in range(12):
        switching(solve_floors_program)(warm, program.n_slots)
        fresh = solve_floors(value, demands, program.n_slots, floors)
        chances = dense_probabilities(warm.mix)
        assert STATUSES[warm.sizes[STATUS]] == fresh.status
        assert chances.sum() == pytest.approx(program.n_slots, abs=ACCURACY)
        if fresh.status != "infeasible":
            tolerance = ACCURACY * (1.0 + fresh.shadow_prices.sum())
            assert chances @ value == pytest.approx(fresh.value, abs=tolerance)
            assert np.all(demands @ chances >= floors - ACCURACY)
        changed = rng.integers(0, len(value), size=3)
        value[changed] = rng.random(3)
        demands[:, changed] = rng.random((len(demands), 3))
        if rng.random() < 0.2:
            floors *= 0.9


@settings(max_examples=150)
@given(programs(), st.integers(0, 2**32 - 1))
def test_equal_links_have_equal_chances(program: Program, seed: int) -> None:
    value, demands, n_slots, floors = program
    twin_of = np.random.default_rng(seed).integers(0, len(value), size=len(value))
    value, demands = value[twin_of], demands[:, twin_of]
    chances = solve_floors(value, demands, n_slots, floors).probabilities
    for original in np.unique(twin_of):
        assert np.ptp(chances[twin_of == original]) == 0.0


def test_floors_that_pull_apart_are_missed_by_the_same_part() -> None:
    # one slot, two links, each serving one floor of 0.8 by itself: half and half reaches 0.4
    best = solve_floors([0.2, 0.9], [[0.8, 0.0], [0.0, 0.8]], n_slots=1, floors=[0.8, 0.8])
    assert best.status == "infeasible"
    assert best.largest_shortfall == pytest.approx(0.5)
    assert best.probabilities.tolist() == pytest.approx([0.5, 0.5])
    assert np.isinf(best.shadow_prices).all()


def test_a_floor_that_can_be_kept_has_no_price_where_another_cannot() -> None:
    best = solve_floors([0.2, 0.9], [[0.8, 0.1], [0.1, 0.6]], n_slots=1, floors=[2.0, 0.0])
    assert best.status == "infeasible"
    assert best.shadow_prices.tolist() == [np.inf, 0.0]
    assert best.probabilities.tolist() == [1.0, 0.0]


def test_a_conditional_rate_by_hand() -> None:
    # carts per click: 0.1 / 0.5 and 0.3 / 0.5; a floor of 0.3 needs x . (cart - 0.3 click) >= 0:
    # -0.05 x0 + 0.15 x1 >= 0 with x0 + x1 = 1, so x1 = 1/4, and value falls by 0.6 * 1/4
    click, cart = np.array([0.5, 0.5]), np.array([0.1, 0.3])
    best = solve_floors([0.8, 0.2], [cart - 0.3 * click], n_slots=1, floors=[0.0])
    assert best.probabilities.tolist() == pytest.approx([0.75, 0.25])
    assert best.shadow_prices.tolist() == pytest.approx([0.6 / 0.2])
    assert best.status == "binding"
    assert best.value == pytest.approx(0.65)


def test_slack_floors_bring_what_they_can_among_equal_values() -> None:
    best = solve_floors([0.5, 0.5, 0.1], [[0.1, 0.4, 0.9], [0.1, 0.2, 0.9]], 1, [0.05, 0.05])
    assert (best.status, best.probabilities.tolist()) == ("slack", [0.0, 1.0, 0.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value": [0.1, float("nan")]}, "`value` must be finite numbers, got nan"),
        ({"value": []}, r"`value` must be a list of at least one number, got \[\]"),
        ({"value": ["a", "b"]}, "`value` must be an array of finite numbers"),
        ({"demands": [0.1, 0.2]}, r"`demands` must be at least one row, a floor each, got \(2,\)"),
        (
            {"demands": [[0.1]]},
            r"`demands` must be rows of as many numbers as `value` \(2\), got 1",
        ),
        ({"demands": [[0.1, 1.5]]}, r"`demands` must be numbers in \[-1, 1\], got 1.5"),
        ({"demands": [["a", 1.5]]}, r"`demands` must be rows of numbers in \[-1, 1\]"),
        ({"floors": [0.1, 0.2]}, r"`floors` must be one number for each row of `demands` \(1\)"),
        ({"floors": [-0.1]}, "`floors` must be finite numbers that are at least 0, got -0.1"),
        ({"floors": [float("inf")]}, "`floors` must be finite numbers .* got inf"),
        ({"n_slots": 0}, r"`n_slots` must be from 1 to the number of links \(2\), got 0"),
        ({"n_slots": 3}, r"`n_slots` must be from 1 to the number of links \(2\), got 3"),
    ],
)
def test_a_broken_rule_is_named(arguments: dict[str, Any], message: str) -> None:
    right = {"value": [0.1, 0.2], "demands": [[0.3, 0.4]], "n_slots": 1, "floors": [0.1]}
    with pytest.raises(InvalidInput, match=message):
        solve_floors(**{**right, **arguments})


INTERPRETED = """
import json, sys
from slotwise.selection import solve_floors
found = [solve_floors(*program) for program in json.load(sys.stdin)]
print(json.dumps([[one.status, one.value, one.probabilities.tolist()] for one in found]))
"""


def test_the_same_text_runs_interpreted() -> None:
    rng = np.random.default_rng(8)
    programs_as_lists = []
    for kind in RATES:
        value, demands = make_rates(kind, 14, 2, rng)
        for floors in FLOORS:
            asked = make_floors(floors, demands, 3, rng)
            programs_as_lists.append([value.tolist(), demands.tolist(), 3, asked.tolist()])
    root = Path(__file__).resolve().parent.parent.parent
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERPRETED],
        input=json.dumps(programs_as_lists),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(root / "src")},
        check=False,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    for program, (status, value_found, chances) in zip(
        programs_as_lists, json.loads(finished.stdout), strict=True
    ):
        compiled = solve_floors(*program)
        assert status == compiled.status
        assert value_found == pytest.approx(compiled.value, abs=ACCURACY)
        assert chances == pytest.approx(compiled.probabilities.tolist(), abs=ACCURACY)
