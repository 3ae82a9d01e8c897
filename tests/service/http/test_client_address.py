"""The address of a visitor behind proxies."""

from __future__ import annotations

import pytest

from slotwise.service.http.addresses import TrustedProxies

PROXIES = TrustedProxies(["10.0.0.0/8", "2001:db8::/32"])


@pytest.mark.parametrize(
    ("peer", "lines", "client"),
    [
        ("198.51.100.1", ["203.0.113.7"], "198.51.100.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["1.1.1.1, 203.0.113.7"], "203.0.113.7"),
        ("10.0.0.1", ["1.1.1.1", "203.0.113.7, 10.0.0.2"], "203.0.113.7"),
        ("10.0.0.1", ["203.0.113.7", "10.0.0.2"], "203.0.113.7"),
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        ("10.0.0.1", ["203.0.113.7:5123"], "203.0.113.7"),
        ("10.0.0.1", ["[2001:db9::7]:5123"], "2001:db9::7"),
        ("10.0.0.1", ["2001:db9::7, 2001:db8::1"], "2001:db9::7"),
        ("10.0.0.1", ["203.0.113.7, <script>"], "10.0.0.1"),
        ("10.0.0.1", ["203.0.113.7, , 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["\xff" * 1000], "10.0.0.1"),
        ("::ffff:10.0.0.1", ["203.0.113.7"], "203.0.113.7"),
        ("", ["203.0.113.7"], ""),
    ],
)
def test_the_last_hop_that_is_no_proxy_is_the_client(
    peer: str, lines: list[str], client: str
) -> None:
    headers = [(b"x-forwarded-for", line.encode("latin-1")) for line in lines]
    assert PROXIES.client(peer, [(b"host", b"x"), *headers]) == client
