"""The results of an experiment: totals over time of every policy and run, in one file.

Used by `gathering`, `series`, `cli` and `figures`.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slotwise import metrics
from slotwise.arrays import Floats, Links, Whole
from slotwise.errors import InvalidInput, UnknownName
from slotwise.extras import imported
from slotwise.problem import Problem
from slotwise.simulation import results_file
from slotwise.simulation.engine import DEFICIT, TOTAL, VIOLATION

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.figure import Figure


def quantities_of(
    problem: Problem, records: Floats, value_labels: Sequence[str] = ()
) -> dict[str, Floats]:
    """Return the quantities of records of shape (run, kind, row, checkpoint) by name.

    Rows are levels, then floors on rates. With more than two levels, or floors beyond the click
    floor, every level has a "total:LEVEL" and every floor its violation and deficit. The total of
    a rate, "total:cart/click", is its surplus: carts minus the rate times the clicks. Every value
    of a visitor's feature has its rounds, clicks and reward: "rounds:device phone".
    """
    levels = problem.levels
    quantities = {
        "reward": sum(
            weight * records[:, TOTAL, levels.index(level)]
            for level, weight in problem.rewards.items()
        ),
        "clicks": records[:, TOTAL, 0],
        "violation": records[:, VIOLATION, 0],
        "deficit": records[:, DEFICIT, 0],
    }
    if len(levels) > 2 or not problem.has_click_floor_only:
        of_rates = [floor.name for floor in problem.active_floors if floor.rate > 0.0]
        for row, name in enumerate([*levels, *of_rates]):
            quantities[f"total:{name}"] = records[:, TOTAL, row]
            if name in problem.floors or row >= len(levels):
                quantities[f"violation:{name}"] = records[:, VIOLATION, row]
                quantities[f"deficit:{name}"] = records[:, DEFICIT, row]
    row = len(levels) + sum(floor.rate > 0.0 for floor in problem.active_floors)
    for label in value_labels:
        quantities[f"rounds:{label}"] = records[:, TOTAL, row]
        quantities[f"clicks:{label}"] = records[:, TOTAL, row + 1]
        quantities[f"reward:{label}"] = sum(
            weight * records[:, TOTAL, row + 1 + levels.index(level)]
            for level, weight in problem.rewards.items()
        )
        row += 1 + len(levels)
    return {name: np.asarray(values) for name, values in quantities.items()}


IN_TABLES = tuple(name for name, one in metrics.METRICS.items() if one.in_tables)
"""The metrics of a table of final values."""


def html_table(results: Results) -> str:
    """Return the final means with 95 % intervals as an HTML table."""
    shown = [name for name in results.metrics if name in IN_TABLES or ":" in name]
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
    return with_half_width(*map(float, metrics.mean_interval(results.final(label, metric))))


def with_half_width(mean: float, low: float, high: float) -> str:
    """Return a mean and the half-width of its interval, both with two digits of the latter.

    >>> with_half_width(24_321.7, 24_298.1, 24_345.3), with_half_width(1.0, 1.0, 1.0)
    ('24,322 ± 24', '1.0000')
    >>> with_half_width(math.inf, 2.0, math.inf)
    'inf (2 to inf)'
    """
    half = (high - low) / 2
    if not math.isfinite(half) or not math.isfinite(mean):
        return f"{mean:,.4g}" if low == high else f"{mean:,.4g} ({low:,.4g} to {high:,.4g})"
    size = half or abs(mean) / 1_000
    digits = 0 if size <= 0 else min(6, max(0, 1 - math.floor(math.log10(size))))
    return f"{mean:,.{digits}f}" if half == 0 else f"{mean:,.{digits}f} ± {half:,.{digits}f}"


Totals = Mapping[str, Mapping[str, Floats]]

QUANTITIES = tuple(name for name, one in metrics.METRICS.items() if one.is_recorded)
"""The totals that every results file has."""
OF_VALUES = ("rounds:", "clicks:", "reward:")
"""How the names of quantities of a feature value begin."""


class Curve(NamedTuple):
    """A metric over time: its mean over the runs and a 95 % band around the mean."""

    rounds: Whole
    mean: Floats
    low: Floats
    high: Floats


class SummaryRow(NamedTuple):
    """One policy's metric after the last round: mean over runs and its 95 % interval."""

    label: str
    metric: str
    mean: float
    low: float
    high: float


class Summary(tuple[SummaryRow, ...]):
    """Rows of final values; printed, one line each.

    >>> Summary([SummaryRow("lexp", "regret", 1234.5, 1200.0, 1269.0)])
    policy  metric  mean and 95 % interval
    lexp    regret              1,234 ± 34
    """

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the rows as a table."""
        head = ("policy", "metric", "mean and 95 % interval")
        rows = [head, *((row.label, row.metric, with_half_width(*row[2:])) for row in self)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            f"{label:<{widths[0]}}  {metric:<{widths[1]}}  {value:>{widths[2]}}"
            for label, metric, value in rows
        )

    __str__ = __repr__


@dataclass(frozen=True, eq=False)
class Results:
    """Totals of every policy, run and checkpoint, with the settings of the experiment.

    `config` holds the settings as JSON types. `rounds` are the checkpoints.
    `totals[label][quantity]` has one row per run and one column per checkpoint, summed since the
    first round: "reward", "clicks", "violation" (Σ of (h − clicks)₊ over rounds) and "deficit"
    (the largest h·t − clicks so far, at least 0). Problems with more levels or floors add
    "total:LEVEL", and "violation:FLOOR" and "deficit:FLOOR" for each floor: a level of
    `config["floors"]`, or a rate such as "cart/click", whose total is the surplus over the rate.
    Where visitors have features, every value has "rounds:VALUE", "clicks:VALUE" and "reward:VALUE".

    >>> config = {"click_floor": 1.0, "optimum": {"value": 0.5}}
    >>> of_one_run = {"reward": [[3.0, 9.0]], "clicks": [[8.0, 21.0]],
    ...               "violation": [[4.0, 6.0]], "deficit": [[3.0, 3.0]]}
    >>> results = Results(config, rounds=[10, 20], totals={"uniform": of_one_run})
    >>> results.final("uniform", "regret").tolist()
    [1.0]
    >>> results.curve("uniform", "shortfall").mean.tolist()
    [2.0, 0.0]
    """

    config: Mapping[str, Any]
    rounds: Whole
    totals: Totals

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", _plain(self.config))
        object.__setattr__(self, "rounds", _checked_rounds(self.rounds))
        object.__setattr__(self, "totals", _checked_totals(self.totals, len(self.rounds)))

    @property
    def labels(self) -> tuple[str, ...]:
        """The policies, in the order of the experiment."""
        return tuple(self.totals)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that `final` and `curve` take."""
        return (*metrics.METRICS, *self._level_metrics())

    @property
    def n_runs(self) -> int:
        """The smallest number of runs of a policy."""
        return min(len(self.totals[label]["reward"]) for label in self.labels)

    @property
    def n_rounds(self) -> int:
        """The last checkpoint."""
        return int(self.rounds[-1])

    def final(self, label: str, metric: str) -> Floats:
        """Return a metric of a policy after the last round, one number per run."""
        return self.over_time(label, metric)[:, -1].copy()

    def curve(self, label: str, metric: str) -> Curve:
        """Return a metric over time with a Student-t interval over runs, empty for one run."""
        mean, low, high = metrics.mean_interval(self.over_time(label, metric))
        return Curve(self.rounds, mean, low, high)

    def over_time(self, label: str, metric: str) -> Floats:
        """Return a metric at every checkpoint, one row per run."""
        if label not in self.totals:
            raise UnknownName(f"unknown policy {label!r}; known: {', '.join(self.labels)}")
        if metric not in self.metrics:
            raise UnknownName(f"unknown metric {metric!r}; known: {', '.join(self.metrics)}")
        totals = self.totals[label]
        if metric in metrics.METRICS:
            optimum, floor = self.config["optimum"]["value"], self.config["click_floor"]
            return metrics.METRICS[metric].of(metrics.Measured(self.rounds, optimum, floor, totals))
        if metric.startswith("shortfall:"):
            level = metric.removeprefix("shortfall:")
            floor = self.config["floors"].get(
                level, 0.0
            )  # the surplus over a rate must be at least 0
            return metrics.shortfall(self.rounds, floor, totals[f"total:{level}"])
        return totals[metric]

    def summary(self) -> Summary:
        """Return mean and interval of every metric of every policy after the last round.

        It is a tuple of rows that prints as a table.
        """
        return Summary(
            SummaryRow(label, metric, *map(float, metrics.mean_interval(self.final(label, metric))))
            for label in self.labels
            for metric in self.metrics
        )

    def to_polars(self) -> pl.DataFrame:
        """Return a tidy data frame of polars: one row per policy, run and checkpoint.

        The columns are policy, run, round and every metric, among them regret and shortfall.
        """
        polars = imported("polars", "`Results.to_polars`")
        table: pl.DataFrame = polars.DataFrame(self._columns())
        return table

    def to_pandas(self) -> pd.DataFrame:
        """Return the table of `to_polars` as a data frame of pandas."""
        pandas = imported("pandas", "`Results.to_pandas`")
        table: pd.DataFrame = pandas.DataFrame(self._columns())
        return table

    def plot(self, *metrics: str, title: str | None = None, log: str = "none") -> Figure:
        """Draw metrics over time, regret and shortfall by default, as a matplotlib figure.

        `log` says which axes are logarithmic: "none", "x", "y" or "both".
        """
        from slotwise.figures import Layout, draw_panels  # a layer above, and only here

        return draw_panels(self, metrics, Layout(title=title, log=log))

    def __str__(self) -> str:
        """Return the final means of every policy with their 95 % intervals as a short table."""
        shown = [name for name in IN_TABLES if name in self.metrics]
        rows = [["policy", *shown]]
        rows += [[label, *(_cell(self, label, name) for name in shown)] for label in self.labels]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        runs = "1 run" if self.n_runs == 1 else f"{self.n_runs} runs"
        lines.insert(0, f"after {self.n_rounds:,} rounds, mean of {runs} ± 95 % interval")
        return "\n".join([*lines, *filter(None, [self.floor_out_of_reach()])])

    def floor_out_of_reach(self) -> str:
        """Return a sentence if no page reaches the floor; empty otherwise."""
        best = self.config.get("optimum", {})
        if best.get("status") != "infeasible" or "clicks" not in best:
            return ""
        return f"The floor is out of reach: the most clicked mix has {best['clicks']:.4g} clicks."

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show the final means in a notebook."""
        return html_table(self)

    def save(self, path: str | Path) -> None:
        """Write one Parquet file; an earlier file is replaced only by a complete one."""
        results_file.write(Path(path), self.config, self.rounds, self.totals)

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """Read a file that `save` wrote.

        Raises `MissingData` if there is none, and `UnsupportedState` if it is broken or has a
        newer format.
        """
        contents = results_file.read(Path(path))
        try:
            return cls(*contents)
        except InvalidInput as error:
            raise results_file.broken(Path(path), str(error)) from error

    def _columns(self) -> dict[str, Any]:
        """Return one column per metric, one row per policy, run and checkpoint."""
        metrics = {
            label: {metric: self.over_time(label, metric) for metric in self.metrics}
            for label in self.labels
        }
        return results_file.tidy_columns(self.rounds, metrics)

    def _level_metrics(self) -> Iterator[str]:
        quantities = next(iter(self.totals.values()))
        for name in quantities:
            if name in QUANTITIES or name.startswith(OF_VALUES):
                continue
            yield name
            level = name.removeprefix("total:")
            if level != name and (level in self.config.get("floors", {}) or "/" in level):
                yield f"shortfall:{level}"


def _plain(config: Mapping[str, object]) -> Mapping[str, object]:
    """Return a copy as a file would return it."""
    for key in ("click_floor", "optimum"):
        if key not in config:
            raise InvalidInput.of("config", f"settings with the key {key!r}", sorted(config))
    try:
        text = json.dumps(dict(config), allow_nan=False)
    except (TypeError, ValueError) as error:
        rule = "plain enough for JSON, without infinite numbers"
        raise InvalidInput.of("config", rule, str(error)) from error
    return MappingProxyType(json.loads(text))


def _checked_rounds(rounds: object) -> Links:
    checked = np.array(rounds, np.int64)
    if checked.ndim != 1 or not len(checked) or checked[0] < 1 or (np.diff(checked) <= 0).any():
        raise InvalidInput.of("rounds", "increasing checkpoints from at least 1", rounds)
    checked.flags.writeable = False
    return checked


def _checked_totals(totals: Totals, n_checkpoints: int) -> Totals:
    if not totals:
        raise InvalidInput.of("totals", "of at least one policy", totals)
    expected = set(next(iter(totals.values())))
    checked = {}
    for label, quantities in totals.items():
        missing = {*QUANTITIES, *expected}.symmetric_difference(quantities)
        if missing:
            rule = f"the same quantities for every policy, among them {', '.join(QUANTITIES)}"
            raise InvalidInput.of(f"totals[{label!r}]", rule, sorted(quantities))
        arrays = {name: np.array(values, np.float64) for name, values in quantities.items()}
        n_runs = len(arrays["reward"])
        for name, values in arrays.items():
            where = f"totals[{label!r}][{name!r}]"
            if values.shape != (n_runs, n_checkpoints) or n_runs == 0:
                rule = f"of the shape (runs, {n_checkpoints}), runs equal and at least 1"
                raise InvalidInput.of(where, rule, values.shape)
            if not np.isfinite(values).all():
                raise InvalidInput.of(where, "finite", "a value that is not")
            values.flags.writeable = False
        checked[label] = MappingProxyType(arrays)
    return MappingProxyType(checked)
