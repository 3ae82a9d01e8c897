"""Results as tables: for data frames, and for notebooks."""

from __future__ import annotations

import html
import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from slotwise import metrics
from slotwise.extras import missing_package
from slotwise.simulation.results_file import polars

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from slotwise.simulation.results import Results

__all__ = ["html_table", "pandas_table", "polars_table"]

HTML_METRICS = ("regret", "shortfall", "violation", "reward", "clicks")


def columns_of(results: Results) -> dict[str, Any]:
    """Return one column per metric, one row per policy, run and checkpoint."""
    n_runs = {label: len(results.totals[label]["reward"]) for label in results.labels}
    n_rounds = len(results.rounds)
    labels = np.array(results.labels, np.str_)
    columns: dict[str, Any] = {
        "policy": np.repeat(labels, [n * n_rounds for n in n_runs.values()]),
        "run": np.concatenate([np.repeat(np.arange(n), n_rounds) for n in n_runs.values()]),
        "round": np.concatenate([np.tile(results.rounds, n) for n in n_runs.values()]),
    }
    for metric in results.metrics:
        columns[metric] = np.concatenate(
            [results.over_time(label, metric).ravel() for label in results.labels]
        )
    return columns


def polars_table(results: Results) -> pl.DataFrame:
    """Return the results as a data frame of polars."""
    table: pl.DataFrame = polars("`Results.to_polars`").DataFrame(columns_of(results))
    return table


def pandas_table(results: Results) -> pd.DataFrame:
    """Return the results as a data frame of pandas."""
    try:
        pandas: Any = importlib.import_module("pandas")
    except ModuleNotFoundError as error:
        raise missing_package("`Results.to_pandas`", error) from error
    table: pd.DataFrame = pandas.DataFrame(columns_of(results))
    return table


def html_table(results: Results) -> str:
    """Return the final means with 95 % intervals as an HTML table."""
    shown = [name for name in results.metrics if name in HTML_METRICS or ":" in name]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in shown)
    rows = []
    for label in results.labels:
        cells = "".join(f"<td>{_cell(results, label, name)}</td>" for name in shown)
        rows.append(f"<tr><th>{html.escape(label)}</th>{cells}</tr>")
    runs = "1 run" if results.n_runs == 1 else f"{results.n_runs} runs"
    return (
        f"<table><caption>After {results.n_rounds:,} rounds: mean of {runs} and its 95 % interval"
        f"</caption><thead><tr><th>policy</th>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _cell(results: Results, label: str, metric: str) -> str:
    mean, low, high = map(float, metrics.mean_interval(results.final(label, metric)))
    return f"{mean:,.4g}" if low == high else f"{mean:,.4g} ({low:,.4g} to {high:,.4g})"
