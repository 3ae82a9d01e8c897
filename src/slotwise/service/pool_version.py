"""A version of a pool: what learning hands to deciding.

Used by `deciding`, `learning` and `reporting`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec
import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.errors import UnsupportedState
from slotwise.selection.page_rules import PageRules
from slotwise.service.counting.attribution import PageCounters
from slotwise.service.counting.rates import LinkRates
from slotwise.service.pool import Pool
from slotwise.service.records import DecisionRecord, FloorState, PacedRule

VERSION_FORMAT = 3
POLICY_FAILED = "policy-failed"
LEARNING_FAILED = "learning-failed"
EMPTY_POOL = "empty-pool"


class VisitorKind(msgspec.Struct, frozen=True, array_like=True):
    """Visitors with the same value of every feature."""

    places: tuple[int, ...]
    share: float
    """The part of the latest visitors who are of this kind."""


class SegmentFloor(msgspec.Struct, frozen=True, kw_only=True):
    """How visitors with one value of a feature stand to their floor."""

    feature: str
    value: str
    floor: FloorState
    shadow_price: float
    """What a click of such a visitor is worth beyond that of others, on average."""
    delivered: PageCounters = PageCounters()
    """Clicks of the pages that these visitors saw since `since_us`, the holdout's left out."""
    since_us: int = 0
    """When this floor was set."""


class RuleCount(msgspec.Struct, frozen=True, array_like=True):
    """How many slots the links of a rule have had since the rule was set."""

    name: str
    since_us: int
    pages: int = 0
    slots: int = 0
    clicks: int = 0
    """Of views whose click window closed up to `clicks_to_us`."""
    clicks_to_us: int = 0
    open_slots: int = 0
    open_clicks: int = 0
    """Slots of views whose window was open when they were last counted, and their clicks."""


class _Numbered(msgspec.Struct):
    format: int = 0


class StoredVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version as it is stored: everything that its pages are drawn from."""

    version: int
    published_us: int
    pool_changed_us: int
    """When the settings that it was made for were saved."""
    policy: str
    link_ids: tuple[str, ...]
    probabilities: bytes
    click_rates: bytes
    revenue_rates: bytes
    click_variances: bytes
    shadow_price: float | None
    floor: FloorState
    fallback: str
    delivered: PageCounters = PageCounters()
    """Clicks of the pages that were shown since `delivered_since_us`, the holdout's left out."""
    delivered_since_us: int = 0
    """When the present floor was set."""
    prices: bytes = b""
    """Prices of a click that the pages of visitors are averaged over; the rest is in the state."""
    words: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The frequent words of features that are open lists."""
    kinds: tuple[VisitorKind, ...] = ()
    """The most frequent kinds of the latest visitors; their shares sum to 1."""
    slot_clicks: tuple[float, ...] = ()
    """Clicks by slot on pages in random order, from which slot weights are learned."""
    segment_floors: tuple[SegmentFloor, ...] = ()
    """Where there are some, `prices` has a row for each round ahead: the price of the floor for
    all visitors, then that of each of these."""
    sales_missing: bool = False
    """Whether sales that were expected of open views do not come: revenue then counts from closed
    windows only."""
    rules_key: int = 0
    """A number that identifies the rules, with their links, and for the links outside their dates;
    0 where there are none."""
    rule_counts: tuple[RuleCount, ...] = ()
    counted_to: int = 0
    """The place in the store up to which pages are in `rule_counts`, at `counted_us`."""
    counted_us: int = 0
    paced_rules: tuple[PacedRule, ...] = ()
    traffic: bytes = b""
    """Page views by hour of the week, where a rule has a date."""
    format: int = VERSION_FORMAT

    @classmethod
    def decode(cls, stored: bytes) -> StoredVersion:
        """Read a version as `msgspec.msgpack.encode` wrote it."""
        published_format = msgspec.msgpack.decode(stored, type=_Numbered).format
        if published_format != VERSION_FORMAT:
            raise UnsupportedState(
                f"a published version has format {published_format}, this version of slotwise "
                f"knows {VERSION_FORMAT}; use the version that wrote it"
            )
        return msgspec.msgpack.decode(stored, type=cls)

    def rates(self) -> LinkRates:
        """Return the estimated rates of the links."""
        return LinkRates(
            np.frombuffer(self.click_rates),
            np.frombuffer(self.revenue_rates),
            np.frombuffer(self.click_variances),
        )


class PageSolver(Protocol):
    """Knows the probabilities that a policy gives to some of its links."""

    def page_probabilities(
        self, free: Links, n_slots: int, pinned: Links, rates: LinkRates
    ) -> Floats:
        """Return the inclusion probabilities of the `free` links on the slots that pins leave.

        `free` and `pinned` are places among the version's links, and `rates` those of all.
        """
        ...

    def page_within(self, rules: PageRules, rates: LinkRates) -> Floats:
        """Return the inclusion probabilities of all links on a page within rules."""
        ...


class PagesForVisitors(Protocol):
    """The pages of a version for its visitors, such as `VisitorPages`. One thread at a time."""

    links: Links
    rate: Floats
    """What each link brings a view of the visitor of the last page, by level."""
    rewards: Floats
    """What an outcome of each level is worth."""
    prices: Floats
    """What is stored of the pages; the rest is in the state of the policy."""

    @property
    def shadow_price(self) -> float:
        """The mean price of a click for the floor that holds for all visitors."""
        ...

    def page(self, visitor: Links, links: Links, n_slots: int) -> tuple[Floats, float]:
        """Return the inclusion probabilities of some links for a visitor, and expected clicks."""
        ...

    def page_within(self, visitor: Links, rules: PageRules) -> tuple[Floats, float]:
        """Return those of all links on a page within rules, and expected clicks."""
        ...

    def scores(self, links: Links) -> Floats:
        """Return what the links are worth to the visitor of the last page."""
        ...


class Shown(NamedTuple):
    """What was shown since learning last asked."""

    links: Mapping[str, int]
    """How often each link was shown."""
    views: Sequence[DecisionRecord] = ()
    """The latest views of visitors that may have known features."""


class Version(NamedTuple):
    """A version in use: the pool that it was made for and what solves pages with constraints."""

    pool: Pool
    stored: StoredVersion
    solver: PageSolver | None
    """None after a restart, before the first fold: constraints are then solved from the rates."""
    visitors: PagesForVisitors | None = None
    """Where pages depend on the visitor."""
    quotas: Mapping[str, int] = MappingProxyType({})
    """By rule with a hard budget, how many slots the process that learns may have shown in all.
    Others, and a process that has just started, show no link of such a rule."""


class VersionUser(Protocol):
    """Draws pages from versions, and counts what it shows."""

    def install(self, version: Version) -> None:
        """Draw the pool's next pages from this version."""
        ...

    def take_shown(self, pool_id: str) -> Shown:
        """Return what was shown since the last call."""
        ...

    def hard_shown(self, pool_id: str, now_us: int) -> Mapping[str, int]:
        """Return the slots that links of rules with a hard budget have had in all, by rule."""
        ...
