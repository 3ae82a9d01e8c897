"""The dashboard's addresses: the page, its files and its figures.

Used by `alerts` and `app`.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Callable, Hashable
from contextlib import suppress
from importlib import resources
from typing import Annotated

import msgspec
from msgspec import Meta

from slotwise.errors import SlotwiseError
from slotwise.service.api.bodies import Strict, Time, from_time
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.http.exchange import CHART_LIBRARY, Answer, Asset, answer_asset, load_asset
from slotwise.service.http.problems import RequestProblem, broken_rule
from slotwise.service.records import DAY_US
from slotwise.service.reporting.link_table import LinkRows, LinkTableQuery
from slotwise.service.reporting.overview import DashboardPool, Overview, draw_pool
from slotwise.service.reporting.pool_report import PeriodComparison
from slotwise.service.reporting.reporter import PoolRow
from slotwise.service.reporting.segments import SegmentsReport

PACKAGE = "slotwise.service.api"
FOLDER = "dashboard/"
_STATIC = resources.files(PACKAGE).joinpath("static", FOLDER)
_LOADED = sorted(one.name for one in _STATIC.iterdir() if not one.name.endswith(".html"))
FILES = (*_LOADED, CHART_LIBRARY)

# plotly puts its own style sheet into the page, which the policy forbids: the page has those
# rules in its own sheet, and tells plotly so (see index.html).
_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STYLE_MARK = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')
_GUARDED = ((b"content-security-policy", _POLICY), (b"referrer-policy", b"no-referrer"))
_REVALIDATED = ((b"cache-control", b"no-cache"),)
_KEPT = ((b"cache-control", b"public, max-age=31536000, immutable"),)


class PoolName(msgspec.Struct, frozen=True, kw_only=True):
    """A pool to choose from."""

    pool_id: str
    archived: bool


class PoolNames(msgspec.Struct, frozen=True, kw_only=True):
    """Every pool, by id."""

    pools: tuple[PoolName, ...]


class PoolFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the page shows of a pool."""

    overview: Overview
    links: LinkRows


OPERATIONS = Operations()


@OPERATIONS.add("GET /", None, content_types=("text/html",))
async def dashboard(context: ServiceContext, request: Request) -> Answer:
    """See how the pools are doing."""
    asset = await asyncio.to_thread(_page)
    # The page will ask for these next. They take a moment, the browser needs one to begin.
    loop = asyncio.get_running_loop()
    loop.run_in_executor(None, lambda: load_asset(PACKAGE, CHART_LIBRARY).compressed)
    loop.run_in_executor(None, _first_picture, context)
    return answer_asset(asset, request, _GUARDED + _REVALIDATED)


def _first_picture(context: ServiceContext) -> None:
    """Make the picture of the pool that the page begins with, unless it is cached."""
    first = next((pool for pool in context.service.directory.pools() if not pool.archived), None)
    if first is not None:
        with suppress(SlotwiseError):  # the page requests it again, and gets the error then
            context.dashboards.latest(*_wanted(context, first.pool_id))


@functools.cache
def _page() -> Asset:
    """Return the page with what it must know of the chart library.

    Its address names its content, so that it may be cached for long. And plotly adds the style
    sheet of its maps, which the policy forbids and no chart here needs, unless an element has
    the sheet's id already.
    """
    page, library = load_asset(PACKAGE, FOLDER + "index.html"), load_asset(PACKAGE, CHART_LIBRARY)
    marks = (b'<meta id="%s">\n' % mark for mark in _STYLE_MARK.findall(library.content))
    content = page.content.replace(b"CHART_LIBRARY_TAG", library.tag)
    return _with_sign_in(content.replace(b"STYLE_MARKS", b"".join(marks)))


def _with_sign_in(page: bytes) -> Asset:
    """Return a page with the forms to sign in, which all pages share."""
    forms = load_asset(PACKAGE, FOLDER + "sign_in.html")
    return Asset(page.replace(b"SIGN_IN", forms.content), forms.content_type)


@functools.cache
def _plan_page() -> Asset:
    return _with_sign_in(load_asset(PACKAGE, FOLDER + "plan.html").content)


@OPERATIONS.add("GET /plan", None, content_types=("text/html",))
def plan_page(_context: ServiceContext, request: Request) -> Answer:
    """Calculate how much traffic a page needs."""
    return answer_asset(_plan_page(), request, _GUARDED + _REVALIDATED)


@OPERATIONS.add(
    "GET /dashboard/files/{name}",
    None,
    path_choices={"name": FILES},
    content_types=("text/javascript", "text/css", "image/svg+xml"),
    problems=("unknown-route",),
)
def dashboard_file(_context: ServiceContext, request: Request) -> Answer:
    """Load a file of the dashboard."""
    name = request.path_values["name"]
    if name not in FILES:
        raise RequestProblem("unknown-route", "the page has no such file")
    if name == CHART_LIBRARY:
        return answer_asset(load_asset(PACKAGE, name), request, _KEPT)
    return answer_asset(load_asset(PACKAGE, FOLDER + name), request, _REVALIDATED)


@OPERATIONS.add("GET /dashboard/pools", "read", open_on_loopback=True)
async def dashboard_pools(context: ServiceContext, _request: Request) -> PoolNames:
    """List the pools to choose from."""
    return PoolNames(
        pools=tuple(
            PoolName(pool_id=pool.pool_id, archived=pool.archived)
            for pool in context.service.directory.pools()
        )
    )


@OPERATIONS.add(
    "GET /dashboard/pools/{pool_id}",
    "read",
    open_on_loopback=True,
    query=LinkTableQuery,
)
def dashboard_figures(context: ServiceContext, request: Request) -> PoolFigures:
    """Read all that the dashboard shows of a pool."""
    picture = dashboard_pool(context, request.path_values["pool_id"])
    return PoolFigures(overview=picture.overview, links=picture.table.select(request.query))


def dashboard_pool(context: ServiceContext, pool_id: str) -> DashboardPool:
    """Return the picture of a pool, made again only where it is too old. Reading."""
    return context.dashboards.get(*_wanted(context, pool_id))


@OPERATIONS.add("GET /dashboard/pools/{pool_id}/segments", "read", open_on_loopback=True)
def dashboard_segments(context: ServiceContext, request: Request) -> SegmentsReport:
    """Read what was learned of segments and slots."""
    return context.service.reporter.segments(request.path_values["pool_id"])


@OPERATIONS.add(
    "GET /dashboard/pools/{pool_id}/links",
    "read",
    open_on_loopback=True,
    query=LinkTableQuery,
)
def dashboard_links(context: ServiceContext, request: Request) -> LinkRows:
    """Read some rows of the dashboard's table of links."""
    picture = context.dashboards.latest(*_wanted(context, request.path_values["pool_id"]))
    return picture.table.select(request.query)


def _wanted(
    context: ServiceContext, pool_id: str
) -> tuple[str, Hashable, Callable[[], DashboardPool]]:
    """Return the name of the pool's picture, the state it must show and how it is made."""
    service, now_us = context.service, context.clock_us()
    state = (service.directory.revision(pool_id), service.notes.n_changes)
    return (
        pool_id,
        state,
        lambda: draw_pool(service.reporter, pool_id, now_us, context.outcomes, service.health()),
    )


MAX_DAYS = 92
_ALL_POOLS = " all pools"
"""The start of the names of cached reports; no pool has it, for no id has a space."""


class PoolRows(msgspec.Struct, frozen=True, kw_only=True):
    """Some pools, by id."""

    n_pools: int
    """The number of all pools."""
    pools: tuple[PoolRow, ...]


class PoolRowsQuery(Strict, frozen=True, kw_only=True):
    """Which pools to return."""

    offset: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class PeriodQuery(Strict, frozen=True, kw_only=True):
    """Which period."""

    since: Annotated[Time, Meta(description="The start of the period")]
    until: Annotated[Time, Meta(description="Its end, which is no part of it")]


@OPERATIONS.add("GET /dashboard/overview", "read", open_on_loopback=True, query=PoolRowsQuery)
def dashboard_overview(context: ServiceContext, request: Request) -> PoolRows:
    """Read how the pools are doing."""
    service, query = context.service, request.query
    pools = service.directory.all_pools()
    some = pools[query.offset : query.offset + query.limit]
    state = tuple((pool.settings.pool_id, pool.settings.changed_us) for pool in some)
    rows = context.comparisons.get(
        f"{_ALL_POOLS} {query.offset} {query.limit}",
        (len(pools), state),
        lambda: PoolRows(
            n_pools=len(pools), pools=service.reporter.rows_of(some, service.health())
        ),
    )
    assert isinstance(rows, PoolRows)
    return rows


@OPERATIONS.add(
    "GET /dashboard/pools/{pool_id}/period",
    "read",
    open_on_loopback=True,
    query=PeriodQuery,
)
def dashboard_period(context: ServiceContext, request: Request) -> PeriodComparison:
    """Compare a period of a pool with the one before it."""
    query: PeriodQuery = request.query
    pool = context.service.directory.pool(request.path_values["pool_id"])
    from_us, until_us = from_time(query.since), from_time(query.until)
    if not from_us < until_us:
        raise broken_rule("`until` must be after `since`", parameter="until")
    if until_us - from_us > MAX_DAYS * DAY_US:
        raise broken_rule(f"the period must have at most {MAX_DAYS} days", parameter="since")
    if from_us < 0:
        raise broken_rule("`since` must be after 1970", parameter="since")
    period = (pool.pool_id, from_us, until_us)
    made = context.comparisons.get(
        f"{pool.pool_id} {from_us} {until_us}",
        pool.changed_us,
        lambda: context.service.reporter.compare(*period),
    )
    assert isinstance(made, PeriodComparison)
    return made
