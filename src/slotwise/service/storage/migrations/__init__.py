"""The schema's history: one file in `versions/` for each change since the first release.

A new version is written by hand; the test that compares the migrated schema with
`slotwise.service.storage.schema` says what it still lacks.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from slotwise.errors import UnsupportedState
from slotwise.service.storage.schema import OLDEST_SCHEMA, SCHEMA_VERSION, metadata

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

__all__ = ["is_newer_but_fits", "migration_scripts", "present_version", "upgrade"]


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
    columns = {column["name"] for column in inspect(connection).get_columns("store_clock")}
    if "oldest_schema" not in columns:
        return False
    oldest = connection.execute(text("SELECT oldest_schema FROM store_clock")).scalar()
    return bool(oldest) and str(oldest) <= SCHEMA_VERSION


def upgrade(connection: Connection) -> str | None:
    """Bring a database, empty or of any released version, to the present schema.

    Returns the version that it had, None for an empty one.
    """
    version = present_version(connection)
    if version == SCHEMA_VERSION or is_newer_but_fits(connection, version):
        return version
    # Loading Alembic takes longer than a start that needs no migration.
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext

    scripts = migration_scripts()
    if version is not None and version not in {
        script.revision for script in scripts.walk_revisions()
    }:
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
    connection.execute(text("UPDATE store_clock SET oldest_schema = :it"), {"it": OLDEST_SCHEMA})
    return version


def migration_scripts() -> ScriptDirectory:
    """Return the migrations that are part of this package."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(Path(__file__).parent))
