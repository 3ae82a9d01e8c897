"""The rows of the leaderboard as text, for HTML, Markdown and the terminal."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.leaderboard import (
    ALLOWED_FACTOR,
    MEASURES,
    REFERENCE,
    AimCheck,
    AimVerdict,
    CaseBoard,
    Leaderboard,
    Measure,
    Record,
    Standing,
    check_aims,
    records,
)
from benchmarks.leaderboard.words import floor_phrase, origin_sentence, recommendation
from slotwise.figures.look.known_policies import ORACLE, display_name
from slotwise.figures.look.style import measured
from slotwise.figures.report.verdicts import with_interval

__all__ = [
    "BoundRow",
    "CaseChapter",
    "DefaultRow",
    "LeaderboardPage",
    "MatrixRow",
    "RecordRow",
    "gather_board",
]

GAIN_WORDS = {"gain_of_visitors": "knowing the visitors", "gain_of_order": "order on the page"}
MEASURE_NAMES = {"deficit": "largest running deficit", "microseconds": "µs per round"}


class RecordRow(NamedTuple):
    """A policy over all cases."""

    policy: str
    floors_missed: str
    worst: str
    average: str
    wins: str
    microseconds: str


class DefaultRow(NamedTuple):
    """The default beside the best policy of a case."""

    case: str
    floor: str
    best: str
    best_numbers: str
    default_numbers: str
    ratio: str
    verdict: str


class BoundRow(NamedTuple):
    """What every policy must lose on a case, and what the default loses."""

    case: str
    bound: str
    default_numbers: str


class MatrixCell(NamedTuple):
    """The ratio of a policy on a case, and its kind: best, near, far or floor (missed)."""

    text: str
    kind: str


class MatrixRow(NamedTuple):
    """A policy on all cases."""

    policy: str
    cells: list[MatrixCell]


class CaseRow(NamedTuple):
    """All measures of a policy on one case."""

    rank: str
    policy: str
    ratio: str
    floor: str
    measures: list[str]


class CaseChapter(NamedTuple):
    """A case with its sizes and its table."""

    board: CaseBoard
    sizes: str
    gains: list[str]
    rows: list[CaseRow]
    refused: list[str]


class LeaderboardPage(NamedTuple):
    """The whole content of a page."""

    default: str
    reference: str
    origin: str
    notes: tuple[str, ...]
    recommendation: list[str]
    aims: list[AimCheck]
    records: list[RecordRow]
    defaults: list[DefaultRow]
    bounds: list[BoundRow]
    case_names: list[str]
    matrix: list[MatrixRow]
    chapters: list[CaseChapter]
    measures: list[str]


def gather_board(board: Leaderboard) -> LeaderboardPage:
    """Return the content of a page about a leaderboard."""
    in_order = records(board)
    return LeaderboardPage(
        default=board.default,
        reference=REFERENCE,
        origin=origin_sentence(board),
        notes=board.notes,
        recommendation=recommendation(board),
        aims=check_aims(board),
        records=[_record_row(one) for one in in_order],
        defaults=[_default_row(case, board.default) for case in board.cases],
        bounds=[
            BoundRow(row.case, f"{case.bound[0]:,.0f} to {case.bound[1]:,.0f}", row.default_numbers)
            for case in board.cases
            if case.bound is not None
            for row in [_default_row(case, board.default)]
        ],
        case_names=[case.name for case in board.cases],
        matrix=[
            MatrixRow(_name(one.label), [_cell(case, one.label) for case in board.cases])
            for one in in_order
        ],
        chapters=[_chapter(case) for case in board.cases],
        measures=[MEASURE_NAMES.get(name, name) for name in MEASURES],
    )


def _name(label: str) -> str:
    return display_name(label, longest=40)


def _record_row(record: Record) -> RecordRow:
    time = "–" if record.microseconds is None else f"{record.microseconds:.1f}"
    missed = f"{len(record.floors_missed)} of {record.n_cases}" if record.floors_missed else "none"
    return RecordRow(
        policy=_name(record.label) + (" (knows T)" if record.knows_horizon else ""),
        floors_missed=missed,
        worst=f"{record.worst_ratio:.2f} ({record.worst_case})",
        average=f"{record.mean_ratio:.2f}",
        wins=f"{record.n_wins}",
        microseconds=time,
    )


def _default_row(case: CaseBoard, default_label: str) -> DefaultRow:
    best, default = case.standings[0], case.find(default_label)
    if default is None:
        numbers, ratio, verdict = "–", "–", AimVerdict.NOT_JUDGED.value
    else:
        numbers, ratio = _pair(default), f"{default.ratio:.2f}"
        verdict = _default_verdict(case, default)
    return DefaultRow(
        case.name, floor_phrase(case), _name(best.label), _pair(best), numbers, ratio, verdict
    )


def _default_verdict(case: CaseBoard, default: Standing) -> str:
    """Return whether the default is near the best, and whether the runs are enough to decide."""
    if case.judged_by == "regret" and not default.keeps_floor:
        return "floor missed"
    verdict = AimVerdict.MET if default.ratio <= ALLOWED_FACTOR else AimVerdict.MISSED
    return verdict.value + ("" if default.is_within is not None else ", undecided")


def _pair(standing: Standing) -> str:
    measures = standing.measures
    return f"{measured(measures['regret'].mean)} / {measured(measures['shortfall'].mean)}"


def _cell(case: CaseBoard, label: str) -> MatrixCell:
    standing = case.find(label)
    if standing is None:
        return MatrixCell("–", "absent")
    ratio = f"{standing.ratio:.2f}" if standing.ratio < 9.95 else f"{standing.ratio:.0f}"
    if case.judged_by == "regret" and not standing.keeps_floor:
        return MatrixCell(f"{ratio} ✗", "floor")
    if standing.rank == 1:
        return MatrixCell(ratio, "best")
    return MatrixCell(ratio, "near" if standing.ratio <= ALLOWED_FACTOR else "far")


def _chapter(case: CaseBoard) -> CaseChapter:
    sizes = (
        f"{case.n_slots} of {case.n_links:,} links, {floor_phrase(case)} (largest possible: "
        f"{case.most_clicks:.4g} clicks); {case.n_rounds:,} rounds, {case.n_runs} runs; judged by "
        f"{case.judged_by}; the allowed shortfall is {case.allowed_shortfall:,.0f}."
    )
    rows = [
        CaseRow(
            rank=str(one.rank),
            policy=_name(one.label),
            ratio=f"{one.ratio:.2f}",
            floor=_floor_cell(case, one),
            measures=_measure_cells(one.measures),
        )
        for one in case.standings
    ]
    if case.oracle:
        rows.append(CaseRow("", _name(ORACLE), "", "", _measure_cells(case.oracle)))
    if case.most_clicked:
        rows.append(CaseRow("", "only clicks", "", "", _measure_cells(case.most_clicked)))
    refused = [f"{_name(label)} rejects this case: {why}" for label, why in case.refused.items()]
    return CaseChapter(case, sizes, _gains(case), rows, refused)


def _gains(case: CaseBoard) -> list[str]:
    """Return a sentence for each gain that the case offers: what share of it policies earn."""
    sentences = []
    for name, words in GAIN_WORDS.items():
        shares = [
            f"{_name(one.label)} {100 * share.mean:.0f} % "
            f"({100 * share.low:.0f} to {100 * share.high:.0f} %)"
            for one in case.standings
            if (share := one.measures.get(name)) is not None
        ]
        if shares:
            sentences.append(f"Share of the gain that {words} can bring: {', '.join(shares)}.")
    return sentences


def _floor_cell(case: CaseBoard, standing: Standing) -> str:
    if case.floor_status == "infeasible":
        return "–"
    if not case.can_keep_floor:
        return "too early"
    return "kept" if standing.keeps_floor else "missed"


def _measure_cells(measures: dict[str, Measure]) -> list[str]:
    return [
        with_interval(measures[name].mean, measures[name].low, measures[name].high)
        if name in measures
        else "–"
        for name in MEASURES
    ]
