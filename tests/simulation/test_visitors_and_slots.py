"""Visitors and slots that differ, through the engine, its files and its logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
from queue_ts import QueueTS

import slotwise
from slotwise.errors import InvalidConfig
from slotwise.policies import PacedBayes
from slotwise.problem import Problem
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.experiment_file import load_experiment
from slotwise.simulation.series import run_experiment
from slotwise.simulation.simulated_log import log_run, simulate_log
from tests.unnamed_features import features_of

WEIGHTS = (1.8, 0.9, 0.3)
KINDS = slotwise.SegmentLinks(
    click_rate=[[0.3, 0.1, 0.2, 0.05, 0.1, 0.1], [0.1, 0.3, 0.05, 0.2, 0.1, 0.1]],
    revenue_per_click=[[0.5] * 6, [0.5] * 6],
    shares=[0.75, 0.25],
    visitors=[{"device": "phone"}, {"device": "desktop"}],
    slot_weights=WEIGHTS,
)


def experiment(slot_weights: Any, n_rounds: int = 100) -> Experiment:
    problem = Problem(
        6, 3, 0.3, horizon=n_rounds, features=features_of((2,)), slot_weights=slot_weights
    )
    return Experiment(KINDS, problem, {"default": PacedBayes(), "other": QueueTS()}, 2, seed=3)


def test_totals_of_all_values_add_up_to_those_of_the_run() -> None:
    results = run_experiment(experiment("learn"), n_threads=1)
    for label in results.labels:
        totals = results.totals[label]
        rounds = totals["rounds:device phone"] + totals["rounds:device desktop"]
        np.testing.assert_array_equal(rounds, np.broadcast_to(results.rounds, rounds.shape))
        for name in ("clicks", "reward"):
            parts = totals[f"{name}:device phone"] + totals[f"{name}:device desktop"]
            np.testing.assert_allclose(parts, totals[name])
        # 75 of 100 visitors expected: by Hoeffding, 30 more or less have a chance below 1e-7
        assert abs(totals["rounds:device phone"][0, -1] - 75) < 30
    assert not any(name.startswith("rounds:") for name in results.metrics)


@pytest.mark.parametrize("slot_weights", ["learn", WEIGHTS, None])
def test_a_log_has_the_pages_of_the_run(slot_weights: Any, tmp_path: Path) -> None:
    played = experiment(slot_weights)
    results = run_experiment(played, n_threads=1)
    log_run(played, "default", tmp_path / "log", run=1)
    rows = pyarrow.parquet.read_table(tmp_path / "log").to_pylist()
    assert sum(row["clicked"] for row in rows) == results.final("default", "clicks")[1]
    assert sum(row["revenue"] for row in rows) == results.final("default", "reward")[1]
    assert ("random_order" in rows[0]) == (slot_weights is not None)


def test_a_log_may_explore_where_slots_differ(tmp_path: Path) -> None:
    simulate_log(tmp_path, KINDS, PacedBayes(), 3, n_rounds=50, explore=0.2, slot_weights="learn")
    rows = pyarrow.parquet.read_table(tmp_path).to_pylist()
    assert len(rows) == 150
    assert any(row["random_order"] for row in rows)


@pytest.mark.slow
def test_order_brings_most_of_what_it_can() -> None:
    # 8 runs: the learned order earned 1.19 to 1.24 times the revenue of slots taken to be alike
    n_rounds = 8_000
    earned = {}
    for weights in ("learn", WEIGHTS):
        results = slotwise.simulate(
            KINDS, [PacedBayes()], 3, 0.3, n_rounds, n_runs=2, slot_weights=weights, n_threads=1
        )
        earned[weights] = results.final("paced-bayes", "reward").mean() / n_rounds
        best = results.config["optimum"]
        assert best["value"] > 1.1 * best["value_without_order"]
        assert results.config["slot_weights"] == (weights if weights == "learn" else list(WEIGHTS))
        gain = best["value"] - best["value_without_order"]
        assert earned[weights] > best["value_without_order"] + 0.4 * gain


FILE = """
title = "Visitors"
dataset = "coupon-like"
n_slots = 3
click_floor = 0.5
n_rounds = 20
n_runs = 1
{top}

[environment]
{environment}

[[policies]]
name = "paced-bayes"

[[policies]]
name = "oracle"
"""

ENVIRONMENTS = {
    "segments": 'kind = "segments"\nshares = [0.5, 0.3, 0.2]\nspread = 1.0',
    "features": 'kind = "segments"\nshares = [0.5, 0.5]\n'
    'visitors = [{ device = "phone", new = true }, { device = "desktop", new = true }]',
    "logistic": 'kind = "logistic"\nfeature_sizes = [2, 3]\neffect = 0.5',
    "slots": 'kind = "slots"\nslot_weights = [1.2, 1.0, 0.8]',
}

OTHER_LINKS = """kind = "segments"
shares = [1.0]
click_rate = [[0.1, 0.2]]
revenue_per_click = [[0.1, 0.2]]"""


def written(path: Path, environment: str, top: str = "") -> Path:
    path.write_text(FILE.format(environment=environment, top=top))
    return path


@pytest.mark.parametrize("kind", ENVIRONMENTS)
def test_experiment_files_describe_visitors_and_slots(kind: str, tmp_path: Path) -> None:
    top = 'slot_weights = "learn"' if kind == "slots" else ""
    path = written(tmp_path / "mine.toml", ENVIRONMENTS[kind], top)
    played = load_experiment(path).experiment()
    sizes = {"segments": (3,), "features": (2, 1), "logistic": (2, 3), "slots": ()}
    assert played.problem.feature_sizes == sizes[kind]
    assert played.problem.slot_weights == ("learn" if kind == "slots" else ())
    results = run_experiment(played, n_threads=1)
    known = "value_without_order" if kind == "slots" else "value_without_visitors"
    assert results.config["optimum"][known] < results.config["optimum"]["value"]


def test_policies_may_be_kept_from_knowing_visitors(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.toml", ENVIRONMENTS["segments"], "knows_visitors = false")
    played = load_experiment(path).experiment()
    assert played.problem.feature_sizes == ()
    assert played.environment.feature_sizes == (3,)


@pytest.mark.parametrize(
    ("environment", "top", "message"),
    [
        ('kind = "segments"\nshares = [0.5, 0.4]', "", "`environment`: `shares` must"),
        ('kind = "slots"\nslot_weights = [1, -1, 1]', "", "`environment`: `slot_weights` must"),
        ('kind = "logistic"\nfeature_sizes = []', "", "`environment`: `feature_sizes` must"),
        ('kind = "bernoulli"', "slot_weights = [1, 2]", "`slot_weights` must be one number for"),
        ('kind = "bernoulli"', 'slot_weights = "guess"', "`slot_weights` must be 'learn'"),
        (
            OTHER_LINKS,
            "",
            "`environment`: `click_rate` must be rates for the",
        ),
    ],
)
def test_mistakes_in_files_are_named(
    environment: str, top: str, message: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "mine.toml", environment, top)
    with pytest.raises(InvalidConfig, match=message):
        load_experiment(path).experiment()
