"""Where a click may lead: to addresses on allowed hosts that every browser parses alike."""

from __future__ import annotations

import re
from collections.abc import Collection

from slotwise.errors import InvalidInput
from slotwise.service.limits import HOST_PATTERN, MAX_URL_CHARS

__all__ = ["check_destination", "destination_host"]

# Browsers correct addresses: backslashes, tabs, user names, odd schemes. An address that could
# be parsed in two ways does not match, so there is nothing to correct.
_DESTINATION = re.compile(
    r"https?://(?P<host>[a-z0-9.-]+(?::[0-9]+)?)(?:[/?#](?:(?![\\\"<>^`{|}])[!-~])*)?"
)
_HOST = re.compile(HOST_PATTERN)


def destination_host(url: str) -> str | None:
    """Return the host, with its port if it has one, of an address that is safe to follow.

    >>> destination_host("https://shop.example/1?q=2")
    'shop.example'
    >>> destination_host("https://shop.example@evil.example/") is None
    True
    """
    if len(url) > MAX_URL_CHARS:
        return None
    found = _DESTINATION.fullmatch(url)
    if found is None or not _HOST.fullmatch(found["host"]):
        return None
    return found["host"]


def check_destination(url: str, allowed_hosts: Collection[str]) -> None:
    """Refuse an address that could lead anywhere but to one of the allowed hosts.

    >>> check_destination("https://evil.example/", ["shop.example"])
    Traceback (most recent call last):
    slotwise.errors.InvalidInput: `url` must be on one of the pool's allowed hosts \
(shop.example), got 'evil.example'
    """
    host = destination_host(url)
    if host is None:
        rule = (
            "an http or https address of printable ASCII with a lower-case host name, "
            f"no user name and at most {MAX_URL_CHARS} characters"
        )
        raise InvalidInput.of("url", rule, url[:100])
    if host not in allowed_hosts:
        rule = f"on one of the pool's allowed hosts ({', '.join(sorted(allowed_hosts))})"
        raise InvalidInput.of("url", rule, host)
