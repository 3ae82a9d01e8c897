"""Reports: how a pool is doing, what its floor costs and why a link is shown."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from slotwise.service.api.bodies import Strict, Time, answer_type, as_answer, from_time
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.pools import ClickFloor
from slotwise.service.http.exchange import StreamAnswer
from slotwise.service.http.problems import broken_rule
from slotwise.service.records import DAY_US
from slotwise.service.reporting.decision_report import LogTables
from slotwise.service.reporting.report_records import (
    Explanation,
    FrontierReport,
    PoolReport,
    RoundRow,
)
from slotwise.service.reporting.reporter import EvaluationReport
from slotwise.service.reporting.segments import SegmentsReport


class ExplanationList(msgspec.Struct, frozen=True, kw_only=True):
    """Why each active link is shown as often as it is, and to which visitors."""

    pool_id: str
    links: tuple[Explanation, ...]
    segments: SegmentsReport


OPERATIONS = Operations()


@OPERATIONS.add("GET /v1/pools/{pool_id}/stats", "read", answer=answer_type(PoolReport))
async def stats(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Read estimates with intervals, the floor and what it costs."""
    return as_answer(
        await asyncio.to_thread(context.service.reporter.stats, request.path_values["pool_id"])
    )


@OPERATIONS.add(
    "GET /v1/pools/{pool_id}/frontier",
    "read",
    answer=answer_type(FrontierReport),
)
async def frontier(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Read the best revenue for every floor."""
    pool_id = request.path_values["pool_id"]
    return as_answer(await asyncio.to_thread(context.service.reporter.frontier, pool_id))


@OPERATIONS.add("GET /v1/pools/{pool_id}/explain", "read", answer=ExplanationList)
async def explain(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Read why each link is shown as often as it is, and to which visitors."""
    pool_id = request.path_values["pool_id"]
    service = context.service
    found = await asyncio.to_thread(service.reporter.explain, pool_id)
    segments = await asyncio.to_thread(service.reporter.segments, pool_id)
    return ExplanationList(pool_id=pool_id, links=tuple(found), segments=segments)


DEFAULT_DAYS = 30


class EvaluateQuery(Strict, frozen=True, kw_only=True):
    """Which floor, the pool's by default, and since when: the last 30 days by default."""

    click_floor: ClickFloor | UnsetType = UNSET
    since: Time | UnsetType = UNSET


EVALUATION_OPERATIONS = Operations()


@EVALUATION_OPERATIONS.add(
    "GET /v1/pools/{pool_id}/evaluate",
    "read",
    open_on_loopback=True,
    query=EvaluateQuery,
)
async def evaluate(context: ServiceContext, request: Request) -> EvaluationReport:
    """Ask the log what another floor would have earned."""
    query: EvaluateQuery = request.query
    pool = context.service.directory.pool(request.path_values["pool_id"])
    floor = pool.click_floor if query.click_floor is UNSET else query.click_floor
    if floor >= pool.slots:
        detail = f"`click_floor` must be below slots ({pool.slots}), got {floor:g}"
        raise broken_rule(detail, parameter="click_floor")
    since_us = (
        context.clock_us() - DEFAULT_DAYS * DAY_US
        if query.since is UNSET
        else from_time(query.since)
    )
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        context.evaluation_threads,
        context.service.reporter.evaluate,
        pool.pool_id,
        floor,
        since_us,
        query.since is UNSET,
    )


class ExportQuery(Strict, frozen=True, kw_only=True):
    """Which rounds, and in which form; times in RFC 3339.

    `log` is Parquet with a row for each link shown, as `slotwise evaluate` reads it.
    """

    format: Literal["jsonl", "parquet", "log"] = "jsonl"
    since: Time | UnsetType = UNSET
    until: Time | UnsetType = UNSET


_encode_lines = msgspec.json.Encoder().encode_lines
_CONTENT_TYPES = {
    "jsonl": b"application/jsonl",
    "parquet": b"application/vnd.apache.parquet",
    "log": b"application/vnd.apache.parquet",
}
_KINDS = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_KINDS |= {tuple[kind, ...]: pa.list_(_KINDS[kind]) for kind in (str, int, float)}  # type: ignore[valid-type]
_KINDS |= {dict[str, str]: pa.map_(pa.string(), pa.string())}
_SCHEMA = pa.schema(
    [(field.name, _KINDS[field.type]) for field in msgspec.structs.fields(RoundRow)]
)


EXPORT_OPERATIONS = Operations()


@EXPORT_OPERATIONS.add(
    "GET /v1/pools/{pool_id}/export",
    "read",
    query=ExportQuery,
    answer=RoundRow,
    content_types=("application/jsonl", "application/vnd.apache.parquet"),
)
async def export(context: ServiceContext, request: Request) -> StreamAnswer:
    """Download the round log."""
    query: ExportQuery = request.query
    pool = context.service.directory.pool(request.path_values["pool_id"])
    since_us = 0 if query.since is UNSET else from_time(query.since)
    until_us = None if query.until is UNSET else from_time(query.until)
    if until_us is not None and until_us < since_us:
        detail = "`until` must be at or after `since`"
        raise broken_rule(detail, parameter="until")
    rounds = context.service.reporter.export(pool.pool_id, since_us, until_us)
    if query.format == "jsonl":
        chunks: Iterator[bytes] = (_encode_lines(rows) for rows in rounds if rows)
    elif query.format == "log":
        tables = LogTables(pool)
        chunks = _parquet(tables.schema, map(tables.table, rounds))
    else:
        chunks = round_file(rounds)
    ending = "log.parquet" if query.format == "log" else query.format
    name = f'attachment; filename="{pool.pool_id}.{ending}"'.encode()
    # The first chunk is made before the status is sent: a store that is away is answered with 503.
    loop = asyncio.get_running_loop()
    first = await loop.run_in_executor(context.export_threads, next, chunks, b"")
    return StreamAnswer(
        _in_thread(context, first, chunks),
        _CONTENT_TYPES[query.format],
        ((b"content-disposition", name),),
    )


def round_file(rounds: Iterator[list[RoundRow]]) -> Iterator[bytes]:
    """Write rounds as Parquet, chunk by chunk."""
    return _parquet(_SCHEMA, map(_round_table, rounds))


def _parquet(schema: pa.Schema, tables: Iterator[pa.Table]) -> Iterator[bytes]:
    """Write one row group for each table and hand out the bytes as they come."""
    sink = _Sink()
    with pq.ParquetWriter(sink, schema) as writer:
        for table in tables:
            writer.write_table(table)
            yield sink.take()
    yield sink.take()


def _round_table(rows: list[RoundRow]) -> pa.Table:
    columns = zip(_SCHEMA, zip(*map(astuple, rows), strict=True), strict=True)
    arrays = [_array(field.type, column) for field, column in columns]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _array(kind: pa.DataType, column: Sequence[Any]) -> pa.Array:
    """Return a column; lists and maps as flat arrays and offsets, which costs half of nesting."""
    if not pa.types.is_list(kind) and not pa.types.is_map(kind):
        return pa.array(column, kind)
    ends = np.cumsum(np.fromiter(map(len, column), np.int32, len(column)), dtype=np.int32)
    offsets = pa.array(np.concatenate((np.zeros(1, np.int32), ends)))
    flat = list(chain.from_iterable(column))
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(offsets, pa.array(flat, kind.value_type), type=kind)
    values = list(chain.from_iterable(map(dict.values, column)))
    keys, items = pa.array(flat, kind.key_type), pa.array(values, kind.item_type)
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind)


class _Sink(io.RawIOBase):
    """A file in memory that is only written; `take` returns what was added since the last call."""

    def __init__(self) -> None:
        super().__init__()
        self._written = bytearray()
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: object) -> int:
        before = len(self._written)
        self._written += memoryview(piece)  # type: ignore[arg-type]
        self._size += len(self._written) - before
        return len(self._written) - before

    def tell(self) -> int:
        return self._size

    def take(self) -> bytes:
        taken, self._written = bytes(self._written), bytearray()
        return taken


async def _in_thread(
    context: ServiceContext, first: bytes, chunks: Iterator[bytes]
) -> AsyncGenerator[bytes]:
    """Make each chunk in a thread for exports: the store is read there."""
    yield first
    loop = asyncio.get_running_loop()
    while True:
        chunk = await loop.run_in_executor(context.export_threads, next, chunks, None)
        if chunk is None:
            return
        yield chunk
