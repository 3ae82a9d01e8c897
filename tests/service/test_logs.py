"""Logs: JSON lines with request ids, and no key, token or whole address in any of them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotwise.service.logs import ServiceLog, short_address, start_logs
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service.conftest import POOL, http


@pytest.fixture
def loggers() -> Iterator[None]:
    """Put the loggers back afterwards."""
    loggers = [logging.getLogger(name) for name in ("slotwise.service", "uvicorn.error")]
    before = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture
def written(loggers: None) -> io.StringIO:
    """Send all logs to a text."""
    stream = io.StringIO()
    start_logs("debug", stream)
    return stream


def lines_of(written: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_nothing_secret_is_ever_written(tmp_path: Path, written: io.StringIO) -> None:
    settings = Settings(
        port=0, store=f"sqlite:///{tmp_path / 'logged.db'}", log_requests="all", log_level="debug"
    )
    secrets = []
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        secrets.append(server.admin_key)
        made = admin.post("/v1/keys", json={"scopes": ["read"]}).json()
        secrets.append(made["key"])
        admin.put("/v1/pools/home", json=POOL)
        admin.put("/v1/pools/home/links/l1", json={"url": "https://shop.example/1"})
        for key in ("visitor-of-mine", "visitor-of-mine" * 100):  # the second one is refused
            secrets.append("visitor-of-mine")
            admin.post("/v1/pools/home/decide", json={"visitor_key": key})
            admin.post("/v1/pools/home/page", json={"visitor_key": key})
        page = admin.post("/v1/pools/home/decide").json()
        for link in page["links"]:
            secrets.append(link["click_url"].rpartition(".")[2])
            admin.get(link["click_url"])
            admin.get(link["click_url"] + "x")
        admin.get(f"/v1/pools/{made['key']}")
        admin.get(f"/v1/pools?key={made['key']}")
        admin.get(f"/{made['key']}")
        admin.request(made["key"], "/v1/pools")
        admin.get("/healthz", headers={"x-request-id": made["key"]})
        admin.get("/v1/pools", headers={"authorization": f"Basic {made['key']}"})
        admin.post("/v1/events", json={"type": "click", "decision_id": made["key"]})
        admin.put("/v1/pools/home", content=made["key"].encode())
        keys = server.context.service.directory.keys()
        secrets += [key.key_hash for key in keys]
    text = written.getvalue()
    assert len(lines_of(written)) > 12
    for secret in secrets:
        assert secret not in text
    assert "127.0.0.1" not in text
    assert "127.0.0.0/24" in text


def test_nothing_is_logged_before_the_service_is_ready(tmp_path: Path, loggers: None) -> None:
    stream = io.StringIO()
    start_logs("info", stream)
    with BackgroundServer(Settings(port=0, store=f"sqlite:///{tmp_path / 'logged.db'}")):
        pass
    assert [line["event"] for line in lines_of(stream)] == ["ready", "stopped"]


def test_a_line_names_the_request_and_who_made_it(tmp_path: Path, written: io.StringIO) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'logged.db'}")
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        answer = admin.put("/v1/pools/home", json=POOL)
        admin.get("/v1/pools/home")
        refused = admin.get("/v1/pools/none")
        admin.patch("/v1/pools/home/decide")
        by = admin.get("/v1/keys").json()["keys"][0]["key_id"]
    lines = [line for line in lines_of(written) if line["event"] == "request"]
    assert len(lines) == 3, "reads that succeed are not notable"
    change, refusal, other_method = lines
    assert change["request_id"] == answer.headers["x-request-id"]
    assert (change["method"], change["route"], change["status"]) == (
        "PUT",
        "/v1/pools/{pool_id}",
        200,
    )
    assert (change["by"], change["pool_id"], change["client"]) == (by, "home", "127.0.0.0/24")
    assert refusal["request_id"] == refused.headers["x-request-id"]
    assert "pool_id" not in refusal
    assert (other_method["method"], other_method["route"], other_method["status"]) == (
        "PATCH",
        "/v1/pools/{pool_id}/decide",
        405,
    )


def test_a_failure_is_logged_by_its_place_and_answered_by_its_request_id(
    tmp_path: Path, written: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'logged.db'}")
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:

        def fail() -> None:
            raise RuntimeError("secret words")

        monkeypatch.setattr(server.context.service.directory, "pools", fail)
        answer = admin.get("/v1/pools")
    assert answer.status_code == 500
    assert answer.json()["type"] == "internal"
    assert "secret words" not in answer.text
    [failure] = [line for line in lines_of(written) if line["event"] == "request.failed"]
    assert failure["request_id"] == answer.json()["request_id"]
    assert failure["failure"] == "RuntimeError"
    assert "fail:" in str(failure["at"])
    assert "secret words" not in written.getvalue()


def test_lines_have_a_time_a_level_and_fields(written: io.StringIO) -> None:
    ServiceLog().warning("store.away", waiting=3)
    [line] = lines_of(written)
    assert str(line.pop("time")).endswith("+00:00")
    assert line == {"level": "warning", "event": "store.away", "waiting": 3}


@pytest.mark.parametrize(
    ("address", "short"),
    [
        ("203.0.113.77", "203.0.113.0/24"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
        ("::1", "::/48"),
        ("", ""),
        ("testclient", ""),
    ],
)
def test_addresses_are_shortened(address: str, short: str) -> None:
    assert short_address(address) == short


def test_standard_error_is_the_one_of_the_moment(
    loggers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that gives its standard error to another stream may close the first one."""
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stderr", first)
    start_logs("info")
    ServiceLog().info("first")
    monkeypatch.setattr("sys.stderr", second)
    first.close()
    ServiceLog().info("second")
    assert [line["event"] for line in lines_of(second)] == ["second"]


def test_probes_while_stopping_are_no_refusals(tmp_path: Path, written: io.StringIO) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'logged.db'}")
    with BackgroundServer(settings) as server, http(server.url, None) as prober:
        server.context.stopping = True
        assert prober.get("/readyz").status_code == 503
        assert prober.get("/v1/pools").status_code == 401
        assert dict(server.context.refusals.total) == {"missing-key": 1}


@pytest.mark.parametrize(
    ("is_local", "public_url", "warns"),
    [
        (False, "", True),
        (False, "http://links.example", True),
        (False, "HTTPS://links.example", False),
        (True, "", False),
    ],
)
def test_keys_that_travel_unencrypted_are_warned_of(
    tmp_path: Path,
    written: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    is_local: bool,
    public_url: str,
    warns: bool,
) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'logged.db'}", public_url=public_url)
    with BackgroundServer(settings):
        pass  # makes an admin key
    # No test listens on an address that others can reach.
    monkeypatch.setattr("slotwise.service.server.is_loopback", lambda _: is_local)
    with BackgroundServer(settings):
        pass
    found = [line for line in lines_of(written) if line["event"] == "start.unencrypted"]
    assert [line["level"] for line in found] == ["warning"] * warns
    assert all("proxy with TLS" in str(line["detail"]) for line in found)


def test_a_terminal_gets_lines_for_people(loggers: None) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    start_logs("info", terminal)
    ServiceLog().info("pool.change", pool_id="home", n=3, said="two words\x1b[31m")
    try:
        raise ValueError("a secret")
    except ValueError as error:
        ServiceLog().failure("request.failed", error)
    first, second = terminal.getvalue().splitlines()
    assert first[8:] == ' info    pool.change pool_id=home n=3 said="two words\\u001b[31m"'
    assert "error   request.failed failure=ValueError at=" in second
    assert "secret" not in second
