"""Which requests for a click link are no visitor's click."""

from __future__ import annotations

import pytest

from slotwise.service.http.addresses import why_no_click

BROWSERS = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile/15E148 Safari/604",
    "Mozilla/5.0 (Linux; Android 15; Cubot P80) AppleWebKit/537.36 Chrome/140.0 Mobile",
]
CRAWLERS = [
    "",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 (compatible; bingbot/2.0)",
    "Mozilla/5.0 (compatible; YandexBot/3.0)",
    "facebookexternalhit/1.1",
    "Twitterbot/1.0",
    "Slackbot-LinkExpanding 1.0",
    "WhatsApp/2.23",
    "Mozilla/5.0 (compatible; AhrefsBot/7.0)",
    "Baiduspider+(+http://www.baidu.com/search/spider.htm)",
    "Mozilla/5.0 HeadlessChrome/140.0",
    "curl/8.5.0",
    "Wget/1.21",
    "python-httpx/0.28.1",
    "Go-http-client/2.0",
]


@pytest.mark.parametrize("agent", BROWSERS)
def test_a_browser_may_have_clicked(agent: str) -> None:
    assert why_no_click("GET", {"user-agent": agent}) == ""


@pytest.mark.parametrize("agent", CRAWLERS)
def test_programs_that_name_themselves_are_crawlers(agent: str) -> None:
    assert why_no_click("GET", {"user-agent": agent}) == "crawler"


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-purpose": "prefetch"},
        {"sec-purpose": "prefetch;prerender"},
        {"purpose": "prefetch"},
        {"x-purpose": "preview"},
        {"x-moz": "prefetch"},
    ],
)
def test_a_page_loaded_ahead_is_not_clicked(headers: dict[str, str]) -> None:
    assert why_no_click("GET", headers | {"user-agent": BROWSERS[0]}) == "prefetch"


def test_asking_for_the_head_is_not_clicking() -> None:
    assert why_no_click("HEAD", {"user-agent": BROWSERS[0]}) == "head"
