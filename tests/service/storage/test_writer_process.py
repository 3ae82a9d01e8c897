"""A process of its own commits: it may be killed, and the one that it writes for, too."""

from __future__ import annotations

import errno
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from socket import socket, socketpair
from threading import Thread

import pytest

from slotwise.errors import InvalidInput
from slotwise.service.records import ChangeRecord
from slotwise.service.refusals import StoreInUse, StoreUnavailable
from slotwise.service.storage import open_store, sqlite, writer_process
from slotwise.service.storage.contract import (
    AppendDecision,
    Operation,
    RecordEvent,
    SavePool,
    Store,
)
from slotwise.service.storage.sqlite import SqliteStore, WriterLock
from slotwise.service.storage.writer_process import ProcessStore
from tests.service.rows import T0, click, conversion, decision, pool
from tests.stores.store_contract import StoreContract
from tests.stores.store_rows import reads

CREATED = ChangeRecord(changed_us=1, changed_by="test", action="pool.create", subject="home")


class WritingThread:
    """In place of the process, whose start takes a second: the same bytes on the same pipe."""

    def __init__(self, store: Path, busy_timeout_s: float, pipe: int, lock: int) -> None:
        described = (store, busy_timeout_s, pipe, lock)
        self._thread = Thread(target=writer_process.commit_what_is_sent, args=described)
        self._thread.start()
        self.pid = os.getpid()

    def wait(self) -> None:
        self._thread.join()


def start_thread(store: Path, lock: WriterLock, timeout_s: float) -> tuple[socket, WritingThread]:
    here, there = socketpair()
    descriptor = os.dup(lock.descriptor)
    return here, WritingThread(store, timeout_s, there.detach(), descriptor)


class TestProcessStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _threads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writer_process, "_start", start_thread)

    def open_store(self, place: Path) -> Store:
        place.mkdir(exist_ok=True)
        return ProcessStore(place / "store.db")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ProcessStore]:
    store = ProcessStore(tmp_path / "store.db")
    store.commit([SavePool(pool=pool(), change=CREATED)])
    yield store
    store.close()


def process_of(store: ProcessStore) -> subprocess.Popen[bytes]:
    assert store._writer is not None
    return store._writer._process


def test_a_killed_writer_is_replaced(store: ProcessStore) -> None:
    first = process_of(store)
    first.kill()
    with pytest.raises(StoreUnavailable, match="the process that writes the store has ended"):
        store.commit([AppendDecision(decision=decision("d1"))])
    store.commit([AppendDecision(decision=decision("d2"))])
    assert process_of(store).pid != first.pid
    assert reads(store).decision("d2") is not None


def test_signals_to_the_whole_group_leave_the_writer_alone(store: ProcessStore) -> None:
    writer = process_of(store)
    for one in (signal.SIGINT, signal.SIGTERM):
        writer.send_signal(one)
    store.commit([AppendDecision(decision=decision("d1"))])
    assert process_of(store) is writer
    assert reads(store).decision("d1") is not None


def test_an_error_keeps_its_type_and_says_where_it_came_from(store: ProcessStore) -> None:
    with closing(sqlite3.connect(store._path)) as other:
        other.execute("DROP TABLE decisions")
    with pytest.raises(sqlite3.OperationalError, match="no such table: decisions") as raised:
        store.commit([AppendDecision(decision=decision("d1"))])
    assert "storage/sqlite.py" in raised.value.__notes__[0]


def test_a_large_group_is_judged_as_one(store: ProcessStore, tmp_path: Path) -> None:
    many = [AppendDecision(decision(f"d{k}", issued_us=T0 + k)) for k in range(300)]
    huge = RecordEvent(event=conversion(decision_id="d7", revenue_micros=2**70), received_us=T0)
    clicks = [RecordEvent(event=click(decision_id=f"d{k}"), received_us=T0) for k in (3, 299, 3)]
    group: list[Operation] = [*many[:150], huge, *many[150:], *clicks]
    with closing(SqliteStore(tmp_path / "twin.db")) as twin:
        twin.commit([SavePool(pool=pool(), change=CREATED)])
        assert store.commit(group) == twin.commit(group)
        assert store.commit(group[151:]) == twin.commit(group[151:])
        for one in many:
            known = one.decision.decision_id
            assert reads(store).decision(known) == reads(twin).decision(known) is not None


def test_a_group_that_cannot_be_sent_leaves_nothing_behind(store: ProcessStore) -> None:
    many = [AppendDecision(decision(f"d{k}")) for k in range(200)]
    with pytest.raises(InvalidInput, match="operations of a store"):
        store.commit([*many, object()])  # type: ignore[list-item]
    assert store.commit([AppendDecision(decision("late"))]) == [None]
    assert reads(store).decision("late") is not None
    assert not any(reads(store).decision(one.decision.decision_id) for one in many)


def test_closing_ends_the_writer_and_frees_the_file(store: ProcessStore, tmp_path: Path) -> None:
    writer = process_of(store)
    with pytest.raises(StoreInUse, match=f"in use by process {os.getpid()};"):
        SqliteStore(tmp_path / "store.db")
    store.close()
    assert writer.returncode == 0
    SqliteStore(tmp_path / "store.db").close()


def test_a_writer_ends_with_the_process_that_it_writes_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    program = (
        "import sys; from slotwise.service.storage import ProcessStore;"
        "store = ProcessStore(sys.argv[1]); store.commit([]);"
        "print(store._writer._process.pid, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        writer = int(other.stdout.readline())
        with pytest.raises(StoreInUse, match=f"in use by process {other.pid};"):
            ProcessStore(path)
        ended = os.pidfd_open(writer)
        os.kill(writer, signal.SIGSTOP)
        other.kill()
        other.wait()
    monkeypatch.setattr(sqlite, "_END_WITHIN_S", 0.05)
    with pytest.raises(StoreInUse, match=f"by process {writer}, which has not finished what"):
        ProcessStore(path)
    monkeypatch.setattr(sqlite, "_END_WITHIN_S", 600.0)
    os.kill(writer, signal.SIGCONT)
    SqliteStore(path).close()  # waits until the writer has noticed
    assert select.select([ended], [], [], 600)[0], "the writer goes on"
    os.close(ended)


def test_a_writer_that_cannot_be_started_is_an_outage(
    store: ProcessStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No write is taken for a bad one, so none is dropped."""

    def fail(*arguments: object, **named: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    process_of(store).kill()
    with pytest.raises(StoreUnavailable, match="has ended"):
        store.commit(())
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", fail)
        with pytest.raises(StoreUnavailable, match="no process can be started to write: Resource"):
            store.commit(())
    store.commit(())


def test_files_in_the_working_directory_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('not the library')")
    monkeypatch.chdir(tmp_path)
    store = ProcessStore(tmp_path / "store.db")
    assert store.commit([SavePool(pool=pool(), change=CREATED)]) == [True]
    store.close()


def test_a_file_has_a_writer_of_its_own_where_asked(tmp_path: Path) -> None:
    beside = open_store(str(tmp_path / "one.db"), separate_writer=True)
    assert isinstance(beside, ProcessStore)
    beside.close()
    plain = open_store(str(tmp_path / "two.db"))
    assert not isinstance(plain, ProcessStore)
    plain.close()
