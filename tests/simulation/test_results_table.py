"""Results as data frames and in notebooks."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from slotwise.errors import SlotwiseError
from slotwise.simulation import Results
from tests.simulation.synthetic import make_results


@pytest.fixture(scope="module")
def results() -> Results:
    return make_results(("lexp", "größe"), n_runs=3, n_checkpoints=7)


def test_a_table_has_every_metric_of_every_run_and_checkpoint(results: Results) -> None:
    table = results.to_polars()
    assert table.columns == ["policy", "run", "round", *results.metrics]
    assert table.height == 2 * 3 * len(results.rounds)
    for label in results.labels:
        for metric in ("regret", "shortfall", "violation"):
            rows = table.filter(table["policy"] == label).sort("run", "round")
            found = rows[metric].to_numpy().reshape(3, len(results.rounds))
            assert np.array_equal(found, results.over_time(label, metric))


def test_pandas_has_the_same_table(results: Results) -> None:
    table = results.to_pandas()
    assert list(table.columns) == results.to_polars().columns
    for name in table.columns:
        assert table[name].tolist() == results.to_polars()[name].to_list()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named(
    package: str, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    message = f"`Results.to_{package}` needs the package {package}, which is not installed; install"
    with pytest.raises(SlotwiseError, match=message):
        getattr(results, f"to_{package}")()


def test_a_notebook_shows_final_means_and_escapes_labels() -> None:
    shown = make_results(("lexp", "<b>"), n_runs=3)._repr_html_()
    assert "<th>regret</th>" in shown
    assert "<th>shortfall</th>" in shown
    assert "<th>&lt;b&gt;</th>" in shown
    assert "mean of 3 runs and its 95 % interval" in shown


def test_one_run_has_no_interval_in_a_notebook() -> None:
    shown = make_results(("lexp",), n_runs=1)._repr_html_()
    assert "mean of 1 run " in shown
    assert " to " not in shown


def test_printed_results_are_readable() -> None:
    shown = str(make_results(("lexp", "oracle"), n_runs=4))
    head, columns, *rows = shown.splitlines()
    assert head == "after 50,000 rounds, mean of 4 runs ± 95 % interval"
    assert columns.split() == ["policy", "regret", "violation", "reward", "shortfall", "clicks"]
    assert [row.split()[0] for row in rows] == ["lexp", "oracle"]
    assert "e+" not in shown
    assert all(len(row) < 120 for row in rows)


@pytest.mark.parametrize("status", ["infeasible", "binding"])
def test_printed_results_say_that_the_floor_is_out_of_reach(status: str) -> None:
    config = {"click_floor": 1.9, "optimum": {"value": 0.5, "status": status, "clicks": 0.709}}
    names = ("reward", "clicks", "violation", "deficit")
    totals = {"uniform": {name: np.array([[1.0], [2.0]]) for name in names}}
    text = str(Results(config, rounds=np.array([10]), totals=totals))
    told = "The floor is out of reach: the most clicked mix has 0.709 clicks."
    assert text.endswith(told) == (told in text) == (status == "infeasible")


def test_a_printed_summary_has_a_line_for_each_row() -> None:
    results = make_results(("lexp",), n_runs=4)
    summary = results.summary()
    head, *rows = str(summary).splitlines()
    assert head.split()[:2] == ["policy", "metric"]
    assert len(rows) == len(summary) == len(results.metrics)
    assert repr(summary) == str(summary)
