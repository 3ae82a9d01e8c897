"""Whether a floor is kept: one rule for Selector and service, whose interval may be watched."""

from __future__ import annotations

import numpy as np
import pytest

from slotwise import Selector, Uniform
from slotwise.selection.mean_interval import mean_interval, mean_intervals
from slotwise.service.counting.attribution import Counters, LinkCounters, PageCounters
from slotwise.service.counting.rates import estimate_rates, floor_report, link_counts


@pytest.mark.parametrize("centre", [0.0, 0.3, 1.0])
def test_an_interval_that_is_watched_rarely_misses(centre: float) -> None:
    """Ever, in at most 5 % of runs: 19 of 100 or more with a probability below 1e-6."""
    rng, missed = np.random.default_rng(3), 0
    for _ in range(100):
        clicks = rng.binomial(1, 0.5, 3_000) * rng.binomial(3, 0.2, 3_000)
        totals, squares = np.cumsum(clicks), np.cumsum(clicks**2)
        for n in np.unique(np.geomspace(1, 3_000, 50).astype(int)).tolist():
            sums = float(totals[n - 1]), float(squares[n - 1])
            low, high = mean_interval(n, *sums, 3.0, centre=centre)
            assert 0.0 <= low <= sums[0] / n <= high <= 3.0
            if not low <= 0.3 <= high:
                missed += 1
                break
    assert missed < 19


def test_an_interval_narrows_and_larger_squares_widen_it() -> None:
    widths = []
    for n in (10, 100, 1_000, 10_000, 100_000):
        low, high = mean_interval(n, 0.3 * n, 0.34 * n, 5.0, centre=0.3)
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 4 * 1.96 * np.sqrt(0.25 / 100_000)
    exact, wide = (mean_interval(1_000, 300.0, 340.0 * k, 5.0) for k in (1, 3))
    assert wide[0] < exact[0] < exact[1] < wide[1]


def test_many_intervals_are_those_of_one_at_a_time() -> None:
    rng = np.random.default_rng(8)
    n_pages = np.concatenate([[0.05, 1.0], np.geomspace(2.0, 1e8, 40)])
    totals = n_pages * rng.uniform(0.0, 2.0, len(n_pages))
    totals[::7] = 0.0
    squares = totals * rng.uniform(1.0, 2.0, len(n_pages))
    rows = list(zip(n_pages.tolist(), totals.tolist(), squares.tolist(), strict=True))
    for centre in (0.0, 0.4):
        apart = [mean_interval(*row, 2.0, centre=centre) for row in rows]
        low, high = mean_intervals(n_pages, totals, squares, 2.0, centre=centre)
        assert low == pytest.approx([one for one, _ in apart], rel=1e-5, abs=1e-9)
        assert high == pytest.approx([one for _, one in apart], rel=1e-5, abs=1e-9)


CASES = [
    ([(500, 150), (500, 150)], 0.3, "learning"),  # as it should be, but not known yet
    ([(5_000, 1_500), (5_000, 1_500)], 0.3, "met"),  # known to be near
    ([(500, 250), (500, 250)], 0.3, "met"),  # known to be above
    ([(9_000, 900), (1_000, 900)], 0.3, "learning"),  # known to be below, and could be above
    ([(5_000, 500), (5_000, 500)], 0.3, "infeasible"),
    ([(3, 3), (0, 0)], 0.3, "learning"),  # three clicks prove nothing
    ([(3, 0), (0, 0)], 0.0, "met"),
]


@pytest.mark.filterwarnings("ignore::slotwise.selector.floor_advice.FloorUnreachable")
@pytest.mark.parametrize(("counted", "floor", "status"), CASES)
def test_selector_and_service_judge_alike(
    counted: list[tuple[int, int]], floor: float, status: str
) -> None:
    links = ["a", "b"]
    views, clicks = (
        {link: row[k] for link, row in zip(links, counted, strict=True)} for k in (0, 1)
    )
    selector = Selector(links, 1, policy=Uniform(), click_floor=floor)
    selector.update_batch(views, clicks, {})
    assert selector.report().delivered.status == status
    counters = Counters(
        links={("policy", link): LinkCounters(views[link], clicks[link]) for link in links}
    )
    rates = estimate_rates(link_counts(counters, links, 1))
    n_views, n_clicks = sum(views.values()), sum(clicks.values())
    delivered = PageCounters(click_views=n_views, clicks=n_clicks, clicks_squared=n_clicks)
    page = np.array([0.5, 0.5])
    assert floor_report(rates, page, 1, floor, delivered).status == status
