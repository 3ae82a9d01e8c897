"""What counts as wrong with a pool, figure by figure."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from slotwise.service.alert_conditions import alerts_of
from slotwise.service.records import SECOND_US, FloorState, FloorStatus, to_time
from slotwise.service.reporting.network_shares import BusiestNetwork
from slotwise.service.reporting.overview import Overview
from slotwise.service.reporting.report_records import OwnPageReport, RateReport, SegmentFloorReport
from slotwise.service.storage.activity import Span

HOUR_US = 3600 * SECOND_US


@pytest.fixture(scope="module")
def healthy(admin: httpx.Client) -> Overview:
    """Return the figures of a pool that is well: 24 hours of 100 views, 30 clicks and 10 sales."""
    body = {
        "slots": 2,
        "click_floor": 0.2,
        "max_revenue": {"amount_micros": 50_000_000, "currency": "EUR"},
        "policy": {"name": "uniform", "settings": {}},
        "allowed_hosts": ["shop.example"],
    }
    admin.put("/v1/pools/well", json=body).raise_for_status()
    url = "https://shop.example/1"
    admin.put("/v1/pools/well/links/l1", json={"url": url}).raise_for_status()
    raw = admin.get("/dashboard/pools/well").json()["overview"]
    made = msgspec.convert(raw, Overview)
    hours = tuple(span(hour) for hour in range(24))
    return replace(
        made,
        now_us=30 * HOUR_US,
        span_us=HOUR_US,
        click_window_s=1800,
        revenue_window_s=3600,
        spans=hours,
        floor=floor("met"),
        delivered_views=2400,
        clicks_delivered=RateReport(mean=0.3, low=0.28, high=0.32),
        trouble="",
    )


def span(hour: int, clicks: int = 30, sales: int = 10, views: int = 100) -> Span:
    return Span(start_us=hour * HOUR_US, group="policy", views=views, clicks=clicks, sales=sales)


def floor(status: FloorStatus) -> FloorState:
    return FloorState(clicks=0.2, expected=0.3, attainable=0.15, status=status)


def kinds(overview: Overview) -> list[str]:
    return [alert.kind for alert in alerts_of(overview)]


def test_chosen_pages_that_are_certainly_worse_than_the_own_page(healthy: Overview) -> None:
    compared = OwnPageReport(
        since=to_time(0),
        chosen_share=0.045,
        own_share=0.955,
        chosen_views=1_000,
        own_views=20_000,
        lift=RateReport(mean=-0.4, low=-0.6, high=-0.1),
        is_worse=True,
        gained_micros=RateReport(mean=-5.0, low=-9.0, high=-1.0),
        given_up_micros=0,
        keep=0.95,
        kept=0.98,
        reason="evidence",
        misses_floor=False,
    )
    [alert] = alerts_of(replace(healthy, comparison=compared))
    assert alert.kind == "own-page-better"
    assert alert.detail == (
        "Chosen pages earn 40% less than your own page (10% to 60% less); the promise limits "
        "their share: 0.045 of the pages are chosen now."
    )
    assert kinds(replace(healthy, comparison=replace(compared, is_worse=False))) == []


def test_a_pool_that_is_well_raises_nothing(healthy: Overview) -> None:
    assert kinds(healthy) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"clicks_delivered": RateReport(mean=0.15, low=0.12, high=0.19)}, ["floor-missed"]),
        ({"clicks_delivered": RateReport(mean=0.19, low=0.17, high=0.21)}, []),
        (
            {"clicks_delivered": RateReport(mean=0.1, low=0.05, high=0.15), "delivered_views": 99},
            [],
        ),
        ({"floor": floor("infeasible")}, ["floor-missed"]),
        ({"floor": FloorState(0.0, 0.1, 0.1, "met"), "clicks_delivered": None}, []),
        ({"trouble": "The store does not answer."}, ["learning-failed"]),
        ({"trouble": "It fails.", "archived": True}, []),
        ({"floor": floor("infeasible"), "n_links": 0}, []),
    ],
)
def test_floor_and_learning(
    healthy: Overview, changes: dict[str, Any], expected: list[str]
) -> None:
    assert kinds(replace(healthy, **changes)) == expected


def test_clicks_that_stop_are_noticed_when_enough_are_missing(healthy: Overview) -> None:
    assert kinds(replace(healthy, spans=(*healthy.spans, span(24, 0, 0, 60)))) == []
    silent = replace(healthy, spans=(*healthy.spans, span(24, 0, 0, 70)))
    [alert] = alerts_of(silent)
    assert alert.kind == "feedback-stopped"
    assert alert.detail == "No click came for the last 70 views, although pages are shown."


def test_sales_that_stop_are_noticed_though_clicks_come(healthy: Overview) -> None:
    without = (*healthy.spans, *(span(24 + n, 30, 0) for n in range(3)))
    [alert] = alerts_of(replace(healthy, spans=without))
    assert alert.detail == "No sale came for the last 300 views, although pages are shown."


def test_views_whose_window_is_open_are_not_waited_for(healthy: Overview) -> None:
    fresh = (*healthy.spans, span(29, 0, 0, 10_000))
    assert kinds(replace(healthy, spans=fresh)) == []


def test_a_pool_that_never_had_feedback_has_not_lost_it(healthy: Overview) -> None:
    silent = tuple(span(hour, 0, 0) for hour in range(24))
    assert kinds(replace(healthy, spans=silent)) == []
    assert kinds(replace(healthy, spans=())) == []


def test_a_floor_of_a_segment_is_named(healthy: Overview) -> None:
    of_phones = SegmentFloorReport(
        feature="device",
        value="phone",
        floor=floor("learning"),
        delivered_views=200,
        clicks_delivered=RateReport(mean=0.1, low=0.05, high=0.15),
        shadow_price_micros=0,
    )
    few = replace(of_phones, delivered_views=99)
    assert kinds(replace(healthy, segment_floors=(few,))) == []
    found = alerts_of(replace(healthy, segment_floors=(few, of_phones)))
    sentence = (
        "Pages for visitors with device phone delivered 0.100 (0.050 to 0.150) clicks per view "
        "since the floor of 0.2 was set."
    )
    assert [(one.kind, one.detail) for one in found] == [("floor-missed", sentence)]
    out_of_reach = replace(of_phones, floor=floor("infeasible"))
    both = replace(healthy, segment_floors=(out_of_reach,), floor=floor("infeasible"))
    [alert] = alerts_of(both)
    assert "clicks per view: the most is about 0.150. No page" in alert.detail
    assert "clicks per view for visitors with device phone: the most" in alert.detail


def test_a_network_that_reports_most_views_is_named(healthy: Overview) -> None:
    def busiest(views: int) -> Overview:
        found = BusiestNetwork(network="203.0.113.0/24", views=views, all_views=300)
        return replace(healthy, busiest_network=found)

    assert kinds(busiest(150)) == []
    [alert] = alerts_of(busiest(200))
    assert alert.kind == "one-network"
    assert "200 of the latest 300 page views were reported from the network 203.0.113.0/24" in (
        alert.detail
    )
