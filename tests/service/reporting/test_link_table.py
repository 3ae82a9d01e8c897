"""The roles of links and why they are shown: from averages, so that they stay for a minute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from slotwise.service.deciding.averaged_version import AVERAGED_US, KEPT_US, VersionAverages
from slotwise.service.deciding.installed_version import InstalledVersion
from slotwise.service.pool import Pool
from slotwise.service.pool_version import LEARNING_FAILED, StoredVersion, Version
from slotwise.service.records import SECOND_US, FloorState, LinkRecord, Pin, PoolSettings
from slotwise.service.reporting.link_table import LinkRow, LinkTable, LinkTableQuery, Role
from slotwise.service.reporting.pool_report import explain_links
from slotwise.service.reporting.report_records import LinkStatistics, PoolReport, RateReport
from slotwise.service.storage.activity import Activity

LINK_IDS = ("rich", "clicked", "poor")
CLICK_RATES = (0.05, 0.30, 0.02)
REVENUE_RATES = (0.04, 0.01, 0.001)
POOL = PoolSettings(
    pool_id="home",
    slots=1,
    click_floor=0.2,
    max_revenue_micros=10_000_000,
    currency="EUR",
    click_window_s=60,
    revenue_window_s=60,
    policy="uniform",
)
A_POOL = Pool.of(POOL, [LinkRecord("home", name, "https://a.example/") for name in LINK_IDS])


def version(
    published_us: int,
    probabilities: tuple[float, ...],
    price: float | None = 0.1,
    pool: Any = None,
    fallback: str = "",
) -> InstalledVersion:
    published = StoredVersion(
        version=published_us // SECOND_US,
        published_us=published_us,
        pool_changed_us=0,
        policy="uniform",
        link_ids=LINK_IDS,
        probabilities=np.array(probabilities).tobytes(),
        click_rates=np.array(CLICK_RATES).tobytes(),
        revenue_rates=np.array(REVENUE_RATES).tobytes(),
        click_variances=np.zeros(3).tobytes(),
        shadow_price=price,
        floor=FloorState(0.2, 0.2, 0.3, "met"),
        fallback=fallback,
    )
    return InstalledVersion(Version(pool or A_POOL, published, None))


def rows_of(
    averages: VersionAverages,
    installed: InstalledVersion,
    revenue_micros: int = 5_000_000,
    pool: PoolSettings = POOL,
    segments: str = "",
) -> tuple[LinkRow, ...]:
    """Return the rows of the links, 1,000 views after the start."""
    nothing = RateReport(mean=0.0, low=0.0, high=1.0)
    shares = installed.shares()
    reports = tuple(
        LinkStatistics(
            link_id=link_id,
            title="",
            retired=False,
            probability=shares[link_id],
            click_views=1_000,
            clicks=50,
            revenue_views=1_000,
            revenue_micros=revenue_micros,
            late_clicks=0,
            late_revenue_micros=0,
            click_rate=nothing,
            revenue_per_view_micros=nothing,
        )
        for link_id in LINK_IDS
    )
    report = PoolReport(
        pool_id="home",
        policy="uniform",
        policy_version=1,
        published_us=0,
        folded_until_us=0,
        currency="EUR",
        floor=installed.stored.floor,
        delivered_views=0,
        clicks_delivered=None,
        delivered_since_us=0,
        shadow_price=None,
        shadow_price_micros=None,
        groups=(),
        lift=None,
        n_quarantined=0,
        links=reports,
    )
    activity = Activity(
        spans=(),
        link_spans=(),
        pending_views={},
        click_delays_us=(),
        sale_delays_us=(),
        late_clicks=0,
        late_sales=0,
        invalid_clicks=0,
        refused=0,
    )
    explained = [
        replace(one, segments=segments) for one in explain_links(pool, installed, averages.kept)
    ]
    return LinkTable(pool, (), report, explained, activity, ()).select(LinkTableQuery()).rows


def table(*given: Any, **named: Any) -> dict[str, tuple[Role, str]]:
    """Return the role of each link and why."""
    return {row.link_id: (row.role, row.why) for row in rows_of(*given, **named)}


def test_versions_that_take_turns_do_not_flicker() -> None:
    by_turns = [((1.0, 0.0, 0.0), 0.0), ((0.0, 1.0, 0.0), 0.5)]
    first = version(0, *by_turns[0])
    averages = VersionAverages(first)
    seen: dict[int, set[str]] = {}
    for second in range(1, 3600):
        installed = version(second * SECOND_US, *by_turns[second % 2])
        averages.add(installed)
        minute = second // (KEPT_US // SECOND_US)
        seen.setdefault(minute, set()).add(str(sorted(table(averages, installed).items())))
    assert all(len(tables) == 1 for tables in seen.values())
    chances = averages.kept.probabilities
    assert chances == pytest.approx([0.5, 0.5, 0.0], abs=0.01)
    assert averages.kept.shadow_price == pytest.approx(0.25, abs=0.01)
    roles = {name: role for name, (role, _) in table(averages, installed).items()}
    assert roles == {"rich": "earner", "clicked": "click carrier", "poor": "resting"}


def test_the_average_follows_a_change_that_lasts() -> None:
    averages = VersionAverages(version(0, (1.0, 0.0, 0.0)))
    averages.add(version(AVERAGED_US, (0.0, 1.0, 0.0)))
    averages.add(version(2 * AVERAGED_US, (0.0, 1.0, 0.0)))
    assert averages.kept.probabilities[1] == pytest.approx(1 / (1 + np.exp(-1)), abs=1e-6)


def test_a_first_version_weighs_no_more_than_it_was_in_use() -> None:
    averages = VersionAverages(version(0, (1.0, 0.0, 0.0)))
    averages.add(version(SECOND_US, (0.0, 1.0, 0.0)))
    averages.add(version(100 * SECOND_US, (0.0, 1.0, 0.0)))
    assert averages.kept.probabilities[1] == pytest.approx(0.99, abs=0.001)


def test_other_settings_and_a_clock_that_runs_back_are_no_trouble() -> None:
    averages = VersionAverages(version(10 * SECOND_US, (1.0, 0.0, 0.0)))
    averages.add(version(5 * SECOND_US, (0.0, 1.0, 0.0)))
    assert averages.kept.probabilities.tolist() == [1.0, 0.0, 0.0]
    changed = A_POOL.with_settings(replace(POOL, click_floor=0.1))
    averages.add(version(6 * SECOND_US, (0.0, 0.0, 1.0), None, changed))
    assert averages.kept.probabilities.tolist() == [0.0, 0.0, 1.0]
    assert averages.kept.shadow_price is None


def test_what_a_pool_shows_while_it_cannot_learn_is_forgotten() -> None:
    averages = VersionAverages(version(0, (0.0, 0.0, 0.0), None, fallback=LEARNING_FAILED))
    first = version(SECOND_US, (1.0, 0.0, 0.0))
    averages.add(first)
    role, why = table(averages, first)["rich"]
    assert role == "earner"
    assert "No page reaches the floor" not in why


@pytest.mark.parametrize(("price", "role"), [(0.0, "exploring"), (0.1, "click carrier")])
def test_nobody_earns_nothing(price: float, role: Role) -> None:
    installed = version(0, (1.0, 0.0, 0.0), price)
    roles = table(VersionAverages(installed), installed, revenue_micros=0)
    assert roles["rich"][0] == role
    assert "earner" not in {one for one, _ in roles.values()}


def test_a_link_that_is_never_shown_is_no_earner() -> None:
    installed = version(0, (0.0, 1.0, 0.0), 0.0)
    [role, why] = table(VersionAverages(installed), installed)["rich"]
    assert role == "resting"
    assert "EUR. It is shown on some pages in turn, and is not shown at the moment" in why


def test_a_share_of_exploration_alone_is_no_role() -> None:
    explored = replace(POOL, explore=0.3)
    installed = version(0, (0.1, 0.8, 0.1), 0.1)
    roles = table(VersionAverages(installed), installed, pool=explored)
    assert [roles[name][0] for name in LINK_IDS] == ["resting", "click carrier", "resting"]


def test_a_link_far_from_its_place_is_shown_to_learn() -> None:
    installed = version(0, (0.0, 0.9, 0.1), 0.1)
    role, why = table(VersionAverages(installed), installed)["poor"]
    assert role == "exploring"
    assert why.endswith("It is shown to learn more about it.")
    near = version(0, (0.9, 0.1, 0.0), 0.12)
    assert table(VersionAverages(near), near)["clicked"][0] == "click carrier"


def test_the_share_is_the_one_that_the_role_is_judged_by() -> None:
    first = version(0, (1.0, 0.0, 0.0))
    averages = VersionAverages(first)
    installed = version(SECOND_US, (0.0, 1.0, 0.0))
    averages.add(installed)
    assert table(averages, installed)["rich"][0] == "earner"
    assert [row.share for row in rows_of(averages, installed)] == [1.0, 0.0, 0.0]


def test_a_pinned_link_is_pinned() -> None:
    pool = replace(POOL, pins=(Pin(link_id="poor", position=1),))
    installed = version(0, (1.0, 0.0, 0.0), 0.1, A_POOL.with_settings(pool))
    role, why = table(VersionAverages(installed), installed, pool=pool)["poor"]
    assert role == "pinned"
    assert why == "It is pinned to position 1 of every page."


def test_a_link_for_some_visitors_says_for_which() -> None:
    installed = version(0, (0.5, 0.5, 0.0))
    seen = "most likely for device phone (0.9), least for device desktop (0.1)"
    role, why = table(VersionAverages(installed), installed, segments=seen)["rich"]
    assert role == "earner"
    assert why.endswith(f"EUR. These are averages over visitors: it is {seen}.")
