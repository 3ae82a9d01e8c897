"""The plain records of the decision service: what is stored, passed between parts and answered.

Two units, each with one suffix everywhere: money is an integer number of micro-units (`*_micros`,
12.50 EUR is 12_500_000), a time is an integer number of microseconds since the epoch (`*_us`),
always by the server's clock. Every record is immutable and contains only values that JSON can
represent, so it can be stored, logged, exported and answered without conversion. The fields of a
stored record are in the order of its table's columns. Records that are made for every page view
cannot be part of a cycle and are left out of garbage collection. Used by most of the service.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar, Literal

import msgspec

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US

FloorStatus = Literal["met", "learning", "infeasible"]
PageGroup = Literal["chosen", "own", "random"]
"""What a page shows: links that the policy chose, the own page, or random links."""
HoldoutPage = Literal["own", "random"]
OutcomeName = Literal["accepted", "duplicate", "late", "quarantined", "rejected"]
Scope = Literal["page", "decide", "track", "read", "admin"]


def to_time(us: int) -> datetime:
    """Return the time `us` microseconds after the epoch.

    >>> to_time(1_774_000_800_000_000).isoformat()
    '2026-03-20T10:00:00+00:00'
    """
    return datetime.fromtimestamp(us // SECOND_US, UTC).replace(microsecond=us % SECOND_US)


def time_if_any(us: int) -> datetime | None:
    """Return the time `us` microseconds after the epoch; None for 0, which stands for no time."""
    return to_time(us) if us else None


class PoolSettings(msgspec.Struct, frozen=True):
    """The settings of one pool; a change does not affect earlier decisions.

    A decision contains its own windows, currency and `max_revenue_micros`, so a view is always
    counted by the settings under which it was shown.
    """

    pool_id: str
    slots: int
    click_floor: float
    max_revenue_micros: int
    currency: str
    click_window_s: int
    revenue_window_s: int
    """Both windows start when the decision is issued."""
    policy: str
    policy_settings: dict[str, Any] = msgspec.field(default_factory=dict)
    holdout: float = 0.0
    """The share of page views that get the page `holdout_shows` for comparison."""
    own_page: tuple[str, ...] = ()
    """What the page shows today: the first `slots` of these links that may be shown. Also shown
    when the policy fails."""
    allowed_hosts: tuple[str, ...] = ()
    archived: bool = False
    created_us: int = 0
    changed_us: int = 0
    pins: tuple[Pin, ...] = ()
    """Links at fixed positions of every page, unless the caller of decide pins others."""
    explore: float = 0.0
    """The share of every page for random links, so that no link's probability is 0."""
    features: dict[str, Any] = msgspec.field(default_factory=dict)
    """The declared features of visitors: for each name a list of words, a list of rising numbers
    (bin edges), "text" or "bool"."""
    slot_weights: tuple[float, ...] = ()
    """How much more often a link is clicked in one slot than in another, by position and with mean
    1; `EQUAL_SLOTS` where slots are alike and pages are shuffled; empty where weights are learned,
    and in pools of earlier releases, whose links are in the order of their scores."""
    learn_slot_weights: bool = False
    segment_floors: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    """Click floors for visitors with one value of a feature, by feature and label of the value."""
    rules: tuple[PoolRule, ...] = ()
    """How many slots some links may and must have; set by a separate call."""
    until_us: int = 0
    """When the pool ends, for a policy that uses a horizon; 0 if no end is known."""
    holdout_shows: HoldoutPage = "random"
    """What the holdout shows: the own page, or a uniformly random one."""
    keep: float = 0.0
    """The promise: revenue is at least this share of what the own page alone would have earned; 0
    if nothing is promised."""
    own_page_us: int = 0
    """When `own_page` was last changed: revenue is compared with it since then."""


EQUAL_SLOTS = (0.0,)


class ImportedCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a link from before the pool, for some visitors or all."""

    views: int
    clicks: int
    revenue_micros: int = 0
    visitor: dict[str, str] = msgspec.field(default_factory=dict)
    """The value of each feature that is known, as in a decision."""
    discount: float = 1.0
    """The weight of one of these views, relative to a view of the pool itself."""


class LinkRecord(msgspec.Struct, frozen=True):
    """One link of a pool; `place` is its row in every array of the pool and never changes."""

    pool_id: str
    link_id: str
    url: str
    title: str = ""
    retired: bool = False
    place: int = -1
    """Assigned by the store, in the order of first registration; -1 before that."""
    counted_from_us: int = 0
    """Views issued before this time no longer count: when the statistics were last reset."""
    created_us: int = 0
    changed_us: int = 0
    metadata: dict[str, str] = msgspec.field(default_factory=dict)
    """Free texts that a page may show with the link, by name."""
    known: tuple[ImportedCounts, ...] = ()
    """Imported counts: policies learn them before the first view."""
    known_us: int = 0
    """When they were imported; a later reset of the statistics invalidates them."""
    group: str = ""
    """The advertiser, brand or category to which rules refer."""
    starts_us: int = 0
    ends_us: int = 0
    """The link is shown from `starts_us` until before `ends_us`; 0 means no such date."""

    @property
    def start_counts(self) -> tuple[ImportedCounts, ...]:
        """Imported counts that are still valid."""
        return self.known if self.known_us >= self.counted_from_us else ()

    def is_off(self, now_us: int) -> bool:
        """Return whether a time is outside the link's dates."""
        return now_us < self.starts_us or 0 < self.ends_us <= now_us


class ViewsUntil(msgspec.Struct, frozen=True, kw_only=True):
    """A total number of views of the links of a rule until a time."""

    views: int
    until_us: int


class ClicksUntil(msgspec.Struct, frozen=True, kw_only=True):
    """A total number of clicks on the links of a rule until a time."""

    clicks: int
    until_us: int


class ClickBudget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A maximum number of clicks until a time; money pays for clicks at a price each."""

    clicks: int
    until_us: int
    hard: bool = False
    """Whether clicks that open views may still get are reserved, so that it is never exceeded."""
    amount_micros: int = 0
    cost_per_click_micros: int = 0
    """0 if the budget is a number of clicks."""


class PoolRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many slots of a page some links may and must have: those of a group, or listed ones."""

    name: str
    group: str = ""
    links: tuple[str, ...] = ()
    at_least: float = 0.0
    """Slots per page: a whole number holds on every page, a fraction on average."""
    at_most: float | None = None
    boost: float = 0.0
    since_us: int = 0
    """When the rule was set, or its links were last changed: deliveries count from then on."""
    views_until: ViewsUntil | None = None
    clicks_until: ClicksUntil | None = None
    budget: ClickBudget | None = None

    @property
    def has_goals(self) -> bool:
        """Whether a bound of the rule depends on the traffic until a date."""
        return any((self.views_until, self.clicks_until, self.budget))


class PacedRule(msgspec.Struct, frozen=True, array_like=True):
    """The slots per page that the goals of a rule need and its budget allows at present."""

    name: str
    at_least: float
    at_most: float
    quota: int = -1
    """Slots that a hard budget allows until the next version; -1 without such a budget."""


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A link that must be at a position (1 is the first) of the page."""

    link_id: str
    position: int


class ShownLink(msgspec.Struct, frozen=True, gc=False, array_like=True, cache_hash=True):
    """One link of a page, with its inclusion probability.

    The probability is that of the whole mechanism: policy, exploration, holdout, pins, exclusions.
    Made about ten times per decision, so it may be built with positional arguments and is stored as
    a short array.
    """

    link_id: str
    position: int
    propensity: float


class FloorState(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The state of a page's click floor.

    `met`: the 95 % interval of the clicks delivered per page view since the floor was set, which
    holds at all times at once, is above the floor, or contains it and is no wider than a tenth of
    the floor either way. A page with constraints is judged by its expected clicks. `learning`: they
    are below, or their interval is still wider. `infeasible`: no page of this pool reaches the
    floor; `attainable` is the most it can have.
    """

    clicks: float
    """The floor itself: expected clicks per page view."""
    expected: float
    attainable: float
    status: FloorStatus


class DecisionRecord(msgspec.Struct, frozen=True, gc=False):
    """A page that was answered, with everything needed to count and to learn from it later."""

    decision_id: str
    pool_id: str
    issued_us: int
    click_closes_us: int
    """Clicks received up to and including this time count."""
    revenue_until_us: int
    """Conversions and adjustments received up to and including this time count."""
    revenue_closes_us: int
    """When both windows have closed: the view then counts for revenue."""
    currency: str
    max_revenue_micros: int
    policy: str
    policy_version: int
    """The version of the published probabilities that the page was drawn from."""
    floor: FloorState
    shown: tuple[ShownLink, ...]
    """In page order. Fewer than `slots` when the pool has no more links to show."""
    min_propensity: float = 0.0
    """The smallest propensity of any link of the pool; 0 if one could not be on the page."""
    pool_key: int = 0
    """A number that identifies the links of the pool that the page was drawn from."""
    visitor: dict[str, str] = msgspec.field(default_factory=dict)
    """The value of each declared feature of the visitor that was known."""
    segment: dict[str, str] = msgspec.field(default_factory=dict)
    """The segment for which the page was chosen: a value for each feature of the version, where
    rare words are one value and unknown ones are another."""
    random_order: bool = False
    """Whether the links are in random order, to learn slot weights."""
    holdout: bool = False
    """Whether the page has random links, for comparison."""
    fallback: str = ""
    """Why the policy did not choose this page; empty if it did."""
    asked: str = ""
    """The caller's constraints (exclude, pin, slots) in canonical JSON; empty for none."""
    stored_us: int = 0
    """When the decision reached the store; 0 before that."""
    learned: bool = True
    """False if it reached the store after its click window had been folded, or if it was excluded
    from all counts."""
    key_id: str = ""
    """The key that requested this view; empty if none did."""
    is_own: bool = False
    """Whether the page is the own page, for comparison or because of a promise."""
    chosen_share: float = 0.0
    """The probability that the page was a chosen one; 0 in rows of earlier releases."""
    own_share: float = 0.0
    """The probability that it was the own page; otherwise it had random links."""

    @property
    def group(self) -> PageGroup:
        """The group of the page."""
        return "own" if self.is_own else "random" if self.holdout else "chosen"

    @property
    def group_probability(self) -> float:
        """The probability of the group; 0 in rows of earlier releases."""
        if self.is_own:
            return self.own_share
        if self.holdout and self.chosen_share + self.own_share > 0.0:
            return 1.0 - self.chosen_share - self.own_share
        return self.chosen_share

    @property
    def kind(self) -> Literal["policy", "own", "holdout", "fallback"]:
        """What chose the page."""
        if self.fallback:
            return "fallback"
        return "own" if self.is_own else "holdout" if self.holdout else "policy"


class ClickEvent(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="click"):
    """A click on a link of a page; identified by the decision and the link."""

    kind: ClassVar[Literal["click"]] = "click"
    decision_id: str
    link_id: str
    invalid: str = ""
    """Why this is not a visitor's click (prefetch, crawler, ...): recorded, never counted.

    Set by the server only; an event that comes from outside must leave it empty.
    """
    client_time: str | None = None
    """The time by the sender's clock: stored as an annotation, never used."""


class ConversionEvent(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="conversion"):
    """Revenue of a click; identified by `conversion_id` over all pools."""

    kind: ClassVar[Literal["conversion"]] = "conversion"
    conversion_id: str
    decision_id: str
    link_id: str
    revenue_micros: int
    currency: str
    client_time: str | None = None


class AdjustmentEvent(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag="adjustment"):
    """A refund of a conversion; identified by `adjustment_id`."""

    kind: ClassVar[Literal["adjustment"]] = "adjustment"
    adjustment_id: str
    conversion_id: str
    """The conversion it belongs to, whose decision and link it shares."""
    refund_micros: int
    """The amount to subtract: not negative."""
    currency: str
    client_time: str | None = None


Event = ClickEvent | ConversionEvent | AdjustmentEvent


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one event."""

    outcome: OutcomeName
    reason: str = ""
    """A stable slug for `rejected` and `late` (`wrong-currency`, `conflict`, ...)."""
    detail: str = ""
    """One sentence for people, with the field, the rule and the value."""
    field: str = ""
    """The field of the event that breaks the rule, for a JSON pointer."""


class KeyRecord(msgspec.Struct, frozen=True):
    """A stored API key: its hash, not the key itself."""

    key_id: str
    """Public: may be logged and listed."""
    key_hash: str
    scopes: tuple[Scope, ...]
    label: str = ""
    created_us: int = 0
    revoked_us: int = 0
    """0 while the key is valid."""
    pool_id: str = ""
    """The only pool that a key with the scope `page` is for."""


class ChangeRecord(msgspec.Struct, frozen=True):
    """Who changed what, and when: one row for every change by an admin call."""

    changed_us: int
    changed_by: str
    """The id of the key, or the name of the command."""
    action: str
    """`pool.create`, `pool.change`, `pool.archive`, `link.*`, `key.*`."""
    subject: str
    """`home`, `home/l1`, a key id."""
    before: str = ""
    """The record before the change as JSON, empty when it is new; never a key's hash."""
    after: str = ""
