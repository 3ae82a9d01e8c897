"""Links of a pool: added, changed and retired while the pool runs, and their imported counts.

Used by `app` and `pool_rules`.
"""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from slotwise.errors import InvalidInput, MissingData
from slotwise.service import limits
from slotwise.service.api.bodies import (
    LinkId,
    Strict,
    Time,
    check_destination,
    from_time,
    given,
    patch_type,
)
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.http.exchange import Answer
from slotwise.service.http.problems import FieldError, RequestProblem, broken_rule
from slotwise.service.http.routing import links_to
from slotwise.service.pool import check_link, read_known_table
from slotwise.service.pool_directory import LinkChange
from slotwise.service.records import (
    LinkRecord,
    PoolSettings,
    time_if_any,
    to_time,
)
from slotwise.service.refusals import UnknownLink

Url = Annotated[
    str,
    Meta(pattern=limits.ADDRESS_PATTERN, max_length=limits.MAX_URL_CHARS),
    Meta(description="Where the link leads, on one of the pool's hosts"),
]
Title = Annotated[
    str, Meta(max_length=limits.MAX_TITLE_CHARS, description="The text of the link on a page")
]
Metadata = Annotated[
    dict[
        Annotated[str, Meta(pattern=limits.METADATA_PATTERN)],
        Annotated[str, Meta(max_length=limits.MAX_METADATA_CHARS)],
    ],
    Meta(max_length=limits.MAX_METADATA, description="Free texts that a page may show, by name"),
]
Group = Annotated[
    str,
    Meta(max_length=limits.MAX_GROUP_CHARS),
    Meta(description="The advertiser, brand or category that rules of the pool are about"),
]
StartsAt = Annotated[Time | None, Meta(description="The link is not shown before this time")]
EndsAt = Annotated[Time | None, Meta(description="The link is not shown from this time on")]
Reset = Annotated[bool, Meta(description="Forget what is known of the link")]


class LinkFields(Strict, frozen=True, kw_only=True):
    """Where a link leads, what rules it is subject to, and when it is shown."""

    url: Url
    title: Title = ""
    metadata: Metadata = msgspec.field(default_factory=dict)
    group: Group = ""
    starts_at: StartsAt = None
    ends_at: EndsAt = None


class LinkBody(LinkFields, frozen=True, kw_only=True):
    """A link to add or replace."""

    reset_statistics: Reset = False


class _Changeable(LinkFields, frozen=True, kw_only=True):
    retired: Annotated[
        bool, Meta(description="No longer shown; clicks are still followed and counted")
    ]
    reset_statistics: Reset = False


LinkPatch = patch_type(_Changeable, "LinkPatch", "The fields of a link to change; the others stay.")


class LinkItem(LinkFields, frozen=True, kw_only=True):
    """One link of a batch."""

    link_id: LinkId


class LinkBatchBody(Strict, frozen=True, kw_only=True):
    """Links to add or replace, all or none."""

    links: Annotated[
        tuple[LinkItem, ...],
        Meta(min_length=1, description="Links to add, or to put in their place"),
    ]
    reset_statistics: Reset = False


class LinkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A link as stored."""

    pool_id: str
    link_id: str
    url: str
    title: str
    metadata: dict[str, str]
    group: str
    starts_at: Time | None
    ends_at: Time | None
    retired: bool
    created_at: Time
    changed_at: Time


class LinkList(msgspec.Struct, frozen=True):
    """Links in the order in which they were first registered."""

    links: list[LinkAnswer]


EXAMPLE = {
    "url": "https://shop.example/1",
    "title": "Spring sale",
    "metadata": {"image": "/spring.jpg"},
    "group": "own brand",
    "starts_at": "2026-03-20T00:00:00Z",
    "ends_at": None,
}
OPERATIONS = Operations()


@OPERATIONS.add(
    "PUT /v1/pools/{pool_id}/links/{link_id}",
    "admin",
    has_revision=True,
    body=LinkBody,
    example=EXAMPLE,
    links=(
        *links_to("get_link", "patch_link", "retire_link", giving=("pool_id", "link_id")),
        *links_to("decide", giving=("pool_id",)),
    ),
    problems=("pool-too-large",),
)
async def put_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Add or replace a link; statistics stay unless a reset is requested."""
    body: LinkBody = request.body
    link = _record(request.path_values["pool_id"], request.path_values["link_id"], body)
    _check(context, link)
    return await _store_one(context, request, lambda _: link, reset=body.reset_statistics)


@OPERATIONS.add(
    "PATCH /v1/pools/{pool_id}/links/{link_id}",
    "admin",
    has_revision=True,
    body=LinkPatch,
    example={"title": "Summer sale"},
)
async def patch_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Change some fields of a link."""
    changes = given(request.body)
    reset = changes.pop("reset_statistics", False)
    for name in {"starts_at", "ends_at"} & changes.keys():
        changes[f"{name.removesuffix('_at')}_us"] = _microseconds(changes.pop(name))
    _check(context, replace(_present(context, request), **changes))

    def patched(present: LinkRecord | None) -> LinkRecord:
        assert present is not None  # links are retired, never removed
        return replace(present, **changes)

    return await _store_one(context, request, patched, reset=reset)


@OPERATIONS.add("DELETE /v1/pools/{pool_id}/links/{link_id}", "admin", has_revision=True)
async def retire_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Retire a link: it is no longer shown; clicks are still followed and counted."""
    _present(context, request)

    def retired(present: LinkRecord | None) -> LinkRecord:
        assert present is not None
        return replace(present, retired=True)

    return await _store_one(context, request, retired, reset=False)


@OPERATIONS.add("GET /v1/pools/{pool_id}/links/{link_id}", "read", has_revision=True)
async def get_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Read a link."""
    link = _present(context, request)
    request.revision = link.changed_us
    return _answer(link)


@OPERATIONS.add("GET /v1/pools/{pool_id}/links", "read", answer=LinkList)
def list_links(context: ServiceContext, request: Request) -> Answer:
    """List the links of a pool, retired ones too."""
    links = context.service.directory.links(request.path_values["pool_id"])
    return Answer(msgspec.json.encode(LinkList([_answer(link) for link in links])))


@OPERATIONS.add(
    "POST /v1/pools/{pool_id}/links:batch",
    "admin",
    body=LinkBatchBody,
    example={"links": [{"link_id": "l1", **EXAMPLE}]},
    problems=(
        "pool-too-large",
        "batch-too-large",
    ),
)
async def put_links(context: ServiceContext, request: Request) -> LinkList:
    """Add or replace many links, all or none."""
    body: LinkBatchBody = request.body
    max_batch = context.settings.max_batch
    if len(body.links) > max_batch:
        detail = f"`links` must have at most {max_batch} items, got {len(body.links)}"
        raise RequestProblem("batch-too-large", detail, errors=[FieldError(detail, "/links")])
    links = await asyncio.to_thread(_checked_links, context, request, body)
    stored = await _store(context, request, links, reset=body.reset_statistics)
    return LinkList([_answer(link) for link in stored])


def _checked_links(
    context: ServiceContext, request: Request, body: LinkBatchBody
) -> list[LinkRecord]:
    pool_id = request.path_values["pool_id"]
    places: dict[str, int] = {}
    links = []
    for index, item in enumerate(body.links):
        first = places.setdefault(item.link_id, index)
        if first != index:
            detail = f"`link_id` must differ between items, got {item.link_id!r} twice"
            raise broken_rule(detail, f"/links/{index}/link_id")
        link = _record(pool_id, item.link_id, item)
        _check(context, link, f"/links/{index}")
        links.append(link)
    return links


def _present(context: ServiceContext, request: Request) -> LinkRecord:
    values = request.path_values
    return context.service.directory.link(values["pool_id"], values["link_id"])


def _check(context: ServiceContext, link: LinkRecord, within: str = "") -> None:
    """Refuse a link that breaks a rule; `within` is where it is in the body."""
    try:
        check_link(link)
        check_destination(link.url, context.service.directory.pool(link.pool_id).allowed_hosts)
    except InvalidInput as error:
        raise broken_rule(str(error), f"{within}/{error.argument}") from None


async def _store_one(
    context: ServiceContext, request: Request, change: LinkChange, *, reset: bool
) -> LinkAnswer:
    """Change the link of the request, and answer it."""
    values = request.path_values
    saving = await asyncio.to_thread(
        context.service.directory.change_links,
        values["pool_id"],
        {values["link_id"]: change},
        request.caller(),
        context.clock_us(),
        reset,
        request.expected_revision(),
    )
    [stored] = await asyncio.wrap_future(saving)
    request.revision = stored.changed_us
    return _answer(stored)


async def _store(
    context: ServiceContext, request: Request, links: Sequence[LinkRecord], *, reset: bool
) -> list[LinkRecord]:
    stored = await asyncio.to_thread(
        context.service.directory.put_links,
        request.path_values["pool_id"],
        links,
        request.caller(),
        context.clock_us(),
        reset_statistics=reset,
    )
    return await asyncio.wrap_future(stored)


def _microseconds(time: datetime | None) -> int:
    return 0 if time is None else from_time(time)


def _record(pool_id: str, link_id: str, link: LinkFields) -> LinkRecord:
    """Return the record to store for a link of a request."""
    return LinkRecord(
        pool_id=pool_id,
        link_id=link_id,
        url=link.url,
        title=link.title,
        metadata=link.metadata,
        group=link.group,
        starts_us=_microseconds(link.starts_at),
        ends_us=_microseconds(link.ends_at),
    )


def _answer(link: LinkRecord) -> LinkAnswer:
    return LinkAnswer(
        pool_id=link.pool_id,
        link_id=link.link_id,
        url=link.url,
        title=link.title,
        metadata=link.metadata,
        group=link.group,
        retired=link.retired,
        starts_at=time_if_any(link.starts_us),
        ends_at=time_if_any(link.ends_us),
        created_at=to_time(link.created_us),
        changed_at=to_time(link.changed_us),
    )


_NEEDED = ("link_id", "url")
_OWN = (*_NEEDED, "title", "group", "starts_at", "ends_at")
_DELIMITERS = "\t;,"


class TableBody(Strict, frozen=True, kw_only=True):
    """A table as text."""

    csv: Annotated[
        str,
        Meta(
            description="Lines of cells between tabs, semicolons or commas; the first line names "
            "the columns `link_id`, `url`, `title`, `group`, `starts_at`, `ends_at` and metadata"
        ),
    ]


class PastedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table, what it would do, and what is wrong with it."""

    line: int
    link_id: str
    url: str
    title: str
    metadata: dict[str, str]
    group: str
    starts_at: Time | None
    ends_at: Time | None
    what: Literal["new", "changed", "same", "back", "wrong"]
    """`back`: the link is retired at present."""
    wrong: str
    """One sentence, empty unless the line is wrong."""


class PastedLines(msgspec.Struct, frozen=True, kw_only=True):
    """Every line of the table that is not blank."""

    lines: tuple[PastedLine, ...]


@OPERATIONS.add(
    "POST /dashboard/pools/{pool_id}/links:check",
    "admin",
    body=TableBody,
    example={"csv": "link_id,url,title\nl1,https://shop.example/1,Spring sale"},
)
def check_links(context: ServiceContext, request: Request) -> PastedLines:
    """Check a table of links line by line; nothing is stored."""
    pool_id, limit = request.path_values["pool_id"], context.settings.max_pool_links
    directory = context.service.directory
    present = {link.link_id: link for link in directory.links(pool_id)}
    lines = tuple(read_lines(request.body.csv, directory.pool(pool_id), present))
    n_links = len(present) + sum(line.what == "new" for line in lines)
    if n_links > limit:
        detail = f"`csv` must leave the pool with at most {limit} links, got {n_links}"
        raise broken_rule(detail, "/csv")
    return PastedLines(lines=lines)


def read_lines(
    text: str, pool: PoolSettings, present: Mapping[str, LinkRecord]
) -> Iterator[PastedLine]:
    """Read a table; a column that it does not have keeps what the link has at present."""
    text = text.removeprefix("\ufeff")
    first = text.lstrip("\r\n").partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    seen: dict[str, int] = {}
    columns: list[str] = []
    try:
        for cells in rows:
            if not any(cell.strip() for cell in cells):
                continue
            if not columns:
                columns = _read_columns(cells)
                continue
            yield _read_line(rows.line_num, columns, cells, pool, present, seen)
    except csv.Error as error:
        detail = f"line {rows.line_num} cannot be read: {error}; look for a quote without its twin"
        raise broken_rule(detail, "/csv") from None
    if not seen:
        rule = "a line with the names of the columns and a line for each link"
        raise broken_rule(f"`csv` must have {rule}", "/csv")


def _read_columns(cells: list[str]) -> list[str]:
    columns = [cell.strip().lower() for cell in cells]
    for name in _NEEDED:
        if name not in columns:
            rule = "name the columns link_id and url, and title if you like"
            raise broken_rule(f"the first line must {rule}, got {', '.join(columns)!r}", "/csv")
    seen: set[str] = set()
    for name in columns:
        if name in seen:
            raise broken_rule(f"the first line must name each column once, got {name!r}", "/csv")
        seen.add(name)
        if not re.fullmatch(limits.METADATA_PATTERN, name):
            rule = "of small letters, digits, - and _, beginning with a letter"
            raise broken_rule(f"the name of a column must be {rule}, got {name!r}", "/csv")
    return columns


def _read_line(
    line: int,
    columns: list[str],
    cells: list[str],
    pool: PoolSettings,
    present: Mapping[str, LinkRecord],
    seen: dict[str, int],
) -> PastedLine:
    given = dict(zip(columns, (cell.strip() for cell in cells), strict=False))
    link_id = given.get("link_id", "")
    known = present.get(link_id)
    link = known or LinkRecord(pool_id=pool.pool_id, link_id=link_id, url="")
    texts = {name: given[name] for name in ("url", "title", "group") if name in given}
    others = link.metadata | {name: value for name, value in given.items() if name not in _OWN}
    metadata = {name: value for name, value in others.items() if value}
    link = replace(link, metadata=metadata, **texts)
    wrong = ""
    first = seen.setdefault(link_id, line)
    if len(cells) > len(columns):
        wrong = f"the line has {len(cells)} cells, the first line names {len(columns)} columns"
    elif first != line:
        wrong = f"`link_id` must differ between lines, got {link_id!r} on line {first} already"
    else:
        try:
            link = replace(link, **_read_dates(given))
            _check_line(link, pool)
        except InvalidInput as error:
            wrong = str(error)
    what: Literal["new", "changed", "same", "back", "wrong"] = "new"
    if wrong:
        what = "wrong"
    elif known is not None and known.retired:
        what = "back"
    elif known is not None:
        what = "same" if known == link else "changed"
    return PastedLine(
        line=line,
        link_id=link.link_id,
        url=link.url,
        title=link.title,
        metadata=link.metadata,
        group=link.group,
        what=what,
        wrong=wrong,
        starts_at=time_if_any(link.starts_us),
        ends_at=time_if_any(link.ends_us),
    )


def _read_dates(given: Mapping[str, str]) -> dict[str, int]:
    """Return the dates of a line in microseconds; a time without a zone is UTC."""
    dates = {}
    for name in {"starts_at", "ends_at"} & given.keys():
        try:
            time = datetime.fromisoformat(given[name]) if given[name] else None
        except ValueError:
            rule = "a date, such as 2026-03-20 or 2026-03-20T09:00:00Z"
            raise InvalidInput.of(name, rule, given[name][:80]) from None
        if time is not None and time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        dates[f"{name.removesuffix('_at')}_us"] = _microseconds(time)
    return dates


def _check_line(link: LinkRecord, pool: PoolSettings) -> None:
    """Raise `InvalidInput` for the first rule that a line breaks: those of the API."""
    if not limits.is_id(link.link_id):
        raise InvalidInput.of("link_id", limits.ID_RULE, link.link_id[:80])
    for name, value, most in (
        ("title", link.title, limits.MAX_TITLE_CHARS),
        ("group", link.group, limits.MAX_GROUP_CHARS),
        *((name, value, limits.MAX_METADATA_CHARS) for name, value in link.metadata.items()),
    ):
        if len(value) > most:
            raise InvalidInput.of(name, f"at most {most} characters long", f"{len(value)}")
    if len(link.metadata) > limits.MAX_METADATA:
        rule = f"at most {limits.MAX_METADATA} texts"
        raise InvalidInput.of("metadata", rule, len(link.metadata))
    check_destination(link.url, pool.allowed_hosts)
    check_link(link)


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
    return KnownRows(
        [
            KnownRow(
                link_id=link.link_id,
                views=one.views,
                clicks=one.clicks,
                revenue_micros=one.revenue_micros,
                visitor=one.visitor,
                discount=one.discount,
            )
            for link, one in known
        ]
    )
