"""The schema's history: one file in `versions/` for each change since the first release.

A new store gets the tables of `slotwise.service.storage.schema` at once, an older one is migrated.
A new version is written by hand; the test that compares the migrated schema with that file says
what it still lacks. Stores of the last development version before the first release, `v0010`, are
taken over by `_take_over`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    inspect,
    text,
)

from slotwise.errors import UnsupportedState
from slotwise.service.storage.schema import OLDEST_SCHEMA, SCHEMA_VERSION, metadata

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

FIRST_RELEASE = "v0011"
LAST_BEFORE_RELEASE = "v0010"
NEW_TABLES = {"ended_sessions", "floor_counters", "purged_floor_counters"}
NEW_COLUMNS = {"pools": {"rules"}, "links": {"link_group", "starts_us", "ends_us"}}
"""Tables and columns that were added after the first release."""


def present_version(connection: Connection) -> str | None:
    """Return the version of the schema in a database, None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def is_newer_but_fits(connection: Connection, version: str | None) -> bool:
    """Say whether a newer release left the schema in a state that this one can use."""
    if version is None or version < SCHEMA_VERSION:
        return False
    oldest = connection.execute(text("SELECT oldest_schema FROM store_clock")).scalar()
    return bool(oldest) and str(oldest) <= SCHEMA_VERSION


def upgrade(connection: Connection) -> None:
    """Bring a database, empty or of any released version, to the present schema."""
    version = present_version(connection)
    if version == SCHEMA_VERSION or is_newer_but_fits(connection, version):
        return
    if version is None:
        _create(connection)
    else:
        _migrate(connection, version)
    connection.execute(text("UPDATE store_clock SET oldest_schema = :it"), {"it": OLDEST_SCHEMA})


def _create(connection: Connection) -> None:
    """Create the tables in an empty database, and the one from which Alembic reads the version."""
    metadata.create_all(connection)
    connection.execute(text("INSERT INTO store_clock VALUES (1, 0, 0, 0, 0, '', '')"))
    versions = Table(
        "alembic_version",
        MetaData(),
        Column("version_num", String(32), nullable=False),
        PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
    )
    versions.create(connection)
    connection.execute(versions.insert().values(version_num=SCHEMA_VERSION))


def _migrate(connection: Connection, version: str) -> None:
    """Bring the tables of an earlier version to the present ones."""
    if version == LAST_BEFORE_RELEASE:
        _take_over(connection)
        version = FIRST_RELEASE
    elif version < FIRST_RELEASE:
        raise UnsupportedState(
            f"the store has schema {version} of an unreleased development version of slotwise and "
            "cannot be opened; export its pools with that version"
        )
    # Loading Alembic takes longer than a start that needs no migration.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext

    scripts = migration_scripts()
    if version not in {script.revision for script in scripts.walk_revisions()}:
        raise UnsupportedState(
            f"the store has schema {version}, this version of slotwise knows up to "
            f"{SCHEMA_VERSION}; use the version that wrote it, or a newer one"
        )
    context = EnvironmentContext(
        Config(), scripts, fn=lambda revision, _: scripts._upgrade_revs("head", revision)
    )
    with context:
        context.configure(connection=connection, target_metadata=metadata)
        with context.begin_transaction():
            context.run_migrations()


def migration_scripts() -> ScriptDirectory:
    """Return the migrations that are part of this package."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(Path(__file__).parent))


def _take_over(connection: Connection) -> None:
    """Turn a store of `v0010` into one of the first release, whose tables are the same.

    That version numbered pages and published versions 2 where they say nothing of segments, and 3
    otherwise; both are read alike.
    """
    run = connection.execute
    run(text("UPDATE decisions SET format = 3 WHERE format = 2"))
    is_earlier = run(text("SELECT 1 FROM decisions WHERE format <> 3 LIMIT 1")).scalar()
    for pool_id, stored in run(text("SELECT pool_id, published FROM learned")).fetchall():
        published = msgspec.msgpack.decode(stored)
        is_earlier = is_earlier or published.get("format") not in (2, 3)
        changed = msgspec.msgpack.encode({**published, "format": 3})
        update = text("UPDATE learned SET published = :changed WHERE pool_id = :pool_id")
        run(update, {"changed": changed, "pool_id": pool_id})
    found = inspect(connection)
    for table in metadata.sorted_tables:
        if table.name in NEW_TABLES:
            continue
        has = found.get_columns(table.name) if found.has_table(table.name) else []
        expected = {*table.columns.keys()} - NEW_COLUMNS.get(table.name, set())
        is_earlier = is_earlier or {one["name"] for one in has} != expected
    if is_earlier:
        raise UnsupportedState(
            f"the store says schema {LAST_BEFORE_RELEASE}, but an earlier development version of "
            "slotwise wrote a part of it, and it cannot be opened; export its pools with that "
            "version"
        )
    run(text("UPDATE alembic_version SET version_num = :it"), {"it": FIRST_RELEASE})
