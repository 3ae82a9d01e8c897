"""Counts of the past over HTTP and by `slotwise import --pool`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from slotwise.cli.main import main
from slotwise.service.server import BackgroundServer
from slotwise.service.storage.maintenance import open_existing_to_read
from tests.service.conftest import problem_of
from tests.service.storage.test_old_stores import GOLDEN

FEATURES = {"device": ["phone", "desktop"], "returning": "bool", "days": [1, 7]}


def test_a_table_is_stored_and_read(admin: httpx.Client, make_pool: Callable[..., str]) -> None:
    pool = make_pool(features=FEATURES, policy={"name": "paced-bayes"})
    path = f"/v1/pools/{pool}/known-counts"
    table = "device,link,views,clicks,revenue,returning,days\n"
    lines = ["phone,l1,1000,30,90.5,yes,3", ",l1,10,1,,,", "desktop,l2,50,5,,FALSE,1 to 7"]
    body = {"csv": table + "\n".join(lines), "discount": 0.2}
    stored = admin.post(path, json=body).json()
    assert stored == admin.get(path).json()
    first, second, third = stored["known"]
    assert first == {
        "link_id": "l1",
        "views": 1000,
        "clicks": 30,
        "revenue_micros": 90_500_000,
        "visitor": {"device": "phone", "returning": "True", "days": "1 to 7"},
        "discount": 0.2,
    }
    assert second["visitor"] == {}
    assert third["visitor"] == {"device": "desktop", "returning": "False", "days": "1 to 7"}
    why = {
        row["link_id"]: row["why"]
        for row in admin.get(f"/dashboard/pools/{pool}/links").json()["rows"]
    }
    assert why["l1"].startswith("It starts from the counts that were imported")
    assert why["l3"] == "Nothing is known about it yet: it is shown to learn."
    [line] = [
        line["what"]
        for line in admin.get(f"/dashboard/pools/{pool}").json()["overview"]["changes"]
        if "imported" in line["what"]
    ]
    assert line == "imported counts of 2 links"


@pytest.mark.parametrize(
    ("csv", "sentence"),
    [
        ("", "counts must have the columns link, views, clicks"),
        ("link,views,clicks\n", "counts must have a row for each link"),
        ("link,views,clicks\nl1,ten,1\n", "csv, row 2: `views` must be a whole number"),
        ("link,views,clicks\nl1,10,11\n", "`clicks` must be from 0 to the views (10)"),
        ("link,views,clicks\nnobody,10,1\n", "has no link 'nobody'"),
        ("link,views,clicks,revenue\nl1,10,1,1e308\n", "csv, link l1: `revenue` must be at most"),
        (f"link,views,clicks\nl1,1{'0' * 299},1\n", "`views` must be"),
        ("link,views,clicks,browser\nl1,10,1,x\n", "must be declared features only"),
        ("link,views,clicks,days\nl1,10,1,many\n", "link l1: `visitor['days']` must be a number"),
        ("link,views,clicks,clicks\nl1,10,1,1\n", "must have each column once"),
        ("link;views;clicks\nl1;10,000;1\n", "csv, row 2: `views` must be a whole number"),
        ("link,views,clicks\nl1,10\n", "csv, row 2: counts must have 3 cells"),
        (f"link,views,clicks\n{'a' * 131_073},9,1\n", "csv, row 2: not CSV: field larger than"),
    ],
)
def test_a_wrong_table_stores_nothing(
    admin: httpx.Client, make_pool: Callable[..., str], csv: str, sentence: str
) -> None:
    pool = make_pool(features=FEATURES, policy={"name": "paced-bayes"})
    path = f"/v1/pools/{pool}/known-counts"
    problem = problem_of(admin.post(path, json={"csv": csv}))
    assert problem["type"] == "validation"
    assert sentence in problem["detail"]
    assert problem["errors"][0]["pointer"] == "/csv"
    assert admin.get(path).json() == {"known": []}


def test_the_command_imports_into_a_running_service(
    server: BackgroundServer,
    admin: httpx.Client,
    make_pool: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("slotwise.cli.importing.MAX_CHARS", 10)  # several calls
    table = tmp_path / "clicks.csv"
    table.write_text("link,views,clicks\nl1,1000,30\nl2,500,5\nl1,7,1\n")
    pool = make_pool()
    asked = ["import", str(table), "--pool", pool, "--url", server.url, "--discount", "0.5"]
    monkeypatch.setenv("SLOTWISE_KEY", server.admin_key)
    assert main(asked) == 0
    assert capsys.readouterr().out == f"2 links of {pool} start from 1,507 views\n"
    known = admin.get(f"/v1/pools/{pool}/known-counts").json()["known"]
    assert [(row["link_id"], row["views"]) for row in known] == [
        ("l1", 1000),
        ("l1", 7),
        ("l2", 500),
    ]
    monkeypatch.setenv("SLOTWISE_KEY", "wrong")
    assert main(asked) == 2
    assert "unknown-key" in capsys.readouterr().err


def test_the_command_imports_into_a_stopped_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOTWISE_COMPILE", "never")  # the store has pools of several policies
    store, table = tmp_path / "store.db", tmp_path / "clicks.csv"
    store.write_bytes(GOLDEN[-1].read_bytes())
    table.write_text("link,views,clicks,device\nl1,1000,30,phone\n")
    asked = ["import", str(table), "--pool", "side", "--store", f"sqlite:///{store}"]
    assert main(asked) == 0
    assert capsys.readouterr().out == "1 links of side start from 1,000 views\n"
    opened = open_existing_to_read(f"sqlite:///{store}")
    with opened.reading() as reader:
        [link] = [one for one in reader.links("side") if one.link_id == "l1"]
    opened.close()
    assert link.known[0].visitor == {"device": "phone"}
    assert main(["verify", "--store", f"sqlite:///{store}"]) == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "give --pool to import into a pool, or --slots to make a selector"),
        (["--pool", "a", "--slots", "2"], "give --pool to import into a pool, or --slots"),
        (["--pool", "a"], "give --url for a running service, or --store for a stopped one"),
        (["--pool", "a", "--store", "sqlite:///none.db"], "there is no store at none.db"),
        (["--pool", "a", "--store", "none.db", "--discount", "2"], "`discount` must be"),
    ],
)
def test_what_the_command_lacks_is_said(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "clicks.csv"
    table.write_text("link,views,clicks\nl1,1000,30\n")
    assert main(["import", str(table), *options]) != 0
    assert sentence in " ".join(capsys.readouterr().err.split())
