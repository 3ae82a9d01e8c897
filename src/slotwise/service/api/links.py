"""Links of a pool: added, changed and retired while the pool runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service.api.answers import Time, to_time
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.api.destinations import check_destination
from slotwise.service.api.fields import LinkId, Strict
from slotwise.service.http.exchange import Answer
from slotwise.service.http.operations import OperationLink
from slotwise.service.http.problems import FieldError, RequestProblem, broken_rule
from slotwise.service.limits import (
    MAX_METADATA,
    MAX_METADATA_CHARS,
    MAX_TITLE_CHARS,
    MAX_URL_CHARS,
    METADATA_PATTERN,
)
from slotwise.service.records import LinkRecord

__all__ = ["OPERATIONS"]

Url = Annotated[
    str,
    Meta(
        pattern="^https?://",
        max_length=MAX_URL_CHARS,
        description="Where the link leads, on one of the pool's hosts",
    ),
]
Title = Annotated[
    str, Meta(max_length=MAX_TITLE_CHARS, description="The text of the link on a page")
]
Metadata = Annotated[
    dict[
        Annotated[str, Meta(pattern=METADATA_PATTERN)],
        Annotated[str, Meta(max_length=MAX_METADATA_CHARS)],
    ],
    Meta(max_length=MAX_METADATA, description="Free texts that a page may show, by name"),
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


async def put_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Add or replace a link; a retired link comes back."""
    body: LinkBody = request.body
    values = request.path_values
    link = LinkRecord(
        pool_id=values["pool_id"],
        link_id=values["link_id"],
        url=body.url,
        title=body.title,
        metadata=body.metadata,
    )
    _check_url(context, link, "/url")
    [stored] = await _store(context, request, [link], reset=body.reset_statistics)
    return _answer(stored)


async def patch_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Change some fields of a link."""
    patch: LinkPatch = request.body
    given = {name: getattr(patch, name) for name in ("url", "title", "metadata", "retired")}
    changes = {name: value for name, value in given.items() if value is not UNSET}
    link = replace(_present(context, request), **changes)
    _check_url(context, link, "/url")
    [stored] = await _store(context, request, [link], reset=patch.reset_statistics)
    return _answer(stored)


async def retire_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Take a link out of the choice."""
    link = replace(_present(context, request), retired=True)
    [stored] = await _store(context, request, [link], reset=False)
    return _answer(stored)


async def get_link(context: ServiceContext, request: Request) -> LinkAnswer:
    """Return a link."""
    return _answer(_present(context, request))


async def list_links(context: ServiceContext, request: Request) -> Answer:
    """Return the links of a pool."""
    pool_id = request.path_values["pool_id"]

    def encoded() -> bytes:
        links = context.service.links(pool_id)
        return msgspec.json.encode(LinkList([_answer(link) for link in links]))

    return Answer(await asyncio.to_thread(encoded))


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
        link = LinkRecord(
            pool_id=pool_id,
            link_id=item.link_id,
            url=item.url,
            title=item.title,
            metadata=item.metadata,
        )
        _check_url(context, link, f"/links/{index}/url")
        links.append(link)
    return links


def _present(context: ServiceContext, request: Request) -> LinkRecord:
    values = request.path_values
    return context.service.link(values["pool_id"], values["link_id"])


def _check_url(context: ServiceContext, link: LinkRecord, pointer: str) -> None:
    try:
        check_destination(link.url, context.service.pool(link.pool_id).allowed_hosts)
    except InvalidInput as error:
        raise broken_rule(str(error), pointer) from None


async def _store(
    context: ServiceContext, request: Request, links: Sequence[LinkRecord], *, reset: bool
) -> list[LinkRecord]:
    stored = await asyncio.to_thread(
        context.service.put_links,
        request.path_values["pool_id"],
        links,
        request.caller(),
        context.clock_us(),
        reset_statistics=reset,
    )
    return await asyncio.wrap_future(stored)


def _answer(link: LinkRecord) -> LinkAnswer:
    return LinkAnswer(
        pool_id=link.pool_id,
        link_id=link.link_id,
        url=link.url,
        title=link.title,
        metadata=link.metadata,
        retired=link.retired,
        created_at=to_time(link.created_us),
        changed_at=to_time(link.changed_us),
    )


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
_TO_LINK = {"pool_id": "$response.body#/pool_id", "link_id": "$response.body#/link_id"}
_TO_POOL = {"pool_id": "$response.body#/pool_id"}
_PATH = "/v1/pools/{pool_id}/links/{link_id}"

OPERATIONS = (
    Operation(
        method="PUT",
        path=_PATH,
        name="put_link",
        summary="Add or replace a link; statistics are kept unless a reset is asked for",
        handler=put_link,
        scope="admin",
        body=LinkBody,
        answer=LinkAnswer,
        problems=("unknown-pool", "pool-too-large"),
        example=EXAMPLE,
        answer_example=ANSWER_EXAMPLE,
        links=(
            OperationLink("get_link", _TO_LINK),
            OperationLink("patch_link", _TO_LINK),
            OperationLink("retire_link", _TO_LINK),
            OperationLink("decide", _TO_POOL),
        ),
    ),
    Operation(
        method="PATCH",
        path=_PATH,
        name="patch_link",
        summary="Change some fields of a link",
        handler=patch_link,
        scope="admin",
        body=LinkPatch,
        answer=LinkAnswer,
        problems=("unknown-pool", "unknown-link"),
        example={"title": "Summer sale"},
        answer_example=ANSWER_EXAMPLE | {"title": "Summer sale"},
    ),
    Operation(
        method="DELETE",
        path=_PATH,
        name="retire_link",
        summary="Retire a link: shown no more, still followed and counted",
        handler=retire_link,
        scope="admin",
        answer=LinkAnswer,
        problems=("unknown-pool", "unknown-link"),
        answer_example=ANSWER_EXAMPLE | {"retired": True},
    ),
    Operation(
        method="GET",
        path=_PATH,
        name="get_link",
        summary="Read a link",
        handler=get_link,
        scope="read",
        answer=LinkAnswer,
        problems=("unknown-pool", "unknown-link"),
        answer_example=ANSWER_EXAMPLE,
    ),
    Operation(
        method="GET",
        path="/v1/pools/{pool_id}/links",
        name="list_links",
        summary="List the links of a pool, retired ones too",
        handler=list_links,
        scope="read",
        answer=LinkList,
        problems=("unknown-pool",),
        answer_example={"links": [ANSWER_EXAMPLE]},
    ),
    Operation(
        method="POST",
        path="/v1/pools/{pool_id}/links:batch",
        name="put_links",
        summary="Add or replace many links, all or none",
        handler=put_links,
        scope="admin",
        body=LinkBatchBody,
        answer=LinkList,
        problems=("unknown-pool", "pool-too-large", "batch-too-large"),
        example={"links": [{"link_id": "l1", **EXAMPLE}]},
        answer_example={"links": [ANSWER_EXAMPLE]},
    ),
)
