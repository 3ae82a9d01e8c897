"""Reports: how a pool is doing, what its floor costs and why a link is shown. Used by `app`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from slotwise.service.api.bodies import Strict, Time, answer_type, as_answer, from_time
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.pools import ClickFloor
from slotwise.service.http.exchange import StreamAnswer
from slotwise.service.http.problems import broken_rule
from slotwise.service.records import DAY_US
from slotwise.service.reporting.page_view_files import csv_chunks, log_chunks, round_file
from slotwise.service.reporting.report_records import (
    Explanation,
    FrontierReport,
    PoolReport,
    RoundRow,
)
from slotwise.service.reporting.reporter import EvaluationReport
from slotwise.service.reporting.segments import SegmentsReport

OPERATIONS = Operations()
DEFAULT_DAYS = 30
_CONTENT_TYPES = {
    "jsonl": b"application/jsonl",
    "parquet": b"application/vnd.apache.parquet",
    "log": b"application/vnd.apache.parquet",
    "csv": b"text/csv; charset=utf-8",
}


class ExplanationList(msgspec.Struct, frozen=True, kw_only=True):
    """Why each active link is shown as often as it is, and to which visitors."""

    pool_id: str
    links: tuple[Explanation, ...]
    segments: SegmentsReport


@OPERATIONS.add("GET /v1/pools/{pool_id}/stats", "read", answer=answer_type(PoolReport))
def stats(context: ServiceContext, request: Request) -> msgspec.Struct:
    """Read estimates with intervals, the floor and what it costs."""
    return as_answer(context.service.reporter.stats(request.path_values["pool_id"]))


@OPERATIONS.add("GET /v1/pools/{pool_id}/frontier", "read")
def frontier(context: ServiceContext, request: Request) -> FrontierReport:
    """Read the best revenue for every floor."""
    return context.service.reporter.frontier(request.path_values["pool_id"])


@OPERATIONS.add("GET /v1/pools/{pool_id}/explain", "read")
def explain(context: ServiceContext, request: Request) -> ExplanationList:
    """Read why each link is shown as often as it is, and to which visitors."""
    pool_id, reporter = request.path_values["pool_id"], context.service.reporter
    links, segments = tuple(reporter.explain(pool_id)), reporter.segments(pool_id)
    return ExplanationList(pool_id=pool_id, links=links, segments=segments)


class EvaluateQuery(Strict, frozen=True, kw_only=True):
    """Which floor, the pool's by default, and since when: the last 30 days by default."""

    click_floor: ClickFloor | UnsetType = UNSET
    since: Time | UnsetType = UNSET


@OPERATIONS.add(
    "GET /v1/pools/{pool_id}/evaluate",
    "read",
    open_on_loopback=True,
    query=EvaluateQuery,
)
async def evaluate(context: ServiceContext, request: Request) -> EvaluationReport:
    """Estimate from the log what another floor would have earned."""
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

    `log` is Parquet with a row for each link shown, as `slotwise evaluate` reads it; `csv` has the
    same rows as text.
    """

    format: Literal["jsonl", "parquet", "log", "csv"] = "jsonl"
    since: Time | UnsetType = UNSET
    until: Time | UnsetType = UNSET


_encode_lines = msgspec.json.Encoder().encode_lines


@OPERATIONS.add(
    "GET /v1/pools/{pool_id}/export",
    "read",
    query=ExportQuery,
    answer=RoundRow,
    content_types=("application/jsonl", "application/vnd.apache.parquet", "text/csv"),
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
        chunks = log_chunks(pool, rounds)
    elif query.format == "csv":
        chunks = csv_chunks(pool, rounds)
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
