"""`slotwise serve`, `slotwise keys` and `slotwise demo`, as a newcomer runs them."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.table import Table

from slotwise.cli.demo import picture, summary
from slotwise.cli.main import main
from slotwise.cli.serving import announce
from slotwise.service.access.keys import new_key
from slotwise.service.opening import open_service
from slotwise.service.server import BackgroundServer, ServerStart
from slotwise.service.settings import Settings
from tests.service.conftest import http
from tests.service.crash_harness import Server
from tests.system_programs import system_program


@pytest.fixture(autouse=True)
def logs_stay_as_they_were() -> Iterator[None]:
    """Take back what `serve` sets up: it logs to a stream that ends with its test."""
    loggers = [logging.getLogger(name) for name in ("slotwise.service", "uvicorn.error")]
    before = [(one.handlers, one.level, one.propagate) for one in loggers]
    yield
    for one, (handlers, level, propagate) in zip(loggers, before, strict=True):
        one.handlers, one.propagate = handlers, propagate
        one.setLevel(level)


def test_a_start_loads_only_what_every_service_needs() -> None:
    program = "import sys, slotwise.cli.serving; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert "slotwise.cli.serving" in loaded
    assert loaded.isdisjoint({"httpx", "alembic", "polars", "matplotlib"})


@pytest.mark.system
def test_the_commands_of_the_manual_work_when_pasted(tmp_path: Path) -> None:
    server = Server(tmp_path / "first.db")
    page = Path("docs/start.md").read_text()
    [commands] = [one for one in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "curl" in one]
    try:
        commands = commands.replace("http://127.0.0.1:8460", server.url)
        commands = re.sub(r"KEY=.*", f"KEY={server.admin_key()}", commands)
        system_program("curl", package="curl")
        done = subprocess.run(
            ["bash", "-euc", commands.replace("curl -sS", "echo; curl -sS --fail-with-body")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        answers = [json.loads(line) for line in done.stdout.splitlines() if line]
        pool, links, page_shown, outcome, report = answers
        assert pool["pool_id"] == "home"
        assert len(links["links"]) == 3
        assert page_shown["links"][0]["link_id"] == "l1"
        assert outcome == {"outcome": "accepted"}
        assert report["clicked"] == ["l1"]
    finally:
        assert server.stop() == 0


def test_a_first_start_prints_three_lines(capsys: pytest.CaptureFixture[str]) -> None:
    start = ServerStart("http://127.0.0.1:8460", Settings(), "sw_ak_secret")
    announce(start)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "dashboard  http://127.0.0.1:8460/"
    assert lines[1] == "store      sqlite:///slotwise.db"
    assert lines[2].startswith("admin key  sw_ak_secret  (shown only now")
    announce(start._replace(admin_key=None))
    assert capsys.readouterr().out.splitlines() == lines[:2]


def test_the_key_is_printed_at_the_first_start_only(tmp_path: Path) -> None:
    first = Server(tmp_path / "twice.db")
    key = first.admin_key()
    assert first.stop() == 0
    second = Server(tmp_path / "twice.db")
    with http(second.url, key) as client:
        assert client.get("/v1/keys").status_code == 200
    second.process.terminate()
    assert second.process.stdout is not None
    assert "sw_ak_" not in second.process.stdout.read()
    assert second.process.wait() == 0
    second.process.stdout.close()


def test_check_prints_every_value_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "slotwise.toml"
    config.write_text('max_batch = 7\nalert_url = "https://hooks.slack.com/services/token"\n')
    store = f"sqlite:///{tmp_path / 'checked.db'}"
    arguments = ["serve", "--check", "--config", str(config), "--store", store, "--set", "port=0"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^max_batch +7 +Items a batch may have$", printed, re.MULTILINE)
    assert "https://hooks.slack.com " in printed
    assert "token" not in printed
    for name in ("port", "max_batch", "refused_keys_per_s"):  # the last one is the longest
        assert re.search(rf"^{name} +(?<=^.{{19}})\S", printed, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "99999"], "`port` must be a whole number, at most 65535, got 99999"),
        (["--set", "colour=red"], "flags: colour: no such setting"),
        (["--set", "max_batch"], "flags: --set: must be NAME=VALUE, got 'max_batch'"),
        (["--config", "none.toml"], "`config` must be a file that exists, got 'none.toml'"),
        (["--store", "mysql://x/y"], "`store` must be a path"),
    ],
)
def test_a_wrong_setting_is_named(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--check", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_others_are_let_in_only_after_there_is_an_admin_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"sqlite:///{tmp_path / 'open.db'}"
    arguments = ["serve", "--check", "--host", "0.0.0.0", "--port", "0", "--store", store]
    assert main(arguments) == 2
    refused = capsys.readouterr().err
    assert "0.0.0.0 can be reached by others and there is no admin key" in refused
    assert f"slotwise keys make admin --store {store}" in refused
    assert main(["keys", "make", "admin", "--store", store]) == 0
    assert capsys.readouterr().out.startswith("sw_ak_")
    assert main(arguments) == 0


def test_a_port_that_is_taken_is_named(
    server: BackgroundServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = str(httpx.URL(server.url).port)
    store = f"sqlite:///{tmp_path / 'taken.db'}"
    assert main(["serve", "--port", port, "--store", store]) == 2
    refused = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another" in refused
    assert "--port" in refused
    assert main(["keys", "list", "--store", store]) == 0  # the next start makes and prints a key
    assert "first admin key" not in capsys.readouterr().out


def test_keys_are_made_listed_and_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", f"sqlite:///{tmp_path / 'keys.db'}"]
    assert main(["keys", "make", "decide", "track", "--label", "shop", *store]) == 0
    secret = capsys.readouterr().out.strip()
    assert secret.startswith("sw_dk_")
    assert main(["keys", "list", *store]) == 0
    listed = capsys.readouterr().out
    assert "decide, track" in listed
    assert "shop" in listed
    assert secret not in listed
    [key_id] = re.findall(r"[0-9a-f]{16}", listed)
    assert main(["keys", "revoke", key_id, *store]) == 0
    assert capsys.readouterr().out == f"{key_id} is revoked\n"
    assert main(["keys", "revoke", "0123456789abcdef", *store]) == 2
    assert "there is no key" in capsys.readouterr().err
    for scope, pool in (("page", []), ("decide", ["--pool", "home"])):
        assert main(["keys", "make", scope, *pool, *store]) == 2
        assert "`--pool` must be given for a key with scope page, and" in capsys.readouterr().err
    assert main(["keys", "make", "root", *store]) == 2
    assert "`scopes` must be some of page, decide, track, read, admin" in capsys.readouterr().err


def test_the_list_of_keys_names_the_pool_of_a_page_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "keys.db"
    page_key = new_key(["page"], label="front", pool_id="start-page", now_us=1)
    service = open_service(Settings(store=f"sqlite:///{path}"))
    try:
        service.directory.put_key(page_key.record, "a test", 1).result()
    finally:
        service.close()
    assert main(["keys", "list", "--store", f"sqlite:///{path}"]) == 0
    assert "start-page" in capsys.readouterr().out


def test_all_commands_read_the_store_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLOTWISE_STORE", f"sqlite:///{tmp_path / 'shop.db'}")
    assert main(["keys", "make", "read"]) == 0
    backup = ["verify", "backup copy.db", "restore copy.db --overwrite", "purge --older-than 90"]
    for call in ("keys list", *backup):
        assert main(call.split()) == 0, call
    capsys.readouterr()
    since = "--since 2026-01-05T10:00:00Z"
    # commands that have nothing to do in this store say so, not that there is no store
    for call, told in {
        "export --to warehouse": "the store has no pool yet",
        f"forget --key 0 {since}": "`key` must be the id of a key of this store",
    }.items():
        assert main(call.split()) == 2, call
        assert told in capsys.readouterr().err
    assert not (tmp_path / "slotwise.db").exists()


def test_the_demo_refuses_a_time_that_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--seconds", "-1"]) == 2
    assert "`--seconds` must be a positive number, got -1.0" in capsys.readouterr().err


def test_the_demo_shows_what_it_learns(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert main(["demo", "--seconds", "0.5", "--seed", "1", "--port", str(port)]) == 0
    printed = capsys.readouterr().out
    assert re.search(rf"^  the shop +http://127\.0\.0\.1:{port}/shop$", printed, re.MULTILINE)
    assert re.search(r"^  the dashboard +http://127\.0\.0\.1:\d+/$", printed, re.MULTILINE)
    assert "page views in" in printed
    [kettle] = [line for line in printed.splitlines() if "Copper kettle" in line]
    assert re.fullmatch(r"\| Copper kettle +\|( +\S+ \|){5}", kettle)
    assert not set(printed) & {chr(27), chr(13)}
    assert printed.endswith("\n")


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_the_demo_stops_cleanly_and_leaves_no_files(tmp_path: Path, stop: signal.Signals) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "slotwise", "demo", "--no-open"],
        env=os.environ
        | {"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1", "SLOTWISE_COMPILE": "never"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a program that a shell started in the background ignores it, and so do its children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("  the dashboard"):
            url = line.split()[-1]
        if "Stop with Ctrl-C" in line:
            break
    assert list(tmp_path.iterdir())
    with http(url, None) as visitor:  # no line about it among the figures
        assert visitor.get("v1/pools").status_code == 401
    demo.send_signal(stop)
    printed, complaints = demo.communicate(timeout=120)
    assert demo.returncode == 0, complaints
    assert printed.endswith("Stopped. Nothing was stored.\n")
    assert not complaints
    assert not list(tmp_path.iterdir())
    with pytest.raises(ProcessLookupError):  # nor does a child
        os.killpg(demo.pid, 0)


def test_the_demo_says_what_was_earned_and_kept() -> None:
    def group(name: str, micros: int) -> dict[str, Any]:
        rates = {"revenue_per_view_micros": {"mean": micros}, "clicks_per_view": {"mean": 0.52}}
        return {"group": name, "revenue_views": 100, **rates}

    stats: dict[str, Any] = {
        "groups": [group("policy", 1_500_000), group("holdout", 1_000_000)],
        "floor": {"clicks": 0.5},
        "lift": {"mean": 0.5, "low": 0.1, "high": 0.9},
        "shadow_price_micros": 2_000_000,
    }
    assert summary(stats).splitlines() == [
        "Floor: 0.52 clicks per view so far; the floor is 0.50.",
        "Revenue: 1.50 EUR per view on chosen pages, 1.00 on random ones: +50% (+10% to +90%)",
        "Price of the floor: one more click per 100 views costs 2.00 EUR.",
    ]
    unsure = {"mean": 0.5, "low": -0.1, "high": 0.9}
    assert "(-10% to +90%), too early to say" in summary(stats | {"lift": unsure})
    assert "settle after 30 seconds" in summary(stats | {"groups": []})


def test_the_demo_divides_sales_and_clicks_by_their_own_views() -> None:
    """Sales settle later than clicks: 40 settled views of sales next to 100 of clicks."""
    kettle = {
        "link_id": "kettle",
        "clicks": 20,
        "click_views": 100,
        "revenue_micros": 40_000_000,
        "revenue_views": 40,
        "probability": 0.5,
    }
    fresh = kettle | {"link_id": "cups", "clicks": 0, "revenue_views": 0, "revenue_micros": 0}
    counted = {"group": "policy", "clicks_per_view": {"mean": 0.2}, "revenue_views": 0}
    stats = {"links": [kettle, fresh], "groups": [counted], "floor": {"clicks": 0.1}}
    table = picture(stats, 100, 1.0, 0).renderables[0]
    assert isinstance(table, Table)
    click_rates, prices = (list(table.columns[k].cells) for k in (1, 3))
    assert (click_rates, prices) == (["0.200", "0.000"], ["5.00", "?"])
