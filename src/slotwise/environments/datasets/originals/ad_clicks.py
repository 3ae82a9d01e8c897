"""`ad-clicks`: click and phone-request rates of Avito's ads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from slotwise.environments.datasets.dataset import Dataset
from slotwise.environments.datasets.originals.avito_streams import SEARCHES, tally_ads
from slotwise.environments.datasets.originals.source_files import (
    SourceFile,
    numbers_of,
    read_columns,
)
from slotwise.environments.datasets.page import Page
from slotwise.errors import InvalidInput, MissingData

__all__ = ["AdClicks"]

RATES = "x-ad-click.csv"
ORIGIN = (
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

    def load(self, directory: Path, page: Page) -> Dataset:
        """Read the files in `directory`; streams are read block by block."""
        if rates := _find(directory, RATES):
            return _from_rates(rates).on(page)
        if _find(directory, SEARCHES):
            return self._from_streams(directory).on(page)
        raise MissingData(
            f"`{RATES}` or `{SEARCHES}` must be in the directory {directory} or in its folder "
            f"ad-clicks, got no such file; {ORIGIN}"
        )

    def _from_streams(self, directory: Path) -> _Links:
        ads = tally_ads(directory, ORIGIN)
        order = ["impressions", "AdID"]
        chosen = ads.visited.sort(order, descending=[True, False]).head(self.n_links)
        if not chosen.height:
            raise InvalidInput.of(SEARCHES, "about contextual ads with visits", "none of them")
        clicks, impressions, requests, visits = (
            chosen[name].to_numpy() for name in ("clicks", "impressions", "requests", "visits")
        )
        return _Links(
            click_rate=np.asarray(clicks / impressions),
            revenue_per_click=np.minimum(1.0, requests / visits),
            source=f"Avito's streams: {chosen.height} of {ads.visited.height} visited ads",
            notes=(
                f"links: the {chosen.height} visited contextual ads with the most impressions",
                "click rate: clicks / impressions; revenue: phone requests / visits, at most 1",
                f"dropped {ads.n_unvisited} contextual ads without visits",
                f"dropped {ads.n_other_rows} impressions of other ads",
            ),
            link_names=tuple(chosen["AdID"]),
        )


def _find(directory: Path, file_name: str) -> SourceFile | None:
    try:
        return SourceFile.find(directory, "ad-clicks", file_name, ORIGIN)
    except MissingData:
        return None


@dataclass(frozen=True)
class _Links:
    """The rates of the ads, from either form of the data."""

    click_rate: NDArray[np.float64]
    revenue_per_click: NDArray[np.float64]
    source: str
    notes: tuple[str, ...]
    link_names: tuple[str, ...] | None = None

    def on(self, page: Page) -> Dataset:
        """Return the data set of these ads and a page."""
        return Dataset(
            name="ad-clicks",
            title="Ad-Clicks",
            click_rate=self.click_rate,
            revenue_per_click=self.revenue_per_click,
            n_slots=page.n_slots,
            click_floor=page.click_floor,
            failure_probability=page.failure_probability,
            look_alike=False,
            source=self.source,
            notes=self.notes,
            link_names=self.link_names,
        )


def _from_rates(found: SourceFile) -> _Links:
    source = replace(found, header=(CLICK_RATE, REVENUE))
    block = read_columns(source, [CLICK_RATE, REVENUE])
    return _Links(
        click_rate=numbers_of(source, block, CLICK_RATE, high=1.0),
        revenue_per_click=numbers_of(source, block, REVENUE, high=1.0),
        source=f"{RATES}: click and phone-request rates of {block.rows.height} ads",
        notes=("click rate: first column; revenue: second column",),
    )
