"""`slotwise policies`: the table and the formula of one."""

from __future__ import annotations

import re

import pytest

from slotwise.cli.catalogue import needs_horizon
from slotwise.cli.main import main
from slotwise.policies import CUCB, POLICIES, ConUCB, Exp3M


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")


def test_every_policy_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies"]) == 0
    printed = capsys.readouterr().out
    rows = {line.split()[0]: line for line in printed.splitlines() if line.strip()}
    assert set(POLICIES) <= set(rows)
    con_ucb = rows["con-ucb"]
    assert "Settings: horizon=None, failure_probability=0.01, gamma_scale=1.0" in printed
    assert re.search(r"\s+yes\s+yes\s+counts\s+Con-UCB", con_ucb)
    assert "(the paper's Algorithm 1)" in con_ucb
    assert re.search(r"\s+yes\s+no\s+pages\s+Exp3\.M", rows["exp3-m"])
    assert "probabilities (required)" in printed
    assert "`probabilities[i]`" in rows["fixed-mix"]


def test_nothing_is_cut_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["policies"]) == 0
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_one_policy_shows_its_formula(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies", "con-ucb"]) == 0
    printed = capsys.readouterr().out
    assert "gamma = gamma_scale * 72 ln(8 K T / delta)" in printed
    assert ">>>" not in printed
    assert "settings: horizon=None, failure_probability=0.01, gamma_scale=1.0" in printed


def test_an_unknown_policy_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["policies", "con-ubc"]) == 2
    assert "did you mean 'con-ucb'?" in capsys.readouterr().err


def test_needing_a_horizon_is_found_by_trying() -> None:
    assert needs_horizon(ConUCB)
    assert needs_horizon(Exp3M)
    assert not needs_horizon(CUCB)


def test_the_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies", "--help"]) == 0
    assert "slotwise policies con-ucb" in capsys.readouterr().out
