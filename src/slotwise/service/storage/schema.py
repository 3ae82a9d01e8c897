"""The tables for all SQL engines; `slotwise.service.storage.migrations` creates them.

Raw rows (decisions, clicks, conversions, adjustments) are inserted, never changed (except `learned`
of a decision that is excluded), and deleted by a purge: what they added to the counters is then in
the purged counters. Their primary keys are the identities of the counting rules, so duplicates
cannot be inserted. Counters are sums over raw rows and change in the transaction that stores or
folds the rows. The columns of a table are the fields of its record, in their order. Used by most of
`storage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import sqlalchemy as sa
from msgspec.structs import astuple
from sqlalchemy import BigInteger, Index, Integer, String, Table, Text

from slotwise.errors import UnsupportedState
from slotwise.service.counting.attribution import (
    LinkCounters,
    PageCounters,
    StoredAdjustment,
    StoredClick,
    StoredConversion,
)
from slotwise.service.records import (
    ChangeRecord,
    DecisionRecord,
    FloorState,
    FloorStatus,
    KeyRecord,
    LinkRecord,
    PoolSettings,
    ShownLink,
)
from slotwise.service.storage.contract import Learned, Refusal

SCHEMA_VERSION = "v0016"
"""The migration that this code needs: the newest one in `slotwise.service.storage.migrations`."""
OLDEST_SCHEMA = "v0013"
"""The oldest code that may use this schema, by the migration it knows.

Columns with a default and new tables do not change it: replicas of the previous release work next
to new ones. A migration that changes or removes a column or table raises it.
"""

metadata = sa.MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "ck": "ck_%(table_name)s_%(constraint_name)s"}
)

Id = String(64).with_variant(String(64, collation="C"), "postgresql")
"""Sorted by bytes, as Python and SQLite do: the order of folding depends on it."""
SequenceNumber = BigInteger().with_variant(Integer, "sqlite")
"""SQLite increments a primary key only if its type is exactly INTEGER."""

_BY_HINT: dict[Any, Any] = {
    bool: sa.Boolean,
    float: sa.Float,
    int: BigInteger,
    bytes: sa.LargeBinary,
}
_SMALL = ("slots", "place", "level", "only", "format")
_BY_NAME: dict[str, Any] = {"currency": String(3), **dict.fromkeys(_SMALL, Integer)}

PAGE_FORMAT = 3
"""Format of `decisions.page`; each row contains the number of its format."""
N_PAGE_FIELDS = 7
"""Fields of a decision that are in `page`, from `floor` on."""

COLUMN_OF = {
    "segment_floors": "floors_by",
    "group": "link_group",
    "own_page": "fallback_order",
}
"""Columns with another name than their field; `group` is reserved in SQL, and replicas of the
previous release, which run next to new ones during an upgrade, know the own page as
`fallback_order`."""


_encode_json = msgspec.json.Encoder().encode

_WAITED = {"waited": bool}
COUNTED = {
    "links": "link",
    "pages": "page",
    "visitors": "visitor",
    "delivered": "floor",
    "compared": "share",
}
"""The fields of `Counters`, and the prefixes of their tables' names."""
_CLOCK = dict.fromkeys(("closed_until_us", "latest_us", "n_resets", "learner_epoch"), int)


def _json(value: object) -> str:
    return _encode_json(value).decode()


def _fields(record: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the fields of a record with their types; an event's are in the row of its record."""
    hints = get_type_hints(record)
    fields = {name: hints[name] for name in record.__struct_fields__}
    return _fields(fields.pop("event")) | fields if "event" in fields else fields


def _decision_fields() -> dict[str, object]:
    fields = list(_fields(DecisionRecord).items())
    n = DecisionRecord.__struct_fields__.index("floor")
    return dict([*fields[:n], ("page", str), *fields[n + N_PAGE_FIELDS :], ("format", int)])


def _default(hint: Any, value: Any) -> Any:
    """Return the default of a column, for rows of earlier releases: that of the record's field.

    A field without a default has the empty value of its type.
    """
    if value is msgspec.NODEFAULT:
        value = (get_origin(hint) or hint)() if hint is not str else ""
    if isinstance(value, bool):
        return sa.true() if value else sa.false()
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str) else _json(value)


def _field_default(record: type[msgspec.Struct] | None, name: str) -> Any:
    """Return the default of a record's field, or `NODEFAULT`."""
    for field in msgspec.structs.fields(record) if record is not None else ():
        if field.name == name:
            has_factory = field.default_factory is not msgspec.NODEFAULT
            return field.default_factory() if has_factory else field.default
    return msgspec.NODEFAULT


def _table(
    name: str,
    key: str,
    fields: Mapping[str, Any] | type[msgspec.Struct],
    *parts: Index | sa.CheckConstraint,
    **kinds: Any,
) -> Table:
    """Return a table with a column for each field, of a record or given by name and type.

    `key` are the names of the primary key; `seq` is a number that the engine increments. `kinds`
    are types of columns that do not follow from the field's name and type.
    """
    columns: list[sa.Column[Any]] = []
    record = fields if isinstance(fields, type) else None
    if key == "seq":
        columns.append(sa.Column("seq", SequenceNumber, primary_key=True))
    for field, hint in (_fields(fields) if isinstance(fields, type) else fields).items():
        kind = kinds.get(field) or _BY_NAME.get(field) or _BY_HINT.get(hint)
        if kind is None:
            kind = Id if field.endswith("_id") else Text
        is_key = field in key.split()
        nullable = not is_key and type(None) in get_args(hint)
        value = _field_default(record, field)
        default = None if is_key or nullable else _default(hint, value)
        column = COLUMN_OF.get(field, field)
        columns.append(
            sa.Column(column, kind, primary_key=is_key, nullable=nullable, server_default=default)
        )
    return Table(name, metadata, *columns, *parts)


pools = _table("pools", "pool_id", PoolSettings)
links = _table(
    "links",
    "pool_id link_id",
    LinkRecord,
    Index("ix_links_place", "pool_id", "place", unique=True),
)
keys = _table("keys", "key_id", KeyRecord, pool_id=Text)
changes = _table("changes", "seq", ChangeRecord, Index("ix_changes_subject", "subject", "seq"))
ended_sessions = _table(
    "ended_sessions",
    "seq",
    {"session_id": str, "ends_us": int},
    Index("ix_ended_sessions_id", "session_id", unique=True),
    Index("ix_ended_sessions_ends", "ends_us"),
)
decisions = _table(
    "decisions",
    "seq",
    _decision_fields(),
    Index("ix_decisions_id", "decision_id", unique=True),
    Index("ix_decisions_click_closes", "pool_id", "click_closes_us", "decision_id"),
    Index("ix_decisions_revenue_closes", "pool_id", "revenue_closes_us", "decision_id"),
    key_id=Text,
)
clicks = _table("clicks", "decision_id link_id invalid", _fields(StoredClick) | _WAITED, invalid=Id)
conversions = _table(
    "conversions",
    "conversion_id",
    _fields(StoredConversion) | _WAITED,
    sa.CheckConstraint("revenue_micros >= 0", name="not_negative"),
    Index("ix_conversions_decision", "decision_id"),
)
adjustments = _table(
    "adjustments",
    "adjustment_id",
    _fields(StoredAdjustment) | _WAITED,
    sa.CheckConstraint("refund_micros >= 0", name="not_negative"),
    Index("ix_adjustments_conversion", "conversion_id"),
)
for _events in (clicks, conversions, adjustments):
    # Few rows waited for their decision; counting those that still wait must not read all.
    Index(
        f"ix_{_events.name}_waited",
        _events.c.waited,
        sqlite_where=sa.text("waited = 1"),
        postgresql_where=sa.text("waited"),
    )
refusals = _table(
    "refusals",
    "decision_id kind event_id reason",
    Refusal,
    kind=String(16),
    reason=String(64),
)


def _counters(kind: str, key: Mapping[str, object], sums: type[msgspec.Struct]) -> None:
    """Add the table of some counters, and the table of what purged views had added to them."""
    fields = {"pool_id": str} | dict(key) | _fields(sums)
    kinds = {"page_group": String(16), "feature": Id}
    for name in (f"{kind}_counters", f"purged_{kind}_counters"):
        _table(name, " ".join(["pool_id", *key]), fields, **kinds)


_counters("link", {"link_id": str, "page_group": str}, LinkCounters)
_counters("page", {"page_group": str}, PageCounters)
_counters("visitor", {"feature": str, "value": str, "page_group": str}, PageCounters)
_counters(
    "floor",
    {"feature": str, "value": str, "click_floor": float, "slots": int, "since_us": int},
    PageCounters,
)
_counters(
    "share",
    {"since_us": int, "chosen_share": float, "own_share": float, "page_group": str},
    PageCounters,
)


def counter_columns(field: str, key: Any) -> tuple[object, ...]:
    """Return a key of `Counters` as columns of a row, the group last."""
    if field == "delivered":
        return tuple(key)
    group, *rest = (key,) if field == "pages" else key
    return (*rest, group)


def counter_key(field: str, columns: Sequence[object]) -> Any:
    """Return the key of a row; the inverse of `counter_columns`."""
    if field == "delivered":
        return tuple(columns)
    *rest, group = columns
    return (group, *rest) if rest else group


fold_positions = _table(
    "fold_positions",
    "pool_id level",
    {"pool_id": str, "level": int, "closes_us": int, "decision_id": str},
)
learned = _table("learned", "pool_id", Learned)
store_clock = _table(
    "store_clock",
    "only",
    {"only": int, **_CLOCK, "oldest_schema": str, "moving_from": str},
    sa.CheckConstraint('"only" = 1', name="one_row"),
)
store_clock.c.only.autoincrement = False


# Plain values are stored as they are, everything else as JSON text. Only the page of a decision is
# packed: floor, links and related fields form one column, which is only read as a whole.


Row = Sequence[Any]
Record = TypeVar("Record", bound=msgspec.Struct)


def row_columns(table: Table) -> list[str]:
    """Return the columns of an inserted row: all but a number that the engine increments."""
    return [column.name for column in table.columns if column.name != "seq"]


class TableRows(Generic[Record]):
    """The rows of one record type: its fields in their order, an event's before its record's."""

    def __init__(self, record_type: type[Record]) -> None:
        self._record_type = record_type
        self._event_type: type[msgspec.Struct] | None = get_type_hints(record_type).get("event")
        hints = list(_fields(record_type).values())
        self._n_event = len(hints) - 1
        decoders = [(place, _decoder(hint)) for place, hint in enumerate(hints)]
        self._decoders = [(place, decode) for place, decode in decoders if decode is not None]
        self._encoded = [place for place, decode in self._decoders if decode is not bool]

    def row(self, record: Record) -> Row:
        """Return the columns of a record."""
        if self._event_type is not None:
            event, received_us = astuple(record)
            return (*astuple(event), received_us)
        if not self._encoded:
            return astuple(record)
        row = list(astuple(record))
        for place in self._encoded:
            row[place] = _json(row[place])
        return row

    def record(self, row: Row) -> Record:
        """Return the record of a row; further columns of an event's row are ignored."""
        if self._event_type is not None:
            n_event = self._n_event
            return self._record_type(self._event_type(*row[:n_event]), row[n_event])
        if self._decoders:
            row = list(row)
            for place, decode in self._decoders:
                row[place] = decode(row[place])
        return self._record_type(*row)


def _decoder(hint: object) -> Callable[[Any], Any] | None:
    if hint is bool:
        return bool
    return msgspec.json.Decoder(hint).decode if get_origin(hint) in (tuple, dict) else None


class _Page(msgspec.Struct, array_like=True, frozen=True):
    floor: tuple[float, float, float, FloorStatus]
    shown: tuple[ShownLink, ...]
    min_propensity: float
    pool_key: int
    visitor: dict[str, str]
    segment: dict[str, str]
    random_order: bool


_decode_page = msgspec.json.Decoder(_Page).decode


def links_on(pages: Iterable[str]) -> Iterator[str]:
    """Yield the links of stored pages."""
    return (link.link_id for page in pages for link in _decode_page(page).shown)


class _DecisionRows(TableRows[DecisionRecord]):
    """The fields of a page are one column; the last column has its format."""

    _N_BEFORE = DecisionRecord.__struct_fields__.index("floor")

    def row(self, record: DecisionRecord) -> Row:
        """Return the columns of a decision."""
        fields = astuple(record)
        n = self._N_BEFORE
        page = _json((astuple(record.floor), *fields[n + 1 : n + N_PAGE_FIELDS]))
        return (*fields[:n], page, *fields[n + N_PAGE_FIELDS :], PAGE_FORMAT)

    def record(self, row: Row) -> DecisionRecord:
        """Return the decision of a row; what follows the row's own columns is ignored."""
        n = self._N_BEFORE
        *rest, learned, key_id, is_own, chosen, own, page_format = row[n + 1 : n + 11]
        rest[0] = bool(rest[0])
        if page_format != PAGE_FORMAT:
            raise UnsupportedState(
                f"a decision has row format {page_format}, this version of slotwise knows "
                f"{PAGE_FORMAT}; use the version that wrote it"
            )
        try:
            page = _decode_page(row[n])
        except msgspec.MsgspecError as error:
            raise UnsupportedState(f"the row of decision {row[0]} is damaged: {error}") from error
        floor, *others = astuple(page)
        last = (*rest, bool(learned), key_id, bool(is_own), chosen, own)
        fields: list[Any] = [*row[:n], FloorState(*floor), *others, *last]
        return DecisionRecord(*fields)


POOLS = TableRows(PoolSettings)
LINKS = TableRows(LinkRecord)
KEYS = TableRows(KeyRecord)
CHANGES = TableRows(ChangeRecord)
DECISIONS = _DecisionRows(DecisionRecord)
CLICKS = TableRows(StoredClick)
CONVERSIONS = TableRows(StoredConversion)
ADJUSTMENTS = TableRows(StoredAdjustment)
REFUSALS = TableRows(Refusal)
LEARNED = TableRows(Learned)
