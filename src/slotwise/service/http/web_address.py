"""Which texts are addresses of the web that a program can call."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit

__all__ = ["split_address"]

_IN_BRACKETS = re.compile(r"\[[^\[\]]*\](:\d*)?")
_LABELS = re.compile(rb"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?", re.IGNORECASE)


def split_address(url: str) -> SplitResult | None:
    """Return the parts of an http or https address; None where nobody could call it.

    >>> split_address("https://alerts.example:8443/x").port
    8443
    >>> split_address("https://alerts.example:port/x") is None
    True
    >>> split_address("https://[::1]x/") is None
    True
    """
    try:
        parts = urlsplit(url)
        is_callable = parts.port != 0 and _is_host(parts.hostname or "") and _is_whole(parts)
    except ValueError:  # a broken bracket, port or international name
        return None
    is_plain = url.isprintable() and " " not in url
    return parts if is_plain and is_callable and parts.scheme in ("http", "https") else None


def _is_whole(parts: SplitResult) -> bool:
    """Say whether nothing stands beside the brackets of an address but its port."""
    place = parts.netloc.rpartition("@")[2]
    return not set("[]") & set(place) or bool(_IN_BRACKETS.fullmatch(place))


def _is_host(host: str) -> bool:
    if ":" in host:
        return bool(ipaddress.IPv6Address(host))
    name = host.encode("idna")
    return bool(_LABELS.fullmatch(name) and name.decode("idna"))
