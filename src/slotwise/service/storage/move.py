"""Move everything of a store to another one, also to another engine, and compare the two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sqlalchemy import Table

from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.service.storage import (
    SqliteStore,
    is_postgresql,
    open_postgresql,
    public_address,
    sqlite_path,
)
from slotwise.service.storage.existing import existing_store
from slotwise.service.storage.rows import Row, row_columns
from slotwise.service.storage.schema import metadata, store_clock
from slotwise.service.storage.sql.session import SqlSession
from slotwise.service.storage.verify import Verification, verify

if TYPE_CHECKING:
    from slotwise.service.storage.postgresql.store import PostgresqlStore

__all__ = ["Moved", "move_store"]

BATCH = 5_000
"""Rows of one commit at the target: what an interrupted move repeats at most."""

_CLOCK = ("closed_until_us", "latest_us", "n_resets", "learner_epoch")


_SqlStore: TypeAlias = "SqliteStore | PostgresqlStore"


class Moved(NamedTuple):
    """What is at the target now."""

    n_rows: int
    verification: Verification


class _Place(NamedTuple):
    """One of the two stores, and how to read and write its tables."""

    store: _SqlStore
    transaction: Callable[[], AbstractContextManager[SqlSession]]

    def order_of(self, table: Table) -> list[str]:
        with self.transaction() as session:
            return session.statements.order_of(table)

    def fetch(self, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
        with self.transaction() as session:
            return session.fetch(session.statements.of_text(sql), **parameters)


def move_store(source: str, target: str, tell: Callable[[float], None] = lambda _: None) -> Moved:
    """Copy all rows of a store that nobody uses to an empty one; `tell` is told the share done.

    Interrupted, it goes on where it stopped when it is called again: every table is copied in
    one order, and the target says from where it is being filled. No service opens it before the
    move is finished and every row was compared.
    """
    if not is_postgresql(source):
        existing_store(sqlite_path(source))
    if public_address(source) == public_address(target):
        raise InvalidInput.of("target", "another store than the source", public_address(target))
    with _alone(_opened(source)) as old, _alone(_opened(target)) as new:
        _begin(old, new, source, target)
        tables = [table for table in metadata.sorted_tables if table is not store_clock]
        sizes = {table.name: _n_rows(old, table) for table in tables}
        n_done, n_all = 0, 2 * sum(sizes.values()) or 1
        for step in (_copy, _compare):
            for table in tables:
                for n_rows in step(old, new, table):
                    n_done += n_rows
                    tell(n_done / n_all)
        verification = verify(new.store)
        if verification.mismatches:
            raise UnsupportedState(f"the store does not add up: {verification.mismatches[0]}")
        _finish(old, new)
        return Moved(sum(sizes.values()), verification)


def _opened(address: str) -> _SqlStore:
    return open_postgresql(address) if is_postgresql(address) else SqliteStore(sqlite_path(address))


@contextmanager
def _alone(store: _SqlStore) -> Iterator[_Place]:
    """Use a store while no service does."""
    try:
        with store.alone():
            yield _Place(store, store.transaction)
    finally:
        store.close()


def _begin(old: _Place, new: _Place, source: str, target: str) -> None:
    [(still_moving,)] = old.fetch("SELECT moving_from FROM store_clock")
    if still_moving:
        raise UnsupportedState(
            f"{public_address(source)} is not whole itself: finish its move from {still_moving}"
        )
    [(moving_from,)] = new.fetch("SELECT moving_from FROM store_clock")
    if moving_from == public_address(source):
        return
    if moving_from or any(
        _n_rows(new, table) for table in metadata.sorted_tables if table is not store_clock
    ):
        rule = "an empty place, or one that this move was interrupted at"
        raise InvalidInput.of("target", rule, public_address(target))
    _set_clock(new, moving_from=public_address(source))


def _finish(old: _Place, new: _Place) -> None:
    """Take over the clock last: it says that the rest is there."""
    [values] = old.fetch(f"SELECT {', '.join(_CLOCK)} FROM store_clock")
    _set_clock(new, moving_from="", **dict(zip(_CLOCK, values, strict=True)))


def _set_clock(place: _Place, **values: object) -> None:
    updates = ", ".join(f"{name} = :{name}" for name in values)
    with place.transaction() as session:
        sql = session.statements.of_text(f"UPDATE store_clock SET {updates}")
        session.execute(sql, **values)


def _n_rows(place: _Place, table: Table) -> int:
    return int(place.fetch(f"SELECT COUNT(*) FROM {table.name}")[0][0])


def _rows(place: _Place, table: Table, start: int) -> Iterator[list[Row]]:
    """Go through a table in the order of its key, after the first `start` rows."""
    names = ", ".join(row_columns(table))
    keys = place.order_of(table)
    order, marks = ", ".join(keys), ", ".join(f":k{number}" for number in range(len(keys)))
    last: tuple[Any, ...] | None = None
    if start:
        sql = f"SELECT {order} FROM {table.name} ORDER BY {order} LIMIT 1 OFFSET :n_skipped"
        [last] = place.fetch(sql, n_skipped=start - 1)
    while True:
        after = f"WHERE ({order}) > ({marks})" if last else ""
        bound = {f"k{number}": value for number, value in enumerate(last or ())}
        sql = f"SELECT {names}, {order} FROM {table.name} {after} ORDER BY {order} LIMIT :n_rows"
        found = place.fetch(sql, n_rows=BATCH, **bound)
        if not found:
            return
        last = found[-1][-len(keys) :]
        yield [row[: -len(keys)] for row in found]


def _copy(old: _Place, new: _Place, table: Table) -> Iterator[int]:
    n_there = _n_rows(new, table)
    yield n_there
    for rows in _rows(old, table, n_there):
        with new.transaction() as session:
            session.insert(table, rows)
        yield len(rows)


def _compare(old: _Place, new: _Place, table: Table) -> Iterator[int]:
    """Raise `UnsupportedState` unless both have the same rows."""
    both = zip(_rows(old, table, 0), _rows(new, table, 0), strict=False)
    n_same = 0
    for ours, theirs in both:
        if [_as_stored(row) for row in ours] != [_as_stored(row) for row in theirs]:
            break
        n_same += len(ours)
        yield len(ours)
    if n_same != _n_rows(old, table) or n_same != _n_rows(new, table):
        raise UnsupportedState(f"the rows of {table.name} differ after the move; start it again")


def _as_stored(row: Row) -> tuple[Any, ...]:
    """Return a row without the character 0, which PostgreSQL cannot store."""
    return tuple(one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in row)
