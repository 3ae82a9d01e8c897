"""Import of known counts into a pool. Used by `app`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Annotated

import msgspec
from msgspec import Meta

from slotwise.errors import InvalidInput, MissingData
from slotwise.service.api.bodies import Strict
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.http.problems import broken_rule
from slotwise.service.pool import read_known_table
from slotwise.service.records import LinkRecord, compose
from slotwise.service.refusals import UnknownLink


class KnownBody(Strict, frozen=True, kw_only=True):
    """A table of known counts."""

    csv: Annotated[
        str,
        Meta(
            description="The first line names the columns `link`, `views`, `clicks` and, if you "
            "like, `revenue`; any other column is a feature of the pool"
        ),
    ]
    discount: Annotated[
        float,
        Meta(gt=0, le=1, description="Weight of an imported view, in views of the pool"),
    ] = 1.0


class KnownRow(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one link, for visitors with these values."""

    link_id: str
    views: int
    clicks: int
    revenue_micros: int
    visitor: dict[str, str]
    discount: float


class KnownRows(msgspec.Struct, frozen=True):
    """Counts that the policy of a pool learns before its first page."""

    known: list[KnownRow]


OPERATIONS = Operations()


@OPERATIONS.add(
    "POST /v1/pools/{pool_id}/known-counts",
    "admin",
    body=KnownBody,
    example={"csv": "link,views,clicks,revenue\nl1,1000,30,900", "discount": 0.2},
)
async def import_counts(context: ServiceContext, request: Request) -> KnownRows:
    """Import known views, clicks and revenue of links."""
    body: KnownBody = request.body
    pool = context.service.directory.pool(request.path_values["pool_id"])

    def check_and_store() -> Future[list[LinkRecord]]:
        known = read_known_table(body.csv, pool, body.discount)
        by, now_us = request.caller(), context.clock_us()
        return context.service.directory.put_known(pool.pool_id, known, by, now_us)

    try:
        # Not on the event loop: the check starts the policy, which may have to be compiled first.
        loop = asyncio.get_running_loop()
        stored = await loop.run_in_executor(context.change_threads, check_and_store)
    except (InvalidInput, MissingData, UnknownLink) as error:
        raise broken_rule(str(error), "/csv") from None
    links = await asyncio.wrap_future(stored)
    return _rows(links)


@OPERATIONS.add("GET /v1/pools/{pool_id}/known-counts", "read")
def known_counts(context: ServiceContext, request: Request) -> KnownRows:
    """Read the imported counts of a pool."""
    return _rows(context.service.directory.links(request.path_values["pool_id"]))


def _rows(links: Iterable[LinkRecord]) -> KnownRows:
    known = [(link, one) for link in links for one in link.start_counts]
    return KnownRows([compose(KnownRow, one, link) for link, one in known])
