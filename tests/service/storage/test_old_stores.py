"""A store of every format that was ever written opens, adds up, is copied and goes on."""

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
from slotwise.service.storage import SqliteStore
from slotwise.service.storage.schema import PAGE_FORMAT, SCHEMA_VERSION
from slotwise.service.storage.verify import verify
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
    assert (PAGE_FORMAT,) in found


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
            page = service.decide(pool_id, now_us)
            assert page.fallback == ""
            click = ClickEvent(decision_id=page.decision_id, link_id=page.shown[0].link_id)
            [outcome] = service.submit_events([click], now_us + 1).result()
            assert outcome.outcome == "accepted"
        now_us += 90_000 * SECOND_US
        service.learn(now_us)
        for item in service.health().pools:
            assert item.policy_version > versions[item.pool_id]
            assert item.fallback == ""
        service.close()
    store = SqliteStore(old)
    assert verify(store).mismatches == ()
    store.close()


@pytest.mark.parametrize("version", ["v0001-1", "v0001-2", "v0002-3", "v0003-1"])
def test_an_amount_that_was_rejected_after_it_waited_stays_rejected(
    version: str, tmp_path: Path
) -> None:
    golden = next(path for path in GOLDEN if path.stem == f"store-{version}")
    path = Path(shutil.copy(golden, tmp_path / "store.db"))
    with closing(sqlite3.connect(path)) as connection, connection:
        [(sale, decision_id)] = connection.execute(
            "SELECT conversion_id, decision_id FROM conversions"
            " WHERE decision_id IN (SELECT decision_id FROM decisions) ORDER BY received_us LIMIT 1"
        )
        # Stored before its decision, and above the max_revenue that the decision then brought.
        connection.execute(
            "INSERT INTO conversions (conversion_id, decision_id, link_id, revenue_micros,"
            " currency, received_us, waited)"
            " SELECT 'huge', decision_id, link_id, 50000001, currency, received_us, 1"
            " FROM conversions WHERE conversion_id = ?",
            (sale,),
        )
        connection.execute(
            "INSERT INTO adjustments (adjustment_id, conversion_id, refund_micros,"
            " currency, received_us, waited)"
            " SELECT 'refund', conversion_id, 50000001, currency, received_us, 1"
            " FROM conversions WHERE conversion_id = ?",
            (sale,),
        )
    store = SqliteStore(path)
    assert verify(store).mismatches == ()
    refusals = reads(store).refusals(decision_id)
    too_large = {one.event_id for one in refusals if one.reason == "amount-too-large"}
    assert too_large >= {"huge", "refund"}
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


@pytest.mark.parametrize("golden", ["store-v0004-1.db", "store-v0009-1.db"])
def test_amounts_that_the_first_stores_left_out_are_counted(golden: str, tmp_path: Path) -> None:
    """A sale above `max_revenue` waited for its decision; the rules of its time rejected it.

    Its row was kept, and migrations of that time left it where it was.
    """
    path = Path(shutil.copy(GOLDEN[0].with_name(golden), tmp_path / "store.db"))
    with closing(sqlite3.connect(path)) as old, old:
        earned = old.execute("SELECT SUM(revenue_micros) FROM page_counters").fetchone()[0]
        sale = "SELECT MIN(conversion_id) FROM conversions WHERE conversion_id LIKE 'c-side-%'"
        old.execute(
            "UPDATE conversions SET waited = 1, revenue_micros = 60000000 "
            f"WHERE conversion_id = ({sale})"
        )
    store = SqliteStore(path)
    assert verify(store).mismatches == ()
    counters = [reads(store).counters(pool_id) for pool_id in ("home", "side")]
    now = sum(pages.revenue_micros for one in counters for pages in one.pages.values())
    assert now == earned + 50_000_000 - 6_000_000
    store.close()
    SqliteStore(path).close()  # and only once
