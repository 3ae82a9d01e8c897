"""The programs in examples/ run as they are and end well."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run_example(name: str) -> str:
    """Return what the program prints; warnings are errors, as everywhere."""
    outcome = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / name],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    return outcome.stdout


def test_embed_learns_which_links_earn_above_the_floor() -> None:
    text = run_example("embed.py")
    assert "con-ucb: 20000 pages, 500 open, 0 forgotten; 0 amounts clipped" in text
    chances = {line.split()[0]: float(line.split()[1]) for line in text.splitlines()[1:6]}
    # the true best mix: new-in always, the rest shared by spring-sale and gift-cards; which of
    # gift-cards and outlet earns more is still open after one day
    assert chances["new-in"] == pytest.approx(1)
    assert chances["blog"] == 0
    assert 0.3 < chances["spring-sale"] < 0.9
    quarters = [float(word) for word in text.splitlines()[-1].split()[-4:]]
    assert quarters[-1] == pytest.approx(0.5, abs=0.05)
    assert abs(quarters[-1] - 0.5) < abs(quarters[0] - 0.5)
