"""Keys: made, listed and revoked."""

from __future__ import annotations

import asyncio

import msgspec

from slotwise.errors import InvalidInput
from slotwise.service.access.keys import new_key
from slotwise.service.api.answers import to_time
from slotwise.service.api.bodies import KeyAnswer, KeyBody, KeyList, NewKeyAnswer
from slotwise.service.api.context import ServiceContext
from slotwise.service.errors import Conflict, UnknownKey
from slotwise.service.http.exchange import Request
from slotwise.service.http.operations import Operation, OperationLink
from slotwise.service.http.problems import FieldError, RequestProblem
from slotwise.service.records import KeyRecord

__all__ = ["OPERATIONS"]


async def make_key(context: ServiceContext, request: Request) -> NewKeyAnswer:
    """Make a key and show it, once."""
    body: KeyBody = request.body
    now_us = context.clock_us()
    try:
        made = new_key(body.scopes, label=body.label, now_us=now_us)
    except InvalidInput as error:
        errors = [FieldError(str(error), "/scopes")]
        raise RequestProblem("validation", str(error), errors=errors) from None
    stored = await asyncio.wrap_future(
        context.service.put_key(made.record, request.caller(), now_us)
    )
    return NewKeyAnswer(**msgspec.structs.asdict(_answer(stored)), key=made.secret)


async def list_keys(context: ServiceContext, request: Request) -> KeyList:
    """List every key that opens something; secrets are not known here."""
    keys = context.service.keys()
    return KeyList([_answer(key) for key in keys if key.scopes])


async def revoke_key(context: ServiceContext, request: Request) -> KeyAnswer:
    """Make a key useless, but never the last one that can make others."""
    key_id = request.path_values["key_id"]
    key = context.service.key(key_id)
    if key is None or not key.scopes:
        raise UnknownKey(f"`key_id` must be one of the keys, got {key_id!r}")
    keys = context.service.keys()
    others = [
        other.key_id
        for other in keys
        if "admin" in other.scopes and not other.revoked_us and other.key_id != key_id
    ]
    if "admin" in key.scopes and not key.revoked_us and not others:
        raise Conflict("this is the last admin key; make another one first")
    revoked = context.service.revoke_key(key_id, request.caller(), context.clock_us())
    return _answer(await asyncio.wrap_future(revoked))


def _answer(key: KeyRecord) -> KeyAnswer:
    return KeyAnswer(
        key_id=key.key_id,
        scopes=key.scopes,
        label=key.label,
        created_at=to_time(key.created_us),
        revoked_at=to_time(key.revoked_us) if key.revoked_us else None,
    )


_EXAMPLE = {"scopes": ["decide", "track"], "label": "shop front"}
_ANSWER = {
    "key_id": "5f0c9a7d3b21e884",
    **_EXAMPLE,
    "created_at": "2026-01-05T10:00:00Z",
    "revoked_at": None,
}

OPERATIONS = (
    Operation(
        method="POST",
        path="/v1/keys",
        name="make_key",
        summary="Make a key; its secret is shown this once",
        handler=make_key,
        scope="admin",
        body=KeyBody,
        answer=NewKeyAnswer,
        status=201,
        example=_EXAMPLE,
        answer_example=_ANSWER | {"key": "sw_dk_…"},
        links=(OperationLink("revoke_key", {"key_id": "$response.body#/key_id"}),),
    ),
    Operation(
        method="GET",
        path="/v1/keys",
        name="list_keys",
        summary="List the keys, revoked ones too",
        handler=list_keys,
        scope="admin",
        answer=KeyList,
        answer_example={"keys": [_ANSWER]},
    ),
    Operation(
        method="DELETE",
        path="/v1/keys/{key_id}",
        name="revoke_key",
        summary="Make a key useless for good",
        handler=revoke_key,
        scope="admin",
        answer=KeyAnswer,
        problems=("unknown-key-id", "conflict"),
        answer_example=_ANSWER | {"revoked_at": "2026-01-05T11:00:00Z"},
    ),
)
