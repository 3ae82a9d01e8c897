"""Originals: loaders of the files that the paper used, and of tables of your own."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from slotwise.arrays import Floats
from slotwise.environments.datasets.dataset import Dataset, PageSetting
from slotwise.environments.datasets.source_files import (
    SourceFile,
    check_cells,
    numbers_of,
    read_blocks,
    read_columns,
)
from slotwise.errors import InvalidInput, MissingData


def min_max(name: str, values: Floats) -> Floats:
    """Return (x - min x) / (max x - min x).

    >>> min_max("views", np.array([2.0, 4.0, 6.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    smallest, largest = values.min(initial=np.inf), values.max(initial=-np.inf)
    if not smallest < largest:
        rule = "different for at least two links"
        raise InvalidInput.of(name, rule, values[:3].tolist())
    return np.asarray((values - smallest) / (largest - smallest))


EDX_ORIGIN = 'download it from the Kaggle data set "Online Courses from Harvard and MIT"'
PARTICIPANTS = "Participants (Course Content Accessed)"
CERTIFIED = "Certified"
NAME_PARTS = ("Institution", "Course Number", "Launch Date")


@dataclass(frozen=True)
class EdxCourse:
    """Loader of `appendix.csv`.

    A link is a row, and its name ends with the row number: no column is unique, not even `Course
    Number`, which stays the same when a course is repeated. The click rate is the min-max scaled
    number of participants; the revenue per click is the share of participants who earned a
    certificate. The click floor is the paper's 10, although no page of the published file reaches
    it: `look_ahead` returns the largest number of clicks.
    """

    def load(self, directory: Path, page: PageSetting) -> Dataset:
        """Read the file in `directory`."""
        source = SourceFile.find(directory, "edx-course", "appendix.csv", EDX_ORIGIN)
        block = read_columns(source, [*NAME_PARTS, PARTICIPANTS, CERTIFIED])
        participants = numbers_of(source, block, PARTICIPANTS, low=1.0)
        certified = numbers_of(source, block, CERTIFIED)
        at_most = pl.Series(certified <= participants)
        check_cells(source, block, CERTIFIED, at_most, "at most the number of participants")
        return Dataset(
            name="edx-course",
            title="edX-Course",
            click_rate=min_max(PARTICIPANTS, participants),
            revenue_per_click=np.asarray(certified / participants),
            **asdict(page),
            look_alike=False,
            source=f"{source.path.name}: {block.rows.height} courses of HarvardX and MITx",
            notes=("click rate: min-max scaled participants", "revenue: certified / participants"),
            link_names=tuple(
                f"{' '.join(part or '?' for part in parts)} (row {row})"
                for row, parts in enumerate(block.rows.select(NAME_PARTS).rows(), start=1)
            ),
        )


class EventTally:
    """Sums for each key, added block by block.

    >>> tally = EventTally("ad")
    >>> tally.add(pl.LazyFrame({"ad": ["x", "y", "x"]}), views=pl.len())
    >>> tally.add(pl.LazyFrame({"ad": ["x"]}), views=pl.len())
    >>> tally.totals("views").sort("ad").rows()
    [('x', 3.0), ('y', 1.0)]
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._totals: pl.DataFrame | None = None

    def add(self, rows: pl.LazyFrame, **sums: pl.Expr) -> None:
        """Add the sums of each key in `rows` to its totals."""
        exact = {name: total.cast(pl.Int64) for name, total in sums.items()}
        part = rows.group_by(self.key).agg(**exact).collect()
        if self._totals is None:
            self._totals = part
        else:
            together = pl.concat([self._totals, part])
            self._totals = together.group_by(self.key).agg(pl.col(name).sum() for name in sums)

    def totals(self, *names: str) -> pl.DataFrame:
        """Return the key and the named sums of every key that occurred, in any order."""
        if self._totals is None:
            schema = {self.key: pl.String} | dict.fromkeys(names, pl.Float64)
            return pl.DataFrame(schema=schema)
        return self._totals.select(self.key, *(pl.col(name).cast(pl.Float64) for name in names))


# The search stream alone has about 392 million rows. Each stream is read block by block and
# becomes a tally by ad; only contextual ads are kept, so the tallies stay small.


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
CLICK_RATE, REVENUE = "click rate", "phone requests per click"


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


COUPON_ORIGIN = 'download it from the Kaggle competition "Coupon Purchase Prediction"'
COUPON, DISPLAY_DAYS = "COUPON_ID_hash", "DISPPERIOD"
VISITED, PURCHASED = "VIEW_COUPON_ID_hash", "PURCHASE_FLG"
CLICK_RATES = ("views", "views-per-day")


@dataclass(frozen=True)
class CouponPurchase:
    """Loader of `coupon_visit_train.csv` and `coupon_list_train.csv`.

    A link is a coupon of the list. The loader takes the `n_links` most viewed coupons among those
    displayed for at least `min_display_days` days, ties by identifier. There is no log of
    impressions, so `click_rate` chooses another denominator:

    - "views": views, min-max scaled over the coupons taken
    - "views-per-day": views per display day, divided by the largest of the coupons taken

    The revenue per click is purchases over views. Visits to coupons that are not in the list
    are dropped, and the notes count them.
    """

    click_rate: str = "views"
    n_links: int = 271
    min_display_days: int = 1

    def __post_init__(self) -> None:
        if self.click_rate not in CLICK_RATES:
            raise InvalidInput.of("click_rate", " or ".join(CLICK_RATES), self.click_rate)
        if self.n_links < 1:
            raise InvalidInput.of("n_links", "at least 1", self.n_links)

    def load(self, directory: Path, page: PageSetting) -> Dataset:
        """Read the two files in `directory`; the larger one block by block."""
        coupons = _listed_coupons(directory)
        visits = _tally_visits(directory)
        listed = visits.join(coupons, on=COUPON, how="inner")
        n_unlisted = int(visits["views"].sum()) - int(listed["views"].sum())
        n_coupons = visits.height - listed.height
        eligible = listed.filter(pl.col("days") >= self.min_display_days)
        if not eligible.height:
            rule = "low enough that a viewed coupon is left"
            raise InvalidInput.of("min_display_days", rule, self.min_display_days)
        chosen = eligible.sort("views", COUPON, descending=[True, False]).head(self.n_links)
        views, purchases, days = (
            chosen[name].to_numpy() for name in ("views", "purchases", "days")
        )
        if self.click_rate == "views":
            click_rate = min_max("views", views)
        else:
            click_rate = np.asarray(views / days / (views / days).max())
        return Dataset(
            name="coupon-purchase",
            title="Coupon-Purchase",
            click_rate=click_rate,
            revenue_per_click=np.asarray(purchases / views),
            **asdict(page),
            look_alike=False,
            source=f"Ponpare's log: {chosen.height} of {eligible.height} viewed coupons",
            notes=(
                f"links: the {chosen.height} most viewed listed coupons",
                f"left out: coupons displayed for less than {self.min_display_days} days",
                f"click rate: {self.click_rate}, scaled; revenue: purchases / views",
                f"dropped {n_unlisted} visits to {n_coupons} coupons that are not listed",
            ),
            link_names=tuple(chosen[COUPON]),
        )


def _listed_coupons(directory: Path) -> pl.DataFrame:
    """Return the coupons of the list with their display days, at least one each."""
    source = SourceFile.find(directory, "coupon-purchase", "coupon_list_train.csv", COUPON_ORIGIN)
    block = read_columns(source, [COUPON, DISPLAY_DAYS])
    days = numbers_of(source, block, DISPLAY_DAYS)
    is_first = block.rows[COUPON].is_first_distinct() & block.rows[COUPON].is_not_null()
    check_cells(source, block, COUPON, is_first, "an identifier that occurs once")
    return pl.DataFrame({COUPON: block.rows[COUPON], "days": np.maximum(days, 1.0)})


def _tally_visits(directory: Path) -> pl.DataFrame:
    """Return views and purchases of each coupon that was visited."""
    source = SourceFile.find(directory, "coupon-purchase", "coupon_visit_train.csv", COUPON_ORIGIN)
    tally = EventTally(VISITED)
    for block in read_blocks(source, [VISITED, PURCHASED]):
        is_flag = block.rows[PURCHASED].is_in(["0", "1"])
        check_cells(source, block, PURCHASED, is_flag, "0 or 1")
        check_cells(source, block, VISITED, block.rows[VISITED].is_not_null(), "an identifier")
        tally.add(
            block.rows.lazy(),
            views=pl.len(),
            purchases=(pl.col(PURCHASED) == "1").sum(),
        )
    return tally.totals("views", "purchases").rename({VISITED: COUPON})
