"""Export the rows of a store as Parquet files, for a data warehouse.

Time is divided into slices of equal length, and each table has one file for each slice that has
rows. A slice is exported when the store has closed all windows up to its end: after that no row can
be added to it. So every process that exports a slice writes the same rows under the same name, even
if others run at the same time or an earlier run was killed. A file is first written under a
temporary name and never changed after it is renamed. The cursor, a small file next to the tables,
stores where to continue. Used by `cli`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from msgspec import Meta
from msgspec.structs import replace

from slotwise.errors import InvalidInput, MissingData, UnsupportedState
from slotwise.service.counting.attribution import REVENUE, FoldPosition, View, fold_position
from slotwise.service.records import SECOND_US, ChangeRecord, to_time
from slotwise.service.refusals import ExportFailed
from slotwise.service.reporting.warehouse_tables import SLICED, WHOLE
from slotwise.service.storage.backup import force_to_disk
from slotwise.service.storage.contract import ReadableStore
from slotwise.service.storage.sql_reads import StoreReader

CURSOR = "_slotwise_export.json"
SQL = "views.sql"
_COLUMNS = "columns.parquet"
"""A file without rows in the first day of a table, so that readers find its columns before its
first row."""
_UNFINISHED = "_unfinished"
_MAX_CURSOR_BYTES = 10_000
_LEFT_BEHIND = timedelta(days=1)
_GIVE_UP_S = 30
"""How long an object store may be out of reach before an export fails; the next run continues."""
_SCHEMES = ("file", "s3", "gs", "gcs")
FORMAT = 2
_FOREVER = 2**63 - 1
_LATEST_US = 253_000_000_000 * SECOND_US
"""In the year 9987: later times have no date."""
_DAY_MINUTES = 1_440
_MAX_CHANGES = 10_000


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """Where an export continues; stored as JSON next to the tables."""

    format: int = FORMAT
    store: str
    """The first pool of the store and its creation time, which identify the store."""
    slice_minutes: Annotated[int, Meta(ge=1, le=_DAY_MINUTES)]
    until_us: Annotated[int, Meta(ge=0, le=_LATEST_US)]
    """Every slice up to this time is exported."""
    first_day: str = "1970-01-01"
    """The day with the files without rows; the default is that of exports of earlier versions."""
    last_decision: str = ""
    """The last decision exported. Decisions are exported in the order of storing, since replicas
    may store a decision after others with a later time."""


def _impatient(address: str) -> str:
    """Return an address whose library gives up in time; that of gs:// tries for 15 minutes."""
    parts = urlsplit(address)
    if parts.scheme not in ("gs", "gcs") or "retry_limit_seconds" in parts.query:
        return address
    limit = f"retry_limit_seconds={_GIVE_UP_S}"
    return parts._replace(query=f"{parts.query}&{limit}" if parts.query else limit).geturl()


class Target:
    """The folder of an export, on a local disk or in an object store."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        is_path = "://" not in address
        if not is_path and parts.scheme not in _SCHEMES:
            rule = "a folder, or an address that starts with s3:// or gs://"
            raise InvalidInput.of("to", rule, f"{parts.scheme}://")
        if not address or (not is_path and parts.scheme != "file" and not parts.hostname):
            raise InvalidInput.of("to", "a folder, or an address with a bucket", address)
        host = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
        self.shown = address if is_path else f"{parts.scheme}://{host}{parts.path}"
        """The address without keys and options."""
        try:
            if is_path:
                self.files: Any = pyarrow.fs.LocalFileSystem()
                self.base = str(Path(address).absolute())
            else:
                self.files, self.base = pyarrow.fs.FileSystem.from_uri(_impatient(address))
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0].replace(address, self.shown)
            raise InvalidInput.of("to", "an address that opens", self.shown, reason) from None
        self.base = self.base.rstrip("/")
        self.is_local = isinstance(self.files, pyarrow.fs.LocalFileSystem)
        if self.is_local:
            self.shown = self.base

    def exists(self, name: str) -> bool:
        """Return whether there is a file of this name."""
        with self.errors():
            info = self.files.get_file_info(f"{self.base}/{name}")
            return bool(info.type == pyarrow.fs.FileType.File)

    def read(self, name: str) -> bytes | None:
        """Return a small file, or None where there is none."""
        if not self.exists(name):
            return None
        with self.errors(), self.files.open_input_stream(f"{self.base}/{name}") as stream:
            content: bytes = stream.read(_MAX_CURSOR_BYTES)
            return content

    def write(self, name: str, content: bytes) -> None:
        """Write or replace a file atomically."""
        file = NewFile(self, name)
        try:
            with self.errors():
                file.stream.write(content)
            file.finish()
        finally:
            file.drop()

    def remove_left_behind(self) -> None:
        """Remove unfinished files of killed runs that are at least a day old."""
        selector = pyarrow.fs.FileSelector(f"{self.base}/{_UNFINISHED}", allow_not_found=True)
        before = datetime.now(UTC) - _LEFT_BEHIND
        with self.errors():
            for one in self.files.get_file_info(selector):
                if one.type == pyarrow.fs.FileType.File and one.mtime < before:
                    self.files.delete_file(one.path)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of the file system into `ExportFailed`."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise ExportFailed(f"{self.shown} cannot be used: {reason}") from error


class NewFile:
    """A file that gets its name when it is complete."""

    def __init__(self, target: Target, name: str) -> None:
        self._target, self._files = target, target.files
        self._path = f"{target.base}/{name}"
        self._unfinished = f"{target.base}/{_UNFINISHED}/{uuid4().hex}"
        self._is_finished = False
        with target.errors():
            self._make_folder(self._unfinished)
            self.stream = self._files.open_output_stream(self._unfinished)

    def finish(self) -> None:
        """Force the file to disk and give it its name."""
        with self._target.errors():
            self.stream.close()
            self._make_folder(self._path)
            if self._target.is_local:
                force_to_disk(Path(self._unfinished))
            self._files.move(self._unfinished, self._path)
            self._is_finished = True
            if self._target.is_local:
                force_to_disk(Path(self._path).parent)

    def drop(self) -> None:
        """Remove what was written, as far as that is possible, unless it is finished."""
        with suppress(OSError, pa.ArrowException):
            self.stream.close()
        if not self._is_finished:
            with suppress(OSError, pa.ArrowException):
                self._files.delete_file(self._unfinished)

    def _make_folder(self, path: str) -> None:
        if self._target.is_local:  # object stores have none
            self._files.create_dir(path.rpartition("/")[0])


class SlicedFiles:
    """A context with the files of one table for some slices; they appear when it succeeds.

    Rows are added in any order; a few thousand are in memory at a time.
    """

    def __init__(self, target: Target, name: str, slices: Slices) -> None:
        self._target, self._name, self._table, self._slices = target, name, SLICED[name], slices
        self._rows: dict[int, list[Any]] = defaultdict(list)
        self._n_waiting = 0
        self._files: dict[int, tuple[NewFile, pq.ParquetWriter] | None] = {}
        """By slice; None if the file already exists."""
        self.n_rows = 0

    def __enter__(self) -> SlicedFiles:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        try:
            if failure is None:
                self._flush()
                for file, writer in filter(None, self._files.values()):
                    with self._target.errors():
                        writer.close()
                    file.finish()
        finally:
            for file, writer in filter(None, self._files.values()):
                writer.is_open = False  # otherwise it ends the file when it is collected
                file.drop()

    def add(self, number: int, record: object) -> None:
        """Add the row of a record to the file of a slice."""
        self._rows[number].append(record)
        self._n_waiting += 1
        if self._n_waiting >= ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        for number, records in self._rows.items():
            if number not in self._files:
                self._files[number] = self._open(self._slices.name(self._name, number))
            opened = self._files[number]
            if opened is not None:
                with self._target.errors():
                    opened[1].write_table(self._table.of(records))
                self.n_rows += len(records)
        self._rows.clear()
        self._n_waiting = 0

    def _open(self, name: str) -> tuple[NewFile, pq.ParquetWriter] | None:
        if self._target.exists(name):
            return None
        file = NewFile(self._target, name)
        return file, pq.ParquetWriter(file.stream, self._table.schema, compression="zstd")


class Slices(NamedTuple):
    """Some slices of time, one after the other."""

    start_us: int
    length_us: int
    n_slices: int

    @property
    def end_us(self) -> int:
        """The end of the last slice."""
        return self.start_us + self.n_slices * self.length_us

    def number(self, time_us: int) -> int:
        """Return the slice that a time belongs to, counted from 0."""
        return (time_us - self.start_us) // self.length_us

    def name(self, table: str, number: int) -> str:
        """Return the name of the file that a table has for a slice."""
        start = to_time(self.start_us + number * self.length_us)
        return f"{table}/day={start:%Y-%m-%d}/{start:%H%M}.parquet"


class Exported(NamedTuple):
    """What a run has exported."""

    n_rows: dict[str, int]
    until_us: int
    next_us: int
    """The end of the next slice: it is exported when the service has closed all windows until
    then."""


ROW_GROUP = 20_000
_CHUNK = 2_000
_SLICES_AT_ONCE = 24
"""Slices of one pass over the events, which are unordered, so that a pass reads all."""
SLICE_MINUTES = 60


def export_store(
    store: ReadableStore,
    target: Target,
    slice_minutes: int | None = None,
    tell: Callable[[float], None] = lambda _: None,
) -> Exported:
    """Export every complete slice that is not exported; `tell` is called with the share done."""
    with store.reading() as reader:
        closed_until_us = reader.progress().closed_until_us
        cursor = _read_cursor(target, reader, slice_minutes)
    length_us = cursor.slice_minutes * 60 * SECOND_US
    end_us = closed_until_us // length_us * length_us
    if end_us < cursor.until_us:
        raise UnsupportedState(
            f"the store has closed windows up to {_text(closed_until_us)}, but {target.shown} has "
            f"its rows up to {_text(cursor.until_us)}: the store was set back or restored; start "
            "the service and try again, or export to a new folder"
        )
    target.remove_left_behind()
    for name, table in SLICED.items():
        columns = f"{name}/day={cursor.first_day}/{_COLUMNS}"
        if not target.exists(columns):
            _write_table(target, columns, table.of([]))
    start_us, n_rows = cursor.until_us, dict.fromkeys(SLICED, 0)
    while cursor.until_us < end_us:
        due = (end_us - cursor.until_us) // length_us
        slices = Slices(cursor.until_us, length_us, min(due, _SLICES_AT_ONCE))
        exported, last_decision = _export_slices(store, target, slices, cursor)
        until_us = slices.end_us
        if not any(exported.values()):
            next_us = _next_row_us(store, last_decision, until_us)
            until_us = min(next_us // length_us * length_us, end_us)
        cursor = replace(cursor, until_us=until_us, last_decision=last_decision)
        _write_cursor(target, cursor)
        n_rows = {name: n + exported[name] for name, n in n_rows.items()}
        tell((cursor.until_us - start_us) / (end_us - start_us))
    if cursor.until_us > start_us or not target.exists(SQL):
        _write_whole_tables(store, target)
    return Exported(n_rows, cursor.until_us, cursor.until_us + length_us)


def _read_cursor(target: Target, reader: StoreReader, slice_minutes: int | None) -> Cursor:
    """Read the cursor, or begin a new export."""
    if slice_minutes is not None and (slice_minutes < 1 or _DAY_MINUTES % slice_minutes):
        rule = "a number of minutes that divides a day, such as 5, 60 or 1440"
        raise InvalidInput.of("slice_minutes", rule, slice_minutes)
    first = min(((pool.created_us, pool.pool_id) for pool in reader.pools()), default=None)
    if first is None:
        raise MissingData("the store has no pool yet; there is nothing to export")
    identity = f"{first[1]} {first[0]}"
    content = target.read(CURSOR)
    if content is None:
        if target.exists(SQL):
            raise MissingData(
                f"{target.shown} has an export, but not its cursor {CURSOR}: put that file back, "
                "or export to an empty folder"
            )
        minutes = slice_minutes or SLICE_MINUTES
        length_us = minutes * 60 * SECOND_US
        start_us = min(_first_row_us(reader), reader.progress().closed_until_us)
        start_us = start_us // length_us * length_us
        first_day = f"{to_time(start_us):%Y-%m-%d}"
        cursor = Cursor(
            store=identity, slice_minutes=minutes, until_us=start_us, first_day=first_day
        )
        _write_cursor(target, cursor)
        return cursor
    try:
        cursor = msgspec.json.decode(content, type=Cursor)
    except msgspec.MsgspecError as error:
        raise UnsupportedState(f"{CURSOR} in {target.shown} is damaged: {error}") from None
    if cursor.format != FORMAT:
        raise UnsupportedState(
            f"{target.shown} has export format {cursor.format}, this version of slotwise knows "
            f"{FORMAT}; use the version that wrote it, or export to a new folder"
        )
    if cursor.store != identity:
        raise InvalidInput.of("to", "a folder for this store; it has rows of another", target.shown)
    if slice_minutes not in (None, cursor.slice_minutes):
        rule = f"{cursor.slice_minutes}, as in earlier runs to this folder"
        raise InvalidInput.of("slice_minutes", rule, slice_minutes)
    return cursor


def _write_cursor(target: Target, cursor: Cursor) -> None:
    target.write(CURSOR, msgspec.json.encode(cursor))


def _first_row_us(reader: StoreReader) -> int:
    """Return a time that is not after any row."""
    times = [one.issued_us for _, one in reader.decisions_after(0, 1)]
    received_us = reader.first_received(0)
    times += [] if received_us is None else [received_us]
    return min(times, default=_FOREVER)


def _next_row_us(store: ReadableStore, last_decision: str, since_us: int) -> int:
    """Return a time at or after `since_us` before which no row is to be exported."""
    with store.reading() as reader:
        times = [reader.first_received(since_us)]
        place = reader.place_of(last_decision)
        times += [one.stored_us for _, one in reader.decisions_after(place, 1)]
        after = FoldPosition(closes_us=since_us, decision_id="")
        for pool in reader.pools():
            closed = reader.closed_views(pool.pool_id, REVENUE, after, _FOREVER, 1)
            times += [view.decision.revenue_closes_us for view in closed]
    return max(since_us, min((one for one in times if one is not None), default=_FOREVER))


def _export_slices(
    store: ReadableStore, target: Target, slices: Slices, cursor: Cursor
) -> tuple[dict[str, int], str]:
    """Write the files of some slices; return the new rows of each table and the last decision."""
    with SlicedFiles(target, "decisions", slices) as decisions:
        last_decision = _add_decisions(store, decisions, slices, cursor)
    with SlicedFiles(target, "events", slices) as events, store.reading() as reader:
        for some in reader.received_between(slices.start_us, slices.end_us):
            for event in some:
                events.add(slices.number(event.received_us), event)
    with store.reading() as reader:
        pool_ids = [pool.pool_id for pool in reader.pools()]
    with SlicedFiles(target, "settled_views", slices) as views:
        for pool_id in pool_ids:
            for view in _settled_views(store, pool_id, slices):
                views.add(slices.number(view.decision.revenue_closes_us), view)
    files = {"decisions": decisions, "events": events, "settled_views": views}
    return {name: one.n_rows for name, one in files.items()}, last_decision


def _add_decisions(store: ReadableStore, files: SlicedFiles, slices: Slices, cursor: Cursor) -> str:
    """Add the decisions after the cursor's last, in the order of storing, until the slices end.

    Times are nearly in this order. A decision that was stored after others with a later time goes
    into their slice, so that a decision of a later slice ends the search. Decisions that other
    replicas are storing come after all those exported here, because windows are closed only while
    no process writes.
    """
    last, number = cursor.last_decision, 0
    with store.reading() as reader:
        place = reader.place_of(last)
    # The last one may be purged, or missing after a restore. Times then determine what is new.
    skipped_before_us = 0 if place or not last else slices.start_us
    while True:
        with store.reading() as reader:
            found = reader.decisions_after(place, _CHUNK)
        for _, decision in found:
            number = max(number, slices.number(decision.stored_us))
            if number >= slices.n_slices:
                return last
            if decision.stored_us >= skipped_before_us:
                files.add(number, decision)
                last = decision.decision_id
        if not found:
            return last
        place = found[-1][0]


def _settled_views(store: ReadableStore, pool_id: str, slices: Slices) -> Iterator[View]:
    after = FoldPosition(closes_us=slices.start_us, decision_id="")
    while True:
        with store.reading() as reader:
            views = reader.closed_views(pool_id, REVENUE, after, slices.end_us - 1, _CHUNK)
        if not views:
            return
        yield from views
        after = fold_position(views[-1], REVENUE)


def _write_whole_tables(store: ReadableStore, target: Target) -> None:
    """Write the small tables and the SQL views."""
    with store.reading() as reader:
        links = [link for pool in reader.pools() for link in reader.links(pool.pool_id)]
        keys = [key.key_id for key in reader.keys()]  # noqa: SIM118 - a reader is no dict
        changes = [one for key_id in keys for one in reader.changes(key_id, _MAX_CHANGES)]
    for name, records in (("links", links), ("forgotten", _forgotten(changes))):
        _write_table(target, f"{name}/{name}.parquet", WHOLE[name].of(records))
    sql = Path(__file__).with_suffix(".sql").read_text()
    target.write(SQL, sql.replace("{folder}", target.shown.replace("'", "''")).encode())


def _write_table(target: Target, path: str, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    target.write(path, sink.getvalue().to_pybytes())


def _forgotten(changes: Iterable[ChangeRecord]) -> Iterator[tuple[str, int, int]]:
    for change in changes:
        if change.action == "key.forget":
            since_us = msgspec.json.decode(change.after)["since_us"]
            yield change.subject, since_us, change.changed_us


def _text(time_us: int) -> str:
    return f"{to_time(time_us):%Y-%m-%dT%H:%M:%SZ}"
