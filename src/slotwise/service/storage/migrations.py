"""Bring a store to the present schema, one step for each change since the first release.

A new store gets the tables of `slotwise.service.storage.schema` at once, an older one is migrated.
Steps are written by hand, in SQL that both engines accept; a test compares the migrated tables with
that file. Used by `postgresql` and `sqlite`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from sqlalchemy import (
    Column,
    Connection,
    Dialect,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    false,
    inspect,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from slotwise.errors import UnsupportedState
from slotwise.service.storage.schema import OLDEST_SCHEMA, SCHEMA_VERSION, Id, metadata

_VERSIONS = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
FIRST_UPGRADED = "v0013"
"""The oldest schema that is upgraded; earlier ones were never released."""
STEPS = {
    "v0014": ("ALTER TABLE pools ADD COLUMN until_us BIGINT DEFAULT 0 NOT NULL",),
    "v0015": (
        "ALTER TABLE learned ADD COLUMN n_resets BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE learned ADD COLUMN needs_rows_us BIGINT DEFAULT 4611686018427387904 NOT NULL",
    ),
    "v0016": (
        "ALTER TABLE pools ADD COLUMN holdout_shows TEXT DEFAULT 'random' NOT NULL",
        "ALTER TABLE pools ADD COLUMN keep FLOAT DEFAULT 0.0 NOT NULL",
        "ALTER TABLE pools ADD COLUMN own_page_us BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE decisions ADD COLUMN is_own BOOLEAN DEFAULT {false} NOT NULL",
        "ALTER TABLE decisions ADD COLUMN chosen_share FLOAT DEFAULT 0.0 NOT NULL",
        "ALTER TABLE decisions ADD COLUMN own_share FLOAT DEFAULT 0.0 NOT NULL",
        *(
            f"CREATE TABLE {name} (pool_id {{id}} NOT NULL, since_us BIGINT NOT NULL, "
            "chosen_share FLOAT NOT NULL, own_share FLOAT NOT NULL, "
            "page_group VARCHAR(16) NOT NULL, click_views BIGINT DEFAULT 0 NOT NULL, "
            "clicks BIGINT DEFAULT 0 NOT NULL, clicks_squared BIGINT DEFAULT 0 NOT NULL, "
            "revenue_views BIGINT DEFAULT 0 NOT NULL, revenue_micros BIGINT DEFAULT 0 NOT NULL, "
            f"revenue_squared BIGINT DEFAULT 0 NOT NULL, CONSTRAINT pk_{name} "
            "PRIMARY KEY (pool_id, since_us, chosen_share, own_share, page_group))"
            for name in ("share_counters", "purged_share_counters")
        ),
    ),
}
"""The statements that lead to each later version, oldest first.

A new column has the default of its field in the record: rows of earlier releases, and rows that
replicas of the previous release write meanwhile, then mean what they meant before.
"""


def _in_words_of(dialect: Dialect, statement: str) -> str:
    """Return a statement with what the engines write differently."""
    no = str(false().compile(dialect=dialect))
    return statement.replace("{id}", Id.compile(dialect)).replace("{false}", no)


def present_version(connection: Connection) -> str | None:
    """Return the version of the schema in a database, None for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def is_newer_but_fits(connection: Connection, version: str | None) -> bool:
    """Return whether a newer release left the schema in a state that this one can use."""
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
    """Create the tables in an empty database, and the table with the version."""
    present = set(inspect(connection).get_table_names())
    make_dialect: Callable[[], Dialect] = type(connection.dialect)
    for table, statements in _statements_of_tables(make_dialect):
        for statement in statements if table not in present else ():
            connection.exec_driver_sql(statement)
    connection.execute(text("INSERT INTO store_clock VALUES (1, 0, 0, 0, 0, '', '')"))
    connection.execute(_VERSIONS.insert().values(version_num=SCHEMA_VERSION))


@functools.cache
def _statements_of_tables(
    make_dialect: Callable[[], Dialect],
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the names of all tables with what creates them and their indexes, in order.

    The same as `metadata.create_all`, which compiles the statements at each call: half of the time
    in which a new store is opened.
    """
    dialect, found = make_dialect(), []
    for table in (*metadata.sorted_tables, _VERSIONS):
        indexes = sorted(table.indexes, key=lambda index: str(index.name))
        parts: list[CreateTable | CreateIndex] = [CreateTable(table), *map(CreateIndex, indexes)]
        found.append((table.name, tuple(str(part.compile(dialect=dialect)) for part in parts)))
    return tuple(found)


def _migrate(connection: Connection, version: str) -> None:
    """Bring the tables of an earlier version to the present ones."""
    if version < FIRST_UPGRADED:
        raise UnsupportedState(
            f"the store has schema {version} of an unreleased development version of slotwise and "
            "cannot be opened; export its pools with that version"
        )
    if version not in (FIRST_UPGRADED, *STEPS):
        raise UnsupportedState(
            f"the store has schema {version}, this version of slotwise knows up to "
            f"{SCHEMA_VERSION}; use the version that wrote it, or a newer one"
        )
    for step, statements in STEPS.items():
        for statement in statements if step > version else ():
            connection.execute(text(_in_words_of(connection.dialect, statement)))
    connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": SCHEMA_VERSION})
