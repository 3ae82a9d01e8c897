"""Stores, backups and exports that the user of the process may not use: one sentence each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from slotwise.cli.main import main
from slotwise.service.reporting.warehouse import Target
from slotwise.service.storage.sqlite import SqliteStore

NOBODY = 65_534


@contextmanager
def unprivileged() -> Iterator[None]:
    """Give up the rights of root, who may use every file."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder that everybody reaches, with a store that everybody may use."""
    folder = tmp_path_factory.mktemp("shared")
    for one in (folder, *folder.parents[:2]):
        one.chmod(0o777)
    with closing(SqliteStore(folder / "store.db")):
        pass
    for one in folder.iterdir():
        one.chmod(0o666)
    yield folder
    folder.chmod(0o777)


COMMANDS = {
    "verify": ["verify", "--store", "{}/store.db"],
    "export": ["export", "--store", "{}/store.db", "--to", "{}/warehouse"],
    "backup": ["backup", "{}/copy.db", "--store", "{}/store.db"],
    "check": ["serve", "--check", "--store", "{}/store.db"],
}


def run(name: str, folder: Path) -> int:
    return main([part.format(folder) for part in COMMANDS[name]])


def import_as_root(folder: Path) -> None:
    """Import what the commands need: its files may be readable by root only."""
    run("verify", folder)
    "host".encode("idna")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_cannot_be_entered_is_named(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_as_root(folder)
    folder.chmod(0o000)
    capsys.readouterr()
    with unprivileged():
        assert run(name, folder) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"slotwise: {folder}/")
    assert said.rstrip().endswith("Permission denied")
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_a_store_that_cannot_be_read_is_named(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_as_root(folder)
    (folder / "store.db").chmod(0o000)
    capsys.readouterr()
    with unprivileged():
        assert run(name, folder) == 2
    said = capsys.readouterr().err
    assert str(folder / "store.db") in said
    assert "Permission denied" in said or "unable to open" in said
    assert "Traceback" not in said


def test_an_object_store_out_of_reach_does_not_stop_an_export_for_long() -> None:
    """The library's own limit is 15 minutes."""

    def limit_s(target: Target) -> float:
        return float(target.files.__reduce__()[1][0]["retry_time_limit"].total_seconds())

    assert limit_s(Target("gs://anonymous@bucket/shop")) == 30
    asked = Target("gs://anonymous@bucket/shop?retry_limit_seconds=5")
    assert limit_s(asked) == 5
    assert asked.shown == "gs://bucket/shop"
