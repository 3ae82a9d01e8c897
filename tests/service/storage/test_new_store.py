"""A new store has the tables and indexes that SQLAlchemy makes of the schema."""

from __future__ import annotations

from sqlalchemy import create_engine, text
from sqlalchemy.engine import Connection

from slotwise.service.storage.migrations import upgrade
from slotwise.service.storage.schema import metadata


def parts_of(connection: Connection) -> set[tuple[str, ...]]:
    rows = connection.execute(text("SELECT type, name, tbl_name, sql FROM sqlite_master"))
    return {tuple(" ".join(str(part).split()) for part in row) for row in rows}


def test_a_new_store_has_all_tables_and_indexes() -> None:
    with create_engine("sqlite://").connect() as made:
        upgrade(made)
        found = parts_of(made)
    with create_engine("sqlite://").connect() as expected:
        metadata.create_all(expected)
        wanted = parts_of(expected)
    assert len(wanted) > 20
    assert wanted <= found
    assert {name for _, _, name, _ in found - wanted} == {"alembic_version"}
