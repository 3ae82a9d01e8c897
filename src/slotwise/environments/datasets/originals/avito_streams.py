"""Avito's three streams, counted by ad without loading any of them into memory.

The search stream alone has about 392 million rows. Each stream is read block by block and
becomes a tally by ad; only contextual ads are kept, so the tallies stay small.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import polars as pl

from slotwise.environments.datasets.originals.source_files import (
    SourceFile,
    check_cells,
    read_blocks,
)
from slotwise.environments.datasets.originals.tally import Tally

__all__ = ["REQUESTS", "SEARCHES", "VISITS", "AdTally", "tally_ads"]

SEARCHES, REQUESTS, VISITS = "trainSearchStream.tsv", "PhoneRequestsStream.tsv", "VisitsStream.tsv"
CONTEXTUAL = "3"
OBJECT_TYPES = ["1", "2", CONTEXTUAL]


class AdTally(NamedTuple):
    """Counts of the contextual ads: AdID, impressions, clicks, visits and requests."""

    visited: pl.DataFrame
    n_unvisited: int
    n_other_rows: int


def tally_ads(directory: Path, origin: str) -> AdTally:
    """Count the three streams in `directory` by ad; `origin` says where users get them."""
    # All three are looked for first: the search stream takes minutes to read.
    searches, requests, visits = (
        SourceFile.find(directory, "ad-clicks", name, origin)
        for name in (SEARCHES, REQUESTS, VISITS)
    )
    requests.require(["AdID"])
    visits.require(["AdID"])
    shown, n_other_rows = _tally_impressions(searches)
    ads = shown["AdID"]
    visited = shown.join(_count_by_ad(visits, ads, "visits"), on="AdID", how="inner")
    counted = visited.join(_count_by_ad(requests, ads, "requests"), on="AdID", how="left")
    return AdTally(
        visited=counted.with_columns(pl.col("requests").fill_null(0.0)),
        n_unvisited=shown.height - visited.height,
        n_other_rows=n_other_rows,
    )


def _tally_impressions(source: SourceFile) -> tuple[pl.DataFrame, int]:
    """Return impressions and clicks of each contextual ad, and the number of rows of other ads."""
    tally = Tally("AdID")
    n_other_rows = 0
    for block in read_blocks(source, ["AdID", "ObjectType", "IsClick"]):
        rows = block.rows
        check_cells(
            source, block, "ObjectType", rows["ObjectType"].is_in(OBJECT_TYPES), "1, 2 or 3"
        )
        check_cells(source, block, "AdID", rows["AdID"].is_not_null(), "an identifier")
        is_other = rows["ObjectType"] != CONTEXTUAL
        is_flag = rows["IsClick"].is_in(["0", "1"]).fill_null(value=False)
        check_cells(source, block, "IsClick", is_flag | is_other, "0 or 1 for contextual ads")
        n_other_rows += int(is_other.sum())
        tally.add(
            rows.lazy().filter(pl.col("ObjectType") == CONTEXTUAL),
            impressions=pl.len(),
            clicks=(pl.col("IsClick") == "1").sum(),
        )
    return tally.totals("impressions", "clicks"), n_other_rows


def _count_by_ad(source: SourceFile, ads: pl.Series, name: str) -> pl.DataFrame:
    """Return the number of rows of a stream for each of `ads` that occurs in it."""
    tally = Tally("AdID")
    for block in read_blocks(source, ["AdID"]):
        check_cells(source, block, "AdID", block.rows["AdID"].is_not_null(), "an identifier")
        tally.add(block.rows.lazy().filter(pl.col("AdID").is_in(ads.implode())), **{name: pl.len()})
    return tally.totals(name)
