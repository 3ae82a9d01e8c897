"""The leaderboard as text: its sentences and rows, and the pages written from them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from benchmarks.leaderboard.board import (
    MEASURES,
    RECOMMENDATION_RULE,
    CaseBoard,
    Leaderboard,
    Measure,
    Record,
    Standing,
    best_without_horizon,
    records,
    write_table,
)
from benchmarks.leaderboard.ranking import (
    ALLOWED_FACTOR,
    REFERENCE,
    RULE,
    AimCheck,
    AimVerdict,
    check_aims,
)
from slotwise.errors import InvalidInput
from slotwise.figures.claims import with_interval
from slotwise.figures.paper_report import templates
from slotwise.figures.style import ORACLE, display_name, measured


def origin_sentence(board: Leaderboard) -> str:
    """Return the origin of the numbers in one sentence."""
    runs = sorted({case.n_runs for case in board.cases})
    runs_phrase = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    made_by = f"slotwise {board.version}"
    if board.commit:
        made_by += f", commit {board.commit}"
    return f"{len(board.cases)} cases, {runs_phrase} runs each, seed {board.seed}; {made_by}."


def floor_phrase(case: CaseBoard) -> str:
    """Return the floor of a case and its state."""
    return f"h = {case.click_floor:g}, {case.floor_status}"


def recommendation(board: Leaderboard) -> list[str]:
    """Return the paragraphs of the recommendation; the first is complete by itself."""
    in_order = records(board)
    first = best_without_horizon(board)
    paragraphs = []
    if first is not None:
        paragraphs.append(_first_sentences(first, board))
    overall = in_order[0]
    if first is None or overall.label != first.label:
        paragraphs.append(
            f"If the number of rounds is known, {overall.label} ranks higher: "
            f"{_record_phrase(overall)}."
        )
    paragraphs.append(_where_others_are_better(board))
    paragraphs.append(_who_misses_floors(in_order))
    return [one for one in paragraphs if one]


def _first_sentences(first: Record, board: Leaderboard) -> str:
    text = f"Use {first.label} if you know nothing else: {_record_phrase(first)}."
    if first.label == board.default:
        return f"{text} It is the default."
    default = next((one for one in records(board) if one.label == board.default), None)
    if default is None:
        return f"{text} The default, {board.default}, was not run."
    return (
        f"{text} The default is {default.label} ({_record_phrase(default)}): by the rule below, "
        f"{first.label} should replace it."
    )


def _record_phrase(record: Record) -> str:
    if record.floors_missed:
        kept = f"it misses the floor on {', '.join(record.floors_missed)}"
    else:
        kept = f"it keeps every floor that can be kept, over {record.n_cases} cases"
    return (
        f"{kept}, and its ratio to the best policy of a case is at most "
        f"{record.worst_ratio:.2f} (on {record.worst_case}), {record.mean_ratio:.2f} on average"
    )


def _where_others_are_better(board: Leaderboard) -> str:
    """State on which cases the default is not the best, and by how much."""
    behind = []
    for case in board.cases:
        default = case.find(board.default)
        if default is not None and default.rank > 1 and default.ratio >= 1.005:
            behind.append((default.ratio, case, case.standings[0]))
    if not behind:
        return f"On no case is another policy better than {board.default}."
    phrases = [
        f"{case.name} ({best.label}, {ratio:.2f})"
        for ratio, case, best in sorted(behind, key=lambda one: -one[0])
    ]
    return (
        f"{board.default} is not the best on {', '.join(phrases)}. In parentheses: the best policy "
        "of the case, and the ratio of the default to it."
    )


def _who_misses_floors(in_order: list[Record]) -> str:
    always = [one.label for one in in_order if not one.floors_missed]
    if not always:
        return "No policy keeps the floor on every case."
    fastest = min(
        (one for one in in_order if one.label in always and one.microseconds is not None),
        key=lambda one: one.microseconds or 0.0,
        default=None,
    )
    text = f"Policies that keep every floor that can be kept: {', '.join(always)}."
    if fastest is not None and len(always) > 1:
        text += f" The fastest of them is {fastest.label}, {fastest.microseconds:.1f} µs per round."
    return text


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


BLOCK_START = "<!-- leaderboard: written by `python -m benchmarks.leaderboard --update` -->"
BLOCK_END = "<!-- leaderboard: end -->"

TEMPLATES = Path(__file__).parent / "templates"


class WrittenLeaderboard(NamedTuple):
    """Where a leaderboard was written."""

    html: Path
    markdown: Path
    json: Path
    table: Path


def write_leaderboard(board: Leaderboard, out_dir: str | Path) -> WrittenLeaderboard:
    """Write `leaderboard.html`, `.md`, `.json` and `.csv` into `out_dir`.

    The page needs nothing beside itself.
    """
    stem = Path(out_dir) / "leaderboard"
    written = WrittenLeaderboard(
        *(stem.with_suffix(kind) for kind in (".html", ".md", ".json", ".csv"))
    )
    board.save(written.json)
    write_table(board, written.table)
    for path, is_html in ((written.html, True), (written.markdown, False)):
        path.write_text(_render(board, f"{path.name}.jinja", is_html=is_html), encoding="utf-8")
    return written


def leaderboard_block(board: Leaderboard) -> str:
    """Return the part of the leaderboard that a page of the documentation shows, as Markdown."""
    return _render(board, "leaderboard_block.md.jinja", is_html=False)


def update_block(page: Path, board: Leaderboard) -> None:
    """Write the block between the markers of a Markdown page, in place of what stood there."""
    text = page.read_text(encoding="utf-8")
    before, start, rest = text.partition(BLOCK_START)
    _, end, after = rest.partition(BLOCK_END)
    if not start or not end:
        rule = f"a page with the lines {BLOCK_START} and {BLOCK_END}"
        raise InvalidInput.of("page", rule, str(page))
    block = leaderboard_block(board).strip()
    page.write_text(f"{before}{start}\n\n{block}\n\n{end}{after}", encoding="utf-8")


def _render(board: Leaderboard, template: str, *, is_html: bool) -> str:
    return (
        templates(TEMPLATES, is_html=is_html)
        .get_template(template)
        .render(
            page=gather_board(board),
            rule=RULE,
            recommendation_rule=RECOMMENDATION_RULE,
            dark_rules="",
        )
    )
