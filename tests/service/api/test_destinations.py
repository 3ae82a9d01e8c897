"""Destinations: whatever a browser could read in two ways is refused."""

from __future__ import annotations

import pytest

from slotwise.errors import InvalidInput
from slotwise.service.api.bodies import check_destination, destination_host

ALLOWED = ("shop.example", "shop.example:8443", "xn--bcher-kva.example")

OPEN_REDIRECT_TRICKS = [
    "https://evil.example/",
    "https://shop.example.evil.example/",
    "https://evil.example/shop.example",
    "https://evil.example?shop.example",
    "https://evil.example#shop.example",
    "https://evilshop.example/",
    "https://shop.example@evil.example/",
    "https://shop.example:443@evil.example/",
    "https://user:shop.example@evil.example/",
    "https://evil.example:80#@shop.example/",
    "https://evil.example\\@shop.example/",
    "https://shop.example\\.evil.example/",
    "https:\\\\evil.example/",
    "https:/\\evil.example/",
    "https:///evil.example/",
    "https:////evil.example/",
    "https:evil.example/",
    "https:/evil.example/",
    "//evil.example/",
    "///evil.example/",
    "////evil.example/",
    "/\\evil.example/",
    "\\\\evil.example/",
    "/evil.example",
    "evil.example",
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    "java\tscript:alert(1)",
    "javascript://shop.example/%0aalert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:msgbox(1)",
    "file:///etc/passwd",
    "ftp://shop.example/",
    "blob:https://shop.example/1",
    "intent://shop.example/#Intent;end",
    "view-source:https://shop.example/",
    " https://evil.example/",
    "\thttps://shop.example/",
    "https://shop.example/\n",
    "https://shop.example\n.evil.example/",
    "https://shop.example\r\nLocation: https://evil.example/",
    "https://shop.example/\x00",
    "https://shop.example%00.evil.example/",
    "https://shop.example%2eevil.example/",
    "https://shop.example%2f@evil.example/",
    "https://evil.example%23.shop.example/",
    "https://shop\u3002example.evil.example/",
    "https://evil\u3002example/",
    "https://\u24e2hop.example/",
    "https://shop.example\u202e/",
    "https://shop.example\u2024evil.example/",
    "https://shop.ex\u0430mple/",
    "https://SHOP.EXAMPLE/",
    "HTTPS://shop.example/",
    "https://shop.example./",
    "https://.shop.example/",
    "https://shop..example/",
    "https://-shop.example/",
    "https://shop.example:8080/",
    "https://shop.example:/",
    "https://shop.example:08443/",
    "https://shop.example:99999999/",
    "https://[::1]/",
    "https://[shop.example]/",
    "https://127.0.0.1/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://017700000001/",
    "https://localhost/",
    "https://shop.example;evil.example/",
    "https://shop.example,evil.example/",
    "https://shop.example|evil.example/",
    "https://shop.example`evil.example/",
    "https://shop_example/",
    "https://",
    "https://?",
    "",
    "http",
    "https://shop.example/" + "a" * 2048,
]


@pytest.mark.parametrize("url", OPEN_REDIRECT_TRICKS)
def test_an_open_redirect_trick_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="`url` must be"):
        check_destination(url, ALLOWED)


def test_there_are_at_least_forty_tricks() -> None:
    assert len(set(OPEN_REDIRECT_TRICKS)) == len(OPEN_REDIRECT_TRICKS) >= 40


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://shop.example", "shop.example"),
        ("http://shop.example/", "shop.example"),
        ("https://shop.example?q=1", "shop.example"),
        ("https://shop.example#top", "shop.example"),
        ("https://shop.example:8443/a?b=c&d=%20e#f", "shop.example:8443"),
        ("https://xn--bcher-kva.example/b", "xn--bcher-kva.example"),
        ("https://shop.example/@user/https://evil.example", "shop.example"),
    ],
)
def test_plain_addresses_on_allowed_hosts_pass(url: str, host: str) -> None:
    assert destination_host(url) == host
    check_destination(url, ALLOWED)
