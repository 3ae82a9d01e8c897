"""What others write into the folder of an export, or into its rows, does no harm."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs
import pytest

from slotwise.cli.main import main
from slotwise.errors import SlotwiseError, UnsupportedState
from slotwise.service.refusals import ExportFailed
from slotwise.service.reporting.warehouse import CURSOR, Target, export_store
from slotwise.service.storage.contract import AppendDecision, CloseWindows, SaveLinks, SavePool
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.reporting.warehouse_queries import query
from tests.service.rows import T0, decision, link, pool, seconds
from tests.stores.store_rows import change_row

ODD = "'; DROP VIEW links; -- \x00\n\u202e\U0001f388" + "x" * 900


@pytest.fixture
def address(tmp_path: Path) -> str:
    with closing(SqliteStore(tmp_path / "shop.db")) as store:
        store.commit([SavePool(pool=pool(created_us=T0), change=change_row("home"))])
        links = (link("l1", title=ODD[:200]), link("l2"))
        store.commit([SaveLinks(links=links, changes=(change_row("home/l1"),))])
        store.commit([AppendDecision(decision("d1", visitor={ODD[:60]: ODD}, fallback=ODD))])
        store.commit([CloseWindows(until_us=seconds(3 * 86_400))])
    return str(tmp_path / "shop.db")


def export(address: str, folder: Path) -> None:
    with closing(SqliteStore(Path(address))) as store:
        export_store(store, Target(str(folder)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[" * 10_000,
        b'{"store":"' + b"x" * 10**6 + b'"}',
        b'{"format":1,"store":"home 1","slice_minutes":0,"until_us":0}',
        b'{"format":1,"store":"home 1","slice_minutes":1e9,"until_us":0}',
        b'{"format":1,"store":"home 1","slice_minutes":60,"until_us":-1}',
        b'{"format":1,"store":"home 1","slice_minutes":60,"until_us":99999999999999999999}',
        b'{"format":1,"store":"home 1","slice_minutes":60,"until_us":9223372036854775807}',
    ],
)
def test_a_cursor_that_somebody_wrote_is_refused(
    content: bytes, address: str, tmp_path: Path
) -> None:
    folder = tmp_path / "to"
    folder.mkdir()
    (folder / CURSOR).write_bytes(content)
    with pytest.raises(UnsupportedState, match="is damaged") as refused:
        export(address, folder)
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize("name", [CURSOR, "decisions", "links/links.parquet", "_unfinished"])
def test_something_else_under_a_name_of_the_export_is_named(
    name: str, address: str, tmp_path: Path
) -> None:
    planted = tmp_path / "to" / name
    if "." in name:
        planted.mkdir(parents=True)
        (planted / "file").touch()
    else:
        planted.parent.mkdir()
        planted.touch()
    with pytest.raises((ExportFailed, SlotwiseError), match=r"cannot be used|damaged"):
        export(address, tmp_path / "to")
    assert planted.exists()


def test_names_and_values_of_others_stay_values(address: str, tmp_path: Path) -> None:
    folder = tmp_path / "it's a folder"
    export(address, folder)
    decisions, titles = query(
        folder,
        "SELECT fallback, visitor FROM decisions",
        "SELECT title FROM links ORDER BY link_id",
    )
    assert decisions == [(ODD, {ODD[:60]: ODD})]
    assert titles == [(ODD[:200],), ("",)]


def test_a_server_that_does_not_answer_is_named_without_its_secret(
    address: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library tries to connect for six seconds; here it tries once."""
    from_uri = pyarrow.fs.FileSystem.from_uri

    def from_uri_once(uri: str) -> tuple[Any, str]:
        files, base = from_uri(uri)
        make, (options,) = files.__reduce__()
        once = pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=1)
        return make(options | {"retry_strategy": once}), base

    monkeypatch.setattr(pyarrow.fs, "FileSystem", SimpleNamespace(from_uri=from_uri_once))
    to = "s3://key:hush@bucket/x?scheme=http&endpoint_override=127.0.0.1:1&region=us-east-1"
    assert main(["export", "--to", to, "--store", address]) == 2
    printed = capsys.readouterr().err
    assert "s3://bucket/x cannot be used" in printed
    assert "hush" not in printed
