"""One writer a file, private files, and files that go missing, fill up or are damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from slotwise.cli.main import main
from slotwise.errors import UnsupportedState
from slotwise.service.records import ChangeRecord
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.storage import sql_reads, sqlite
from slotwise.service.storage.backup import back_up, restore
from slotwise.service.storage.contract import AppendDecision, SavePool
from slotwise.service.storage.sql_reads import ACTIVITY
from slotwise.service.storage.sqlite import ENGINE, SqliteFile, SqliteStore, create_private
from slotwise.service.storage.verify import verify
from tests.service.rows import decision, pool
from tests.stores.store_rows import reads

CREATED = ChangeRecord(changed_us=1, changed_by="test", action="pool.create", subject="home")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as store:
        store.commit([SavePool(pool=pool(), change=CREATED), AppendDecision(decision=decision())])
        yield store


def test_a_second_writer_is_told_who_the_first_is(store: SqliteStore, path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=f"in use by process {os.getpid()}; stop that"):
        SqliteStore(path)
    store.close()
    SqliteStore(path).close()


def test_a_process_that_was_killed_leaves_no_lock(path: Path) -> None:
    program = (
        "import sys; from slotwise.service.storage import SqliteStore;"
        "store = SqliteStore(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StoreUnavailable, match=f"in use by process {other.pid};"):
            SqliteStore(path)
        other.kill()
    SqliteStore(path).close()


def test_the_commands_leave_a_store_in_use_alone(
    store: SqliteStore, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = str(path)
    copy = tmp_path / "copy.db"
    for command in (
        ["keys", "make", "admin", "--store", address],
        ["keys", "revoke", "k1", "--store", address],
        ["restore", str(copy), "--overwrite", "--store", address],
        ["serve", "--port", "0", "--store", address],
    ):
        back_up(path, copy)
        assert main(command) == 2
        said = capsys.readouterr().err
        assert "is in use by process" in said
        if command[:2] == ["keys", "revoke"]:
            assert "over HTTP: DELETE /v1/keys/k1, or Keys on its dashboard" in said
        copy.unlink()
    assert reads(store).keys() == []
    assert main(["keys", "list", "--store", address]) == 0
    assert main(["verify", "--store", address]) == 0
    assert main(["backup", str(copy), "--verify", "--store", address]) == 0
    assert "0 differ from the rows" in capsys.readouterr().out
    store.close()


def test_files_are_readable_by_their_owner_only(store: SqliteStore, tmp_path: Path) -> None:
    back_up(tmp_path / "store.db", tmp_path / "copy.db")
    restore(tmp_path / "copy.db", tmp_path / "new.db")
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert set(modes) >= {"store.db", "store.db-wal", "store.db.lock", "copy.db", "new.db"}
    assert set(modes.values()) == {0o600}
    store.close()


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON keys BEGIN DELETE FROM pools; END", "a trigger 't'"),
        ("CREATE VIEW v AS SELECT * FROM keys", "a view 'v'"),
        ("CREATE VIRTUAL TABLE f USING fts5(words)", "a virtual table 'f'"),
    ],
)
def test_a_backup_that_runs_by_itself_is_refused(
    store: SqliteStore, path: Path, statement: str, kind: str
) -> None:
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)
    with pytest.raises(UnsupportedState, match=f"store.db has {kind}, which no"):
        restore(path, path.with_name("new.db"))
    assert not path.with_name("new.db").exists()


def test_a_removed_file_is_noticed_and_nothing_is_acknowledged(
    store: SqliteStore, path: Path
) -> None:
    away = path.rename(path.with_name("away.db"))
    with pytest.raises(StoreUnavailable, match=r"store\.db is gone"):
        store.commit([AppendDecision(decision=decision("d2"))])
    with pytest.raises(StoreUnavailable, match="is gone"):
        reads(store).pools()
    path.write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="was replaced by another file"):
        store.commit(())
    away.rename(path)
    store.commit([AppendDecision(decision=decision("d2"))])
    assert reads(store).decision("d2") is not None
    store.close()


def test_a_removed_log_is_noticed_and_nothing_acknowledged_is_lost(
    store: SqliteStore, path: Path
) -> None:
    names = [f"n{k}" for k in range(30)]
    for k, name in enumerate(names):
        if k == 10:
            path.with_name(path.name + "-wal").unlink()
            with pytest.raises(StoreUnavailable, match=r"log store\.db-wal was removed"):
                store.commit([AppendDecision(decision=decision(name))])
        store.commit([AppendDecision(decision=decision(name))])
        assert reads(store).decision(name) is not None
    left = path.with_name("left.db")  # what a killed process leaves
    for ending in ("", "-wal"):
        shutil.copy(f"{path}{ending}", f"{left}{ending}")
    store.close()
    again = SqliteStore(left)
    assert [name for name in names if reads(again).decision(name) is None] == []
    assert reads(again).damage() == ""
    again.close()


@pytest.mark.parametrize("is_large", [False, True])
def test_overwritten_pages_are_found_at_the_start(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    for k in range(200):
        store.commit([AppendDecision(decision=decision(f"d{k}"))])
    store.close()
    if is_large:
        monkeypatch.setattr(sqlite, "_SMALL_BYTES", 0)
    sound = SqliteFile(path)
    with sound.reading() as reader:
        assert reader.damage_at_a_glance() == ""
    sound.close()
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT rootpage FROM sqlite_master WHERE name = 'pools'"
        [(root,)] = connection.execute(sql).fetchall()
    with path.open("r+b") as file:
        file.seek((root - 1) * 4096)
        file.write(b"\x5a" * 4096)
    damaged = SqliteFile(path)
    with damaged.reading() as reader:
        assert reader.damage_at_a_glance() != ""
    damaged.close()


def test_a_backup_that_cannot_be_written_is_refused_in_one_sentence(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is read-only refuses to remove a file, too."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    store.close()
    monkeypatch.setattr(Path, "unlink", refuse)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreUnavailable, match=r"cannot be written: .*Read-only file system"):
        back_up(path, path.with_name("copy.db"))


def test_a_full_disk_is_an_outage_that_ends(store: SqliteStore) -> None:
    assert store._writer is not None
    [(n_pages,)] = store._writer.execute("PRAGMA page_count").fetchall()
    store._writer.execute(f"PRAGMA max_page_count = {n_pages}")
    many = [AppendDecision(decision=decision(f"x{k}", asked="." * 1_000)) for k in range(100)]
    with pytest.raises(StoreUnavailable, match="cannot be used now: database or disk is full"):
        store.commit(many)
    assert reads(store).decision("x0") is None
    store.commit(many)
    assert reads(store).decision("x99") is not None
    store.close()


def test_a_wrong_statement_is_no_outage(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_reads, "rows_of", lambda _: "SELECT name FROM nowhere")
    with pytest.raises(sqlite3.OperationalError, match="no such table: nowhere"):
        reads(store).pools()
    monkeypatch.undo()
    assert reads(store).pools() == [pool()]
    store.close()


def test_verify_reports_a_damaged_database_and_a_damaged_row(
    store: SqliteStore, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE decisions SET page = '[[1' WHERE decision_id = 'd1'")
    assert main(["verify", "--store", str(path)]) == 2
    assert "the row of decision d1 is damaged" in capsys.readouterr().err
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM decisions")
        connection.execute(
            "INSERT INTO links VALUES "
            "('home', 'l1', 'u', 't', 0, 0, 0, 0, 0, '{}', '[]', 0, '', 0, 0)"
        )
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = 'CREATE INDEX ix_links_place ON links "
            "(pool_id, title)' WHERE name = 'ix_links_place'"
        )
    assert main(["verify", "--store", str(path)]) == 1
    assert "the database is damaged: " in capsys.readouterr().out


def test_verify_reads_beside_a_writer_and_holds_no_moment(store: SqliteStore, path: Path) -> None:
    file = SqliteFile(path)
    assert verify(file).n_decisions == 1
    store.commit([AppendDecision(decision=decision("d2"))])
    assert store._writer is not None
    busy, _, _ = store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert busy == 0
    assert verify(file).n_decisions == 2
    file.close()
    store.close()


def test_reading_leaves_the_file_as_it_is(store: SqliteStore, path: Path, tmp_path: Path) -> None:
    back_up(path, tmp_path / "copy.db")
    store.close()
    before = (tmp_path / "copy.db").read_bytes()
    file = SqliteFile(tmp_path / "copy.db")
    assert verify(file).n_decisions == 1
    file.close()
    assert (tmp_path / "copy.db").read_bytes() == before
    assert sorted(item.name for item in tmp_path.glob("copy*")) == ["copy.db"]


def test_a_folder_that_is_gone_is_an_outage(tmp_path: Path) -> None:
    """No write is taken for a bad one."""
    with pytest.raises(StoreUnavailable, match="cannot be opened: No such file or directory"):
        create_private(tmp_path / "gone" / "store.db")


def test_pages_since_a_place_are_found_without_reading_those_before(
    store: SqliteStore, path: Path
) -> None:
    among = {"pool_id": "home", "after": 1, "until": 2}
    with closing(sqlite3.connect(path)) as connection:
        query = f"EXPLAIN QUERY PLAN {ENGINE.translated(ACTIVITY['pages_since'])}"
        [(*_, plan)] = connection.execute(query, among).fetchall()
    assert "PRIMARY KEY (rowid>? AND rowid<?)" in plan


def test_a_reader_that_ends_while_the_file_is_closed_leaves_no_connection(path: Path) -> None:
    SqliteStore(path).close()
    file = SqliteFile(path)

    class ClosedMeanwhile(list[sqlite3.Connection]):
        def append(self, connection: sqlite3.Connection) -> None:
            file.close()
            super().append(connection)

    file._idle_readers = left = ClosedMeanwhile()
    with file.reading():
        pass
    assert left == []
