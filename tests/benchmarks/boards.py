"""Leaderboards made up from a few numbers: only for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.leaderboard.board import CaseBoard, Leaderboard
from benchmarks.leaderboard.ranking import rank_case
from slotwise.simulation.results import Results

N_ROUNDS, N_RUNS, OPTIMUM, MOST_CLICKS, PRICE = 50_000, 20, 1.0, 6.0, 0.5


class Fared(NamedTuple):
    """Where a policy ended on average: its regret and the clicks missing (below zero: spare)."""

    regret: float
    missing: float
    spread: float = 1.0


def make_case_results(
    policies: Mapping[str, Fared],
    floor: float = 4.0,
    status: str = "binding",
    n_rounds: int = N_ROUNDS,
    n_runs: int = N_RUNS,
    gains: Mapping[str, float] | None = None,
) -> Results:
    """Return results in which each policy ended around these numbers, symmetric over runs."""
    around = np.linspace(-1.0, 1.0, n_runs)
    totals = {
        label: {
            "reward": (OPTIMUM * n_rounds - fared.regret + fared.spread * around)[:, None],
            "clicks": (floor * n_rounds - fared.missing + fared.spread * around)[:, None],
            "violation": np.full((n_runs, 1), 7.0),
            "deficit": np.full((n_runs, 1), max(0.0, fared.missing) + 5.0),
        }
        for label, fared in {"oracle": Fared(0.0, 0.0), **policies}.items()
    }
    config: dict[str, Any] = {
        "click_floor": floor,
        "optimum": {
            "value": OPTIMUM,
            "status": status,
            "attainable_clicks": MOST_CLICKS,
            **(gains or {}),
            "shadow_price": PRICE,
        },
        "policies": [{"label": label, "name": label.split("/")[0]} for label in totals],
    }
    return Results(config, np.array([n_rounds]), totals)


def make_case(
    name: str,
    policies: Mapping[str, Fared],
    *,
    floor: float = 4.0,
    status: str = "binding",
    n_rounds: int = N_ROUNDS,
    n_runs: int = N_RUNS,
    refused: Mapping[str, str] | None = None,
    gains: Mapping[str, float] | None = None,
) -> CaseBoard:
    """Return the board of a case; policies whose label holds `ts` know the horizon."""
    results = make_case_results(policies, floor, status, n_rounds, n_runs, gains)
    knows = {label: "ts" in label for label in results.labels}
    ranking = rank_case(results, {label: [0.5] * n_runs for label in policies}, knows)
    return CaseBoard(
        name=name,
        description=f"made up, {name}",
        source="made up",
        n_links=271,
        n_slots=15,
        click_floor=floor,
        floor_status=status,
        most_clicks=MOST_CLICKS,
        best_revenue=OPTIMUM,
        n_rounds=n_rounds,
        n_runs=n_runs,
        refused=dict(refused or {}),
        **ranking._asdict(),
    )


def make_board(*cases: CaseBoard, default: str = "paced-bayes") -> Leaderboard:
    """Return a leaderboard of these cases."""
    return Leaderboard(default, "0.1.0", "0123abc", 1, ("a file was not given",), cases)
