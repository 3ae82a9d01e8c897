"""The cookie of a session: written when somebody signs in, read when a call brings no key."""

from __future__ import annotations

from slotwise.service.access.sessions import Session, same_origin
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.http.problems import RequestProblem
from slotwise.service.records import KeyRecord

__all__ = ["check_origin", "cookie_header", "key_of_session", "read_session", "removal_header"]

_SCOPES = ("read", "admin")
"""What the dashboard does. Pages and events are asked for and sent by programs, with keys."""
_SAFE = ("GET", "HEAD")


def _name(context: ServiceContext) -> str:
    # A browser takes a cookie with this prefix from a page with TLS only, and from this host only.
    return "__Host-slotwise" if _is_secure(context) else "slotwise"


def _is_secure(context: ServiceContext) -> bool:
    return context.public_base.startswith("https://")


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
        key = context.service.key(session.key_id)
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
    return context.service.key(session.key_id)


def check_origin(request: Request) -> None:
    """Refuse a request that a page of somebody else made."""
    if not same_origin(request.headers):
        detail = "a session changes something from the dashboard only; programs send a key"
        raise RequestProblem("other-origin", detail)


def cookie_header(context: ServiceContext, session: Session) -> tuple[bytes, bytes]:
    """Return the header that gives a browser its session."""
    left_s = session.left_s(context.clock_us())
    return _header(context, context.session_signer.sign(session), left_s)


def removal_header(context: ServiceContext) -> tuple[bytes, bytes]:
    """Return the header that takes the session from a browser."""
    return _header(context, "", 0)


def _header(context: ServiceContext, text: str, max_age_s: int) -> tuple[bytes, bytes]:
    secure = "; Secure" if _is_secure(context) else ""
    cookie = f"{_name(context)}={text}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict"
    return b"set-cookie", f"{cookie}{secure}".encode()
