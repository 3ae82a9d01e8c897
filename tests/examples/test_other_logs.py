"""Logs that others keep: tiny files in the layout of the Open Bandit data set, and arrays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from other_logs import obp_log, open_bandit_log, shown_mix

from slotwise.errors import InvalidInput, MissingData
from slotwise.evaluation import EvaluationSettings, LinkMix, evaluate
from slotwise.evaluation.log_reader import LogReader

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COLUMNS = ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0"


def write_campaign(directory: Path, policy: str, campaign: str, n_rows: int = 600) -> None:
    """A log of four items in three positions; `bts` prefers the first item."""
    rng = np.random.default_rng(len(policy) + len(campaign))
    chances = np.full(4, 0.25) if policy == "random" else np.array([0.7, 0.1, 0.1, 0.1])
    lines = [COLUMNS]
    for row in range(n_rows):
        item = rng.choice(4, p=chances)
        click = int(rng.random() < (0.4 if item == 0 else 0.1))
        when = f"2019-11-24 00:{row // 60:02d}:{row % 60:02d}.762830+00:00"
        position = rng.integers(1, 4)
        lines.append(f"{row},{when},{item},{position},{click},{chances[item]},ab12,0.0")
    folder = directory / policy / campaign
    folder.mkdir(parents=True)
    # not in the order of time, as the original is not either
    (folder / f"{campaign}.csv").write_text("\n".join([COLUMNS, *lines[:0:-1], ""]))


def test_the_random_log_tells_what_the_other_policy_earns(tmp_path: Path) -> None:
    for policy in ("random", "bts"):
        write_campaign(tmp_path, policy, "men")
    bts = shown_mix(open_bandit_log(tmp_path, "bts", "men"), ["position"])
    answer = evaluate(open_bandit_log(tmp_path, "random", "men"), bts)
    own = evaluate(open_bandit_log(tmp_path, "bts", "men"), bts)
    # the truth is 0.31; five standard errors of 0.03, and those of the other log
    assert answer.clicks.value == pytest.approx(0.31, abs=0.15)
    assert own.logged_clicks.value == pytest.approx(0.31, abs=0.1)
    assert answer.clicks.low < own.logged_clicks.value < answer.clicks.high
    assert answer.n_pages == 600


def test_users_are_visitors_and_positions_a_feature(tmp_path: Path) -> None:
    write_campaign(tmp_path, "random", "all")
    reader = LogReader(open_bandit_log(tmp_path), ["position", "user_feature_0"])
    pages = list(reader)
    assert sorted(reader.segments) == [("1", "ab12"), ("2", "ab12"), ("3", "ab12")]
    assert all((part.min_probabilities == 0.25).all() for part in pages)


def test_the_example_runs(tmp_path: Path) -> None:
    for policy in ("random", "bts"):
        for campaign in ("all", "men", "women"):
            write_campaign(tmp_path, policy, campaign, n_rows=200)
    outcome = subprocess.run(
        [sys.executable, EXAMPLES / "open_bandit" / "open_bandit.py", tmp_path],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = outcome.stdout.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["all", "men", "women"]
    assert "largest weight" in lines[-1]


def test_what_is_not_the_data_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"must hold random/all/all\.csv"):
        open_bandit_log(tmp_path)
    with pytest.raises(InvalidInput, match="`campaign` must be one of all, men, women"):
        open_bandit_log(tmp_path, campaign="kids")
    with pytest.raises(InvalidInput, match="`policy` must be one of random, bts"):
        open_bandit_log(tmp_path, policy="best")
    folder = tmp_path / "random" / "all"
    folder.mkdir(parents=True)
    (folder / "all.csv").write_text("timestamp,item_id,position,click\n")
    with pytest.raises(MissingData, match="got none named propensity_score"):
        open_bandit_log(tmp_path)


def test_logs_in_the_style_of_obp_equal_the_textbook() -> None:
    rng = np.random.default_rng(2)
    chances = np.array([0.5, 0.3, 0.2])
    actions = rng.choice(3, 500, p=chances)
    rewards = (rng.random(500) < 0.3).astype(float)
    log = obp_log(actions, rewards, chances[actions], position=np.zeros(500, int))
    answer = evaluate(log, LinkMix.of({"0": 0.2, "2": 0.8}), EvaluationSettings("ips"))
    wanted = np.array([0.2, 0.0, 0.8])
    expected = np.mean(wanted[actions] / chances[actions] * rewards)
    assert answer.revenue.value == pytest.approx(float(expected), rel=1e-12)


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"`pscore` must be one number for each action \(2\)"):
        obp_log([0, 1], [1, 0], [0.5])
