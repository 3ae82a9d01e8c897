"""Cases in which visitors or slots differ, and cases in which they seem to and do not."""

from __future__ import annotations

import numpy as np

from benchmarks.leaderboard.case import LONG_RUNS, OTHER_RUNS, Case
from slotwise.environments import DriftingSegments, SegmentLinks
from slotwise.environments.contract import Environment
from slotwise.environments.datasets import Dataset, load_dataset
from slotwise.environments.visitor_shops import feature_shop, halfway_floor, segment_shop

__all__ = ["visitor_cases"]

FEATURES = (2, 3, 4, 4, 5)
"""Values of five features, 480 combinations."""


def visitor_cases() -> list[Case]:
    """Return the cases of this file."""
    return [*_shops(), *_drifting(), *_slots()]


def _case(
    name: str,
    description: str,
    links: Environment,
    n_slots: int,
    floor: float,
    full_rounds: int,
    n_runs: int = OTHER_RUNS,
    slot_weights: str | None = None,
) -> Case:
    rates = links.rates(full_rounds)
    dataset = Dataset(
        name=name,
        title=name,
        click_rate=rates[0],
        revenue_per_click=rates[1] / rates[0],
        n_slots=n_slots,
        click_floor=floor,
        failure_probability=0.01,
        look_alike=True,
        source=f"look-alike of no particular site, drawn from the recipe of {name}",
    )
    return Case(
        name,
        description,
        dataset,
        links,
        n_runs=n_runs,
        full_rounds=full_rounds,
        slot_weights=slot_weights,
    )


def _shops() -> list[Case]:
    few, many, cold = segment_shop(60, 6), segment_shop(200, 24), segment_shop(1_000, 6, seed=5)
    additive, nothing = feature_shop(100, FEATURES, 0.7), feature_shop(60, FEATURES, 0.0)
    return [
        _case(
            "six-segments",
            "5 of 60 links for visitors of six segments",
            few,
            5,
            halfway_floor(few, 5),
            100_000,
        ),
        _case(
            "24-segments",
            "8 of 200 links for visitors of 24 segments",
            many,
            8,
            halfway_floor(many, 8),
            200_000,
            LONG_RUNS,
        ),
        _case(
            "480-combinations",
            "5 of 100 links for visitors with five features whose effects add up",
            additive,
            5,
            halfway_floor(additive, 5),
            200_000,
            LONG_RUNS,
        ),
        _case(
            "no-effect",
            "5 of 60 links for visitors with five features that do not matter",
            nothing,
            5,
            halfway_floor(nothing, 5),
            100_000,
        ),
        _case(
            "cold-links",
            "5 of 1,000 links for visitors of six segments: most links are hardly known",
            cold,
            5,
            halfway_floor(cold, 5),
            100_000,
            LONG_RUNS,
        ),
    ]


def _drifting() -> list[Case]:
    """Return a shop in which the largest segment's taste moves from link to link."""
    shop = segment_shop(60, 6)
    known = shop.visitor_rates(1)
    largest = int(np.argmax(known.shares))
    clicks, revenue = known.rates[:, 0], known.rates[:, 1] / known.rates[:, 0]
    stations = []
    for step in range(4):
        moved = np.roll(np.arange(shop.n_links), 15 * step)
        rates = [clicks.copy(), revenue.copy()]
        for rate in rates:
            rate[largest] = rate[largest, moved]
        stations.append(SegmentLinks(rates[0], rates[1], known.shares))
    links = DriftingSegments(stations)
    description = "the six segments, of which the largest changes its taste three times"
    return [_case("drifting-segment", description, links, 5, halfway_floor(shop, 5), 100_000)]


def _slots() -> list[Case]:
    """Return Ad-Clicks' look-alike with slots that differ much, and not at all."""
    ads = load_dataset("ads-like-binding")
    weights = 1.0 / np.sqrt(np.arange(1.0, ads.n_slots + 1.0))
    weights /= weights.mean()
    scale = 1.0 / float(weights.max() * ads.click_rate.max())
    cases = []
    for name, description, used in (
        ("slots-differ", "20 of 225 ads, clicks in slot l in proportion to 1/sqrt(l)", weights),
        ("slots-alike", "20 of 225 ads whose slots are alike, though policies do not know", None),
    ):
        rates = ([scale * ads.click_rate], [ads.revenue_per_click], [1.0])
        links = SegmentLinks(*rates, visitors=[{}], slot_weights=used)
        floor = scale * ads.click_floor
        cases.append(
            _case(name, description, links, ads.n_slots, floor, 50_000, slot_weights="learn")
        )
    return cases
