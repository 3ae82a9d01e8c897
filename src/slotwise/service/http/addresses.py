"""Find the address of the visitor who sent a request, behind trusted proxies.

Used by `api`, `routing`, `settings` and `webhook`.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

from slotwise.errors import InvalidInput

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class TrustedProxies:
    """The proxies whose `X-Forwarded-For` is trusted.

    Each proxy appends the address it was called from. The list is read from its end: the first
    address that is not a trusted proxy is the visitor's. Anything before it was sent by the visitor
    and is ignored.

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

    def _is_trusted(self, address: str) -> bool:
        parsed = _parse(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def client(self, peer: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Return the address of the visitor; `peer` is the other end of the connection."""
        if not self._is_trusted(peer):
            return peer
        lines = [value for name, value in headers if name == b"x-forwarded-for"]
        nearest = peer
        for hop in reversed(b",".join(lines).decode("latin-1").split(",")):
            parsed = _parse(hop.strip())
            if parsed is None:
                break
            nearest = str(parsed)
            if not self._is_trusted(nearest):
                break
        return nearest


@functools.lru_cache(maxsize=10_000)
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
    """Return the key of an address for rate limits: itself, or the /64 network of IPv6.

    >>> rate_limited_network("203.0.113.7"), rate_limited_network("2001:db8:1:2::3")
    ('203.0.113.7', '2001:db8:1:2::/64')
    """
    if ":" not in address:
        return address
    try:
        return str(ipaddress.ip_network((address, 64), strict=False))
    except ValueError:
        return address


_IN_BRACKETS = re.compile(r"\[[^\[\]]*\](:\d*)?")
_LABELS = re.compile(rb"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?", re.IGNORECASE)


def split_address(url: str) -> SplitResult | None:
    """Return the parts of an http or https address; None if it is not valid.

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
    """Return whether the brackets of an address are followed by nothing but its port."""
    place = parts.netloc.rpartition("@")[2]
    return not set("[]") & set(place) or bool(_IN_BRACKETS.fullmatch(place))


def _is_host(host: str) -> bool:
    if ":" in host:
        return bool(ipaddress.IPv6Address(host))
    name = host.encode("idna")
    return bool(_LABELS.fullmatch(name) and name.decode("idna"))


_PREFETCH = re.compile(r"prefetch|prerender|preview", re.IGNORECASE)
_CRAWLER = re.compile(
    r"(?<!cu)bot\b|bots\b|bot[/;_-]|crawl|spider|slurp|facebookexternalhit|embedly|whatsapp/|"
    r"skypeuripreview|pingdom|uptimerobot|statuscake|headlesschrome|phantomjs|lighthouse|"
    r"curl/|wget/|python-requests|python-httpx|python-urllib|aiohttp|go-http-client|okhttp|"
    r"java/|libwww-perl|scrapy|mediapartners-google|google-safety|bingpreview|feedfetcher|"
    r"archive\.org|ia_archiver|dataprovider|semrush|ahrefs|mj12|validator|monitor",
    re.IGNORECASE,
)
_PURPOSE_HEADERS = ("sec-purpose", "purpose", "x-purpose", "x-moz")


def why_no_click(method: str, headers: Mapping[str, str]) -> str:
    """Return `head`, `prefetch` or `crawler`, or an empty text if it may be a visitor.

    `headers` have lower-case names. Programs that identify themselves are crawlers; a program that
    claims to be a browser is not recognised.

    >>> why_no_click("GET", {"user-agent": "Mozilla/5.0 (compatible; Googlebot/2.1)"})
    'crawler'
    >>> why_no_click("GET", {"user-agent": "Mozilla/5.0 Firefox/140", "sec-purpose": "prefetch"})
    'prefetch'
    >>> why_no_click("GET", {"user-agent": "Mozilla/5.0 Firefox/140"})
    ''
    """
    if method == "HEAD":
        return "head"
    if any(_PREFETCH.search(headers.get(name, "")) for name in _PURPOSE_HEADERS):
        return "prefetch"
    user_agent = headers.get("user-agent", "")
    if not user_agent or _CRAWLER.search(user_agent):
        return "crawler"
    return ""
