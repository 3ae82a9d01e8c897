"""Small results that are kept: `python -m tests.simulation.pin_results` writes them anew.

Kept are mean and standard deviation over runs. Draws may come in another order in another
version, or differ where a machine's logarithm rounds its last bit otherwise; so a result agrees
when its mean is within `N_DEVIATIONS` of what two sets of such runs may differ by.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import NamedTuple

from slotwise.simulation import Results, load_experiment, run_experiment, shipped_experiments

PINNED = Path(__file__).resolve().parents[1] / "golden" / "small-results.json"
EXPERIMENTS = ("figure-1-coupon", "figure-2-ads-binding", "figure-3-edx", "late-feedback")
METRICS = ("regret", "clicks", "violation")
N_ROUNDS, N_RUNS = 4_000, 8
N_DEVIATIONS = 6.0


class Pin(NamedTuple):
    """A metric of a policy after the last round."""

    mean: float
    deviation: float


def small_results(name: str) -> Results:
    """Run a shipped experiment for few runs of few rounds."""
    changes = {"n_rounds": N_ROUNDS, "n_runs": N_RUNS}
    return run_experiment(load_experiment(shipped_experiments()[name], changes).experiment())


def pins_of(results: Results) -> dict[str, Pin]:
    """Return what is kept of `results`, by policy and metric."""
    return {
        f"{label} {metric}": Pin(
            round(float(results.final(label, metric).mean()), 3),
            round(float(results.final(label, metric).std(ddof=1)), 3),
        )
        for label in results.labels
        for metric in METRICS
    }


def agrees(found: Pin, kept: Pin) -> bool:
    """Say whether two means of `N_RUNS` runs are of one behaviour.

    The tolerance is fixed by what is kept: results that spread more are not easier to accept.
    """
    spread = math.sqrt(2.0 / N_RUNS) * kept.deviation
    return abs(found.mean - kept.mean) <= N_DEVIATIONS * spread


if __name__ == "__main__":
    pins = {name: pins_of(small_results(name)) for name in EXPERIMENTS}
    text = json.dumps(pins, indent=1)
    PINNED.write_text(re.sub(r"\[\s+(\S+)\s+(\S+)\s+\]", r"[\1 \2]", text) + "\n")
