"""What a team knows already, as the start of a selector: discounted counts of each link."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slotwise.errors import InvalidInput, MissingData
from slotwise.selector.link_pool import checked_share
from slotwise.selector.open_pages import read_batch

if TYPE_CHECKING:
    from slotwise.selector.selector import Selector


DELIMITERS = ",;\t"
COUNTS = ("views", "clicks", "revenue")
OWED = ("queue", "owed", "deficit", "segment_queue", "segment_owed")
"""What a policy owes the floor; pages of the past, shown by somebody else, owe nothing."""


class KnownCounts(NamedTuple):
    """Views, clicks and revenue of one link, for visitors with these features."""

    link: str
    visitor: dict[str, str]
    views: int
    clicks: int
    revenue: float


def read_known_counts(path: str | Path) -> list[KnownCounts]:
    """Read a CSV file with the columns link, views and clicks, and optionally revenue.

    Any further column is a feature of visitors, with a row for each of its values.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingData(f"counts must be a CSV file that exists, got {str(path)!r}")
    try:
        return parse_known_counts(path.read_text(encoding="utf-8-sig"), path.name)
    except UnicodeDecodeError:
        raise InvalidInput(f"{path.name}: counts must be a CSV file in UTF-8") from None


def parse_known_counts(text: str, name: str) -> list[KnownCounts]:
    """Read a table with the columns of `read_known_counts`; `name` is what errors call it.

    Cells stand between commas, semicolons or tabs. Nothing is guessed: what could be read in two
    ways is refused.
    """
    lines = text.removeprefix("\ufeff").lstrip("\r\n")
    delimiter = max(DELIMITERS, key=lines.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(lines, newline=""), delimiter=delimiter, strict=True)
    try:
        names = [cell.strip() for cell in next(reader, [])]
        _check_columns(name, names)
        rows = [
            _row(f"{name}, row {reader.line_num}", names, row, delimiter) for row in reader if row
        ]
    except csv.Error as error:
        raise InvalidInput(f"{name}, row {reader.line_num}: not CSV: {error}") from None
    if not rows:
        raise MissingData(f"{name}: counts must have a row for each link, got none")
    return rows


def _check_columns(name: str, names: Sequence[str]) -> None:
    if not {"link", "views", "clicks"} <= set(names):
        raise MissingData(f"{name}: counts must have the columns link, views, clicks")
    for column in names:
        if names.count(column) > 1:
            raise InvalidInput(f"{name}: counts must have each column once, got {column!r} again")


def _row(where: str, names: Sequence[str], row: Sequence[str], delimiter: str) -> KnownCounts:
    if len(row) != len(names):
        rule = f"{len(names)} cells, one for each column"
        raise InvalidInput(f"{where}: counts must have {rule}, got {len(row)}")
    cells = {name: cell.strip() for name, cell in zip(names, row, strict=True)}
    features = {key: cells[key] for key in names if key not in ("link", *COUNTS) and cells[key]}
    views, clicks = (_whole(where, key, cells[key]) for key in ("views", "clicks"))
    revenue = cells.get("revenue") or "0"
    if delimiter != ",":  # spreadsheets of many countries write 9,5
        revenue = revenue.replace(",", ".")
    return KnownCounts(cells["link"], features, views, clicks, _amount(where, revenue))


def _whole(where: str, name: str, cell: str) -> int:
    """Return a count; 10,000 and 10.000 are ten thousand or ten, as the country may be."""
    if not re.fullmatch(r"[0-9]{1,300}", cell):
        rule = "a whole number of at least 0 in digits alone, such as 10000"
        raise InvalidInput(f"{where}: {InvalidInput.of(name, rule, cell)}")
    return int(cell)


def _amount(where: str, cell: str) -> float:
    is_number = re.fullmatch(r"[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,3})?", cell)
    try:
        amount = float(cell) if is_number else math.nan
    except ValueError:  # a sign alone
        amount = math.nan
    if not math.isfinite(amount):
        raise InvalidInput(f"{where}: {InvalidInput.of('revenue', 'a number of at least 0', cell)}")
    return amount


def start_from_counts(
    selector: Selector, counts: Sequence[KnownCounts], discount: float = 1.0
) -> None:
    """Let a selector know counts of the past, each worth `discount` of a page view of its own.

    Rates are learned from them. They owe the floor nothing and are not counted as delivered: the
    promise begins with the first page that the selector chooses.
    """
    share = checked_share("discount", discount)
    with selector._lock:
        pool, problem, player = selector._pool, selector._problem, selector._player
        if problem.n_levels != 2:
            raise InvalidInput.of("levels", "clicks and revenue for counts", problem.levels)
        before = player.knowledge(selector._state)
        if "views" not in before:  # it weighs every page by its probabilities
            rule = "a policy that learns from counts"
            raise InvalidInput.of("policy", rule, selector._policy.name)
        for one in counts:  # all are checked before any is learned
            read_batch({one.link: one.views}, _levels(one), ("clicks", "revenue"))
            pool.places("links", [one.link])
            selector._visits.encode(one.visitor)
        selector._all_or_nothing(_learn_counts, selector, counts, share)
        after = player.knowledge(selector._state)
        owed = {name: before[name] for name in OWED if name in before}
        selector._state = player.restore(problem, {**after, **owed})


def _learn_counts(selector: Selector, counts: Sequence[KnownCounts], share: float) -> None:
    """Learn each of the counts at its share."""
    for one in counts:
        places, certain = selector._pool.places("links", [one.link]), np.ones(1)
        visitor, views = selector._visits.encode(one.visitor), np.array([share * one.views])
        slots, _ = selector._slots.shown_in([0])
        money = min(one.revenue / selector._money.max_revenue, one.clicks)
        for level, total in enumerate((one.clicks, money)):
            brought = np.array([share * total])
            selector._learn(visitor, level, places, slots, certain, views, brought)


def _levels(one: KnownCounts) -> dict[int, dict[str, float]]:
    return {0: {one.link: one.clicks}, 1: {one.link: one.revenue}}
