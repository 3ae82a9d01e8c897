"""Backups are whole, checked and restorable; the commands say what they did."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from slotwise.cli.main import main
from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.service import Service
from slotwise.service.storage.backup import back_up, restore
from slotwise.service.storage.maintenance import open_existing, open_existing_to_read
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.rows import T0, click, seconds
from tests.stores.store_rows import reads

FAR = seconds(10 * 86_400)


def store_path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def lived_in(service: Service) -> list[str]:
    """Let a service decide, receive and learn; return the decisions."""
    decisions = [service.decider.decide("home", T0 + k) for k in range(20)]
    clicks = [click(page.shown[0].link_id, page.decision_id) for page in decisions[::2]]
    service.committer.submit_events(clicks, T0 + 100).result()
    service.learner.learn(FAR)
    service.flush().result()
    return [page.decision_id for page in decisions]


def test_a_backup_of_a_running_service_is_one_whole_file(service: Service, tmp_path: Path) -> None:
    decisions = lived_in(service)
    back_up(store_path(tmp_path), tmp_path / "copy.db")
    assert sorted(path.name for path in tmp_path.iterdir() if "copy" in path.name) == ["copy.db"]
    copy = SqliteStore(tmp_path / "copy.db")
    assert reads(copy).counters("home") == reads(service.store).counters("home")
    assert reads(copy).decision(decisions[0]) is not None
    assert verify(copy).n_decisions == 20
    copy.close()


def test_a_restored_store_goes_on_where_the_backup_was(service: Service, tmp_path: Path) -> None:
    decisions = lived_in(service)
    version = service.health().pools[0].policy_version
    back_up(store_path(tmp_path), tmp_path / "copy.db")
    lost = service.decider.decide("home", FAR + 1).decision_id
    service.close()
    restore(tmp_path / "copy.db", store_path(tmp_path), overwrite=True)
    again = Service(SqliteStore(store_path(tmp_path)))
    assert again.reporter.decision(decisions[0]).decision.decision_id == decisions[0]
    assert reads(again.store).decision(lost) is None
    assert again.decider.decide("home", FAR + 2).policy_version == version
    again.close()
    assert (tmp_path / "store.db.replaced").exists()


def test_a_target_that_is_there_is_never_overwritten(service: Service, tmp_path: Path) -> None:
    service.flush().result()
    (tmp_path / "copy.db").write_text("precious")
    with pytest.raises(InvalidInput, match="`target` must be a new file"):
        back_up(store_path(tmp_path), tmp_path / "copy.db")
    back_up(store_path(tmp_path), tmp_path / "other.db")
    with pytest.raises(InvalidInput, match="must be a place without a store"):
        restore(tmp_path / "other.db", store_path(tmp_path))
    assert (tmp_path / "copy.db").read_text() == "precious"


def test_a_store_in_use_is_not_replaced(service: Service, tmp_path: Path) -> None:
    lived_in(service)
    back_up(store_path(tmp_path), tmp_path / "copy.db")
    with pytest.raises(StoreUnavailable, match="in use by process"):
        restore(tmp_path / "copy.db", store_path(tmp_path), overwrite=True)
    assert not (tmp_path / "store.db.restoring").exists()
    assert service.decider.decide("home", FAR + 1).pool_id == "home"


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="there is no store at"):
        back_up(tmp_path / "nothing.db", tmp_path / "copy.db")
    with pytest.raises(MissingData, match="there is no backup at"):
        restore(tmp_path / "nothing.db", tmp_path / "store.db")
    assert list(tmp_path.iterdir()) == []


def test_another_database_is_no_backup(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(UnsupportedState, match="not a store of slotwise"):
        restore(tmp_path / "other.db", tmp_path / "store.db")
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize("table", ["recipes (name TEXT)", "alembic_version (version_num TEXT)"])
def test_another_database_is_left_as_it_is(tmp_path: Path, table: str) -> None:
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute(f"CREATE TABLE {table}")
    before = other.read_bytes()
    for open_it in (open_existing, open_existing_to_read):
        with pytest.raises(UnsupportedState, match=r"other\.db is a database, but not a store"):
            open_it(str(other))
    assert other.read_bytes() == before


def test_a_reader_takes_no_lock(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    service.flush().result()
    back_up(store_path(tmp_path), path)
    with closing(open_existing_to_read(str(path))) as opened, opened.reading() as reader:
        assert [pool.pool_id for pool in reader.pools()] == ["home"]
    assert not path.with_name("copy.db.lock").exists()


def test_a_backup_whose_counters_are_wrong_is_refused(service: Service, tmp_path: Path) -> None:
    lived_in(service)
    back_up(store_path(tmp_path), tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "copy.db")) as connection, connection:
        connection.execute("UPDATE link_counters SET clicks = clicks + 1 WHERE link_id = 'l1'")
    with pytest.raises(UnsupportedState, match=r"does not add up: home/l1 .*the rows say"):
        restore(tmp_path / "copy.db", tmp_path / "new.db")


def test_the_commands_say_what_they_did(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lived_in(service)
    store = f"sqlite:///{store_path(tmp_path)}"
    copy = tmp_path / "copy.db"
    assert main(["verify", "--store", store]) == 0
    assert "1 pools and 20 decisions: 0 differ from the rows" in capsys.readouterr().out
    assert main(["backup", str(copy), "--store", store]) == 0
    assert "MB copied" in capsys.readouterr().out
    assert main(["restore", str(copy), "--store", f"sqlite:///{tmp_path / 'new.db'}"]) == 0
    assert "1 pools, 20 decisions, verified" in capsys.readouterr().out
    with closing(sqlite3.connect(tmp_path / "new.db")) as connection, connection:
        connection.execute("UPDATE page_counters SET clicks = 7")
    assert main(["verify", "--store", f"sqlite:///{tmp_path / 'new.db'}"]) == 1
    assert "home (policy): clicks is 7, the rows say 10" in capsys.readouterr().out
    assert main(["verify", "--store", str(tmp_path / "nothing.db")]) == 2
    assert "there is no store at" in capsys.readouterr().err
