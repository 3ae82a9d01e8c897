"""A pasted table of links: what each line would do, and the sentence where it is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from slotwise.service.api.links import _read_columns
from tests.service.conftest import problem_of


@pytest.fixture
def check(admin: httpx.Client, pool: str) -> Callable[[str], list[dict[str, Any]]]:
    """Return what the service says of a table, for a pool with the links l1 to l4."""

    def lines(csv: str) -> list[dict[str, Any]]:
        answer = admin.post(f"/dashboard/pools/{pool}/links:check", json={"csv": csv})
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["lines"]
        return found

    return lines


def test_lines_say_what_they_would_do(
    check: Callable[[str], list[dict[str, Any]]], admin: httpx.Client, pool: str
) -> None:
    admin.delete(f"/v1/pools/{pool}/links/l3").raise_for_status()
    before = admin.get(f"/v1/pools/{pool}/links").json()
    lines = check(
        "link_id,url,title\n"
        "l1,https://shop.example/1,\n"
        'l2,https://shop.example/2,"Sale, and ""more"""\n'
        "\n"
        "l3,https://shop.example/3,Back\n"
        "l9,https://shop.example/9,New\r\n"
    )
    assert [(line["line"], line["what"]) for line in lines] == [
        (2, "same"),
        (3, "changed"),
        (5, "back"),
        (6, "new"),
    ]
    assert lines[1]["title"] == 'Sale, and "more"'
    assert admin.get(f"/v1/pools/{pool}/links").json() == before


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_spreadsheets_of_all_countries_are_read(
    check: Callable[[str], list[dict[str, Any]]], delimiter: str
) -> None:
    table = "\ufeffURL|Link_Id|Title|image\nhttps://shop.example/a|a|Ä, b|/a.png"
    [line] = check(table.replace(", ", " ").replace("|", delimiter))
    assert (line["link_id"], line["title"]) == ("a", "Ä b")
    assert line["metadata"] == {"image": "/a.png"}


def test_columns_that_are_left_out_keep_what_there_is(
    check: Callable[[str], list[dict[str, Any]]], admin: httpx.Client, pool: str
) -> None:
    kept = {"title": "Kept", "metadata": {"image": "/1.png", "teaser": "old"}}
    admin.patch(f"/v1/pools/{pool}/links/l1", json=kept).raise_for_status()
    [line] = check("link_id,url,teaser\nl1,https://shop.example/1,new")
    assert (line["title"], line["what"]) == ("Kept", "changed")
    assert line["metadata"] == {"image": "/1.png", "teaser": "new"}
    [line] = check("link_id,url,teaser\nl1,https://shop.example/1,")
    assert line["metadata"] == {"image": "/1.png"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("two words,https://shop.example/1,", "`link_id` must be 1 to 64 characters"),
        (",https://shop.example/1,", "`link_id` must be 1 to 64 characters"),
        ("a,https://evil.example/1,", "`url` must be on one of the pool's allowed hosts"),
        ("a,javascript:alert(1),", "`url` must be an http or https address"),
        ("a,,", "`url` must be an http or https address"),
        ("a", "`url` must be an http or https address"),
        ("a,https://shop.example/1," + "x" * 201, "`title` must be at most 200 characters"),
        ("a,https://shop.example/1,b,c", "the line has 4 cells, the first line names 3"),
        ("ok,https://shop.example/1,", "`link_id` must differ between lines, got 'ok' on line 2"),
    ],
)
def test_a_wrong_line_says_why(
    check: Callable[[str], list[dict[str, Any]]], line: str, sentence: str
) -> None:
    found = check(f"link_id,url,title\nok,https://shop.example/ok,\n{line}")
    assert [one["what"] for one in found] == ["new", "wrong"]
    assert found[1]["wrong"].startswith(sentence)
    assert found[1]["line"] == 3


def test_columns_are_compared_in_linear_time() -> None:
    def seconds(n_columns: int) -> float:
        columns = ["link_id", "url", *(f"c{k}" for k in range(n_columns))]
        started = time.process_time()
        _read_columns(columns)
        return time.process_time() - started

    # 8 times the columns: 8 times the time, or 64 times where each is compared with all
    assert min(seconds(16_000) for _ in range(5)) < 30 * max(seconds(2_000) for _ in range(5))


@pytest.mark.parametrize(
    ("csv", "sentence"),
    [
        ("", "`csv` must have a line with the names of the columns"),
        ("link_id,url", "`csv` must have a line with the names of the columns"),
        ("spring,https://shop.example/1", "the first line must name the columns link_id and url"),
        ("link_id,url,url\na,b,c", "the first line must name each column once"),
        ("link_id,url,Two Words\na,b,c", "the name of a column must be of small letters"),
        ('link_id,url\na,"https://shop.example/1', "line 2 cannot be read"),
    ],
)
def test_a_table_that_is_none_is_refused(
    admin: httpx.Client, pool: str, csv: str, sentence: str
) -> None:
    refused = admin.post(f"/dashboard/pools/{pool}/links:check", json={"csv": csv})
    problem = problem_of(refused)
    assert problem["errors"][0]["pointer"] == "/csv"
    assert problem["detail"].startswith(sentence)
