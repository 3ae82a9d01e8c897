"""Every answer proves itself, over programs that rounding makes hard."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.policies import ConUCB, Policy
from slotwise.selection import Solution, frontier, solve
from slotwise.selection.solve import SHORTLIST_POOL, STATUSES, solve_into
from tests.reference.certificate import check_by_highs, check_certificate, faults
from tests.selection.instances import FLOORS, RATES, Instance, make_floor, make_rates
from tests.selection.states import HARD, hard_instance, nearly_tied, played_states
from tests.selection.warm_program import WarmProgram

pytestmark = pytest.mark.compiled

DATASETS = ("edx-like", "coupon-like", "ads-like-binding")


@pytest.mark.parametrize("kind", HARD)
def test_hard_programs(kind: str) -> None:
    for seed in range(500):
        instance = hard_instance(kind, np.random.default_rng([HARD.index(kind), seed]))
        check_certificate(solve(*instance), *instance)
        if seed % 10 == 0:
            check_certificate(WarmProgram(*instance).solve(), *instance)


@pytest.mark.parametrize("kind", HARD)
def test_the_proof_agrees_with_highs(kind: str) -> None:
    for seed in range(60):
        instance = hard_instance(kind, np.random.default_rng([10 + HARD.index(kind), seed]))
        best = solve(*instance)
        check_certificate(best, *instance)
        check_by_highs(best, *instance)


def test_nearly_tied_programs_kept_warm() -> None:
    for seed in range(15):
        rng = np.random.default_rng(seed)
        value, clicks, n_slots, floor = nearly_tied(rng)
        program = WarmProgram(value, clicks, n_slots, floor)
        for _ in range(40):
            links = rng.choice(len(value), min(n_slots, 10), replace=False)
            nudge = 1.0 + 10.0 ** rng.uniform(-15, -6) * rng.standard_normal((2, len(links)))
            value[links] = np.minimum(1.0, value[links] * nudge[0])
            clicks[links] = np.minimum(1.0, clicks[links] * nudge[1])
            program.change(links.tolist(), value[links], clicks[links])
            check_certificate(program.solve(), value, clicks, n_slots, floor)


@pytest.mark.parametrize("kind", RATES)
def test_interpreted_programs_have_the_same_answers(kind: str) -> None:
    rng = np.random.default_rng(RATES.index(kind))
    for _ in range(12):
        value, clicks = make_rates(kind, 90, rng)
        floor = 0.8 * float(np.sort(clicks)[-6:].sum())
        best, probabilities = solve(value, clicks, 6, floor), np.zeros(90)
        price, status, *page = solve_into(value, clicks, 6, floor, probabilities)
        assert STATUSES[status] == best.status
        assert price == pytest.approx(best.shadow_price)
        np.testing.assert_allclose(page, best[3:], rtol=1e-9)
        np.testing.assert_allclose(probabilities, best.probabilities, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize(
    "policy",
    [ConUCB(gamma_scale=1 / 72), ConUCB(gamma_scale=1 / 1440)],
    ids=["con-ucb/72", "con-ucb/1440"],
)
def test_programs_that_come_up_in_play(policy: Policy, dataset: str) -> None:
    for instance, shown in played_states(policy, dataset, 600, seed=3):
        check_certificate(shown, *instance)
        check_certificate(solve(*instance), *instance)


def test_the_frontier_has_the_value_of_every_nearly_tied_floor() -> None:
    for seed in range(20):
        value, clicks, n_slots, floor = nearly_tied(np.random.default_rng(seed))
        curve = frontier(value, clicks, n_slots)
        best = solve(value, clicks, n_slots, floor)
        assert curve.value_at(floor) == pytest.approx(best.value, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1e-12, 1e-100])
def test_units_do_not_matter(scale: float) -> None:
    """Clicks or value in other units: the same mix, another price."""
    for seed in range(30):
        value, clicks, n_slots, floor = nearly_tied(np.random.default_rng(seed))
        for in_units in (
            Instance(value, scale * clicks, n_slots, scale * floor),
            Instance(scale * value, clicks, n_slots, floor),
            Instance(scale * value, scale * clicks, n_slots, scale * floor),
        ):
            check_certificate(solve(*in_units), *in_units)
            check_certificate(WarmProgram(*in_units).solve(), *in_units)


def test_rates_too_small_for_a_price_still_keep_the_floor() -> None:
    clicks = np.array([0.0, 1e-300, 1e-310, 3e-310])
    best = solve([1.0, 0.0, 0.5, 0.1], clicks, n_slots=2, floor=2e-310)
    assert best.probabilities.sum() == pytest.approx(2.0)
    assert best.probabilities @ clicks >= 2e-310


def test_pages_of_many_links() -> None:
    rng = np.random.default_rng(7)
    for n_slots in (200, 5_000, 30_000):
        n_links = 2 * n_slots
        clicks = rng.random(n_links)
        value = np.clip(0.6 - 0.3 * clicks + 1e-9 * rng.standard_normal(n_links), 0.0, 1.0)
        for share in (0.55, 0.7):
            instance = Instance(value, clicks, n_slots, share * n_slots)
            check_certificate(solve(*instance), *instance)


@pytest.mark.parametrize("kind", RATES)
@pytest.mark.parametrize("floor_kind", FLOORS)
def test_pools_large_enough_for_a_shortlist(kind: str, floor_kind: str) -> None:
    for seed in range(6):
        rng = np.random.default_rng([RATES.index(kind), FLOORS.index(floor_kind), seed])
        n_links, n_slots = int(rng.integers(SHORTLIST_POOL, 6_000)), int(rng.integers(1, 60))
        value, clicks = make_rates(kind, n_links, rng)
        floor = make_floor(floor_kind, value, clicks, n_slots, rng)
        check_certificate(solve(value, clicks, n_slots, floor), value, clicks, n_slots, floor)


WRONG: dict[str, dict[str, Any]] = {
    "a probability outside [0, 1]": {"probabilities": np.array([1.25, -0.25, 0.0])},
    "the sum of probabilities": {"probabilities": np.array([0.5, 0.25, 0.0])},
    "the value reported": {"value": 0.76},
    "the clicks reported": {"clicks": 0.31},
    "the floor missed": {"probabilities": np.array([0.51, 0.49, 0.0])},
    "more clicks than the floor": {"probabilities": np.array([0.49, 0.51, 0.0])},
    "a gap to the bound of its price": {"shadow_price": 0.7501},
    "a price that is no multiplier": {"shadow_price": -0.1},
    "a price of a slack floor": {"status": "slack"},
    "a binding floor called slack": {"status": "slack"},
    "a floor in reach called infeasible": {"status": "infeasible"},
}


@pytest.mark.parametrize("fault", WRONG)
def test_the_proof_fails_for_a_wrong_answer(fault: str) -> None:
    instance = Instance(np.array([0.9, 0.6, 0.1]), np.array([0.1, 0.5, 0.9]), 1, 0.3)
    right = solve(*instance)
    assert faults(right, *instance) == []
    assert fault in faults(right._replace(**WRONG[fault]), *instance)


def test_the_proof_fails_for_a_wrong_status() -> None:
    value, clicks = np.array([0.9, 0.6, 0.1]), np.array([0.1, 0.5, 0.9])
    page = np.array([1.0, 0.0, 0.0])
    binding = Solution(page, 0.0, "binding", 0.9, 0.1)
    assert "a slack floor called binding" in faults(binding, value, clicks, 1, 0.05)
    assert "an infeasible floor called kept" in faults(binding, value, clicks, 1, 0.95)
    infeasible = Solution(page, 1.0, "infeasible", 0.9, 0.1)
    assert faults(infeasible, value, clicks, 1, 0.95) == [
        "a price that is not infinite",
        "not the most clicked page",
        "not the best of the most clicked",
    ]


@pytest.mark.slow
def test_a_million_answers_prove_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    n_wanted, n_rounds, n_proved, n_compared, missed = 1_000_000, 20_000, 0, 0, 0

    def prove(answer: Solution, instance: Instance) -> None:
        nonlocal n_proved, n_compared, missed
        missed += bool(faults(answer, *instance))
        if n_proved % 250 == 0:
            check_by_highs(answer, *instance)
            n_compared += 1
        n_proved += 1
        if n_proved % 50_000 == 0:
            with capsys.disabled():
                print(f"\n{n_proved:,} answers, {missed} wrong", end="", flush=True)

    for dataset in DATASETS:
        for scale in (1 / 72, 1 / 1440):
            policy = ConUCB(gamma_scale=scale)
            for instance, shown in played_states(policy, dataset, n_rounds, seed=11):
                prove(shown, instance)
                prove(solve(*instance), instance)
    seed = 0
    while n_proved < n_wanted:
        kind = HARD[seed % len(HARD)]
        instance = hard_instance(kind, np.random.default_rng([20, seed]))
        prove(solve(*instance), instance)
        seed += 1
    assert missed == 0
    assert n_compared >= 4_000
