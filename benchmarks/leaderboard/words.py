"""The sentences of a leaderboard, composed from its numbers alone."""

from __future__ import annotations

from benchmarks.leaderboard import (
    ALLOWED_FACTOR,
    CaseBoard,
    Leaderboard,
    Record,
    Standing,
    best_without_horizon,
    records,
)

__all__ = ["floor_phrase", "origin_sentence", "recommendation"]


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
        f"{case.name} ({best.label}, {ratio:.2f}{_doubt(case, board)})"
        for ratio, case, best in sorted(behind, key=lambda one: -one[0])
    ]
    return (
        f"{board.default} is not the best on {', '.join(phrases)}. In parentheses: the best policy "
        "of the case, and the ratio of the default to it."
    )


def _doubt(case: CaseBoard, board: Leaderboard) -> str:
    default: Standing | None = case.find(board.default)
    if default is None or default.is_within is not None:
        return ""
    side = "below" if default.ratio <= ALLOWED_FACTOR else "above"
    return f", not significantly {side} {ALLOWED_FACTOR:g}"


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
