"""Move a store between SQLite and PostgreSQL, and compare both afterwards.

Used by `cli`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sqlalchemy import Table

from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.service.storage import is_postgresql, open_postgresql, public_address, sqlite_path
from slotwise.service.storage.maintenance import existing_store
from slotwise.service.storage.schema import Row, metadata, store_clock
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import Verification, verify

if TYPE_CHECKING:
    from slotwise.service.storage.postgresql import PostgresqlStore

_CLOCK = ("closed_until_us", "latest_us", "n_resets", "learner_epoch")


_SqlStore: TypeAlias = "SqliteStore | PostgresqlStore"


class Moved(NamedTuple):
    """The contents of the target after a move."""

    n_rows: int
    verification: Verification


def move_store(source: str, target: str, tell: Callable[[float], None] = lambda _: None) -> Moved:
    """Copy all rows of an unused store to an empty one; `tell` is called with the share done.

    After an interruption, the next call continues where it stopped: every table is copied in key
    order, and the target records its source. No service opens the target before the move is
    complete and every row has been compared.
    """
    if not is_postgresql(source):
        existing_store(sqlite_path(source))
    if public_address(source) == public_address(target):
        raise InvalidInput.of("target", "another store than the source", public_address(target))
    with _alone(source) as old, _alone(target) as new:
        _begin(old, new, source, target)
        tables = [table for table in metadata.sorted_tables if table is not store_clock]
        sizes = {table.name: _n_rows(old, table) for table in tables}
        n_done, n_all = 0, 2 * sum(sizes.values()) or 1
        for step in (_copy, _compare):
            for table in tables:
                for n_rows in step(old, new, table):
                    n_done += n_rows
                    tell(n_done / n_all)
        verification = verify(new)
        if verification.mismatches:
            raise UnsupportedState(f"the store does not add up: {verification.mismatches[0]}")
        # The clock comes last: it marks the move as complete.
        [values] = _fetch(old, f"SELECT {', '.join(_CLOCK)} FROM store_clock")
        _set_clock(new, moving_from="", **dict(zip(_CLOCK, values, strict=True)))
        return Moved(sum(sizes.values()), verification)


@contextmanager
def _alone(address: str) -> Iterator[_SqlStore]:
    """Use a store exclusively, while no service runs on it."""
    is_shared = is_postgresql(address)
    opened = open_postgresql(address) if is_shared else SqliteStore(sqlite_path(address))
    with closing(opened) as store, store.alone():
        yield store


def _fetch(store: _SqlStore, sql: str, **parameters: object) -> list[tuple[Any, ...]]:
    with store.transaction() as session:
        return session.fetch(sql, **parameters)


def _begin(old: _SqlStore, new: _SqlStore, source: str, target: str) -> None:
    [(still_moving,)] = _fetch(old, "SELECT moving_from FROM store_clock")
    if still_moving:
        raise UnsupportedState(
            f"{public_address(source)} is incomplete: finish its move from {still_moving}"
        )
    [(moving_from,)] = _fetch(new, "SELECT moving_from FROM store_clock")
    if moving_from == public_address(source):
        return
    if moving_from or any(
        _n_rows(new, table) for table in metadata.sorted_tables if table is not store_clock
    ):
        rule = "an empty place, or one that this move was interrupted at"
        raise InvalidInput.of("target", rule, public_address(target))
    _set_clock(new, moving_from=public_address(source))


def _set_clock(store: _SqlStore, **values: object) -> None:
    updates = ", ".join(f"{name} = :{name}" for name in values)
    with store.transaction() as session:
        session.execute(f"UPDATE store_clock SET {updates}", **values)


def _n_rows(store: _SqlStore, table: Table) -> int:
    return int(_fetch(store, f"SELECT COUNT(*) FROM {table.name}")[0][0])


def _rows(store: _SqlStore, table: Table, start: int) -> Iterator[Sequence[Row]]:
    """Yield the rows of a table in the order of its key, after the first `start` rows."""
    with store.reading() as reader:
        yield from reader.all_rows(table, start)


def _copy(old: _SqlStore, new: _SqlStore, table: Table) -> Iterator[int]:
    n_there = _n_rows(new, table)
    yield n_there
    for rows in _rows(old, table, n_there):
        with new.transaction() as session:
            session.insert(table, rows)
        yield len(rows)


def _compare(old: _SqlStore, new: _SqlStore, table: Table) -> Iterator[int]:
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


def _as_stored(row: Row) -> tuple[object, ...]:
    """Return a row without the character 0, which PostgreSQL cannot store."""
    return tuple(one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in row)
