"""The coupons of a Japanese site: the rates of one of the paper's data sets, from visits.

`registry` loads it by name.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl

from slotwise.environments.datasets.dataset import Dataset, PageSetting
from slotwise.environments.datasets.originals import (
    COUPON,
    DISPLAY_DAYS,
    PURCHASED,
    VISITED,
    EventTally,
    min_max,
)
from slotwise.environments.datasets.source_files import (
    SourceFile,
    check_cells,
    numbers_of,
    read_blocks,
    read_columns,
)
from slotwise.errors import InvalidInput

COUPON_ORIGIN = 'download it from the Kaggle competition "Coupon Purchase Prediction"'

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
