"""What the reports on a pool, its links, its rules and its decisions contain, as records.

The other files of `reporting` make these records, and `api` derives the answers of HTTP from them.
Times `_us` are microseconds since the epoch, and amounts `_micros` are millionths of a unit of the
currency. Used by most of `reporting`, and by `alert_conditions` and `api`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from slotwise.service.records import (
    DecisionRecord,
    FloorState,
    OutcomeName,
    PageGroup,
)


class RateReport(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate with an interval that holds at all times at once (95 %)."""

    mean: float
    low: float
    high: float


class LinkStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one link; sums are exact, rates are estimates."""

    link_id: str
    title: str
    retired: bool
    probability: float
    """The probability that the present version shows the link to a visitor without constraints."""
    click_views: int
    """Views whose click window has closed."""
    clicks: int
    revenue_views: int
    """Views whose click window and revenue window have both closed."""
    revenue_micros: int
    """Learned revenue: summed over views, each clipped to [0, `max_revenue_micros`]."""
    late_clicks: int
    """Clicks received after the click window: reported, not learned."""
    late_revenue_micros: int
    """Revenue received after the revenue window, less late refunds: reported, not learned."""
    click_rate: RateReport
    revenue_per_view_micros: RateReport


class GroupReport(msgspec.Struct, frozen=True, kw_only=True):
    """Chosen pages (`policy`), own pages or random ones (`holdout`), counted separately."""

    group: Literal["policy", "own", "holdout"]
    click_views: int
    """Page views whose click window has closed."""
    clicks_per_view: RateReport
    revenue_views: int
    """Page views whose click window and revenue window have both closed."""
    revenue_per_view_micros: RateReport


class SegmentFloorReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the floor of visitors with one value of a feature is kept."""

    feature: str
    value: str
    floor: FloorState
    delivered_views: int
    """Page views of these visitors that settled since their floor was set, without the holdout."""
    clicks_delivered: RateReport | None
    """Clicks per page view of `delivered_views`, by which the floor is judged; None without any."""
    shadow_price_micros: int
    """The cost of one more click of these visitors, in addition to that of the floor for all."""


class SegmentFloorSet(msgspec.Struct, frozen=True, kw_only=True):
    """A floor for visitors with one value of a feature."""

    feature: str
    value: str
    click_floor: float


GoalKind = Literal["views", "clicks", "budget"]


class GoalStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A goal or a budget of a rule, and its progress."""

    kind: GoalKind
    target: int
    done: int
    """Views or clicks so far; clicks count when they arrive."""
    until: datetime
    forecast: int
    """The forecast for the date, with the pages of the present version and the usual traffic."""
    hard: bool = False
    """Whether the budget reserves clicks that open views may still get, so it is never exceeded."""
    amount_micros: int = 0
    """The budget in money; 0 if it is a number of clicks, and for a goal."""
    cost_per_click_micros: int = 0
    """What the budget pays for a click; 0 likewise."""


class RuleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: its bounds, what it delivers, and what it costs."""

    name: str
    group: str
    links: tuple[str, ...]
    at_least: float
    at_most: float | None
    boost: float
    since: datetime
    """When the rule was set or its links were last changed."""
    n_links: int
    """Its links that may be shown at present."""
    slots_now: float
    """Expected number of slots that its links have on a page of the present version."""
    slots_delivered: float
    """Average number of slots that its links had on the pages since `since`."""
    page_views: int
    """Page views over which the average `slots_delivered` is taken."""
    price_micros: int
    """The additional revenue per page view if the rule were one slot looser, at the margin."""
    cost_micros: int | None
    """The additional revenue per page view without the rule; None if pages miss the click floor
    because of it."""
    violated: bool
    detail: str
    """Which bound is violated and what holds instead, in one sentence; empty if none is."""
    goals: tuple[GoalStatus, ...] = ()


class OwnPageReport(msgspec.Struct, frozen=True, kw_only=True):
    """Chosen pages compared with the own page since it was last changed; settled views only."""

    since: datetime
    chosen_share: float
    """The share of page views that get a chosen page now."""
    own_share: float
    """The share of page views that get the own page now; random pages have the rest."""
    chosen_views: int
    own_views: int
    lift: RateReport | None
    """Revenue of chosen pages over what the own page would have earned on the same views, less 1,
    with an interval that holds at all times at once; None until the own page has earned."""
    is_worse: bool
    """Whether chosen pages are certainly worse than the own page."""
    gained_micros: RateReport
    """What chosen pages earned more, in total, than the own page would have earned there."""
    given_up_micros: int
    """What own pages would have earned more as chosen pages, at the estimated lift."""
    keep: float | None
    """The promised share of the revenue of the own page alone; None if nothing is promised."""
    kept: float | None
    """Revenue so far over what the own page alone would have earned; None until it is known."""
    reason: Literal["all", "evidence", "start", "stopped"] | None
    """Why `chosen_share` is what it is; None if nothing is promised."""
    misses_floor: bool
    """Whether the own page itself certainly misses the click floor."""
    missing_links: tuple[str, ...] = ()
    """Links of `own_page` that the pool does not have; they may be added later."""
    views_to_half: int | None = None
    views_to_all: int | None = None
    """Expected further page views until half of the pages that may be chosen pages are chosen, and
    until all of them are; None if that is not known or takes very long."""


class PoolReport(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of a pool."""

    pool_id: str
    policy: str
    policy_version: int
    published_us: int
    folded_until_us: int
    """Views that closed up to this time are counted."""
    currency: str
    floor: FloorState
    delivered_views: int
    """Page views that settled since the present floor was set, without the holdout's."""
    clicks_delivered: RateReport | None
    """Clicks per page view of `delivered_views`, by which the floor is judged; None without any."""
    delivered_since_us: int
    """When the present floor was set."""
    shadow_price: float | None
    """Revenue given up for one more click, as a share of `max_revenue_micros`; None when no
    page reaches the floor."""
    shadow_price_micros: int | None
    groups: tuple[GroupReport, ...]
    lift: RateReport | None
    """Revenue per view, policy over holdout, less 1; None if the holdout may earn nothing."""
    n_quarantined: int
    """Events of all pools that arrived before their decision and wait for it."""
    links: tuple[LinkStatistics, ...]
    segment_floors: tuple[SegmentFloorReport, ...] = ()
    """The state of each floor of a segment (`segment_floors`)."""
    lift_views_needed: int | None = None
    """Estimated further page views until the interval of `lift` excludes 0, if they are like those
    so far; 0 if it already does, None if the views so far allow no estimate."""
    rules: tuple[RuleStatus, ...] = ()
    comparison: OwnPageReport | None = None
    """The comparison with the own page; None if no page is an own page."""


class FrontierPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The best revenue of a page that keeps this floor."""

    click_floor: float
    revenue: float
    """As a share of `max_revenue_micros`."""
    revenue_micros: int
    shadow_price: float
    """Revenue given up for one more click there, as a share of `max_revenue_micros`."""


class FrontierReport(msgspec.Struct, frozen=True, kw_only=True):
    """The frontier by the present estimates; linear between its points."""

    pool_id: str
    policy_version: int
    currency: str
    click_floor: float
    """The present floor of the pool."""
    points: tuple[FrontierPoint, ...]
    n_kinds: int = 0
    """Kinds of visitors over which the curve is the average; 0 if all get the same pages."""
    expected_clicks: float = 0.0
    """Clicks of a page of the latest versions, by the same estimates."""
    expected_revenue: float = 0.0
    """Revenue of such a page, as a share of `max_revenue_micros`."""

    @property
    def shadow_price(self) -> float | None:
        """The cost of one more click at the floor; None if no page reaches it."""
        beyond = (one for one in self.points if one.click_floor >= self.click_floor)
        return next((one.shadow_price for one in beyond), None)


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a link is shown as often as it is."""

    link_id: str
    probability: float
    click_rate: float
    revenue_rate: float
    """Expected revenue of a view of the link, as a share of `max_revenue_micros`."""
    shadow_price: float | None
    """None if no page reaches the floor: only clicks count then."""
    score: float
    """revenue_rate + shadow_price * click_rate: the value of a view of the link."""
    threshold: float
    """The lowest score with which a link would be on the best page."""
    reason: str
    """A few sentences."""
    segments: str = ""
    """One sentence: which visitors are most and least likely to see it, where that differs."""


class ReceivedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a decision: what was received and its outcome."""

    type: Literal["click", "conversion", "adjustment"]
    event_id: str
    """The conversion or adjustment id; for a click the link id."""
    link_id: str
    received_us: int
    amount_micros: int | None
    """Revenue of a conversion, refund of an adjustment."""
    currency: str | None
    outcome: OutcomeName
    """`accepted` means counted when the window closes, or already counted."""
    reason: str
    client_time: str | None


class DecisionReport(msgspec.Struct, frozen=True, kw_only=True):
    """A decision with everything received for it and what counts."""

    decision: DecisionRecord
    received: tuple[ReceivedEvent, ...]
    clicks_settled: bool
    revenue_settled: bool
    clicked: tuple[str, ...]
    """Links whose click counts, or will count when the window closes."""
    revenue_micros: dict[str, int]
    """Revenue that counts, or will count, for each clicked link."""
    segment_floors: tuple[SegmentFloorSet, ...] = ()
    """The floors of segments that held for this visitor, in addition to the floor for all."""
    group: PageGroup = "chosen"
    group_probability: float = 0.0
    """The probability with which the page got this group; 0 for pages of earlier releases."""


class RoundRow(msgspec.Struct, frozen=True, gc=False):
    """One decision of the round log, in the form of the export."""

    decision_id: str
    issued_us: int
    policy: str
    policy_version: int
    holdout: bool
    """Whether the page has random links, for comparison."""
    fallback: str
    """Why the policy did not choose this page; empty if it did."""
    links: tuple[str, ...]
    propensities: tuple[float, ...]
    clicks: tuple[int, ...]
    """One for each of `links`; all zeros until `clicks_settled`."""
    revenue_micros: tuple[int, ...]
    max_revenue_micros: int
    clicks_settled: bool
    revenue_settled: bool
    currency: str
    min_propensity: float
    """The smallest propensity of any link of the pool; 0 if one could not be on the page."""
    pool_key: int
    """A number that identifies the links of the pool that the page was drawn from."""
    visitor: dict[str, str]
    """The known features of the visitor."""
    segment: dict[str, str]
    """The value of every feature for which the page was chosen."""
    random_order: bool
    """Whether the links were in random order; `links` are in the order of the slots."""
    group: str
    """A `PageGroup`: chosen links, the own page, or random links."""
    group_probability: float
    """The probability with which the page got this group; 0 for pages of earlier releases."""
