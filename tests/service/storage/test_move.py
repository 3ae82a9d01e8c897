"""A store moves between engines whole, or not at all."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from slotwise.cli.main import main
from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.service.opening import check_start
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.settings import Settings
from slotwise.service.storage import sql_reads
from slotwise.service.storage.contract import AppendDecision
from slotwise.service.storage.move_store import move_store
from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.private_postgresql import PrivatePostgresql
from tests.service.rows import decision
from tests.stores.store_rows import reads

GOLDEN = max((Path(__file__).parents[2] / "golden").glob("store-*.db"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return Path(shutil.copy(GOLDEN, tmp_path / "shop.db"))


@pytest.fixture
def database(postgresql: PrivatePostgresql) -> str:
    return postgresql.new_database()


def everything(store: SqliteStore | PostgresqlStore) -> list[object]:
    """Return all that a service reads of a store; closes it."""
    reader = reads(store)
    found: list[object] = [reader.keys(), reader.changes("", 10_000), reader.progress()]
    for pool in reader.pools():
        pool_id = pool.pool_id
        views = reader.views_after(pool_id, 0, None, 0, 10_000).views
        found += [pool, reader.links(pool_id), reader.counters(pool_id), reader.purged(pool_id)]
        found += [reader.learned(pool_id), views]
        found += [reader.refusals(view.decision.decision_id) for view in views]
    store.close()
    return found


def test_a_store_goes_to_postgresql_and_back(
    file: Path, database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything(SqliteStore(file))
    assert main(["move-store", f"sqlite:///{file}", database]) == 0
    assert "0 differ" not in capsys.readouterr().err
    assert everything(PostgresqlStore(database)) == before
    assert main(["move-store", database, str(tmp_path / "back.db")]) == 0
    assert "121 decisions equal their rows" in capsys.readouterr().out
    assert everything(SqliteStore(tmp_path / "back.db")) == before
    assert main(["verify", "--store", database]) == 0


def test_an_interrupted_move_goes_on(
    file: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_reads, "STREAMED_ROWS", 20)
    n_told = 0

    def interrupt(share: float) -> None:
        nonlocal n_told
        n_told += 1
        if n_told == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move_store(str(file), database, interrupt)
    half = PostgresqlStore(database)
    n_half = len(reads(half).views_after("side", 0, None, 0, 1_000).views)
    half.close()
    with pytest.raises(UnsupportedState, match=r"still being filled from .*shop.db; finish that"):
        check_start(Settings(store=database))
    with pytest.raises(InvalidInput, match="`target` must be an empty place, or one that this"):
        move_store(str(Path(shutil.copy(file, file.with_name("other.db")))), database)
    moved = move_store(str(file), database)
    assert moved.verification.n_decisions == 121 > n_half
    assert everything(PostgresqlStore(database)) == everything(SqliteStore(file))
    check_start(Settings(store=database))


def test_a_store_that_has_something_is_no_target(file: Path, database: str) -> None:
    move_store(str(file), database)
    with pytest.raises(InvalidInput, match="`target` must be an empty place"):
        move_store(str(file), database)
    with pytest.raises(InvalidInput, match="`target` must be another store than the source"):
        move_store(database, database)


def test_a_store_in_use_is_not_moved(file: Path, database: str) -> None:
    used = SqliteStore(file)
    with pytest.raises(StoreUnavailable, match="is in use by process"):
        move_store(str(file), database)
    used.close()
    replica = PostgresqlStore(database)
    replica.sharing.start(lambda: None)
    while replica.sharing.epoch is None:
        pass
    with pytest.raises(StoreUnavailable, match="is in use; stop all replicas first"):
        move_store(str(file), database)
    replica.close()


def test_a_row_that_changed_on_the_way_is_found(
    file: Path, database: str, postgresql: PrivatePostgresql
) -> None:
    name = database.partition("@/")[2].partition("?")[0]
    PostgresqlStore(database).close()
    postgresql.execute(
        name,
        "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.revenue_micros := 1; RETURN NEW; END $$",
    )
    postgresql.execute(
        name,
        "CREATE TRIGGER spoil BEFORE INSERT ON conversions FOR EACH ROW EXECUTE FUNCTION spoil()",
    )
    with pytest.raises(UnsupportedState, match="the rows of conversions differ after the move"):
        move_store(str(file), database)


def test_commands_that_are_postgresqls_own_say_so(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, tool in (
        (["backup", str(tmp_path / "copy.db")], "pg_dump --format=custom"),
        (["restore", str(GOLDEN)], "pg_restore --dbname"),
        (["set-back"], "use the clock of the database"),
    ):
        assert main([*command, "--store", database]) != 0
        assert tool in " ".join(capsys.readouterr().err.split())


def test_keys_and_purge_work_beside_replicas(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["keys", "make", "decide", "--label", "shop", "--store", database]) == 0
    store = PostgresqlStore(database)
    store.commit([AppendDecision(decision=decision())])
    assert main(["purge", "--older-than", "1", "--store", database]) == 0
    assert "0 views and waiting events deleted" in capsys.readouterr().out
    assert [key.label for key in reads(store).keys()] == ["shop"]  # noqa: SIM118
    assert verify(store).mismatches == ()
    store.close()
