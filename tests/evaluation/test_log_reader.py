"""Reading logs: whole pages whatever the batches, and one sentence for each kind of bad log."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slotwise.errors import InvalidInput, InvalidLog, MissingData, UnsupportedState
from slotwise.evaluation import EvaluationSettings, LinkMix, evaluate, log_files
from slotwise.evaluation.log_reader import LogReader
from slotwise.page_log import FORMAT_KEY
from tests.evaluation.logs import as_file, random_log, write

MIX = LinkMix.of({"link-0": 1.0, "link-1": 1.0})


@pytest.mark.parametrize("n_rows", [1, 2, 3, 7, 100_000])
def test_pages_are_whole_whatever_the_batches(
    n_rows: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = random_log(n_pages=40, n_slots=3)
    path = write(tmp_path / "log.parquet", log)
    monkeypatch.setattr(log_files, "ROWS_A_BATCH", n_rows)
    lengths: list[int] = []
    links: list[int] = []
    reader = LogReader(path)
    for pages in reader:
        lengths += np.diff(pages.starts).tolist()
        links += pages.links.tolist()
    assert lengths == [3] * 40
    assert [reader.links.values[link] for link in links] == log["link"]
    assert (reader.n_pages, reader.n_slots) == (40, 3)


def test_seven_columns_are_enough(tmp_path: Path) -> None:
    log = random_log(min_probability=False)
    assert len(log) == 7
    answer = evaluate(write(tmp_path / "log.parquet", log), MIX)
    assert answer.clicks.low < answer.clicks.value < answer.clicks.high


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    log = random_log()
    write(tmp_path / "1.parquet", {name: column[:300] for name, column in log.items()})
    write(tmp_path / "2.parquet", {name: column[300:] for name, column in log.items()})
    together = evaluate([as_file(log)], MIX)
    in_parts = evaluate(tmp_path, MIX)
    assert in_parts.revenue.value == pytest.approx(together.revenue.value, rel=1e-12)
    assert in_parts.revenue.high == pytest.approx(together.revenue.high, rel=1e-12)


def test_types_that_other_programs_write_are_read(tmp_path: Path) -> None:
    log = random_log()
    usual = evaluate([as_file(log)], MIX)
    table = pa.table(log)
    changed = {
        "page_id": pa.array(np.repeat(np.arange(400), 2)),
        "link": table["link"].combine_chunks().dictionary_encode(),
        "clicked": table["clicked"].cast(pa.int8()),
        "slot": table["slot"].cast(pa.int16()),
        "revenue": table["revenue"].cast(pa.float32()),
    }
    for name, column in changed.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    path = tmp_path / "log.parquet"
    pq.write_table(table, path)
    assert evaluate(path, MIX).clicks == usual.clicks


def test_unsettled_pages_are_left_out_and_counted() -> None:
    log = random_log()
    log["settled"] = [True] * len(log["link"])
    log["settled"][0] = log["settled"][5] = False
    log["clicked"][0] = None
    answer = evaluate([as_file(log)], MIX)
    assert (answer.n_pages, answer.n_unsettled) == (398, 2)
    kept = {name: column[2:4] + column[6:] for name, column in log.items() if name != "settled"}
    assert answer.clicks.value == pytest.approx(evaluate([as_file(kept)], MIX).clicks.value)


def changed(name: str, value: Any, place: int = 7) -> dict[str, list[Any]]:
    log = random_log(n_pages=50)
    log[name] = list(log[name])
    log[name][place] = value
    return log


BAD_VALUES = [
    ("probability", 0.0, "`probability` must be above 0 and at most 1 for a link that was shown"),
    ("probability", 1.5, "`probability` must be above 0 and at most 1 for a link that was shown"),
    ("probability", -0.1, "got -0.1 in row 8"),
    ("probability", float("nan"), "got nan in row 8"),
    ("probability", None, "`probability` must be given in every row, got nothing in row 8"),
    ("link", None, "`link` must be given in every row, got nothing in row 8"),
    ("page_id", None, "`page_id` must be given in every row"),
    ("clicked", None, "mark rows without feedback as settled = false, got nothing in row 8"),
    ("revenue", -1.0, "`revenue` must be a finite number that is at least 0, got -1.0 in row 8"),
    ("revenue", float("inf"), "`revenue` must be a finite number that is at least 0"),
    ("revenue", float("nan"), "`revenue` must be a finite number that is at least 0"),
    ("revenue", 30.0, "`revenue` must be at most 1, or else the most that a link can bring"),
    ("time_us", -5, "`time_us` must be in order of time; sort the log by it, got -5 in row 8"),
    ("slot", 0, "`slot` must be at least 1, got 0 in row 8"),
    ("min_probability", 1.0, "`min_probability` must be at most every probability of its page"),
    ("page_id", "page-30", "got a `page_id` in two places"),
]


@pytest.mark.parametrize(("name", "value", "sentence"), BAD_VALUES)
def test_a_bad_value_is_one_sentence(name: str, value: Any, sentence: str) -> None:
    place = 6 if name == "min_probability" else 7
    with pytest.raises(InvalidLog, match=re.escape(sentence)) as caught:
        evaluate([as_file(changed(name, value, place))], MIX)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("log: ")


def test_missing_columns_are_named() -> None:
    log = random_log()
    del log["probability"], log["slot"]
    with pytest.raises(InvalidLog, match="got none named slot, probability"):
        evaluate([as_file(log)], MIX)


def test_a_page_shows_a_link_once() -> None:
    log = random_log()
    log["link"][1] = log["link"][0]
    with pytest.raises(InvalidLog, match="a page must show each link once"):
        evaluate([as_file(log)], MIX)


def test_two_currencies_are_refused() -> None:
    log = random_log()
    log["currency"] = ["EUR"] * len(log["link"])
    assert evaluate([as_file(log)], MIX).currency == "EUR"
    log["currency"][-1] = "USD"
    with pytest.raises(InvalidLog, match=r"got \['EUR', 'USD'\]"):
        evaluate([as_file(log)], MIX)


def test_a_text_where_a_number_belongs_is_refused() -> None:
    log = random_log()
    log["revenue"] = [str(value) for value in log["revenue"]]
    with pytest.raises(InvalidLog, match="`revenue` must be a column of numbers, got string"):
        evaluate([as_file(log)], MIX)


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="`log` must be a file or folder that exists"):
        evaluate(tmp_path / "none.parquet", MIX)
    with pytest.raises(MissingData, match=r"must hold \*\.parquet files, got none"):
        evaluate(tmp_path, MIX)
    (tmp_path / "log.parquet").write_text("page_id,link\n")
    with pytest.raises(InvalidLog, match=r"log\.parquet: not a Parquet file; .* converts a CSV"):
        evaluate(tmp_path / "log.parquet", MIX)
    empty = {name: column[:0] for name, column in random_log().items()}
    schema = pa.table(random_log()).schema
    pq.write_table(pa.table(empty, schema=schema), tmp_path / "log.parquet")
    with pytest.raises(InvalidLog, match="a log must have at least one page"):
        evaluate(tmp_path / "log.parquet", MIX)


def test_a_damaged_log_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    write(path, random_log())
    stored = path.read_bytes()
    path.write_bytes(stored[:50] + bytes(200) + stored[250:])
    with pytest.raises(InvalidLog, match=r"log\.parquet: .* got a damaged one .*; write it again"):
        evaluate(path, MIX)


def test_a_log_of_unsettled_pages_only_is_refused() -> None:
    log = random_log()
    log["settled"] = [False] * len(log["link"])
    with pytest.raises(InvalidLog, match="a log must have a settled page, got none"):
        evaluate([as_file(log)], MIX)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    table = pa.table(random_log()).replace_schema_metadata({FORMAT_KEY: b"2"})
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(UnsupportedState, match="must be version 1, got 2"):
        evaluate(tmp_path / "log.parquet", MIX)


def test_money_is_scaled_and_given_back() -> None:
    log = random_log()
    scaled = evaluate([as_file(log)], MIX)
    log["revenue"] = [80.0 * value for value in log["revenue"]]
    money = evaluate([as_file(log)], MIX, EvaluationSettings(max_revenue=80.0))
    assert money.revenue.value == pytest.approx(80 * scaled.revenue.value)
    assert money.revenue.high == pytest.approx(80 * scaled.revenue.high)
    assert money.n_clipped == 0
    clipped = evaluate([as_file(log)], MIX, EvaluationSettings(max_revenue=40.0))
    assert clipped.n_clipped > 0


def test_features_are_those_of_the_log() -> None:
    with pytest.raises(InvalidInput, match=r"`features` must be features of the log \(none\)"):
        LogReader([as_file(random_log())], ["country"])
