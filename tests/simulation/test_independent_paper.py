"""The paper's chain, from an experiment file to verdicts, against a second one in plain numpy.

The second chain shares nothing with the engine: its policies are the slow twins, its floor
programs are solved by HiGHS, it rounds pair by pair, and it has its own visitors. Both play 20 runs
of 160 rounds on one small pool. Final means may differ by chance; a test fails by accident if a
difference is above 7 standard errors, with a chance below 1e-6 for Student's t of 38 degrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from slotwise.figures.claims import CLAIMS, Verdict
from slotwise.simulation import Results, load_experiment, run_experiment
from tests.reference.floor_program import best_by_highs
from tests.reference.policies import ConUCBTwin, CUCBTwin, Exp3MTwin, LExpTwin, Twin
from tests.reference.rounding import round_pair_by_pair

Floats = NDArray[np.float64]

# Four links that are clicked, four that sell, four that do nothing.
CLICK_RATE = np.repeat([0.92, 0.35, 0.02], 4)
REVENUE_PER_CLICK = np.repeat([0.01, 1.0, 0.0], 4)
N_SLOTS, FLOOR, N_ROUNDS, N_RUNS, DELTA = 4, 2.4, 160, 20, 0.05
DIVISOR = 1440
N_ERRORS = 7.0

POLICIES = f"""
[[policies]]
name = "con-ucb"

[[policies]]
name = "con-ucb"
label = "con-ucb/{DIVISOR}"
settings = {{ gamma_scale = "1/{DIVISOR}" }}

[[policies]]
name = "lexp"

[[policies]]
name = "cucb"

[[policies]]
name = "exp3-m"
"""


class ConUCBByHighs(ConUCBTwin):
    """The twin of Con-UCB with HiGHS; noise above its tolerance of 1e-7 breaks ties."""

    def __init__(self, gamma_scale: float, rng: np.random.Generator) -> None:
        super().__init__(len(CLICK_RATE), N_SLOTS, FLOOR, N_ROUNDS, DELTA, gamma_scale)
        self.rng = rng

    def probabilities(self) -> Floats:
        n_links = len(self.N)
        value, clicks = self.bound(self.sum_g), self.bound(self.sum_a)
        noisy = value + 1e-5 * self.rng.random(n_links)
        floor = min(self.floor, np.sort(clicks)[-self.L :].sum())
        rows = LinearConstraint(
            np.stack([np.ones(n_links), clicks]), [self.L, floor], [self.L, np.inf]
        )
        answer = milp(-noisy, constraints=rows, bounds=Bounds(0, 1))  # no variable is whole
        assert answer.status == 0, answer.message
        mix: Floats = np.clip(answer.x, 0.0, 1.0)
        return mix


def twins(rng: np.random.Generator) -> dict[str, Twin]:
    n_links = len(CLICK_RATE)
    return {
        "con-ucb": ConUCBByHighs(1.0, rng),
        f"con-ucb/{DIVISOR}": ConUCBByHighs(1 / DIVISOR, rng),
        "lexp": LExpTwin(n_links, N_SLOTS, FLOOR, N_ROUNDS, "closed-form"),
        "cucb": CUCBTwin(n_links, N_SLOTS),
        "exp3-m": Exp3MTwin(n_links, N_SLOTS, N_ROUNDS),
    }


def play_by_hand() -> dict[str, dict[str, Floats]]:
    """Return the final metrics of every run of every twin."""
    best = best_by_highs(CLICK_RATE * REVENUE_PER_CLICK, CLICK_RATE, N_SLOTS, FLOOR)
    assert best is not None
    names = ("regret", "violation", "reward", "shortfall", "ratio")
    finals: dict[str, dict[str, Floats]] = {
        label: {name: np.zeros(N_RUNS) for name in names}
        for label in twins(np.random.default_rng())
    }
    for run in range(N_RUNS):
        for label, twin in twins(np.random.default_rng([11, run])).items():
            rng = np.random.default_rng([12, run, len(label)])
            clicks = violation = reward = 0.0
            for _ in range(N_ROUNDS):
                mix = twin.probabilities()
                shown = np.array(sorted(round_pair_by_pair(mix, rng)))
                clicked = (rng.random(N_SLOTS) < CLICK_RATE[shown]).astype(float)
                paid = clicked * (rng.random(N_SLOTS) < REVENUE_PER_CLICK[shown])
                twin.learn(shown, mix[shown], clicked, paid)
                clicks += clicked.sum()
                violation += max(0.0, FLOOR - clicked.sum())
                reward += paid.sum()
            of_run = {
                "regret": N_ROUNDS * best.value - reward,
                "violation": violation,
                "reward": reward,
                "shortfall": max(0.0, FLOOR * N_ROUNDS - clicks),
                "ratio": reward / violation if violation else math.inf,
            }
            for name, value in of_run.items():
                finals[label][name][run] = value
    return finals


@pytest.fixture(scope="module")
def by_hand() -> dict[str, dict[str, Floats]]:
    return play_by_hand()


@pytest.fixture(scope="module")
def by_engine(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("paper")
    rows = [f"{a},{b}" for a, b in zip(CLICK_RATE, REVENUE_PER_CLICK, strict=True)]
    (folder / "links.csv").write_text("\n".join(["click_rate,revenue_per_click", *rows]) + "\n")
    (folder / "small.toml").write_text(
        f'title = "Small"\ndataset = "rates"\ndata = "links.csv"\nn_slots = {N_SLOTS}\n'
        f"click_floor = {FLOOR}\nfailure_probability = {DELTA}\nn_rounds = {N_ROUNDS}\n"
        f"n_runs = {N_RUNS}\nseed = 1\n{POLICIES}"
    )
    return run_experiment(load_experiment(folder / "small.toml").experiment())


def difference(one: Floats, other: Floats) -> tuple[float, float]:
    """Return the difference of two means and its standard error."""
    error = math.sqrt((one.var(ddof=1) + other.var(ddof=1)) / N_RUNS)
    return float(other.mean() - one.mean()), error


def test_the_optimum_is_that_of_highs(by_engine: Results) -> None:
    best = best_by_highs(CLICK_RATE * REVENUE_PER_CLICK, CLICK_RATE, N_SLOTS, FLOOR)
    assert best is not None
    assert by_engine.config["optimum"]["value"] == pytest.approx(best.value)
    assert by_engine.config["optimum"]["shadow_price"] == pytest.approx(best.price)


def test_final_means_agree(by_engine: Results, by_hand: dict[str, dict[str, Floats]]) -> None:
    for label, finals in by_hand.items():
        for metric in ("regret", "violation", "reward", "shortfall"):
            apart, error = difference(by_engine.final(label, metric), finals[metric])
            assert abs(apart) <= N_ERRORS * error, (label, metric, apart, error)


def test_clear_verdicts_agree(by_engine: Results, by_hand: dict[str, dict[str, Floats]]) -> None:
    """A claim that is clear by hand, beyond 7 standard errors, has the same verdict."""

    def below(metric: str, lower: str, upper: str, factor: float = 1.0) -> bool | None:
        scaled = factor * by_hand[lower][metric]
        apart, error = difference(scaled, by_hand[upper][metric])
        return None if abs(apart) < N_ERRORS * error else apart > 0

    def together(parts: list[bool | None]) -> bool | None:
        return False if False in parts else None if None in parts else True

    baselines = ("lexp", "cucb", "exp3-m")
    by_claim: dict[str, Callable[[str], list[bool | None]]] = {
        "regret below LExp's": lambda own: [below("regret", own, "lexp")],
        "reward above LExp's": lambda own: [below("reward", "lexp", own)],
        "lowest violation": lambda own: [below("violation", own, one) for one in baselines],
        "largest ratio": lambda own: [below("ratio", one, own) for one in baselines],
        "more revenue without a floor": lambda own: [
            below("reward", one, other) for one in (own, "lexp") for other in baselines[1:]
        ],
        "huge violations without a floor": lambda own: [
            below("violation", own, one, 2.0) for one in baselines[1:]
        ],
    }
    judges = {claim.name: claim.judge for claim in CLAIMS}
    clear = []
    for own in ("con-ucb", f"con-ucb/{DIVISOR}"):
        for name, parts in by_claim.items():
            expected = together(parts(own))
            if expected is not None:
                verdict = judges[name](by_engine, own).verdict
                assert verdict is (Verdict.HOLDS if expected else Verdict.FAILS), (name, own)
                clear.append(expected)
    assert clear.count(True) >= 4
    assert clear.count(False) >= 2
