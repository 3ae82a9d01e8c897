"""Notes on a pool: written, listed and removed. Used by `app`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from slotwise.errors import InvalidInput
from slotwise.service.api.bodies import Strict, Time, from_time
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.http.routing import links_to
from slotwise.service.limits import MAX_NOTE_CHARS
from slotwise.service.pool_notes import Note
from slotwise.service.records import to_time


class NoteBody(Strict, frozen=True, kw_only=True):
    """A note and the time that it is about."""

    text: Annotated[
        str,
        Meta(min_length=1, max_length=MAX_NOTE_CHARS, description="What happened, in a sentence"),
    ]
    at: Annotated[Time, Meta(description="When it happened; now unless given")] | UnsetType = UNSET


class NoteAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A note as stored."""

    note_id: str
    text: str
    at: Time
    by: str
    made_at: Time


class NoteList(msgspec.Struct, frozen=True):
    """The notes of a pool, newest first."""

    notes: list[NoteAnswer]


_EXAMPLE = {"text": "The spring campaign began", "at": "2026-01-05T09:00:00Z"}
OPERATIONS = Operations()


@OPERATIONS.add(
    "POST /v1/pools/{pool_id}/notes",
    "admin",
    body=NoteBody,
    status=201,
    example=_EXAMPLE,
    links=links_to("remove_note", giving=("note_id",)),
)
async def add_note(context: ServiceContext, request: Request) -> NoteAnswer:
    """Write a note on a pool; the dashboard draws it on its charts."""
    body: NoteBody = request.body
    pool = context.service.directory.pool(request.path_values["pool_id"])
    text = body.text.strip()
    if not text:
        raise InvalidInput.of("text", "a sentence", body.text)
    now_us = context.clock_us()
    at_us = now_us if body.at is UNSET else from_time(body.at)
    if not 0 <= at_us <= now_us:
        raise InvalidInput.of("at", "a time that has passed", to_time(at_us).isoformat())
    stored = context.service.notes.add(pool.pool_id, text, at_us, request.caller(), now_us)
    return _answer(await asyncio.wrap_future(stored))


@OPERATIONS.add("GET /v1/pools/{pool_id}/notes", "read")
def list_notes(context: ServiceContext, request: Request) -> NoteList:
    """List the notes on a pool, newest first."""
    pool = context.service.directory.pool(request.path_values["pool_id"])
    return NoteList([_answer(note) for note in context.service.notes.all(pool.pool_id)])


@OPERATIONS.add("DELETE /v1/pools/{pool_id}/notes/{note_id}", "admin")
async def remove_note(context: ServiceContext, request: Request) -> NoteAnswer:
    """Remove a note."""
    values = request.path_values
    pool = context.service.directory.pool(values["pool_id"])
    removed = await asyncio.to_thread(
        context.service.notes.remove,
        pool.pool_id,
        values["note_id"],
        request.caller(),
        context.clock_us(),
    )
    return _answer(await asyncio.wrap_future(removed))


def _answer(note: Note) -> NoteAnswer:
    return NoteAnswer(
        note_id=note.note_id,
        text=note.text,
        at=to_time(note.at_us),
        by=note.by,
        made_at=to_time(note.made_us),
    )
