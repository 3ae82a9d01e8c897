"""The paper's experimental section: which shipped experiments it is, and how large each is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slotwise.simulation.experiment_file import load_experiment
from slotwise.simulation.series import Planned
from slotwise.simulation.shipped import shipped_experiments

__all__ = ["FIGURES", "QUICK", "SWEEPS", "plan_paper"]

FIGURES = ("figure-1-coupon", "figure-2-ads", "figure-2-ads-binding", "figure-3-edx")
SWEEPS = ("gamma-sweep-coupon", "gamma-sweep-ads-binding", "gamma-sweep-edx")

QUICK = {"n_rounds": 2_000, "n_runs": 6}
"""Sizes for a first look: about a minute instead of hours of processor time."""


def plan_paper(
    out: Path,
    data: Path | None = None,
    *,
    n_runs: int | None = None,
    n_rounds: int | None = None,
    is_quick: bool = False,
) -> list[Planned]:
    """Return the experiments of the paper's figures, then the sweeps over γ, with their files.

    Results files lie in `out/results`. `n_runs` and `n_rounds` replace those of the experiment
    files; a sweep never has more runs than its own file says. `data` is the directory with the
    original data sets; look-alikes are used where it does not have them.
    """
    given = {"n_runs": n_runs, "n_rounds": n_rounds}
    changes: dict[str, Any] = dict(QUICK) if is_quick else {}
    changes |= {key: value for key, value in given.items() if value is not None}
    shipped = shipped_experiments()
    plan = []
    for name in (*FIGURES, *SWEEPS):
        file = load_experiment(shipped[name], changes)
        if name in SWEEPS:
            max_runs = load_experiment(shipped[name]).n_runs
            file = file.model_copy(update={"n_runs": min(file.n_runs, max_runs)})
        plan.append(Planned(file.experiment(data), out / "results" / f"{name}.parquet"))
    return plan
