"""Which requests come from a person at the machine that the service runs on."""

from __future__ import annotations

import ipaddress
import re

from slotwise.service.api.context import Request
from slotwise.service.settings import Settings, is_loopback

__all__ = ["is_visitor_of_this_machine"]

_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via", b"x-forwarded-host")
_LOCAL_HOST = re.compile(rb"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]+)?", re.IGNORECASE)


def is_visitor_of_this_machine(request: Request, settings: Settings) -> bool:
    """Tell whether a request without a key comes from a person at this machine.

    A loopback address is not enough: requests through a proxy on this machine have it too, and
    a page elsewhere may let its own host name point here. So the service must listen on loopback
    only, without a public URL or a trusted proxy, and the request must have no header of a proxy
    and name this machine as its host. A request with a key is always checked by the key.
    """
    headers = request.headers
    if b"authorization" in headers or settings.public_url or settings.trusted_proxies:
        return False
    if not is_loopback(settings.host):
        return False
    if any(name in headers for name in _FORWARDED):
        return False
    if not _LOCAL_HOST.fullmatch(headers.get(b"host", b"")):
        return False
    try:
        return ipaddress.ip_address(request.client).is_loopback
    except ValueError:
        return False
