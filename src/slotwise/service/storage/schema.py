"""The tables, once, for every SQL engine; `slotwise.service.storage.migrations` builds them.

Raw rows (decisions, clicks, conversions, adjustments) are inserted, never changed (but for
`learned` of a decision that is forgotten), and dropped when they are purged: what they added to
the counters is then in the purged counters. Their primary
keys are the identities of the counting rules, so a second copy cannot enter. Counters are
sums over raw rows and change in the transaction that stores or folds the rows. The columns of
a table stand in the order of its record's fields; `slotwise.service.storage.schema` relies on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec.structs import astuple
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
    text,
)

from slotwise.errors import UnsupportedState
from slotwise.service.counting.attribution import StoredAdjustment, StoredClick, StoredConversion
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

SCHEMA_VERSION = "v0012"
"""The migration that this code needs: the newest one in `slotwise.service.storage.migrations`."""
OLDEST_SCHEMA = "v0011"
"""The oldest code that may use this schema, by the migration it knows.

Columns with a default and new tables leave it as it is: replicas of the release before go on
beside a new one. A migration that changes or removes what is there moves it.
"""

metadata = MetaData(
    naming_convention={"pk": "pk_%(table_name)s", "ck": "ck_%(table_name)s_%(constraint_name)s"}
)

Id = String(64).with_variant(String(64, collation="C"), "postgresql")
"""Sorted by bytes, as Python and SQLite do: the order of folding depends on it."""
SequenceNumber = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up only a primary key of the very type INTEGER."""

pools = Table(
    "pools",
    metadata,
    Column("pool_id", Id, primary_key=True),
    Column("slots", Integer, nullable=False),
    Column("click_floor", Float, nullable=False),
    Column("max_revenue_micros", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("click_window_s", BigInteger, nullable=False),
    Column("revenue_window_s", BigInteger, nullable=False),
    Column("policy", Text, nullable=False),
    Column("policy_settings", Text, nullable=False),
    Column("holdout", Float, nullable=False),
    Column("fallback_order", Text, nullable=False),
    Column("allowed_hosts", Text, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
    Column("pins", Text, nullable=False, server_default="[]"),
    Column("explore", Float, nullable=False, server_default="0"),
    Column("features", Text, nullable=False, server_default="{}"),
    Column("slot_weights", Text, nullable=False, server_default="[]"),
    Column("learn_slot_weights", Boolean, nullable=False, server_default=false()),
    Column("floors_by", Text, nullable=False, server_default="{}"),
)

links = Table(
    "links",
    metadata,
    Column("pool_id", Id, primary_key=True),
    Column("link_id", Id, primary_key=True),
    Column("url", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("retired", Boolean, nullable=False),
    Column("place", Integer, nullable=False),
    Column("counted_from_us", BigInteger, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
    Column("metadata", Text, nullable=False, server_default="{}"),
    Column("known", Text, nullable=False, server_default="[]"),
    Column("known_us", BigInteger, nullable=False, server_default="0"),
    Index("ix_links_place", "pool_id", "place", unique=True),
)

keys = Table(
    "keys",
    metadata,
    Column("key_id", Id, primary_key=True),
    Column("key_hash", Text, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("revoked_us", BigInteger, nullable=False),
    Column("pool_id", Text, nullable=False, server_default=""),
)

changes = Table(
    "changes",
    metadata,
    Column("seq", SequenceNumber, primary_key=True),
    Column("changed_us", BigInteger, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Index("ix_changes_subject", "subject", "seq"),
)

ended_sessions = Table(
    "ended_sessions",
    metadata,
    Column("seq", SequenceNumber, primary_key=True),
    Column("session_id", Id, nullable=False),
    Column("ends_us", BigInteger, nullable=False),
    Index("ix_ended_sessions_id", "session_id", unique=True),
    Index("ix_ended_sessions_ends", "ends_us"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("seq", SequenceNumber, primary_key=True),
    Column("decision_id", Id, nullable=False),
    Column("pool_id", Id, nullable=False),
    Column("issued_us", BigInteger, nullable=False),
    Column("click_closes_us", BigInteger, nullable=False),
    Column("revenue_until_us", BigInteger, nullable=False),
    Column("revenue_closes_us", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("max_revenue_micros", BigInteger, nullable=False),
    Column("policy", Text, nullable=False),
    Column("policy_version", BigInteger, nullable=False),
    Column("page", Text, nullable=False),
    Column("holdout", Boolean, nullable=False),
    Column("fallback", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("stored_us", BigInteger, nullable=False),
    Column("learned", Boolean, nullable=False),
    Column("key_id", Text, nullable=False, server_default=""),
    Column("format", Integer, nullable=False, server_default="1"),
    Index("ix_decisions_id", "decision_id", unique=True),
    Index("ix_decisions_click_closes", "pool_id", "click_closes_us", "decision_id"),
    Index("ix_decisions_revenue_closes", "pool_id", "revenue_closes_us", "decision_id"),
)

clicks = Table(
    "clicks",
    metadata,
    Column("decision_id", Id, primary_key=True),
    Column("link_id", Id, primary_key=True),
    Column("invalid", Id, primary_key=True),
    Column("client_time", Text),
    Column("received_us", BigInteger, nullable=False),
    Column("waited", Boolean, nullable=False),
)

conversions = Table(
    "conversions",
    metadata,
    Column("conversion_id", Id, primary_key=True),
    Column("decision_id", Id, nullable=False),
    Column("link_id", Id, nullable=False),
    Column("revenue_micros", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("client_time", Text),
    Column("received_us", BigInteger, nullable=False),
    Column("waited", Boolean, nullable=False),
    CheckConstraint("revenue_micros >= 0", name="not_negative"),
    Index("ix_conversions_decision", "decision_id"),
)

adjustments = Table(
    "adjustments",
    metadata,
    Column("adjustment_id", Id, primary_key=True),
    Column("conversion_id", Id, nullable=False),
    Column("refund_micros", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("client_time", Text),
    Column("received_us", BigInteger, nullable=False),
    Column("waited", Boolean, nullable=False),
    CheckConstraint("refund_micros >= 0", name="not_negative"),
    Index("ix_adjustments_conversion", "conversion_id"),
)

for _table in (clicks, conversions, adjustments):
    # Few rows waited for their decision; counting those that still do must not read all.
    Index(
        f"ix_{_table.name}_waited",
        _table.c.waited,
        sqlite_where=text("waited = 1"),
        postgresql_where=text("waited"),
    )

refusals = Table(
    "refusals",
    metadata,
    Column("decision_id", Id, primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("event_id", Id, primary_key=True),
    Column("reason", String(64), primary_key=True),
    Column("link_id", Id, nullable=False),
    Column("detail", Text, nullable=False),
    Column("received_us", BigInteger, nullable=False),
)

_LINK_SUMS = (
    "click_views",
    "clicks",
    "revenue_views",
    "revenue_micros",
    "late_clicks",
    "late_revenue_micros",
)
_PAGE_SUMS = (
    "click_views",
    "clicks",
    "clicks_squared",
    "revenue_views",
    "revenue_micros",
    "revenue_squared",
)


def _link_counters(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("pool_id", Id, primary_key=True),
        Column("link_id", Id, primary_key=True),
        Column("page_group", String(16), primary_key=True),
        *(Column(sums, BigInteger, nullable=False) for sums in _LINK_SUMS),
    )


def _page_counters(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("pool_id", Id, primary_key=True),
        Column("page_group", String(16), primary_key=True),
        *(Column(sums, BigInteger, nullable=False) for sums in _PAGE_SUMS),
    )


def _visitor_counters(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("pool_id", Id, primary_key=True),
        Column("feature", Id, primary_key=True),
        Column("value", Text, primary_key=True),
        Column("page_group", String(16), primary_key=True),
        *(Column(sums, BigInteger, nullable=False) for sums in _PAGE_SUMS),
    )


def _floor_counters(name: str) -> Table:
    return Table(
        name,
        metadata,
        Column("pool_id", Id, primary_key=True),
        Column("feature", Id, primary_key=True),
        Column("value", Text, primary_key=True),
        Column("click_floor", Float, primary_key=True),
        Column("slots", Integer, primary_key=True),
        Column("since_us", BigInteger, primary_key=True),
        *(Column(sums, BigInteger, nullable=False) for sums in _PAGE_SUMS),
    )


link_counters = _link_counters("link_counters")
page_counters = _page_counters("page_counters")
purged_link_counters = _link_counters("purged_link_counters")
purged_page_counters = _page_counters("purged_page_counters")
visitor_counters = _visitor_counters("visitor_counters")
purged_visitor_counters = _visitor_counters("purged_visitor_counters")
floor_counters = _floor_counters("floor_counters")
purged_floor_counters = _floor_counters("purged_floor_counters")

fold_positions = Table(
    "fold_positions",
    metadata,
    Column("pool_id", Id, primary_key=True),
    Column("level", Integer, primary_key=True),
    Column("closes_us", BigInteger, nullable=False),
    Column("decision_id", Id, nullable=False),
)

learned = Table(
    "learned",
    metadata,
    Column("pool_id", Id, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("published", LargeBinary, nullable=False),
    Column("state", LargeBinary, nullable=False),
)

store_clock = Table(
    "store_clock",
    metadata,
    Column("only", Integer, primary_key=True, autoincrement=False),
    Column("closed_until_us", BigInteger, nullable=False),
    Column("latest_us", BigInteger, nullable=False),
    Column("n_resets", BigInteger, nullable=False),
    Column("learner_epoch", BigInteger, nullable=False, server_default="0"),
    Column("oldest_schema", Text, nullable=False, server_default=""),
    Column("moving_from", Text, nullable=False, server_default=""),
    CheckConstraint('"only" = 1', name="one_row"),
)


# A column holds the field of its name. A record of an event shares its row with the event. Plain
# values stand as they are, everything else as JSON text. Only the page of a decision is packed
# differently: floor, links and what goes with them make one column, which is read only as a whole.


Row = Sequence[Any]
Record = TypeVar("Record", bound=msgspec.Struct)

PAGE_FORMAT = 3
READ_FORMATS = (2, PAGE_FORMAT)
"""Replicas of the last version before the first release write 2, also after the migration."""
"""How `decisions.page` is written; each row says in which format it is."""

N_PAGE_FIELDS = 7
"""Fields of a decision that are in `page`, from `floor` on; a row may lack the last three."""

COLUMN_OF = {"segment_floors": "floors_by"}
"""The columns of fields that were renamed: replicas of the release before still read them."""

_encode_json = msgspec.json.Encoder().encode


def row_columns(table: Table) -> list[str]:
    """Return the columns that a row gives: all but a number that the engine counts up."""
    return [column.name for column in table.columns if column.name != "seq"]


def _json(value: object) -> str:
    return _encode_json(value).decode()


class TableRows(Generic[Record]):
    """The rows of one record type: its fields in their order, an event's before its record's."""

    def __init__(self, record_type: type[Record], table: Table) -> None:
        self._record_type = record_type
        hints = get_type_hints(record_type)
        self._event_type: type[msgspec.Struct] | None = hints.get("event")
        names = list(record_type.__struct_fields__)
        if self._event_type is not None:
            hints |= get_type_hints(self._event_type)
            names[:1] = self._event_type.__struct_fields__
        self._n_event = len(names) - 1
        decoders = [(place, _decoder(hints[name])) for place, name in enumerate(names)]
        self._decoders = [(place, decode) for place, decode in decoders if decode is not None]
        self._encoded = [place for place, decode in self._decoders if decode is not bool]
        self._check_columns([COLUMN_OF.get(name, name) for name in names], row_columns(table))

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
        """Return the record of a row; a row of an event may go on after it."""
        if self._event_type is not None:
            n_event = self._n_event
            return self._record_type(self._event_type(*row[:n_event]), row[n_event])
        if self._decoders:
            row = list(row)
            for place, decode in self._decoders:
                row[place] = decode(row[place])
        return self._record_type(*row)

    def _check_columns(self, fields: Sequence[str], columns: Sequence[str]) -> None:
        # Stored events also say whether they waited for their decision.
        if [name for name in columns if name != "waited"] != list(fields):
            raise TypeError(f"{self._record_type.__name__} has {fields}, its table {columns}")


def _decoder(hint: Any) -> Callable[[Any], Any] | None:
    if hint is bool:
        return bool
    return msgspec.json.Decoder(hint).decode if get_origin(hint) in (tuple, dict) else None


class _Page(msgspec.Struct, array_like=True, frozen=True):
    floor: tuple[float, float, float, FloorStatus]
    shown: tuple[ShownLink, ...]
    min_propensity: float
    pool_key: int
    visitor: dict[str, str] = {}
    segment: dict[str, str] = {}
    random_order: bool = False


class _DecisionRows(TableRows[DecisionRecord]):
    """The fields of a page are one column; a last one has the format it is written in."""

    _N_BEFORE = DecisionRecord.__struct_fields__.index("floor")
    _decode_page = msgspec.json.Decoder(_Page).decode

    def row(self, record: DecisionRecord) -> Row:
        """Return the columns of a decision."""
        fields = astuple(record)
        n = self._N_BEFORE
        page = _json((astuple(record.floor), *fields[n + 1 : n + N_PAGE_FIELDS]))
        return (*fields[:n], page, *fields[n + N_PAGE_FIELDS :], PAGE_FORMAT)

    def record(self, row: Row) -> DecisionRecord:
        """Return the decision of a row; what follows the row's own columns is ignored."""
        n = self._N_BEFORE
        *rest, learned, key_id, page_format = row[n + 1 : n + 8]
        rest[0] = bool(rest[0])
        if page_format not in READ_FORMATS:
            raise UnsupportedState(
                f"a decision has row format {page_format}, this version of slotwise knows "
                f"{PAGE_FORMAT}; use the version that wrote it"
            )
        try:
            page = self._decode_page(row[n])
        except msgspec.MsgspecError as error:
            raise UnsupportedState(f"the row of decision {row[0]} is damaged: {error}") from error
        floor, *others = astuple(page)
        last = (*rest, bool(learned), key_id)
        fields: list[Any] = [*row[:n], FloorState(*floor), *others, *last]
        return DecisionRecord(*fields)

    def _check_columns(self, fields: Sequence[str], columns: Sequence[str]) -> None:
        n = self._N_BEFORE
        packed = [*fields[:n], "page", *fields[n + N_PAGE_FIELDS :]]
        super()._check_columns([*packed, "format"], columns)


POOLS = TableRows(PoolSettings, pools)
LINKS = TableRows(LinkRecord, links)
KEYS = TableRows(KeyRecord, keys)
CHANGES = TableRows(ChangeRecord, changes)
DECISIONS = _DecisionRows(DecisionRecord, decisions)
CLICKS = TableRows(StoredClick, clicks)
CONVERSIONS = TableRows(StoredConversion, conversions)
ADJUSTMENTS = TableRows(StoredAdjustment, adjustments)
REFUSALS = TableRows(Refusal, refusals)
LEARNED = TableRows(Learned, learned)
