"""The ads of Avito: the rates of one of the paper's data sets, from its streams of events.

The search stream alone has about 392 million rows. Each stream is read block by block and becomes a
tally by ad; only contextual ads are kept, so the tallies stay small. `registry` loads it by name.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from slotwise.environments.datasets.dataset import Dataset, PageSetting
from slotwise.environments.datasets.originals import CLICK_RATE, REVENUE, EventTally
from slotwise.environments.datasets.source_files import (
    SourceFile,
    check_cells,
    numbers_of,
    read_blocks,
    read_columns,
)
from slotwise.errors import InvalidInput, MissingData

SEARCHES, REQUESTS, VISITS = "trainSearchStream.tsv", "PhoneRequestsStream.tsv", "VisitsStream.tsv"
CONTEXTUAL = "3"
OBJECT_TYPES = ["1", "2", CONTEXTUAL]


def tally_ads(directory: Path, origin: str) -> tuple[pl.DataFrame, int, int]:
    """Count the three streams in `directory` by ad; `origin` is where users get them.

    Returns AdID, impressions, clicks, visits and requests of the contextual ads that were visited,
    how many were not, and the number of rows of other ads.
    """
    # Find all three first, since the search stream takes minutes to read.
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
    counted = counted.with_columns(pl.col("requests").fill_null(0.0))
    return counted, shown.height - visited.height, n_other_rows


def _tally_impressions(source: SourceFile) -> tuple[pl.DataFrame, int]:
    """Return impressions and clicks of each contextual ad, and the number of rows of other ads."""
    tally = EventTally("AdID")
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
    tally = EventTally("AdID")
    for block in read_blocks(source, ["AdID"]):
        check_cells(source, block, "AdID", block.rows["AdID"].is_not_null(), "an identifier")
        tally.add(block.rows.lazy().filter(pl.col("AdID").is_in(ads.implode())), **{name: pl.len()})
    return tally.totals(name)


RATES = "x-ad-click.csv"
AD_CLICKS_ORIGIN = (
    'download the streams of the Kaggle competition "Avito Context Ad Clicks" '
    f"({SEARCHES}, PhoneRequestsStream.tsv and VisitsStream.tsv), or take {RATES} (two columns "
    "without a header) as one of the paper's authors published it"
)


@dataclass(frozen=True)
class AdClicks:
    """Loader of `x-ad-click.csv`, or of Avito's three streams if that file is missing.

    Each line of `x-ad-click.csv` holds a click rate and a revenue per click; all lines are used.
    Of the streams, the loader takes the `n_links` contextual ads (ObjectType 3) with the most
    impressions among those that were visited, ties by AdID. The click rate is clicks over
    impressions, the revenue per click is phone requests over visits, at most 1.
    """

    n_links: int = 225

    def __post_init__(self) -> None:
        if self.n_links < 1:
            raise InvalidInput.of("n_links", "at least 1", self.n_links)

    def load(self, directory: Path, page: PageSetting) -> Dataset:
        """Read the files in `directory`; streams are read block by block."""
        if rates := _find(directory, RATES):
            return _from_rates(rates, page)
        if _find(directory, SEARCHES):
            return self._from_streams(directory, page)
        raise MissingData(
            f"`{RATES}` or `{SEARCHES}` must be in the directory {directory} or in its folder "
            f"ad-clicks, got no such file; {AD_CLICKS_ORIGIN}"
        )

    def _from_streams(self, directory: Path, page: PageSetting) -> Dataset:
        visited, n_unvisited, n_other_rows = tally_ads(directory, AD_CLICKS_ORIGIN)
        order = ["impressions", "AdID"]
        chosen = visited.sort(order, descending=[True, False]).head(self.n_links)
        if not chosen.height:
            raise InvalidInput.of(SEARCHES, "about contextual ads with visits", "none of them")
        clicks, impressions, requests, visits = (
            chosen[name].to_numpy() for name in ("clicks", "impressions", "requests", "visits")
        )
        return _ad_clicks(
            page,
            click_rate=np.asarray(clicks / impressions),
            revenue_per_click=np.minimum(1.0, requests / visits),
            source=f"Avito's streams: {chosen.height} of {visited.height} visited ads",
            notes=(
                f"links: the {chosen.height} visited contextual ads with the most impressions",
                "click rate: clicks / impressions; revenue: phone requests / visits, at most 1",
                f"dropped {n_unvisited} contextual ads without visits",
                f"dropped {n_other_rows} impressions of other ads",
            ),
            link_names=tuple(chosen["AdID"]),
        )


def _find(directory: Path, file_name: str) -> SourceFile | None:
    try:
        return SourceFile.find(directory, "ad-clicks", file_name, AD_CLICKS_ORIGIN)
    except MissingData:
        return None


def _ad_clicks(page: PageSetting, **described: Any) -> Dataset:
    """Return the data set of the ads and a page."""
    return Dataset(
        name="ad-clicks", title="Ad-Clicks", look_alike=False, **asdict(page), **described
    )


def _from_rates(found: SourceFile, page: PageSetting) -> Dataset:
    source = replace(found, header=(CLICK_RATE, REVENUE))
    block = read_columns(source, [CLICK_RATE, REVENUE])
    return _ad_clicks(
        page,
        click_rate=numbers_of(source, block, CLICK_RATE, high=1.0),
        revenue_per_click=numbers_of(source, block, REVENUE, high=1.0),
        source=f"{RATES}: click and phone-request rates of {block.rows.height} ads",
        notes=("click rate: first column; revenue: second column",),
    )
