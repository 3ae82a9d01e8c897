"""Receivers of alerts that mean no good."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from threading import Event, Thread

import pytest

from slotwise.service import webhook
from slotwise.service.alert_conditions import Alert
from slotwise.service.webhook import AlertReceiver, Delivery, Webhook

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)
Receive = Callable[[bytes, bytes], Delivery]


@pytest.fixture
def send(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receive]:
    """Send a message to a receiver that answers one text and then another one over and over."""
    monkeypatch.setattr(webhook, "TIMEOUT_S", 600.0)
    is_over, threads = Event(), []

    def deliver(first: bytes, then: bytes) -> Delivery:
        listening = socket.create_server(("127.0.0.1", 0))

        def answer() -> None:
            connection, _ = listening.accept()
            with listening, connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(first)
                while not is_over.wait(0.005):
                    connection.sendall(then)

        threads.append(Thread(target=answer, daemon=True))
        threads[-1].start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/hook"
        hook = Webhook(AlertReceiver(url=url), "secret", "https://links.example")
        alert = Alert(kind="floor-missed", pool_id="home", detail="Too few clicks.")
        return hook.send(hook.message(alert, "started", NOW, NOW))

    yield deliver
    is_over.set()
    for thread in threads:
        thread.join()


def test_a_byte_at_a_time_does_not_hold_the_thread(
    send: Receive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "TIMEOUT_S", 0.5)
    delivery = send(b"HTTP/1.1 200 OK\r\nx-slow: ", b"x")
    assert not delivery.delivered
    assert delivery.detail == "the receiver did not answer within 0.5 s"


def test_an_endless_body_is_not_read(send: Receive) -> None:
    delivery = send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n")
    assert (delivery.delivered, delivery.detail) == (True, "the receiver answered 200")


def test_endless_headers_are_refused(send: Receive) -> None:
    delivery = send(b"HTTP/1.1 200 OK\r\n", b"x-many: " + b"y" * 60_000 + b"\r\n")
    assert not delivery.delivered
    assert "cannot be reached" in delivery.detail


def test_metadata_behind_a_redirect_is_not_fetched(send: Receive) -> None:
    secret = b"http://169.254.169.254/latest/meta-data/"
    delivery = send(
        b"HTTP/1.1 307 No\r\nlocation: " + secret + b"\r\ncontent-length: 0\r\n\r\n", b""
    )
    assert (delivery.delivered, delivery.detail) == (False, "the receiver answered 307")
