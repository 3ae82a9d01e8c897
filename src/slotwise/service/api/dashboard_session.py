"""The session of somebody who is signed in to the dashboard, and requests from this machine.

Used by `app` and `sign_in`.
"""

from __future__ import annotations

import re

from slotwise.service.access.sessions import Session, same_origin
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.http.problems import RequestProblem
from slotwise.service.records import KeyRecord
from slotwise.service.settings import Settings, is_loopback

_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via", b"x-forwarded-host")
_LOCAL_HOST = re.compile(rb"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]+)?", re.IGNORECASE)


def is_visitor_of_this_machine(request: Request, settings: Settings) -> bool:
    """Return whether a request without a key comes from a person at this machine.

    A loopback address is not enough: requests through a proxy on this machine have it too, and
    a page elsewhere may let its own host name point here. So the service must listen on loopback
    only, without a public URL or a trusted proxy, and the request must have no header of a proxy
    and name this machine as its host. A request with a key is always checked by the key.
    """
    headers = request.headers
    if b"authorization" in headers or settings.public_url or settings.trusted_proxies:
        return False
    if not is_loopback(settings.host) or not is_loopback(request.client):
        return False
    is_direct = not any(name in headers for name in _FORWARDED)
    return is_direct and bool(_LOCAL_HOST.fullmatch(headers.get(b"host", b"")))


_SCOPES = ("read", "admin")
"""What the dashboard does. Programs request pages and send events, with keys."""
_SAFE = ("GET", "HEAD")


def _name(context: ServiceContext) -> str:
    # A browser takes a cookie with this prefix from a page with TLS only, and from this host only.
    return "__Host-slotwise" if context.is_secure else "slotwise"


def read_session(context: ServiceContext, request: Request) -> Session | None:
    """Return the session of a request that still holds: not ended, its key not revoked."""
    name = _name(context)
    for pair in request.headers.get(b"cookie", b"").decode("latin-1").split(";"):
        found, _, text = pair.strip().partition("=")
        if found != name:
            continue
        session = context.session_signer.read(text, context.clock_us())
        if session is None or context.service.signed_out.has(session):
            continue
        key = context.service.directory.key_records.get(session.key_id)
        if key is not None and not key.revoked_us:
            return session
    return None


def key_of_session(
    context: ServiceContext, request: Request, operation: Operation
) -> KeyRecord | None:
    """Return the key that the visitor signed in with, None without a session that holds.

    A session changes something only from a page of this service.
    """
    if operation.scope not in _SCOPES:
        return None
    session = read_session(context, request)
    if session is None:
        return None
    if operation.method not in _SAFE:
        check_origin(request)
    return context.service.directory.key_records.get(session.key_id)


def check_origin(request: Request) -> None:
    """Refuse a request that a page of somebody else made."""
    if not same_origin(request.headers):
        detail = "a session changes something from the dashboard only; programs send a key"
        raise RequestProblem("other-origin", detail)


def cookie_header(context: ServiceContext, session: Session | None) -> tuple[bytes, bytes]:
    """Return the header that gives a browser its session; None takes it from the browser."""
    text, max_age_s = "", 0
    if session is not None:
        text = context.session_signer.sign(session)
        max_age_s = session.left_s(context.clock_us())
    secure = "; Secure" if context.is_secure else ""
    cookie = f"{_name(context)}={text}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict"
    return b"set-cookie", f"{cookie}{secure}".encode()
