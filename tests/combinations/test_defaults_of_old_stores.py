"""Pools of older stores, and of replicas of an older release, have every default of the record."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from slotwise.service.records import PoolSettings
from slotwise.service.storage.schema import COLUMN_OF
from slotwise.service.storage.sqlite import SqliteStore
from tests.stores.store_rows import reads

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("store-*.db"))

FIELDS = {field.name: field for field in msgspec.structs.fields(PoolSettings)}
REQUIRED = [name for name, field in FIELDS.items() if field.required]


def default_of(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def columns(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {row[1] for row in connection.execute("PRAGMA table_info(pools)")}


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_settings_that_an_old_store_lacks_have_the_default_of_the_record(
    golden: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copy(golden, tmp_path / "store.db"))
    before = columns(path)
    lacking = [name for name in FIELDS if COLUMN_OF.get(name, name) not in before]
    store = SqliteStore(path)  # migrates
    pools = reads(store).pools()
    store.close()
    assert len(pools) == 2
    for pool in pools:
        for name in lacking:
            assert getattr(pool, name) == default_of(FIELDS[name]), name


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_a_pool_written_without_the_optional_settings_has_their_defaults(
    golden: Path, tmp_path: Path
) -> None:
    """As a replica of an older release writes it, which does not know the newer columns."""
    path = Path(shutil.copy(golden, tmp_path / "store.db"))
    SqliteStore(path).close()
    names = ", ".join(COLUMN_OF.get(name, name) for name in REQUIRED)
    values = names.replace("pool_id", "'sparse'", 1)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f"INSERT INTO pools ({names}) SELECT {values} FROM pools WHERE pool_id = 'home'"
        )
    store = SqliteStore(path)
    [pool] = [pool for pool in reads(store).pools() if pool.pool_id == "sparse"]
    store.close()
    for name, field in FIELDS.items():
        if not field.required:
            assert getattr(pool, name) == default_of(field), name
