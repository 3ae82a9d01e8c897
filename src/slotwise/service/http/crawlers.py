"""Which requests for a click link do not come from a visitor who clicked."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["why_no_click"]

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
    """Return `head`, `prefetch` or `crawler`, or an empty text for what may be a visitor.

    `headers` have lower-case names. Programs that name themselves are crawlers; a program
    that claims to be a browser is not recognised here.

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
