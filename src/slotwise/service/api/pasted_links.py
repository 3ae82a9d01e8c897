"""Links pasted as a table: read line by line and checked, before anything is stored."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slotwise.errors import InvalidInput
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.api.destinations import check_destination
from slotwise.service.api.fields import Strict
from slotwise.service.http.problems import broken_rule
from slotwise.service.limits import (
    ID_RULE,
    MAX_METADATA,
    MAX_METADATA_CHARS,
    MAX_TITLE_CHARS,
    METADATA_PATTERN,
    is_id,
)
from slotwise.service.records import LinkRecord, PoolSettings

__all__ = ["OPERATIONS", "PastedLine", "read_lines"]

_NEEDED = ("link_id", "url")
_OWN = (*_NEEDED, "title")
_DELIMITERS = "\t;,"


class TableBody(Strict, frozen=True, kw_only=True):
    """A table as text."""

    csv: Annotated[
        str,
        Meta(
            description="Lines of cells between tabs, semicolons or commas; the first line names "
            "the columns `link_id`, `url`, `title` and those of metadata"
        ),
    ]


class PastedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table, what it would do, and what is wrong with it."""

    line: int
    link_id: str
    url: str
    title: str
    metadata: dict[str, str]
    what: Literal["new", "changed", "same", "back", "wrong"]
    """`back`: the link is retired at present."""
    wrong: str
    """One sentence, empty unless the line is wrong."""


class PastedLines(msgspec.Struct, frozen=True, kw_only=True):
    """Every line of the table that is not blank."""

    lines: tuple[PastedLine, ...]


async def check_links(context: ServiceContext, request: Request) -> PastedLines:
    """Say line by line what a table of links would change; nothing is stored."""
    pool_id, body = request.path_values["pool_id"], request.body
    service = context.service
    pool = service.pool(pool_id)
    present = {link.link_id: link for link in service.links(pool_id)}
    limit = context.settings.max_pool_links

    def read() -> PastedLines:
        lines = tuple(read_lines(body.csv, pool, present))
        n_links = len(present) + sum(line.what == "new" for line in lines)
        if n_links > limit:
            detail = f"`csv` must leave the pool with at most {limit} links, got {n_links}"
            raise broken_rule(detail, "/csv")
        return PastedLines(lines=lines)

    return await asyncio.to_thread(read)


def read_lines(
    text: str, pool: PoolSettings, present: Mapping[str, LinkRecord]
) -> Iterator[PastedLine]:
    """Read a table; a column that it does not have keeps what the link has at present."""
    text = text.removeprefix("\ufeff")
    first = text.lstrip("\r\n").partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    seen: dict[str, int] = {}
    columns: list[str] = []
    try:
        for cells in rows:
            if not any(cell.strip() for cell in cells):
                continue
            if not columns:
                columns = _read_columns(cells)
                continue
            yield _read_line(rows.line_num, columns, cells, pool, present, seen)
    except csv.Error as error:
        detail = f"line {rows.line_num} cannot be read: {error}; look for a quote without its twin"
        raise broken_rule(detail, "/csv") from None
    if not seen:
        rule = "a line with the names of the columns and a line for each link"
        raise broken_rule(f"`csv` must have {rule}", "/csv")


def _read_columns(cells: list[str]) -> list[str]:
    columns = [cell.strip().lower() for cell in cells]
    for name in _NEEDED:
        if name not in columns:
            rule = "name the columns link_id and url, and title if you like"
            raise broken_rule(f"the first line must {rule}, got {', '.join(columns)!r}", "/csv")
    for name in columns:
        if columns.count(name) > 1:
            raise broken_rule(f"the first line must name each column once, got {name!r}", "/csv")
        if not re.fullmatch(METADATA_PATTERN, name):
            rule = "of small letters, digits, - and _, beginning with a letter"
            raise broken_rule(f"the name of a column must be {rule}, got {name!r}", "/csv")
    return columns


def _read_line(
    line: int,
    columns: list[str],
    cells: list[str],
    pool: PoolSettings,
    present: Mapping[str, LinkRecord],
    seen: dict[str, int],
) -> PastedLine:
    given = dict(zip(columns, (cell.strip() for cell in cells), strict=False))
    link_id, url = given.get("link_id", ""), given.get("url", "")
    known = present.get(link_id)
    title = given.get("title", known.title if known else "")
    kept = dict(known.metadata) if known else {}
    kept |= {name: value for name, value in given.items() if name not in _OWN}
    metadata = {name: value for name, value in kept.items() if value}
    wrong = ""
    first = seen.setdefault(link_id, line)
    if len(cells) > len(columns):
        wrong = f"the line has {len(cells)} cells, the first line names {len(columns)} columns"
    elif first != line:
        wrong = f"`link_id` must differ between lines, got {link_id!r} on line {first} already"
    else:
        try:
            _check(link_id, url, title, metadata, pool)
        except InvalidInput as error:
            wrong = str(error)
    what: Literal["new", "changed", "same", "back", "wrong"] = "new"
    if wrong:
        what = "wrong"
    elif known is not None and known.retired:
        what = "back"
    elif known is not None:
        same = (known.url, known.title, known.metadata) == (url, title, metadata)
        what = "same" if same else "changed"
    return PastedLine(
        line=line, link_id=link_id, url=url, title=title, metadata=metadata, what=what, wrong=wrong
    )


def _check(
    link_id: str, url: str, title: str, metadata: Mapping[str, str], pool: PoolSettings
) -> None:
    """Raise `InvalidInput` for the first rule that a line breaks: those of the API."""
    if not is_id(link_id):
        raise InvalidInput.of("link_id", ID_RULE, link_id[:80])
    for name, value, most in (
        ("title", title, MAX_TITLE_CHARS),
        *((name, value, MAX_METADATA_CHARS) for name, value in metadata.items()),
    ):
        if len(value) > most:
            raise InvalidInput.of(name, f"at most {most} characters long", f"{len(value)}")
    if len(metadata) > MAX_METADATA:
        raise InvalidInput.of("metadata", f"at most {MAX_METADATA} texts", len(metadata))
    check_destination(url, pool.allowed_hosts)


OPERATIONS = (
    Operation(
        method="POST",
        path="/dashboard/pools/{pool_id}/links:check",
        name="check_links",
        summary="Check a table of links line by line; nothing is stored",
        handler=check_links,
        scope="admin",
        body=TableBody,
        answer=PastedLines,
        problems=("unknown-pool",),
        example={"csv": "link_id,url,title\nl1,https://shop.example/1,Spring sale"},
        answer_example={
            "lines": [
                {
                    "line": 2,
                    "link_id": "l1",
                    "url": "https://shop.example/1",
                    "title": "Spring sale",
                    "metadata": {},
                    "what": "new",
                    "wrong": "",
                }
            ]
        },
    ),
)
