"""The paper as a whole: the quick look, and how long the last full run took."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measuring import Row, at_most, note
from slotwise.simulation import Results

PAPER = Path(__file__).resolve().parent.parent / "paper" / "results"


def reproducing() -> list[Row]:
    """Run `slotwise reproduce --quick` twice; read what `make paper` last took."""
    return [quick_look(), whole_paper()]


def quick_look() -> Row:
    """Time the second quick run, whose compiled code is cached; each starts from nothing."""
    program = [sys.executable, "-m", "slotwise.cli.main", "reproduce", "--quick", "--out"]
    seconds = processor = 0.0
    for _ in range(2):
        with tempfile.TemporaryDirectory() as out:
            start, before = time.perf_counter(), os.times()
            subprocess.run([*program, out], check=True, stdout=subprocess.DEVNULL)
            seconds, after = time.perf_counter() - start, os.times()
            processor = after.children_user - before.children_user
    described = f"{processor:.1f} s of processor time, load {os.getloadavg()[0]:.1f}"
    name = "slotwise reproduce --quick, second run"
    return at_most(name, described, seconds, 15.0, "s by the clock")


def whole_paper() -> Row:
    """Add up the seconds in the results files of the last `make paper`."""
    name = "the whole paper (make paper)"
    files = sorted(PAPER.glob("*.parquet"))
    if not files:
        return note(name, "not run yet: make paper")
    configs = [Results.load(file).config for file in files]
    wall, cpu = (sum(config["seconds"][clock] for config in configs) for clock in ("wall", "cpu"))
    n_rounds = sum(
        config["n_runs"] * config["n_rounds"] * len(config["policies"]) for config in configs
    )
    described = (
        f"{cpu / 60:.1f} minutes of processor time for {n_rounds / 1e6:,.0f} million rounds in "
        "results files, those of sweeps shared with the figures"
    )
    return at_most(name, described, wall / 60, 3.0, "minutes by the clock")
