"""The checks of a log, batch by batch: each error names the first row that breaks a rule.

Used by `log_reader`, which reads the columns; knows neither candidates nor estimators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slotwise.arrays import Floats, Links, Whole
from slotwise.compile import compiled, compiled_first
from slotwise.errors import InvalidLog

ROUNDING = 1e-9
"""How far a probability may lie above 1 after adding up parts of it."""


class LogChecks:
    """Check the columns of a log as they are read; every sentence names the first bad row."""

    def __init__(self, name: str, max_revenue: float | None) -> None:
        self._name = name
        self._max_revenue = max_revenue
        self._last_time = np.iinfo(np.int64).min
        self.currency: str | None = None
        self.n_clipped = 0

    def checked(self, columns: dict[str, Any], n_before: int) -> dict[str, Any]:
        """Return the columns of numbers as arrays; `n_before` rows were read before."""
        rows: dict[str, Any] = {}
        n_rows = len(columns["link"])
        settled = columns.get("settled")
        if settled is None:
            rows["settled"] = np.ones(n_rows, bool)
        else:
            rows["settled"] = _numbers(settled.fill_null(False)).astype(bool)
        for name in ("page_id", "time_us", "slot", "link", "probability"):
            self._refuse_nulls(name, columns[name], None, n_before)
        for name in ("clicked", "revenue"):
            self._refuse_nulls(name, columns[name], rows["settled"], n_before)
        time = _numbers(columns["time_us"]).astype(np.int64)
        before = np.concatenate([[self._last_time], time[:-1]])
        rule = "in order of time; sort the log by it"
        self._refuse("time_us", time < before, rule, time, n_before)
        self._last_time = int(time[-1])
        rows["slot"] = _numbers(columns["slot"]).astype(np.int64)
        self._refuse("slot", rows["slot"] < 1, "at least 1", rows["slot"], n_before)
        for name in ("probability", "slot_probability", "min_probability"):
            rows[name] = self._probabilities(name, columns.get(name), n_rows, n_before)
        in_random_order = columns.get("random_order")
        rows["random_order"] = (
            np.ones(n_rows, bool)
            if in_random_order is None
            else _numbers(in_random_order.fill_null(False)).astype(bool)
        )
        changes = columns.get("pool_changes")
        rows["pool_changes"] = (
            np.zeros(n_rows, np.int64)
            if changes is None
            else _numbers(changes.fill_null(0)).astype(np.int64)
        )
        clicked = np.nan_to_num(_numbers(columns["clicked"]), nan=-1.0)
        is_bad = rows["settled"] & ~((clicked >= 0) & (clicked <= 1))
        self._refuse("clicked", is_bad, "from 0 to 1", clicked, n_before)
        rows["clicked"] = clicked
        rows["revenue"] = self._revenue(columns["revenue"], rows["settled"], n_before)
        if "currency" in columns:
            self._one_currency(columns["currency"])
        return rows

    def _probabilities(self, name: str, column: object, n_rows: int, n_before: int) -> Floats:
        if column is None:
            return np.zeros(n_rows)
        numbers = _numbers(column)
        if name == "min_probability":
            numbers = np.nan_to_num(numbers, nan=0.0)
            is_good = (numbers >= 0) & (numbers <= 1 + ROUNDING)
            rule = "from 0 to 1"
        else:
            is_good = (numbers > 0) & (numbers <= 1 + ROUNDING)
            rule = "above 0 and at most 1 for a link that was shown"
        self._refuse(name, ~is_good, rule, numbers, n_before)
        return np.minimum(numbers, 1.0)

    def _revenue(self, column: object, settled: NDArray[np.bool_], n_before: int) -> Floats:
        revenue = _numbers(column)
        is_bad = settled & ~((revenue >= 0) & (revenue < np.inf))
        self._refuse("revenue", is_bad, "a finite number that is at least 0", revenue, n_before)
        if self._max_revenue is None:
            rule = "at most 1, or else the most that a link can bring must be given (max_revenue)"
            self._refuse("revenue", settled & (revenue > 1), rule, revenue, n_before)
            return revenue.copy()  # writable in every batch: other arrays need other machine code
        self.n_clipped += int((settled & (revenue > self._max_revenue)).sum())
        return np.minimum(revenue / self._max_revenue, 1.0)

    def _one_currency(self, column: Any) -> None:
        for currency in column.unique().drop_null().to_pylist():
            if currency != (self.currency or currency):
                two = sorted([currency, self.currency])
                raise InvalidLog(
                    f"{self._name}: `currency` must be the same in all rows, got {two}; "
                    "convert the revenue to one of them"
                )
            self.currency = currency

    def check_pages(self, rows: dict[str, Any], starts: Whole) -> None:
        """Refuse pages that show a link twice or contradict their own probabilities."""
        page = compiled_first(first_repeated_link)(starts, rows["link"])
        if page >= 0:
            raise InvalidLog(f"{self._name}: a page must show each link once, got one link twice")
        least = np.minimum.reduceat(rows["probability"], starts[:-1])
        stated = rows["min_probability"][starts[:-1]]
        if (stated > least * (1 + ROUNDING)).any():
            worst = int(np.argmax(stated - least))
            raise InvalidLog(
                f"{self._name}: `min_probability` must be at most every probability of its page, "
                f"got {stated[worst]} on a page with {least[worst]}"
            )

    def at_the_end(self, hashes: NDArray[np.int64]) -> None:
        """Refuse a log in which the rows of one page are not adjacent."""
        in_order = np.sort(hashes)
        if (in_order[1:] == in_order[:-1]).any():
            raise InvalidLog(
                f"{self._name}: the rows of a page must be adjacent, got a `page_id` in two "
                "places; give every page view an id of its own and list its rows one by one"
            )

    def _refuse_nulls(
        self, name: str, column: Any, settled: NDArray[np.bool_] | None, n_before: int
    ) -> None:
        if not column.null_count:
            return
        is_null = np.asarray(column.is_null().to_numpy(zero_copy_only=False))
        if settled is not None:
            is_null = is_null & settled
        advice = "" if settled is None else "; mark rows without feedback as settled = false"
        self._refuse(name, is_null, f"given in every row{advice}", None, n_before)

    def _refuse(
        self,
        name: str,
        is_bad: NDArray[np.bool_],
        rule: str,
        values: NDArray[Any] | None,
        n_before: int,
    ) -> None:
        if not is_bad.any():
            return
        place = int(np.argmax(is_bad))
        value = "nothing" if values is None else values[place].item()
        raise InvalidLog(
            f"{self._name}: `{name}` must be {rule}, got {value} in row {n_before + place + 1}"
        )


def _numbers(column: Any) -> Floats:
    if pa.types.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))


@compiled
def first_repeated_link(starts: Whole, links: Links) -> int:
    """Return the first page that shows a link twice, -1 if there is none."""
    for page in range(len(starts) - 1):
        for row in range(starts[page], starts[page + 1]):
            for other in range(starts[page], row):
                if links[other] == links[row]:
                    return page
    return -1
