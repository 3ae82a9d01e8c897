"""Sessions of the dashboard: signing in with a key, renewing, signing out. Used by `app`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slotwise.service.access.keys import find_key, key_allows
from slotwise.service.access.sessions import Session
from slotwise.service.api.bodies import Strict
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.dashboard_session import (
    check_origin,
    cookie_header,
    is_visitor_of_this_machine,
    read_session,
)
from slotwise.service.http.exchange import Answer
from slotwise.service.http.problems import FieldError, RequestProblem
from slotwise.service.limits import MAX_LABEL_CHARS, MAX_SIGN_IN_BODY_BYTES


class SignInBody(Strict, frozen=True, kw_only=True):
    """The key to sign in with."""

    key: Annotated[
        str, Meta(max_length=MAX_LABEL_CHARS, description="A key with scope read or admin")
    ]


class SessionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks at the dashboard, and what that person may do."""

    may: Literal["change", "read", "nothing"]
    key_id: str
    """The key that the person signed in with, or nothing."""
    label: str
    left_s: int
    """How long the session lasts unless it is renewed."""


OPERATIONS = Operations()


@OPERATIONS.add("GET /dashboard/session", None)
async def show_session(context: ServiceContext, request: Request) -> SessionAnswer:
    """Read who is signed in to the dashboard."""
    return _describe(context, request, read_session(context, request))


@OPERATIONS.add(
    "POST /dashboard/session",
    None,
    before_body=lambda _context, request: check_origin(request),
    body=SignInBody,
    max_body_bytes=MAX_SIGN_IN_BODY_BYTES,
    answer=SessionAnswer,
    example={"key": "sw_ak_…"},
    problems=(
        "unknown-key",
        "wrong-scope",
        "other-origin",
    ),
)
async def sign_in(context: ServiceContext, request: Request) -> Answer:
    """Sign in to the dashboard with a key; the answer sets a cookie."""
    body: SignInBody = request.body
    key = find_key(body.key.strip(), context.service.directory.key_records)
    if key is None:
        context.limits.spend("refused_keys", request)
        raise _refused("unknown-key", "the key is wrong or revoked")
    if not key_allows(key, "read"):
        has = ", ".join(key.scopes)
        detail = f"the dashboard needs a key with scope read or admin, this one has {has}"
        raise _refused("wrong-scope", detail)
    session = context.session_signer.start(key.key_id, context.clock_us())
    return _answer(context, request, session)


@OPERATIONS.add(
    "PUT /dashboard/session",
    None,
    answer=SessionAnswer,
    problems=(
        "missing-key",
        "other-origin",
    ),
)
async def renew_session(context: ServiceContext, request: Request) -> Answer:
    """Renew a session."""
    check_origin(request)
    session = read_session(context, request)
    if session is None:
        raise RequestProblem("missing-key", "the session has ended; sign in again")
    return _answer(context, request, context.session_signer.renewed(session, context.clock_us()))


@OPERATIONS.add("DELETE /dashboard/session", None, answer=SessionAnswer, problems=("other-origin",))
async def sign_out(context: ServiceContext, request: Request) -> Answer:
    """Sign out of the dashboard: the session ends for good."""
    check_origin(request)
    session = read_session(context, request)
    if session is not None:
        now_us = context.clock_us()
        # Another tab may have renewed the session up to now.
        latest = context.session_signer.renewed(session, now_us)
        ended = context.service.signed_out.end(latest, now_us)
        await asyncio.wrap_future(ended)
    return _answer(context, request, None)


def _refused(slug: str, detail: str) -> RequestProblem:
    return RequestProblem(slug, detail, errors=[FieldError(detail, "/key")])


def _answer(context: ServiceContext, request: Request, session: Session | None) -> Answer:
    described = msgspec.json.encode(_describe(context, request, session))
    return Answer(described, headers=(cookie_header(context, session),))


def _describe(context: ServiceContext, request: Request, session: Session | None) -> SessionAnswer:
    key = context.service.directory.key_records.get(session.key_id) if session else None
    if session is None or key is None:
        is_here = is_visitor_of_this_machine(request, context.settings)
        may: Literal["read", "nothing"] = "read" if is_here else "nothing"
        return SessionAnswer(may=may, key_id="", label="", left_s=0)
    return SessionAnswer(
        may="change" if key_allows(key, "admin") else "read",
        key_id=key.key_id,
        label=key.label,
        left_s=session.left_s(context.clock_us()),
    )
