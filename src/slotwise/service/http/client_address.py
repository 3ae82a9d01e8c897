"""Who sent a request: the address of the visitor, behind proxies that are trusted to name it."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable, Sequence

from slotwise.errors import InvalidInput

__all__ = ["TrustedProxies", "rate_limited_network"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """The proxies whose `X-Forwarded-For` is trusted.

    Each proxy appends the address it was called from. The list is read from its end: the first
    address that is not a trusted proxy is the visitor's. What stands before it is the visitor's
    own claim and is ignored.

    >>> proxies = TrustedProxies(["10.0.0.0/8"])
    >>> proxies.client("10.1.2.3", [(b"x-forwarded-for", b"6.6.6.6, 203.0.113.7, 10.9.9.9")])
    '203.0.113.7'
    >>> proxies.client("198.51.100.1", [(b"x-forwarded-for", b"203.0.113.7")])
    '198.51.100.1'
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = []
        for network in networks:
            try:
                self._networks.append(ipaddress.ip_network(network))
            except ValueError:
                rule = "addresses or networks such as 10.0.0.0/8, separated by commas"
                raise InvalidInput.of("trusted_proxies", rule, network) from None
        self.are_trusted = functools.lru_cache(maxsize=1_000)(self._are_trusted)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def _are_trusted(self, address: str) -> bool:
        parsed = _parse(address)
        return parsed is not None and any(
            parsed in network for network in self._networks if network.version == parsed.version
        )

    def client(self, peer: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Return the address of the visitor; `peer` is the other end of the connection."""
        if not self.are_trusted(peer):
            return peer
        lines = [value for name, value in headers if name == b"x-forwarded-for"]
        nearest = peer
        for hop in reversed(b",".join(lines).decode("latin-1").split(",")):
            parsed = _parse(hop.strip())
            if parsed is None:
                break
            nearest = str(parsed)
            if not self.are_trusted(nearest):
                break
        return nearest


def _parse(text: str) -> Address | None:
    """Read an address, with or without a port."""
    host, _, port = text.rpartition(":")
    if port.isdigit() and (host.startswith("[") or host.count(":") == 0):
        text = host.strip("[]")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


@functools.lru_cache(maxsize=10_000)
def rate_limited_network(address: str) -> str:
    """Return what a rate limit counts an address as: itself, or the /64 network of IPv6.

    >>> rate_limited_network("203.0.113.7"), rate_limited_network("2001:db8:1:2::3")
    ('203.0.113.7', '2001:db8:1:2::/64')
    """
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address, 64), strict=False))
    except ValueError:
        return address
