"""A store of every schema since the first release opens and goes on."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slotwise.cli.main import main
from slotwise.errors import UnsupportedState
from slotwise.service.records import SECOND_US, ClickEvent
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.move_store import move_store
from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.schema import PAGE_FORMAT, SCHEMA_VERSION
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.private_postgresql import PrivatePostgresql
from tests.stores.store_rows import reads

GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("store-*.db"))
LAST_US = (1_700_000_000 + 49 * 3600) * SECOND_US


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copy(request.param, tmp_path / "store.db"))


def test_the_present_format_is_among_them() -> None:
    with closing(sqlite3.connect(GOLDEN[-1])) as connection:
        assert connection.execute("SELECT * FROM alembic_version").fetchall() == [(SCHEMA_VERSION,)]
        found = connection.execute("SELECT DISTINCT format FROM decisions").fetchall()
    assert found == [(PAGE_FORMAT,)]


def test_its_rows_are_read_and_its_counters_equal_them(old: Path) -> None:
    store = SqliteStore(old)
    report = verify(store)
    assert report.mismatches == ()
    assert report.n_decisions == 121
    views = reads(store).views_after("side", 0, None, 0, 1_000).views
    assert {link.link_id for view in views for link in view.decision.shown} <= {
        f"l{k}" for k in range(1, 7)
    }
    assert sum(len(view.conversions) for view in views) == 15
    assert sum(len(view.adjustments) for view in views) == 15
    assert reads(store).keys()[0].scopes == ("decide", "read")
    store.close()


def test_the_fallback_order_of_its_pools_is_their_own_page(old: Path) -> None:
    store = SqliteStore(old)
    assert [pool.own_page for pool in reads(store).pools()] == [("l1",), ("l1",)]
    store.close()


def test_it_is_verified_and_copied_by_the_commands(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.db"
    assert main(["backup", str(copy), "--store", str(old)]) == 0
    assert main(["verify", "--store", str(copy)]) == 0
    assert "2 pools and 121 decisions: 0 differ from the rows" in capsys.readouterr().out


def test_a_service_goes_on_with_it(old: Path) -> None:
    now_us = LAST_US
    for _ in range(2):
        service = Service(SqliteStore(old), ServiceOptions(seed=1, commit_every_ms=0.0))
        versions = {item.pool_id: item.policy_version for item in service.health().pools}
        assert set(versions) == {"home", "side"}
        for pool_id in versions:
            page = service.decider.decide(pool_id, now_us)
            assert page.fallback == ""
            click = ClickEvent(decision_id=page.decision_id, link_id=page.shown[0].link_id)
            [outcome] = service.committer.submit_events([click], now_us + 1).result()
            assert outcome.outcome == "accepted"
        now_us += 90_000 * SECOND_US
        service.learner.learn(now_us)
        for item in service.health().pools:
            assert item.policy_version > versions[item.pool_id]
            assert item.fallback == ""
        service.close()
    store = SqliteStore(old)
    assert verify(store).mismatches == ()
    store.close()


def test_a_row_of_a_later_format_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copy(GOLDEN[-1], tmp_path / "store.db"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE decisions SET format = 99 WHERE seq = 7")
    store = SqliteStore(path)
    with pytest.raises(UnsupportedState, match="row format 99, this version of slotwise knows"):
        verify(store)
    store.close()
    assert main(["verify", "--store", str(path)]) == 2
    assert "row format 99" in capsys.readouterr().err


def test_a_store_of_an_earlier_development_version_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copy(GOLDEN[0], tmp_path / "store.db"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v0009'")
    assert main(["verify", "--store", str(path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "has schema v0009 of an unreleased development version of slotwise" in said
    assert "export its pools with that version" in said
    assert "Traceback" not in said


def test_a_store_in_postgresql_goes_on_as_well(
    postgresql: PrivatePostgresql, tmp_path: Path
) -> None:
    address = postgresql.new_database()
    move_store(str(shutil.copy(GOLDEN[-1], tmp_path / "store.db")), address)
    store = PostgresqlStore(address)
    report = verify(store)
    assert (report.mismatches, report.n_decisions) == ((), 121)
    store.close()
