"""Avito's streams: counted right, block by block, in memory that does not follow the file."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slotwise.environments.datasets import load_dataset, source_files
from slotwise.errors import InvalidInput, MissingData

SMALL_PAGE = {"n_slots": 1, "click_floor": 0.1}
PEAK_MEMORY = """
import sys
from pathlib import Path
from slotwise.environments.datasets import load_dataset

dataset = load_dataset("ad-clicks", sys.argv[1], n_links=100)
status = Path("/proc/self/status").read_text()
peak = status.partition("VmHWM:")[2].split()[0]
print(dataset.n_links, peak)
"""


def write_streams(directory: Path, n_rows: int, n_ads: int, seed: int = 0) -> Path:
    """Write three streams with Kaggle's columns; the search stream has `n_rows` rows."""
    rng = np.random.default_rng(seed)
    contextual = pl.col("ObjectType") == 3
    searches = pl.DataFrame(
        {
            "SearchID": np.arange(n_rows),
            "AdID": 1000 + rng.integers(0, n_ads, n_rows),
            "Position": rng.integers(1, 8, n_rows),
            "ObjectType": rng.integers(1, 4, n_rows),
            "HistCTR": rng.integers(0, 1000, n_rows) / 1e5,
            "IsClick": rng.random(n_rows) < 0.2,
        }
    )
    searches.with_columns(
        pl.when(contextual).then(pl.col("HistCTR")),
        pl.when(contextual).then(pl.col("IsClick").cast(pl.Int8)),
    ).write_csv(directory / "trainSearchStream.tsv", separator="\t")
    for name, when, n_events in (
        ("VisitsStream.tsv", "ViewDate", 20 * n_ads),
        ("PhoneRequestsStream.tsv", "PhoneRequestDate", 8 * n_ads),
    ):
        pl.DataFrame(
            {
                "UserID": rng.integers(0, 1000, n_events),
                "IPID": rng.integers(0, 1000, n_events),
                # The first ads are never visited, and some visits are to ads nobody was shown.
                "AdID": 1000 + rng.integers(3, n_ads + 5, n_events),
                when: ["2015-05-01 00:00:00.0"] * n_events,
            }
        ).write_csv(directory / name, separator="\t")
    return directory


def count_plainly(directory: Path) -> dict[str, tuple[float, float]]:
    """Return click rate and revenue per click of every visited ad: the slow twin."""

    def rows(name: str) -> list[dict[str, str]]:
        with (directory / name).open(newline="") as file:
            return list(csv.DictReader(file, delimiter="\t"))

    shown = [row for row in rows("trainSearchStream.tsv") if row["ObjectType"] == "3"]
    impressions = Counter(row["AdID"] for row in shown)
    clicks = Counter(row["AdID"] for row in shown if row["IsClick"] == "1")
    visits = Counter(row["AdID"] for row in rows("VisitsStream.tsv"))
    requests = Counter(row["AdID"] for row in rows("PhoneRequestsStream.tsv"))
    order = sorted(impressions, key=lambda ad: (-impressions[ad], ad))
    return {
        ad: (clicks[ad] / impressions[ad], min(1.0, requests[ad] / visits[ad]))
        for ad in order
        if visits[ad]
    }


@pytest.mark.parametrize("block_bytes", [200, 10_000, source_files.BLOCK_BYTES])
def test_the_counts_are_those_of_a_plain_loop_whatever_the_block(
    block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_files, "BLOCK_BYTES", block_bytes)
    write_streams(tmp_path, n_rows=4000, n_ads=30)
    dataset = load_dataset("ad-clicks", tmp_path, **SMALL_PAGE)
    expected = count_plainly(tmp_path)
    assert dataset.link_names == tuple(expected)
    rates = np.array(list(expected.values()))
    np.testing.assert_array_equal(dataset.click_rate, rates[:, 0])
    np.testing.assert_array_equal(dataset.revenue_per_click, rates[:, 1])
    assert dataset.n_links == 27
    assert "dropped 3 contextual ads without visits" in dataset.notes


def test_the_ads_with_the_most_impressions_are_taken(tmp_path: Path) -> None:
    write_streams(tmp_path, n_rows=4000, n_ads=30)
    dataset = load_dataset("ad-clicks", tmp_path, n_links=10, **SMALL_PAGE)
    assert dataset.link_names == tuple(count_plainly(tmp_path))[:10]


@pytest.mark.slow
def test_memory_does_not_follow_the_file(tmp_path: Path) -> None:
    """Six million rows may peak at most 96 MB above one million.

    The files differ by more than 100 MB: held in memory, even unparsed, they would break this.
    (Read in one block, the larger one peaks 600 MB above the smaller.)
    """
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc, which this system does not have")
    peaks, sizes = [], []
    for n_rows in (1_000_000, 6_000_000):
        directory = tmp_path / str(n_rows)
        directory.mkdir()
        write_streams(directory, n_rows, n_ads=400)
        # ru_maxrss would start from the peak of the process that starts this one; VmHWM does not.
        answer = subprocess.run(
            [sys.executable, "-c", PEAK_MEMORY, str(directory)],
            check=True,
            capture_output=True,
            text=True,
        )
        n_links, kilobytes = map(int, answer.stdout.split())
        assert n_links == 100
        peaks.append(kilobytes * 1024)
        sizes.append((directory / "trainSearchStream.tsv").stat().st_size)
    assert sizes[1] - sizes[0] > 100e6
    assert peaks[1] - peaks[0] < 96e6


@pytest.mark.parametrize(
    "name", ["trainSearchStream.tsv", "PhoneRequestsStream.tsv", "VisitsStream.tsv"]
)
def test_a_missing_stream_is_named(name: str, tmp_path: Path) -> None:
    write_streams(tmp_path, n_rows=100, n_ads=10)
    (tmp_path / name).unlink()
    with pytest.raises(MissingData, match=f'`{name}` must be in .*"Avito Context Ad Clicks"'):
        load_dataset("ad-clicks", tmp_path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    write_streams(tmp_path, n_rows=100, n_ads=10)
    (tmp_path / "VisitsStream.tsv").write_text("UserID\tIPID\tAd\n1\t2\t3\n")
    with pytest.raises(MissingData, match=r"`AdID` must be a column of VisitsStream.tsv .*Avito"):
        load_dataset("ad-clicks", tmp_path)


@pytest.mark.parametrize("block_bytes", [64, source_files.BLOCK_BYTES])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "9\t1004\t1\t3\t0.1\t",
            "`IsClick` must be 0 or 1 for contextual ads, got None; .*row 101 ",
        ),
        (
            "9\t1004\t1\t3\t0.1\t2",
            "`IsClick` must be 0 or 1 for contextual ads, got '2'; .*row 101 ",
        ),
        ("9\t1004\t1\tx\t0.1\t1", "`ObjectType` must be 1, 2 or 3, got 'x'; see row 101 of train"),
        ("9\t\t1\t3\t0.1\t1", "`AdID` must be an identifier, got None; see row 101"),
        ("9", "`ObjectType` must be 1, 2 or 3, got None; see row 101"),
        ("9\t1004\t1\t3\t0.1\t1\t7", "`trainSearchStream.tsv` must be a readable table"),
    ],
)
def test_a_bad_row_is_named_whatever_the_block(
    row: str, message: str, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_files, "BLOCK_BYTES", block_bytes)
    write_streams(tmp_path, n_rows=100, n_ads=10)
    with (tmp_path / "trainSearchStream.tsv").open("a") as file:
        file.write(row + "\n")
    with pytest.raises(InvalidInput, match=message):
        load_dataset("ad-clicks", tmp_path)


def test_streams_without_contextual_ads_are_named(tmp_path: Path) -> None:
    write_streams(tmp_path, n_rows=10, n_ads=10)
    header = "SearchID\tAdID\tPosition\tObjectType\tHistCTR\tIsClick\n"
    (tmp_path / "trainSearchStream.tsv").write_text(header + "1\t1004\t1\t1\t\t\n")
    with pytest.raises(InvalidInput, match="must be about contextual ads with visits, got"):
        load_dataset("ad-clicks", tmp_path)


def test_windows_line_ends_are_read(tmp_path: Path) -> None:
    write_streams(tmp_path, n_rows=500, n_ads=10)
    plain = load_dataset("ad-clicks", tmp_path, **SMALL_PAGE)
    for path in tmp_path.glob("*.tsv"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    windows = load_dataset("ad-clicks", tmp_path, **SMALL_PAGE)
    assert windows.link_names == plain.link_names
    assert np.array_equal(windows.click_rate, plain.click_rate)
