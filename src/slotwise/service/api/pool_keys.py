"""Keys: made, listed and revoked, and their views forgotten. Used by `app`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from slotwise.service.access.keys import new_key
from slotwise.service.api.bodies import Id, Strict, Time, from_time
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.http.routing import links_to
from slotwise.service.limits import MAX_LABEL_CHARS
from slotwise.service.records import (
    KeyRecord,
    Scope,
    time_if_any,
    to_time,
)
from slotwise.service.refusals import Conflict, UnknownKey


class KeyBody(Strict, frozen=True, kw_only=True):
    """What a new key may do."""

    scopes: Annotated[
        tuple[Scope, ...],
        Meta(min_length=1, extra_json_schema={"uniqueItems": True}),
        Meta(description="What the key may do"),
    ]
    pool_id: (
        Annotated[Id, Meta(description="For scope page: the only pool that the key is for")] | None
    ) = None
    label: Annotated[str, Meta(max_length=MAX_LABEL_CHARS, description="Whose key it is")] = ""


class KeyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    key_id: str
    scopes: tuple[Scope, ...]
    label: str
    pool_id: str
    created_at: Time
    revoked_at: Time | None


class NewKeyAnswer(KeyAnswer, frozen=True, kw_only=True):
    """A key with its secret: the only time it is shown."""

    key: str


class KeyList(msgspec.Struct, frozen=True):
    """Every key, revoked ones too."""

    keys: list[KeyAnswer]


class ForgetBody(Strict, frozen=True, kw_only=True):
    """The time from which on the views of a key are forgotten."""

    since: Annotated[Time, Meta(description="Forget page views from this time on")]


class ForgottenAnswer(msgspec.Struct, frozen=True):
    """How many page views were excluded from all counts."""

    views: int


_EXAMPLE = {"scopes": ["decide", "track"], "label": "shop front"}
OPERATIONS = Operations()


@OPERATIONS.add(
    "POST /v1/keys",
    "admin",
    body=KeyBody,
    status=201,
    example=_EXAMPLE,
    links=links_to("revoke_key", giving=("key_id",)),
    problems=("unknown-pool",),
)
async def make_key(context: ServiceContext, request: Request) -> NewKeyAnswer:
    """Make a key; its secret is shown only once."""
    body: KeyBody = request.body
    now_us = context.clock_us()
    if body.pool_id is not None:
        context.service.directory.pool(body.pool_id)
    made = new_key(body.scopes, label=body.label, pool_id=body.pool_id or "", now_us=now_us)
    stored = await asyncio.wrap_future(
        context.service.directory.put_key(made.record, request.caller(), now_us)
    )
    return NewKeyAnswer(**msgspec.structs.asdict(_answer(stored)), key=made.secret)


@OPERATIONS.add("GET /v1/keys", "admin")
async def list_keys(context: ServiceContext, request: Request) -> KeyList:
    """List the keys, revoked ones too."""
    keys = context.service.directory.keys()
    return KeyList([_answer(key) for key in keys if key.scopes])


@OPERATIONS.add("DELETE /v1/keys/{key_id}", "admin", problems=("conflict",))
async def revoke_key(context: ServiceContext, request: Request) -> KeyAnswer:
    """Revoke a key permanently."""
    key_id = request.path_values["key_id"]
    key = context.service.directory.key_records.get(key_id)
    if key is None or not key.scopes:
        raise UnknownKey(f"`key_id` must be one of the keys, got {key_id!r}")
    keys = context.service.directory.keys()
    others = [
        other.key_id
        for other in keys
        if "admin" in other.scopes and not other.revoked_us and other.key_id != key_id
    ]
    if "admin" in key.scopes and not key.revoked_us and not others:
        raise Conflict("this is the last admin key; make another one first")
    revoked = context.service.directory.revoke_key(key_id, request.caller(), context.clock_us())
    return _answer(await asyncio.wrap_future(revoked))


@OPERATIONS.add(
    "POST /v1/keys/{key_id}/forget",
    "admin",
    body=ForgetBody,
    example={"since": "2026-01-05T10:00:00Z"},
)
async def forget_views(context: ServiceContext, request: Request) -> ForgottenAnswer:
    """Exclude the page views that a key requested from all counts."""
    body: ForgetBody = request.body
    key_id, since_us = request.path_values["key_id"], from_time(body.since)
    forgotten = context.service.directory.forget_views(
        key_id, since_us, request.caller(), context.clock_us()
    )
    return ForgottenAnswer(await asyncio.wrap_future(forgotten))


def _answer(key: KeyRecord) -> KeyAnswer:
    return KeyAnswer(
        key_id=key.key_id,
        scopes=key.scopes,
        label=key.label,
        pool_id=key.pool_id,
        created_at=to_time(key.created_us),
        revoked_at=time_if_any(key.revoked_us),
    )
