"""Links of a pool: added, changed and retired while the pool runs."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service import limits
from slotwise.service.api.bodies import LinkId, Strict, Time, check_destination, given, times_of
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.http.exchange import Answer
from slotwise.service.http.problems import FieldError, RequestProblem, broken_rule
from slotwise.service.http.routing import links_to
from slotwise.service.records import LinkRecord, PoolSettings, compose

Url = Annotated[
    str,
    Meta(
        pattern="^https?://",
        max_length=limits.MAX_URL_CHARS,
        description="Where the link leads, on one of the pool's hosts",
    ),
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
Reset = Annotated[bool, Meta(description="Forget what is known of the link")]


class LinkBody(Strict, frozen=True, kw_only=True):
    """Where a link leads."""

    url: Url
    title: Title = ""
    metadata: Metadata = msgspec.field(default_factory=dict)
    reset_statistics: Reset = False


class LinkPatch(Strict, frozen=True, kw_only=True):
    """The fields of a link to change; the others stay."""

    url: Url | UnsetType = UNSET
    title: Title | UnsetType = UNSET
    metadata: Metadata | UnsetType = UNSET
    retired: (
        Annotated[bool, Meta(description="Shown no more; still followed and counted")] | UnsetType
    ) = UNSET
    reset_statistics: Reset = False


class LinkItem(Strict, frozen=True, kw_only=True):
    """One link of a batch."""

    link_id: LinkId
    url: Url
    title: Title = ""
    metadata: Metadata = msgspec.field(default_factory=dict)


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
}
ANSWER_EXAMPLE = {
    "pool_id": "home",
    "link_id": "l1",
    **EXAMPLE,
    "retired": False,
    "created_at": "2026-01-05T10:00:00Z",
    "changed_at": "2026-01-05T10:00:00Z",
}
OPERATIONS = Operations()


@OPERATIONS.add(
    "PUT /v1/pools/{pool_id}/links/{link_id}",
    "admin",
    body=LinkBody,
    example=EXAMPLE,
    answer_example=ANSWER_EXAMPLE,
    links=(
        *links_to("get_link", "patch_link", "retire_link", giving=("pool_id", "link_id")),
        *links_to("decide", giving=("pool_id",)),
    ),
    problems=("pool-too-large",),
)
async def put_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Add or replace a link; statistics are kept unless a reset is asked for."""
    body: LinkBody = request.body
    link = compose(LinkRecord, body, **request.path_values)
    _check_url(context, link, "/url")
    [stored] = await _store(context, request, [link], reset=body.reset_statistics)
    return _answer(stored)


@OPERATIONS.add(
    "PATCH /v1/pools/{pool_id}/links/{link_id}",
    "admin",
    body=LinkPatch,
    example={"title": "Summer sale"},
    answer_example=ANSWER_EXAMPLE | {"title": "Summer sale"},
)
async def patch_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Change some fields of a link."""
    changes = given(request.body)
    reset = changes.pop("reset_statistics")
    link = replace(_present(context, request), **changes)
    _check_url(context, link, "/url")
    [stored] = await _store(context, request, [link], reset=reset)
    return _answer(stored)


@OPERATIONS.add(
    "DELETE /v1/pools/{pool_id}/links/{link_id}",
    "admin",
    answer_example=ANSWER_EXAMPLE | {"retired": True},
)
async def retire_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Retire a link: shown no more, still followed and counted."""
    link = replace(_present(context, request), retired=True)
    [stored] = await _store(context, request, [link], reset=False)
    return _answer(stored)


@OPERATIONS.add("GET /v1/pools/{pool_id}/links/{link_id}", "read", answer_example=ANSWER_EXAMPLE)
async def get_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Read a link."""
    return _answer(_present(context, request))


@OPERATIONS.add(
    "GET /v1/pools/{pool_id}/links",
    "read",
    answer=LinkList,
    answer_example={"links": [ANSWER_EXAMPLE]},
)
async def list_links(context: ServiceContext, request: Request) -> Answer:
    """List the links of a pool, retired ones too."""
    pool_id = request.path_values["pool_id"]

    def encoded() -> bytes:
        links = context.service.directory.links(pool_id)
        return msgspec.json.encode(LinkList([_answer(link) for link in links]))

    return Answer(await asyncio.to_thread(encoded))


@OPERATIONS.add(
    "POST /v1/pools/{pool_id}/links:batch",
    "admin",
    body=LinkBatchBody,
    example={"links": [{"link_id": "l1", **EXAMPLE}]},
    answer_example={"links": [ANSWER_EXAMPLE]},
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
        link = compose(LinkRecord, item, pool_id=pool_id)
        _check_url(context, link, f"/links/{index}/url")
        links.append(link)
    return links


def _present(context: ServiceContext, request: Request) -> LinkRecord:
    values = request.path_values
    return context.service.directory.link(values["pool_id"], values["link_id"])


def _check_url(context: ServiceContext, link: LinkRecord, pointer: str) -> None:
    try:
        check_destination(link.url, context.service.directory.pool(link.pool_id).allowed_hosts)
    except InvalidInput as error:
        raise broken_rule(str(error), pointer) from None


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


def _answer(link: LinkRecord) -> LinkAnswer:
    times = times_of(link)
    return compose(LinkAnswer, link, created_at=times["created_at"], changed_at=times["changed_at"])


_PATH = "/v1/pools/{pool_id}/links/{link_id}"


_NEEDED = ("link_id", "url")
_OWN = (*_NEEDED, "title")
_DELIMITERS = "\t;,"


class TableBody(Strict, frozen=True, kw_only=True):
    """A table as text."""

    csv: Annotated[
        str,
        Meta(
            description="Lines of cells between tabs, semicolons or commas; the first line names "
            "the columns `link_id`, `url`, `title` and those of metadata"
        ),
    ]


class PastedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table, what it would do, and what is wrong with it."""

    line: int
    link_id: str
    url: str
    title: str
    metadata: dict[str, str]
    what: Literal["new", "changed", "same", "back", "wrong"]
    """`back`: the link is retired at present."""
    wrong: str
    """One sentence, empty unless the line is wrong."""


class PastedLines(msgspec.Struct, frozen=True, kw_only=True):
    """Every line of the table that is not blank."""

    lines: tuple[PastedLine, ...]


PASTED_LINK_OPERATIONS = Operations()


@PASTED_LINK_OPERATIONS.add(
    "POST /dashboard/pools/{pool_id}/links:check",
    "admin",
    body=TableBody,
    example={"csv": "link_id,url,title\nl1,https://shop.example/1,Spring sale"},
    answer_example={
        "lines": [
            {
                "line": 2,
                "link_id": "l1",
                "url": "https://shop.example/1",
                "title": "Spring sale",
                "metadata": {},
                "what": "new",
                "wrong": "",
            }
        ]
    },
)
async def check_links(context: ServiceContext, request: Request) -> PastedLines:
    """Check a table of links line by line; nothing is stored."""
    pool_id, body = request.path_values["pool_id"], request.body
    service = context.service
    pool = service.directory.pool(pool_id)
    present = {link.link_id: link for link in service.directory.links(pool_id)}
    limit = context.settings.max_pool_links

    def read() -> PastedLines:
        lines = tuple(read_lines(body.csv, pool, present))
        n_links = len(present) + sum(line.what == "new" for line in lines)
        if n_links > limit:
            detail = f"`csv` must leave the pool with at most {limit} links, got {n_links}"
            raise broken_rule(detail, "/csv")
        return PastedLines(lines=lines)

    return await asyncio.to_thread(read)


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
    link_id, url = given.get("link_id", ""), given.get("url", "")
    known = present.get(link_id)
    title = given.get("title", known.title if known else "")
    kept = dict(known.metadata) if known else {}
    kept |= {name: value for name, value in given.items() if name not in _OWN}
    metadata = {name: value for name, value in kept.items() if value}
    wrong = ""
    first = seen.setdefault(link_id, line)
    if len(cells) > len(columns):
        wrong = f"the line has {len(cells)} cells, the first line names {len(columns)} columns"
    elif first != line:
        wrong = f"`link_id` must differ between lines, got {link_id!r} on line {first} already"
    else:
        try:
            _check(link_id, url, title, metadata, pool)
        except InvalidInput as error:
            wrong = str(error)
    what: Literal["new", "changed", "same", "back", "wrong"] = "new"
    if wrong:
        what = "wrong"
    elif known is not None and known.retired:
        what = "back"
    elif known is not None:
        same = (known.url, known.title, known.metadata) == (url, title, metadata)
        what = "same" if same else "changed"
    return PastedLine(
        line=line, link_id=link_id, url=url, title=title, metadata=metadata, what=what, wrong=wrong
    )


def _check(
    link_id: str, url: str, title: str, metadata: Mapping[str, str], pool: PoolSettings
) -> None:
    """Raise `InvalidInput` for the first rule that a line breaks: those of the API."""
    if not limits.is_id(link_id):
        raise InvalidInput.of("link_id", limits.ID_RULE, link_id[:80])
    for name, value, most in (
        ("title", title, limits.MAX_TITLE_CHARS),
        *((name, value, limits.MAX_METADATA_CHARS) for name, value in metadata.items()),
    ):
        if len(value) > most:
            raise InvalidInput.of(name, f"at most {most} characters long", f"{len(value)}")
    if len(metadata) > limits.MAX_METADATA:
        raise InvalidInput.of("metadata", f"at most {limits.MAX_METADATA} texts", len(metadata))
    check_destination(url, pool.allowed_hosts)
