"""Records to rows and back, derived from the record types and the columns of their tables.

A column holds the field of its name. A record of an event shares its row with the event. Plain
values stand as they are, everything else as JSON text. Only the page of a decision is packed
differently: floor, links and what goes with them make one column, which is read only as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec.structs import astuple
from sqlalchemy import Table

from slotwise.errors import UnsupportedState
from slotwise.service.counting.views import StoredAdjustment, StoredClick, StoredConversion
from slotwise.service.records import (
    ChangeRecord,
    DecisionRecord,
    FloorReport,
    FloorStatus,
    KeyRecord,
    LinkRecord,
    PoolSettings,
    ShownLink,
)
from slotwise.service.storage import schema
from slotwise.service.storage.commands import Learned, Refusal

__all__ = [
    "ADJUSTMENTS",
    "CHANGES",
    "CLICKS",
    "CONVERSIONS",
    "DECISIONS",
    "KEYS",
    "LEARNED",
    "LINKS",
    "PAGE_FORMAT",
    "POOLS",
    "REFUSALS",
    "Row",
    "row_columns",
]

Row = Sequence[Any]
Record = TypeVar("Record", bound=msgspec.Struct)

PAGE_FORMAT = 3
"""How `decisions.page` is written now; each row says in which format it is."""
PLAIN_FORMAT = 2
"""The same without the last fields, for a page of which they say nothing."""

N_PAGE_FIELDS = 7
N_PLAIN_FIELDS = 4
"""Fields of a decision that are in `page`, from `floor` on; older rows may lack the last ones."""

_encode_json = msgspec.json.Encoder().encode


def row_columns(table: Table) -> list[str]:
    """Return the columns that a row gives: all but a number that the engine counts up."""
    return [column.name for column in table.columns if column.name != "seq"]


def _json(value: object) -> str:
    return _encode_json(value).decode()


class Rows(Generic[Record]):
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
        self._check_columns(names, row_columns(table))

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


class _ShownAsObject(msgspec.Struct):
    """A shown link as some versions wrote it in format 1."""

    link_id: str
    position: int
    propensity: float


class _Page(msgspec.Struct, array_like=True, frozen=True):
    floor: tuple[float, float, float, FloorStatus]
    shown: tuple[ShownLink, ...]
    min_propensity: float = 0.0
    pool_key: int = 0
    visitor: dict[str, str] = {}
    segment: dict[str, str] = {}
    random_order: bool = False


class _FirstPage(msgspec.Struct, array_like=True):
    floor: tuple[float, float, float, FloorStatus]
    shown: tuple[tuple[str, int, float] | _ShownAsObject, ...]


class _DecisionRows(Rows[DecisionRecord]):
    """The fields of a page are one column; a last one has the format it is written in."""

    _N_BEFORE = DecisionRecord.__struct_fields__.index("floor")
    _decode_page = msgspec.json.Decoder(_Page).decode
    _decode_first_page = msgspec.json.Decoder(_FirstPage).decode

    def row(self, record: DecisionRecord) -> Row:
        """Return the columns of a decision."""
        fields = astuple(record)
        n = self._N_BEFORE
        is_plain = not (record.segment or record.random_order)
        n_fields = N_PLAIN_FIELDS if is_plain else N_PAGE_FIELDS
        page = _json((astuple(record.floor), *fields[n + 1 : n + n_fields]))
        page_format = PLAIN_FORMAT if is_plain else PAGE_FORMAT
        return (*fields[:n], page, *fields[n + N_PAGE_FIELDS :], page_format)

    def record(self, row: Row) -> DecisionRecord:
        """Return the decision of a row; what follows the row's own columns is ignored."""
        n = self._N_BEFORE
        *rest, learned, key_id, page_format = row[n + 1 : n + 8]
        rest[0] = bool(rest[0])
        try:
            page = self._page(row[n], page_format)
        except msgspec.MsgspecError as error:
            raise UnsupportedState(f"the row of decision {row[0]} is damaged: {error}") from error
        floor, *others = astuple(page)
        last = (*rest, bool(learned), key_id)
        fields: list[Any] = [*row[:n], FloorReport(*floor), *others, *last]
        return DecisionRecord(*fields)

    def _page(self, text: str, page_format: int) -> _Page:
        if page_format in (PLAIN_FORMAT, PAGE_FORMAT):
            return self._decode_page(text)
        if page_format != 1:
            raise UnsupportedState(
                f"a decision has row format {page_format}, this version of slotwise knows up to "
                f"{PAGE_FORMAT}; use the version that wrote it, or a newer one"
            )
        first = self._decode_first_page(text)
        shown = tuple(
            ShownLink(*link)
            if isinstance(link, tuple)
            else ShownLink(link.link_id, link.position, link.propensity)
            for link in first.shown
        )
        return _Page(first.floor, shown)

    def _check_columns(self, fields: Sequence[str], columns: Sequence[str]) -> None:
        n = self._N_BEFORE
        packed = [*fields[:n], "page", *fields[n + N_PAGE_FIELDS :]]
        super()._check_columns([*packed, "format"], columns)


POOLS = Rows(PoolSettings, schema.pools)
LINKS = Rows(LinkRecord, schema.links)
KEYS = Rows(KeyRecord, schema.keys)
CHANGES = Rows(ChangeRecord, schema.changes)
DECISIONS = _DecisionRows(DecisionRecord, schema.decisions)
CLICKS = Rows(StoredClick, schema.clicks)
CONVERSIONS = Rows(StoredConversion, schema.conversions)
ADJUSTMENTS = Rows(StoredAdjustment, schema.adjustments)
REFUSALS = Rows(Refusal, schema.refusals)
LEARNED = Rows(Learned, schema.learned)
