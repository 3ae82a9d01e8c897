"""What only a store with many writers can get wrong, with a real server."""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text

from slotwise.errors import SlotwiseError
from slotwise.service.refusals import StoreUnavailable, Superseded
from slotwise.service.storage import open_store as open_any_store, postgresql as store_module
from slotwise.service.storage.contract import (
    AppendDecision,
    CloseWindows,
    Learned,
    Operation,
    RecordEvent,
    SaveLearned,
    SaveLinks,
    SavePool,
)
from slotwise.service.storage.postgresql import PostgresqlBatch, PostgresqlStore, array
from slotwise.service.storage.schema import metadata
from slotwise.service.storage.verify import verify
from tests.service.private_postgresql import PrivatePostgresql
from tests.stores.store_case import StoreCase, outcomes
from tests.stores.store_rows import (
    CLICK_WINDOW_US,
    LINK_IDS,
    START_US,
    change_row,
    click_row,
    conversion_row,
    decision_row,
    link_row,
    pool_row,
    reads,
    refund_row,
)

HOUR_US = 3_600_000_000
OpenStore = Callable[[], PostgresqlStore]


@pytest.fixture
def address(postgresql: PrivatePostgresql) -> str:
    return postgresql.new_database()


@pytest.fixture
def open_store(address: str) -> Iterator[OpenStore]:
    """Open the test's store, as a replica more; all are closed and verified at the end."""
    opened: list[PostgresqlStore] = []

    def open_it() -> PostgresqlStore:
        opened.append(PostgresqlStore(address))
        return opened[-1]

    store = open_it()
    links = tuple(link_row(link_id) for link_id in LINK_IDS)
    store.commit(
        [
            SavePool(pool=pool_row(), change=change_row("home")),
            SaveLinks(links=links, changes=()),
        ]
    )
    yield open_it
    assert verify(store).mismatches == ()
    for one in opened:
        one.close()


class Held:
    """Commits of one thread that stop between their last statement and their COMMIT."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
        held = self
        self._address = address
        self._reached, self._release = threading.Event(), threading.Event()

        class HeldBatch(PostgresqlBatch):
            def apply(self, operations: object) -> list[object]:
                answers = super().apply(operations)  # type: ignore[arg-type]
                if threading.current_thread().name.startswith("held"):
                    held._reached.set()
                    held._release.wait()
                return answers

        monkeypatch.setattr(store_module, "PostgresqlBatch", HeldBatch)
        self._held = ThreadPoolExecutor(1, thread_name_prefix="held")
        self._others = ThreadPoolExecutor(4)

    def commit(self, store: PostgresqlStore, *operations: Operation) -> Future[list[object]]:
        """Begin a commit and come back when it has only to be committed."""
        done = self._held.submit(store.commit, operations)
        self._reached.wait()
        return done

    def commit_behind(self, store: PostgresqlStore, *operations: Operation) -> Future[list[object]]:
        """Begin a commit and come back when it waits for the held one."""
        done = self._others.submit(store.commit, operations)
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock'"
        )
        with psycopg.connect(self._address, autocommit=True) as connection:
            while connection.execute(waiting).fetchone() == (0,):
                assert not done.done(), done.result()
        return done

    def release(self) -> None:
        self._release.set()


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch, address: str) -> Held:
    return Held(monkeypatch, address)


def test_a_window_closes_only_after_what_is_being_written_in_it(
    open_store: OpenStore, held: Held
) -> None:
    writer, learner = open_store(), open_store()
    writer.commit([AppendDecision(decision=decision_row("d1"))])
    until_us = START_US + CLICK_WINDOW_US
    clicked = held.commit(writer, click_row("d1", "l1", until_us))
    closed = held.commit_behind(learner, CloseWindows(until_us=until_us))
    held.release()
    assert outcomes(clicked.result()) == ["accepted"]
    closed.result()
    case = StoreCase()
    assert case.fold(learner, until_us) == 1
    assert reads(learner).counters("home").links["policy", "l1"].clicks == 1
    assert outcomes(writer.commit([click_row("d1", "l2", until_us)])) == ["late"]


def test_a_decision_written_while_its_window_closes_is_folded_or_not_learned(
    open_store: OpenStore, held: Held
) -> None:
    writer, learner = open_store(), open_store()
    until_us = START_US + CLICK_WINDOW_US
    stored = held.commit(writer, AppendDecision(decision=decision_row("before")))
    closed = held.commit_behind(learner, CloseWindows(until_us=until_us))
    held.release()
    stored.result()
    closed.result()
    writer.commit([AppendDecision(decision=decision_row("after"))])
    found = {name: reads(learner).decision(name) for name in ("before", "after")}
    assert {name: one.learned for name, one in found.items() if one} == {
        "before": True,
        "after": False,
    }
    assert StoreCase().fold(learner, until_us) == 1


def test_the_same_event_at_two_replicas_is_stored_once(open_store: OpenStore, held: Held) -> None:
    first, second = open_store(), open_store()
    first.commit([AppendDecision(decision=decision_row("d1"))])
    late_us = START_US + 100 * CLICK_WINDOW_US
    events = (click_row("d1", "l1", late_us), conversion_row("c1", "d1", received_us=late_us))
    one = held.commit(first, *events)
    other = held.commit_behind(second, *events)
    held.release()
    assert outcomes(one.result()) == ["late", "late"]
    assert outcomes(other.result()) == ["duplicate", "duplicate"]
    assert reads(first).counters("home").links["policy", "l1"].late_clicks == 1


def test_a_decision_at_one_replica_and_its_click_at_another_are_joined(
    open_store: OpenStore, held: Held
) -> None:
    """Neither sees the other, and the click is late: somebody has to count it."""
    first, second = open_store(), open_store()
    late_us = START_US + 2 * CLICK_WINDOW_US
    stored = held.commit(first, AppendDecision(decision=decision_row("d1")))
    clicked = held.commit_behind(second, click_row("d1", "l1", late_us))
    held.release()
    stored.result()
    assert outcomes(clicked.result()) == ["late"]
    assert reads(first).counters("home").links["policy", "l1"].late_clicks == 1


def test_a_waiting_click_of_a_fast_clock_is_counted_late(open_store: OpenStore) -> None:
    fast, slow = open_store(), open_store()
    ahead_us = START_US + HOUR_US
    assert outcomes(fast.commit([click_row("d1", "l1", ahead_us)])) == ["quarantined"]
    slow.commit([AppendDecision(decision=decision_row("d1"))])
    assert reads(slow).counters("home").links["policy", "l1"].late_clicks == 1


def test_replicas_that_write_all_at_once_store_everything_once(open_store: OpenStore) -> None:
    """Four replicas send the same shuffled decisions and events, some with fast clocks."""
    rng = random.Random(7)
    names = [f"d{number}" for number in range(60)]
    operations: list[Operation] = [AppendDecision(decision=decision_row(name)) for name in names]
    for name in names:
        received_us = START_US + rng.choice((1, CLICK_WINDOW_US + 1, HOUR_US))
        link_id = rng.choice(LINK_IDS)
        operations += [
            click_row(name, link_id, received_us),
            conversion_row(f"c-{name}", name, received_us=received_us),
            refund_row(f"r-{name}", f"c-{name}", received_us=received_us),
        ]

    def send(number: int) -> list[tuple[RecordEvent, str]]:
        own, store = random.Random(number), open_store()
        mine = own.sample(operations, len(operations))
        answered = []
        while mine:
            batch = [mine.pop() for _ in range(min(len(mine), own.randrange(1, 30)))]
            for operation, answer in zip(batch, store.commit(batch), strict=True):
                if isinstance(operation, RecordEvent):
                    answered.append((operation, outcomes([answer])[0]))
            if own.random() < 0.2:
                _fold_what_is_left(store, START_US + own.randrange(3 * CLICK_WINDOW_US))
        return answered

    with ThreadPoolExecutor(4) as threads:
        answers = [one for sent in threads.map(send, range(4)) for one in sent]
    stored = ("accepted", "late", "quarantined")
    firsts = Counter(operation.event for operation, outcome in answers if outcome in stored)
    assert len(firsts) > 2 * len(names)
    assert set(firsts.values()) == {1}


def test_folds_of_two_learners_are_applied_once(open_store: OpenStore) -> None:
    first, second = open_store(), open_store()
    first.commit([AppendDecision(decision=decision_row(f"d{number}")) for number in range(50)])
    until_us = START_US + CLICK_WINDOW_US
    with ThreadPoolExecutor(2) as threads:
        folding = [threads.submit(_fold_what_is_left, one, until_us) for one in (first, second)]
        for one in folding:
            one.result()
    assert reads(first).counters("home").pages["policy"].click_views == 50


def _fold_what_is_left(store: PostgresqlStore, until_us: int) -> None:
    try:
        StoreCase().fold(store, until_us, limit=7)
    except AssertionError:  # the other one was faster
        _fold_what_is_left(store, until_us)


def test_a_learner_that_wakes_up_late_changes_nothing(open_store: OpenStore) -> None:
    sleeper, heir = open_store(), open_store()
    for store, epoch in ((sleeper, 1), (heir, 2)):
        store.sharing.used_epoch = epoch
    with psycopg.connect(heir.sharing._connections._conninfo) as connection:
        connection.execute("UPDATE store_clock SET learner_epoch = 2")
    version = SaveLearned(learned=Learned("home", 5, b"new"))
    heir.commit([version])
    for late in (
        SaveLearned(learned=Learned("home", 6, b"old")),
        CloseWindows(until_us=START_US),
    ):
        with pytest.raises(Superseded, match="another replica learns"):
            sleeper.commit([late])
    with pytest.raises(Superseded, match="has a newer version than 4"):
        heir.commit([SaveLearned(learned=Learned("home", 4, b"old"))])
    assert reads(heir).learned("home") == version.learned
    assert reads(heir).progress().closed_until_us == 0
    sleeper.commit([AppendDecision(decision=decision_row("d1"))])


def test_columns_arrive_as_they_are(address: str) -> None:
    texts: list[Any] = [
        "a",
        "",
        'quo"te',
        "back\\slash",
        "new\nline",
        "\x01\x1f",
        "\x7f",
        "€ 5",
        "{,}",
        "null",
    ]
    texts += ["\\n", "C:\\new"]
    texts.append(None)
    with psycopg.connect(address) as connection:
        columns: list[tuple[list[Any], str]] = [
            (texts, "text[]"),
            (list[Any](["plain", None, 'quo"te', "back\\slash", "€"]), "text[]"),
            ([0, -(2**63), 2**63 - 1, None], "bigint[]"),
            ([True, False, None], "boolean[]"),
            ([0.1, 1e300, -0.0], "float8[]"),
            ([b"", b"\x00\xff"], "bytea[]"),
        ]
        for values, kind in columns:
            query = f"SELECT %s::{kind}".encode()
            found = connection.execute(query, [array(values)]).fetchone()
            assert found == (list(values),)
        nul = connection.execute("SELECT %s::text[]", [array(["a\0b"])]).fetchone()
    assert nul == (["a�b"],)


def test_a_statement_a_table_whatever_the_number_of_rows(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    names = [f"d{number}" for number in range(700)]
    batch: list[Operation] = [AppendDecision(decision=decision_row(name)) for name in names]
    batch += [click_row(name) for name in names]
    store.commit(batch[:1])
    [connection] = store._writing._idle
    run: list[str] = []
    execute = connection.execute

    def counted(query: bytes | str, *rest: object) -> object:
        run.append((query if isinstance(query, str) else query.decode()).split()[0])
        return execute(query, *rest)  # type: ignore[call-overload]

    monkeypatch.setattr(connection, "execute", counted)
    store.commit(batch[1:])
    assert Counter(run) == {"BEGIN": 1, "SELECT": 2, "INSERT": 2, "COMMIT": 1}
    views = reads(store).views_after("home", 0, None, 0, 1_000).views
    assert [view.decision.decision_id for view in views] == names


def test_commits_are_on_disk_whatever_the_default_of_the_server(
    postgresql: PrivatePostgresql, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = address.partition("@/")[2].partition("?")[0]
    postgresql.execute("postgres", f"ALTER DATABASE {database} SET synchronous_commit = off")
    seen: list[object] = []

    class Looking(PostgresqlBatch):
        def apply(self, operations: object) -> list[object]:
            seen.extend(self._session.fetch("SHOW synchronous_commit"))
            return super().apply(operations)  # type: ignore[arg-type]

    store = PostgresqlStore(address)
    monkeypatch.setattr(store_module, "PostgresqlBatch", Looking)
    store.commit([])
    store.close()
    assert seen == [("on",)]


SINCE_V0013 = (
    "ALTER TABLE pools DROP COLUMN until_us, DROP COLUMN holdout_shows, DROP COLUMN keep",
    "ALTER TABLE pools DROP COLUMN own_page_us",
    "ALTER TABLE learned DROP COLUMN n_resets, DROP COLUMN needs_rows_us",
    "ALTER TABLE decisions DROP COLUMN is_own, DROP COLUMN chosen_share, DROP COLUMN own_share",
    "DROP TABLE share_counters, purged_share_counters",
)


@pytest.mark.parametrize("version", ["empty", "v0013"])
def test_the_migrations_make_the_tables_of_the_code(address: str, version: str) -> None:
    """The same definitions and migrations as SQLite's."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    PostgresqlStore(address).close()
    if version == "v0013":
        with psycopg.connect(address) as connection:
            for statement in SINCE_V0013:
                connection.execute(statement)
            connection.execute("UPDATE alembic_version SET version_num = 'v0013'")
        PostgresqlStore(address).close()
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(address))
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        collations = text(
            "SELECT DISTINCT collation_name FROM information_schema.columns "
            "WHERE table_schema = 'public' AND column_name IN ('decision_id', 'conversion_id')"
        )
        assert connection.execute(collations).scalars().all() == ["C"]
    engine.dispose()


def test_replicas_that_start_at_once_migrate_once(address: str) -> None:
    with ThreadPoolExecutor(4) as threads:
        stores = list(threads.map(PostgresqlStore, [address] * 4))
    for store in stores:
        store.commit(())
        store.close()


def test_an_outage_is_named_in_the_words_of_the_database(
    postgresql: PrivatePostgresql, address: str
) -> None:
    database = address.partition("@/")[2].partition("?")[0]
    store = PostgresqlStore(address)
    postgresql.execute(
        database,
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE 'No space left on device' USING ERRCODE = 'disk_full'; END $$",
    )
    postgresql.execute(
        database,
        "CREATE TRIGGER full_disk BEFORE INSERT ON decisions EXECUTE FUNCTION full_disk()",
    )
    with pytest.raises(StoreUnavailable, match=r"cannot be used now: No space left on device$"):
        store.commit([AppendDecision(decision=decision_row("d1"))])
    store.close()


def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith("slotwise.service.storage.postgresql"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SlotwiseError, match="a store in PostgreSQL needs the package psycopg"):
        open_any_store("postgresql://shop@db/shop")


def test_a_closed_store_is_unavailable(address: str) -> None:
    store = PostgresqlStore(address)
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        store.commit([])
    with pytest.raises(StoreUnavailable, match="closed"):
        reads(store).pools()
