"""Every store keeps the laws of the contract; SQLite keeps some of its own."""

from __future__ import annotations

import gc
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from slotwise.errors import UnsupportedState
from slotwise.service.records import ChangeRecord
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.storage.contract import (
    NEEDS_NO_ROWS,
    AppendDecision,
    Learned,
    SavePool,
    Store,
)
from slotwise.service.storage.ledger import Ledger, NewRows
from slotwise.service.storage.migrations import STEPS, present_version
from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.schema import SCHEMA_VERSION, metadata
from slotwise.service.storage.sql_reads import ALL_DECISIONS
from slotwise.service.storage.sqlite import ENGINE, SqliteFile, SqliteStore
from slotwise.service.storage.writer_process import ProcessStore
from tests.service.private_postgresql import PrivatePostgresql
from tests.service.rows import decision, pool
from tests.stores.memory_store import MemoryStore
from tests.stores.store_contract import StoreContract
from tests.stores.store_rows import reads

GOLDEN = Path(__file__).parents[2] / "golden"
CREATED = ChangeRecord(changed_us=1, changed_by="test", action="pool.create", subject="home")


class TestSqliteStore(StoreContract):
    def open_store(self, place: Path) -> Store:
        place.mkdir(exist_ok=True)
        return SqliteStore(place / "store.db")


class TestMemoryStore(StoreContract):
    opened: dict[Path, MemoryStore]

    @pytest.fixture(autouse=True)
    def no_stores(self) -> None:
        self.opened = {}

    def open_store(self, place: Path) -> Store:
        return self.opened.setdefault(place, MemoryStore())


class TestPostgresqlStore(StoreContract):
    addresses: dict[Path, str]

    @pytest.fixture(autouse=True)
    def server(self, postgresql: PrivatePostgresql) -> None:
        self.addresses = {}
        self.postgresql = postgresql

    def open_store(self, place: Path) -> Store:
        if place not in self.addresses:
            self.addresses[place] = self.postgresql.new_database()
        return PostgresqlStore(self.addresses[place])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def test_commits_are_forced_to_disk(path: Path) -> None:
    store = SqliteStore(path)
    assert store._writer is not None
    assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
    store.close()


@pytest.mark.parametrize("n_decisions", [1, 7, 600])
def test_decisions_are_stored_in_order_however_many(path: Path, n_decisions: int) -> None:
    store = SqliteStore(path)
    store.commit([SavePool(pool=pool(), change=CREATED)])
    names = [f"d{number}" for number in range(n_decisions)]
    store.commit([AppendDecision(decision=decision(name)) for name in names])
    stored = [
        view.decision.decision_id
        for view in reads(store).views_after("home", 0, None, 0, 1_000).views
    ]
    assert stored == names
    store.close()


def test_a_commit_leaves_nothing_to_the_garbage_collector(path: Path) -> None:
    store = SqliteStore(path)
    store.commit([SavePool(pool=pool(), change=CREATED)])
    gc.collect()
    gc.disable()
    try:
        store.commit([AppendDecision(decision=decision(f"d{number}")) for number in range(50)])
        left = [one for one in gc.get_objects() if type(one) in (Ledger, NewRows)]
    finally:
        gc.enable()
    assert left == []
    store.close()


def test_a_reader_sees_one_moment_while_others_commit(path: Path) -> None:
    store = SqliteStore(path)
    with store.reading() as reader:
        assert reader.pools() == []
        store.commit([SavePool(pool=pool(), change=CREATED)])
        assert reader.pools() == []
    assert reads(store).pools() == [pool()]
    store.close()


def test_a_locked_file_is_unavailable_and_comes_back_by_itself(path: Path) -> None:
    store = SqliteStore(path, busy_timeout_s=0.0)
    store.commit([SavePool(pool=pool(), change=CREATED)])
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable, match="cannot be used now: database is locked"):
        store.commit([AppendDecision(decision=decision())])
    with pytest.raises(StoreUnavailable, match="locked"):
        store.commit(())
    assert reads(store).pools() == [pool()]
    blocker.execute("ROLLBACK")
    blocker.close()
    store.commit(())
    store.commit([AppendDecision(decision=decision())])
    assert reads(store).decision("d1") is not None
    store.close()


@pytest.mark.parametrize("opened", [SqliteStore, ProcessStore, SqliteFile])
def test_a_file_that_is_no_store_is_refused_and_left_alone(
    opened: type[SqliteFile], path: Path
) -> None:
    path.write_bytes(b"this is not a database" * 100)
    with pytest.raises(StoreUnavailable, match=f"^{path} is not a database; give the file of"):
        opened(path)
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE pages (name)")
    with pytest.raises(UnsupportedState, match="is a database, but not a store of slotwise"):
        opened(path)
    assert list(path.parent.iterdir()) == [path]


def test_a_closed_store_is_unavailable(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.commit([])
    with pytest.raises(StoreUnavailable, match="closed"):
        reads(store).pools()


def test_a_column_has_the_default_of_its_field() -> None:
    """So that a pool of an earlier release does not change when a field is added."""
    [default] = metadata.tables["learned"].c.needs_rows_us.server_default.arg.split()  # type: ignore[union-attr]
    assert int(default) == NEEDS_NO_ROWS == Learned("home", 1, b"").needs_rows_us


def test_the_code_asks_for_the_newest_migration() -> None:
    assert list(STEPS) == sorted(STEPS)
    assert list(STEPS)[-1] == SCHEMA_VERSION


@pytest.mark.parametrize("version", ["empty", "v0013-1"])
def test_a_store_is_migrated_to_the_tables_of_the_code(version: str, path: Path) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    before: dict[str, object] = {}
    if version != "empty":
        shutil.copy(GOLDEN / f"store-{version}.db", path)
        before = column_defaults(path)
    SqliteStore(path).close()
    engine = create_engine(f"sqlite:///{path}", poolclass=NullPool)
    with engine.connect() as connection:
        assert present_version(connection) == SCHEMA_VERSION
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    SqliteStore(fresh := path.with_name("fresh.db")).close()
    added = column_defaults(path).items() - before.items()
    assert added <= column_defaults(fresh).items()


def _number(default: str | None) -> object:
    text = (default or "").strip("'")
    return float(text) if text.replace(".", "").isdigit() else text


def column_defaults(path: Path) -> dict[str, object]:
    """Return the default of every column that rows of an earlier release may lack."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            f"{table}.{column}": _number(default)
            for table in metadata.tables
            for _, column, _, _, default, _ in connection.execute(f"PRAGMA table_info({table})")
        }


def test_a_store_of_a_newer_version_is_refused(path: Path) -> None:
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v9999'")
        connection.execute("UPDATE store_clock SET oldest_schema = 'v9998'")
    connection.close()
    with pytest.raises(UnsupportedState, match="has schema v9999"):
        SqliteStore(path)


def test_a_store_of_a_newer_version_that_only_adds_is_used(path: Path) -> None:
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v9999'")
    connection.close()
    store = SqliteStore(path)
    store.commit([SavePool(pool=pool(), change=CREATED)])
    store.close()


def test_a_failed_migration_leaves_nothing_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(connection: object) -> None:
        connection.exec_driver_sql("CREATE TABLE half (x INTEGER)")  # type: ignore[attr-defined]
        raise RuntimeError("power cut")

    monkeypatch.setattr("slotwise.service.storage.sqlite.upgrade", broken)
    with pytest.raises(RuntimeError, match="power cut"):
        SqliteStore(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    connection.close()


def test_views_are_read_in_order_without_sorting_them(path: Path) -> None:
    SqliteStore(path).close()
    asked = {"after_seq": 0, "pool_id": "home", "since_us": 0, "until_us": 9, "n_rows": 5}
    with closing(sqlite3.connect(path)) as connection:
        query = ENGINE.translated(ALL_DECISIONS)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", asked)
        steps = [row[-1] for row in plan]
    assert steps == ["SEARCH decisions USING INTEGER PRIMARY KEY (rowid>?)"]
