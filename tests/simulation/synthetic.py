"""Results as an experiment would leave them, made up from a seed: only for tests and drawings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.simulation.results import Results


class Behaviour(NamedTuple):
    """How a made-up policy earns: what it loses a round late and early, and for how long."""

    revenue_lost: float
    clicks_lost: float
    early_revenue_lost: float = 0.0
    early_clicks_lost: float = 0.0
    early_rounds: float = 1.0


BEHAVIOURS: Mapping[str, Behaviour] = {
    "con-ucb": Behaviour(0.62, 1.55, 0.08, 0.1, 9_000),
    "con-ucb/1440": Behaviour(0.08, 0.25, 0.5, 1.3, 9_000),
    "lexp": Behaviour(0.4, 0.4, 0.3, 1.0, 12_000),
    "cucb": Behaviour(-0.12, 1.2, 0.6, 0.4, 6_000),
    "exp3-m": Behaviour(-0.08, 1.05, 0.6, 0.5, 9_000),
    "oracle": Behaviour(0.0, 0.0),
}

OPTIMUM, FLOOR = 1.1, 4.0


def settings(labels: tuple[str, ...], n_rounds: int, n_runs: int, seed: int) -> dict[str, Any]:
    """Return the settings of a made-up experiment with the sizes of the coupon data."""
    names = {label: label.split("/")[0] for label in labels}
    return {
        "experiment": "Coupons, made up",
        "dataset": {
            "name": "coupon-like",
            "original": "coupon-purchase",
            "title": "Coupon-Purchase",
            "look_alike": True,
            "source": "generated from a written recipe",
            "notes": "",
        },
        "n_links": 271,
        "n_slots": 15,
        "click_floor": FLOOR,
        "failure_probability": 0.01,
        "n_rounds": n_rounds,
        "n_runs": n_runs,
        "seed": seed,
        "version": "0.1.0",
        "commit": "0123abc",
        "levels": ["click", "revenue"],
        "optimum": {
            "value": OPTIMUM,
            "clicks": FLOOR,
            "shadow_price": 0.21,
            "status": "binding",
            "attainable_clicks": 7.3,
        },
        "policies": [
            {"label": label, "name": names[label], "settings": _policy_settings(label)}
            for label in labels
        ],
        "seconds": {"wall": 31.5, "cpu": 61.0},
    }


def make_results(
    labels: tuple[str, ...] = tuple(BEHAVIOURS),
    *,
    n_rounds: int = 50_000,
    n_runs: int = 12,
    n_checkpoints: int = 150,
    seed: int = 1,
    changes: Mapping[str, Any] | None = None,
) -> Results:
    """Return results in which a policy called like one of `BEHAVIOURS` behaves so."""
    rng = np.random.default_rng(seed)
    rounds = np.unique(np.linspace(1, n_rounds, n_checkpoints).round().astype(np.int64))
    config = settings(labels, n_rounds, n_runs, seed) | dict(changes or {})
    totals = {
        label: _totals(BEHAVIOURS.get(label, BEHAVIOURS["lexp"]), rounds, n_runs, rng)
        for label in labels
    }
    return Results(config, rounds, totals)


def make_sweep(scales: tuple[int, ...] = (1, 2, 4, 8, 18, 36, 72, 144, 360, 720, 1440)) -> Results:
    """Return results of Con-UCB at γ divided by each of `scales`, beside the other policies."""
    rng = np.random.default_rng(5)
    others = ("lexp", "cucb", "exp3-m", "oracle")
    labels = tuple("con-ucb" if scale == 1 else f"con-ucb/{scale}" for scale in scales)
    rounds = np.unique(np.linspace(1, 50_000, 40).round().astype(np.int64))
    totals = {label: _totals(BEHAVIOURS[label], rounds, 8, rng) for label in others}
    for label, scale in zip(labels, scales, strict=True):
        slowness = 1 / (1 + (scale / 12) ** 1.2)
        haste = 0.15 * max(0.0, np.log(scale / 300))
        behaviour = Behaviour(0.6 * slowness + 0.1 * haste, 1.6 * slowness + haste, 0.3, 1.0, 4_000)
        totals[label] = _totals(behaviour, rounds, 8, rng)
    config = settings((*others, *labels), 50_000, 8, 5)
    return Results(config, rounds, totals)


def _policy_settings(label: str) -> dict[str, float]:
    if not label.startswith("con-ucb"):
        return {}
    divisor = label.partition("/")[2]
    return {"gamma_scale": 1 / float(divisor) if divisor else 1.0}


def _totals(
    behaviour: Behaviour, rounds: NDArray[np.int64], n_runs: int, rng: np.random.Generator
) -> dict[str, NDArray[np.float64]]:
    passed = rounds.astype(np.float64)
    steps = np.diff(passed, prepend=0.0)
    learning = behaviour.early_rounds * (1 - np.exp(-passed / behaviour.early_rounds))
    shape = (n_runs, len(rounds))
    noise = np.cumsum(rng.normal(size=(2, *shape)) * np.sqrt(steps), axis=2)
    pace = rng.normal(1.0, 0.03, size=(n_runs, 1))
    revenue_lost = behaviour.revenue_lost * passed + behaviour.early_revenue_lost * learning
    clicks_lost = behaviour.clicks_lost * passed + behaviour.early_clicks_lost * learning
    reward = np.maximum.accumulate(OPTIMUM * passed - pace * revenue_lost + noise[0], axis=1)
    clicks = np.maximum.accumulate(FLOOR * passed - pace * clicks_lost + 1.7 * noise[1], axis=1)
    deficit = np.maximum.accumulate(np.maximum(FLOOR * passed - clicks, 0.0), axis=1)
    violation = 0.68 * passed + 0.8 * pace * clicks_lost
    return {
        "reward": np.maximum(reward, 0.0),
        "clicks": np.maximum(clicks, 0.0),
        "violation": violation,
        "deficit": deficit,
    }
