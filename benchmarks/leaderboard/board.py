"""The leaderboard: the measures of every policy on every case, its files, the recommendation."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from slotwise.errors import MissingData, UnsupportedState

MEASURES = ("regret", "violation", "shortfall", "deficit", "microseconds")
"""The measures of every policy; the last is the processor time of a round."""

GAINS = {
    "gain_of_visitors": "value_without_visitors",
    "gain_of_order": "value_without_order",
}
"""Shares of a gain, measured where it exists: from the best mix that does not know the visitors, or
leaves the order of the page to chance, to the best that does; with the name of that mix's value."""

FORMAT = 1


@dataclass(frozen=True)
class Measure:
    """A mean over runs and its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Standing:
    """The outcome of one policy on one case.

    `loss` is the number that policies are compared by: the regret plus each missed click at the
    price of the best mix, or the missed clicks if the case is judged by shortfall. `ratio` is the
    loss divided by the smallest loss. `is_within` says whether the ratio is below the allowed
    factor, None if the runs are too few to decide.
    """

    label: str
    policy: str
    knows_horizon: bool
    rank: int
    keeps_floor: bool
    loss: float
    ratio: float
    is_within: bool | None
    measures: dict[str, Measure]


@dataclass(frozen=True)
class CaseBoard:
    """One case: its sizes, its floor, and the policies from the best to the worst.

    `floor_status` is that of the floor program on the true rates; `most_clicks` are the clicks of
    the most clicked page. `judged_by` is "regret", or "shortfall" if no policy keeps the floor.
    `refused` holds the policies that reject this case, with their reasons. `bound` is the interval
    of the least that any policy must lose (`benchmarks.leaderboard.bounds`), if computed;
    `most_clicked` what a policy that only looks for clicks reached, on drawn pools.
    """

    name: str
    description: str
    source: str
    n_links: int
    n_slots: int
    click_floor: float
    floor_status: str
    most_clicks: float
    best_revenue: float
    n_rounds: int
    n_runs: int
    allowed_shortfall: float
    judged_by: str
    oracle: dict[str, Measure]
    standings: tuple[Standing, ...]
    refused: dict[str, str]
    bound: tuple[float, float] | None = None
    most_clicked: dict[str, Measure] = field(default_factory=dict)

    @property
    def can_keep_floor(self) -> bool:
        """Whether the floor can be kept: pages reach it, and nothing says it is learned too late.

        Where a policy that only looks for clicks was played, it or another one must have kept it.
        """
        if self.floor_status == "infeasible" or not self.most_clicked:
            return self.floor_status != "infeasible"
        is_learned = self.most_clicked["shortfall"].mean <= self.allowed_shortfall
        return is_learned or any(one.keeps_floor for one in self.standings)

    def find(self, label: str) -> Standing | None:
        """Return the standing of a policy, or None if it was not run."""
        return next((one for one in self.standings if one.label == label), None)


@dataclass(frozen=True)
class Leaderboard:
    """All cases, with the version, commit and seed of the numbers."""

    default: str
    version: str
    commit: str | None
    seed: int
    notes: tuple[str, ...]
    cases: tuple[CaseBoard, ...]

    def find(self, name: str) -> CaseBoard | None:
        """Return the case of that name, or None if it was not run."""
        return next((case for case in self.cases if case.name == name), None)

    @property
    def labels(self) -> tuple[str, ...]:
        """Every policy that was run on a case, in alphabetical order."""
        found = {one.label for case in self.cases for one in case.standings}
        return tuple(sorted(found))

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"format": FORMAT, **dataclasses.asdict(self)}
        text = json.dumps(rounded(content), ensure_ascii=False, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Leaderboard:
        """Read a file that `save` wrote."""
        if not path.is_file():
            raise MissingData(
                f"no leaderboard {path}; `python -m benchmarks.leaderboard` writes one"
            )
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content.pop("format") != FORMAT:
                raise UnsupportedState(
                    f"{path} has the format of another slotwise version; run the leaderboard again"
                )
            cases = tuple(_case(case) for case in content.pop("cases"))
            return cls(**{**content, "notes": tuple(content["notes"]), "cases": cases})
        except UnsupportedState:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise UnsupportedState(f"{path} cannot be read as a leaderboard: {error}") from error


def _case(content: dict[str, Any]) -> CaseBoard:
    standings = tuple(
        Standing(**{**one, "measures": _measures(one["measures"])}) for one in content["standings"]
    )
    bound = content.get("bound")
    return CaseBoard(
        **{
            **content,
            "oracle": _measures(content["oracle"]),
            "most_clicked": _measures(content.get("most_clicked", {})),
            "standings": standings,
            "bound": None if bound is None else tuple(bound),
        }
    )


def _measures(content: dict[str, Any]) -> dict[str, Measure]:
    return {name: Measure(**measure) for name, measure in content.items()}


def rounded(value: Any) -> Any:
    """Return a structure with its numbers rounded to six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return value


RECOMMENDATION_RULE = (
    "Policies are ordered by the number of cases on which they miss a floor that can be kept, "
    "then by the largest of their ratios over all cases. The recommendation is the first that "
    "needs no horizon."
)
"""The rule by which one policy is recommended; pages print it."""


class Record(NamedTuple):
    """A policy over all its cases.

    Ratios of cases whose floor it missed are included; they may be small, but mean little.
    """

    label: str
    knows_horizon: bool
    n_cases: int
    n_wins: int
    floors_missed: tuple[str, ...]
    worst_ratio: float
    worst_case: str
    mean_ratio: float
    microseconds: float | None

    @property
    def order(self) -> tuple[int, float]:
        """The sort key of records."""
        return len(self.floors_missed), self.worst_ratio


def records(board: Leaderboard) -> list[Record]:
    """Return the record of every policy, the best first."""
    return sorted((_record(board, label) for label in board.labels), key=lambda one: one.order)


def best_without_horizon(board: Leaderboard) -> Record | None:
    """Return the recommendation: the best record of a policy that uses no horizon."""
    return next((one for one in records(board) if not one.knows_horizon), None)


def _record(board: Leaderboard, label: str) -> Record:
    played: list[tuple[CaseBoard, Standing]] = [
        (case, standing) for case in board.cases if (standing := case.find(label)) is not None
    ]
    worst_case, worst = max(played, key=lambda pair: pair[1].ratio)
    times = sorted(
        standing.measures["microseconds"].mean
        for _, standing in played
        if "microseconds" in standing.measures
    )
    logs = [math.log(standing.ratio) for _, standing in played]
    return Record(
        label=label,
        knows_horizon=worst.knows_horizon,
        n_cases=len(played),
        n_wins=sum(standing.rank == 1 for _, standing in played),
        floors_missed=tuple(
            case.name
            for case, standing in played
            if case.can_keep_floor and not standing.keeps_floor
        ),
        worst_ratio=worst.ratio,
        worst_case=worst_case.name,
        mean_ratio=math.exp(sum(logs) / len(logs)),
        microseconds=times[len(times) // 2] if times else None,
    )


def write_table(board: Leaderboard, path: Path) -> None:
    """Write a row for each case and policy as CSV.

    A measure has three columns: its mean and the ends of its interval.
    """
    import polars as pl

    rows = []
    for case in board.cases:
        for standing in case.standings:
            row: dict[str, object] = {
                "case": case.name,
                "description": case.description,
                "n_links": case.n_links,
                "n_slots": case.n_slots,
                "click_floor": case.click_floor,
                "floor_status": case.floor_status,
                "least_loss_low": None if case.bound is None else case.bound[0],
                "least_loss_high": None if case.bound is None else case.bound[1],
                "policy": standing.label,
                "rank": standing.rank,
                "keeps_floor": standing.keeps_floor,
                "judged_by": case.judged_by,
                "ratio": standing.ratio,
                "n_rounds": case.n_rounds,
                "n_runs": case.n_runs,
                "version": board.version,
                "seed": board.seed,
            }
            for name in (*MEASURES, *GAINS):
                measure = standing.measures.get(name)
                row[name] = None if measure is None else measure.mean
                row[f"{name}_low"] = None if measure is None else measure.low
                row[f"{name}_high"] = None if measure is None else measure.high
            rows.append(row)
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, infer_schema_length=None).write_csv(path)
