"""Notes on a pool over HTTP: written, listed, drawn, removed, kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.storage.backup import back_up
from tests.service.conftest import POOL, Clock, http, problem_of


def test_a_note_stands_between_the_changes(
    admin: httpx.Client, visitor: httpx.Client, pool: str, clock: Clock
) -> None:
    clock.advance(3600)
    admin.patch(f"/v1/pools/{pool}", json={"click_floor": 0.3}).raise_for_status()
    changed_at = admin.get(f"/v1/pools/{pool}").json()["changed_at"]
    clock.advance(3600)
    made = admin.post(f"/v1/pools/{pool}/notes", json={"text": "  Campaign <b>began</b> "})
    assert made.status_code == 201
    before = {"text": "Long ago", "at": "2026-12-01T00:00:00Z"}
    admin.post(f"/v1/pools/{pool}/notes", json=before).raise_for_status()
    listed = admin.get(f"/v1/pools/{pool}/notes").json()["notes"]
    assert [note["text"] for note in listed] == ["Campaign <b>began</b>", "Long ago"]
    assert listed[0]["at"] > changed_at
    lines = visitor.get(f"/dashboard/pools/{pool}").json()["overview"]["changes"]
    said = [(line["what"], line["is_marked"], bool(line["note_id"])) for line in lines]
    assert said[:2] == [
        ("Campaign <b>began</b>", True, True),
        ("changed the pool: click floor 0.2 → 0.3", True, False),
    ]
    assert said[-1] == ("Long ago", True, True)
    removed = admin.delete(f"/v1/pools/{pool}/notes/{listed[0]['note_id']}")
    assert removed.json() == listed[0]
    lines = visitor.get(f"/dashboard/pools/{pool}").json()["overview"]["changes"]
    assert lines[0]["what"].startswith("changed the pool")
    again = admin.delete(f"/v1/pools/{pool}/notes/{listed[0]['note_id']}")
    assert problem_of(again)["type"] == "unknown-note"


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/text"),
        ({"text": ""}, "/text"),
        ({"text": " \n"}, "/text"),
        ({"text": "x" * 301}, "/text"),
        ({"text": "x", "at": "2999-01-01T00:00:00Z"}, "/at"),
        ({"text": "x", "at": "1969-01-01T00:00:00Z"}, "/at"),
        ({"text": "x", "at": "2026-01-01T00:00:00"}, "/at"),
    ],
)
def test_a_note_that_makes_no_sense_is_refused(
    admin: httpx.Client, pool: str, body: dict[str, Any], pointer: str
) -> None:
    refused = admin.post(f"/v1/pools/{pool}/notes", json=body)
    assert problem_of(refused)["errors"][0]["pointer"] == pointer


def test_notes_belong_to_their_pool(admin: httpx.Client, make_pool: Callable[..., str]) -> None:
    one, other = make_pool(), make_pool()
    note = admin.post(f"/v1/pools/{one}/notes", json={"text": "mine"}).json()
    assert admin.get(f"/v1/pools/{other}/notes").json() == {"notes": []}
    refused = admin.delete(f"/v1/pools/{other}/notes/{note['note_id']}")
    assert problem_of(refused)["type"] == "unknown-note"
    assert problem_of(admin.get("/v1/pools/nowhere/notes"))["type"] == "unknown-pool"


def test_notes_are_in_a_backup_and_odd_pool_names_are_no_trouble(tmp_path: Path) -> None:
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'one.db'}")
    with BackgroundServer(settings) as server, http(server.url, server.admin_key) as admin:
        key = server.admin_key
        for name in ("sessions", "notes", "signed", "out"):
            admin.put(f"/v1/pools/{name}", json=POOL).raise_for_status()
        admin.post("/v1/pools/notes/notes", json={"text": "kept"}).raise_for_status()
        back_up(tmp_path / "one.db", tmp_path / "two.db")
    settings = Settings(port=0, store=f"sqlite:///{tmp_path / 'two.db'}")
    with BackgroundServer(settings) as server, http(server.url, key) as admin:
        found = admin.get("/v1/pools/notes/notes").json()["notes"]
        assert [note["text"] for note in found] == ["kept"]
        for name in ("sessions", "notes"):
            changes = admin.get(f"/dashboard/pools/{name}").json()["overview"]["changes"]
            assert changes[-1]["what"] == "added the pool"
