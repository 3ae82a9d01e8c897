"""A version of a pool: the result of learning from which pages are drawn.

`learning` makes a `Version` and hands it to `deciding`, a `VersionUser`, which reports with `Shown`
what was shown since. `StoredVersion` is what the store has of it. Here are also the shares of the
groups of pages, and how a version is moved to changed links. Used by `deciding`, `learning` and
`reporting`.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from slotwise.arrays import Floats, Links
from slotwise.errors import UnsupportedState
from slotwise.policies.rest_of_page import fill_slots
from slotwise.selection.page_rules import PageRules
from slotwise.selection.promise import LEAST_OWN, MARGIN, Shares, Terms
from slotwise.service.counting.attribution import PageCounters
from slotwise.service.counting.rates import LinkCounts, LinkRates
from slotwise.service.pool import Pool
from slotwise.service.records import DecisionRecord, FloorState, PacedRule, PoolSettings

VERSION_FORMAT = 3
MAX_LATEST = 250
"""Pages whose links are counted in one batch, which is cheaper than one by one."""
MAX_VIEWS = 5_000
"""Views of different visitors that are recorded between two versions of a pool."""
SMALLEST_SHARE = 0.001
POLICY_FAILED = "policy-failed"
LEARNING_FAILED = "learning-failed"
EMPTY_POOL = "empty-pool"

_shown = attrgetter("shown")
_link_id = attrgetter("link_id")


class VisitorKind(msgspec.Struct, frozen=True, array_like=True):
    """Visitors with the same value of every feature."""

    places: tuple[int, ...]
    share: float
    """The share of the latest visitors of this kind."""


class EarlyKind(msgspec.Struct, frozen=True, array_like=True):
    """The weighted counts of open views of one kind of visitor."""

    visitor: tuple[tuple[str, Any], ...]
    """The visitor's features as the caller sent them."""
    places: bytes
    """The places of the links that were shown."""
    counts: bytes
    """Their views, then their outcomes, each by level and link."""


def stored_early(
    early: Mapping[tuple[tuple[str, object], ...], LinkCounts], most: int
) -> tuple[EarlyKind, ...]:
    """Return counts of open views to be stored: of the kinds with most views, `most` numbers."""
    stored, n_cells = [], 0
    for visitor, counts in sorted(early.items(), key=lambda one: -one[1].views[0].sum()):
        n_cells += int(np.count_nonzero(counts.views))
        if n_cells > most:
            break
        places = np.flatnonzero(counts.views.any(axis=0))
        table = np.stack([counts.views[:, places], counts.sums[:, places]])
        stored.append(EarlyKind(visitor, places.tobytes(), table.tobytes()))
    return tuple(stored)


class SegmentFloor(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the floor of a segment."""

    feature: str
    value: str
    floor: FloorState
    shadow_price: float
    """The average price of a click of such a visitor, in addition to that of others."""
    delivered: PageCounters = PageCounters()
    """Clicks of the pages that these visitors saw since `since_us`, without the holdout's."""
    since_us: int = 0
    """When this floor was set."""


class RuleCount(msgspec.Struct, frozen=True, array_like=True):
    """How many slots the links of a rule have had since the rule was set."""

    name: str
    since_us: int
    pages: int = 0
    slots: int = 0
    clicks: int = 0
    """Clicks of views whose click window closed up to `clicks_to_us`."""
    clicks_to_us: int = 0
    open_slots: int = 0
    open_clicks: int = 0
    """Slots of views whose window was open when they were last counted, and their clicks."""


class PromiseState(msgspec.Struct, frozen=True, kw_only=True):
    """The share of chosen pages that a promise allows, and why."""

    keep: float
    since_us: int
    """When the own page was last changed."""
    share: float
    rho: float
    """A lower bound on the revenue of chosen pages over that of own pages."""
    reason: Literal["all", "evidence", "start", "stopped"]


class NumberedFormat(msgspec.Struct):
    """The format number of something stored, read before its other fields."""

    format: int = 0


class StoredVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The stored form of a version: everything that its pages are drawn from."""

    version: int
    published_us: int
    pool_changed_us: int
    """When the settings for which it was made were saved."""
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
    """Clicks of the pages shown since `delivered_since_us`, without the holdout's."""
    delivered_since_us: int = 0
    """When the present floor was set."""
    prices: bytes = b""
    """Prices of a click over which pages of visitors are averaged; the rest is in the state."""
    words: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The frequent words of features that are open lists."""
    kinds: tuple[VisitorKind, ...] = ()
    """The most frequent kinds of the latest visitors; their shares sum to 1."""
    slot_clicks: tuple[float, ...] = ()
    """Clicks by slot on pages in random order, from which slot weights are learned."""
    segment_floors: tuple[SegmentFloor, ...] = ()
    """If there are any, `prices` has a row for each round ahead: the price of the floor for all
    visitors, then the price of each of these floors."""
    sales_missing: bool = False
    """Whether sales that were expected from open views do not arrive: revenue is then counted from
    closed windows only."""
    rules_key: int = 0
    """A number that identifies the rules with their links, and the links outside their dates; 0 if
    there are none."""
    rule_counts: tuple[RuleCount, ...] = ()
    counted_to: int = 0
    """The position in the store up to which pages are in `rule_counts`, at `counted_us`."""
    counted_us: int = 0
    paced_rules: tuple[PacedRule, ...] = ()
    traffic: bytes = b""
    """Page views by hour of the week, where a rule has a date."""
    early: tuple[EarlyKind, ...] = ()
    """The feedback of open views that its pages for visitors know; the rest is in the state."""
    promise: PromiseState | None = None
    """None where nothing is promised."""
    format: int = VERSION_FORMAT

    @classmethod
    def decode(cls, stored: bytes) -> StoredVersion:
        """Decode a version that was encoded by `msgspec.msgpack.encode`."""
        found = msgspec.msgpack.decode(stored, type=NumberedFormat).format  # fields may differ
        if found != VERSION_FORMAT:
            raise UnsupportedState(
                f"a published version has format {found}, this version of slotwise "
                f"knows {VERSION_FORMAT}; use the version that wrote it"
            )
        return msgspec.msgpack.decode(stored, type=cls)

    def early_counts(self, link_ids: Sequence[str]) -> dict[Any, LinkCounts]:
        """Return the feedback of open views by kind of visitor, for these links."""
        place_of = {link_id: place for place, link_id in enumerate(link_ids)}
        moved = np.array([place_of.get(link_id, -1) for link_id in self.link_ids], np.int64)
        found = {}
        for kind in self.early:
            places = moved[np.frombuffer(kind.places, np.int64)]
            table = np.frombuffer(kind.counts).reshape(2, -1, len(places))
            views, sums = np.zeros((2, table.shape[1], len(link_ids)))
            views[:, places[places >= 0]] = table[0][:, places >= 0]
            sums[:, places[places >= 0]] = table[1][:, places >= 0]
            found[kind.visitor] = LinkCounts(views, sums)
        return found

    def rates(self) -> LinkRates:
        """Return the estimated rates of the links."""
        return LinkRates(
            np.frombuffer(self.click_rates),
            np.frombuffer(self.revenue_rates),
            np.frombuffer(self.click_variances),
        )


def group_shares(pool: PoolSettings, promise: PromiseState | None) -> Shares:
    """Return the probabilities of the groups of a page.

    A promise that was just made or changed has no share yet: until the next version it is the share
    that keeps it even if chosen pages earn nothing.
    """
    random = pool.holdout if pool.holdout_shows == "random" else 0.0
    if not pool.own_page or not (pool.keep or pool.holdout_shows == "own"):
        return Shares(1.0 - random, 0.0, random)
    terms = promise_terms(pool)
    if not pool.keep:
        return Shares.of(terms.largest_share, random)
    made_for = (pool.keep, pool.own_page_us)
    if promise is not None and (promise.keep, promise.since_us) == made_for:
        return Shares.of(min(promise.share, terms.largest_share), random)
    return Shares.of(
        share_step(min(MARGIN * (1.0 - pool.keep) - random, terms.largest_share)), random
    )


def promise_terms(pool: PoolSettings) -> Terms:
    """Return what a pool promises, with revenue in units of its `max_revenue_micros`."""
    is_random = pool.holdout_shows == "random"
    least_own = LEAST_OWN if pool.keep and (is_random or not pool.holdout) else pool.holdout
    random = pool.holdout if is_random else 0.0
    return Terms(pool.keep, float(pool.slots), least_own, random)


def share_step(share: float) -> float:
    """Return a share rounded down to two digits, so that few different shares are counted.

    >>> share_step(0.0459), share_step(0.95), share_step(0.0004)
    (0.045, 0.95, 0.0)
    """
    if share < SMALLEST_SHARE:
        return 0.0
    scale = 10.0 ** (1 - math.floor(math.log10(share)))
    return math.floor(share * scale + 1e-9) / scale


def moved_version(stored: StoredVersion, pool: Pool) -> StoredVersion:
    """Return a version for the present links and floor of a pool.

    Links that left lose their slots to the others in proportion; a new link waits for the next
    version, unless there are free slots. Nothing has been delivered yet under another floor.
    """
    if stored.floor.clicks != pool.settings.click_floor:
        stored = replace(
            stored,
            floor=replace(stored.floor, clicks=pool.settings.click_floor, status="learning"),
            delivered=PageCounters(),
            delivered_since_us=pool.settings.changed_us,
        )
    n_slots = min(pool.settings.slots, len(pool.active))
    probabilities = np.frombuffer(stored.probabilities)
    if stored.link_ids == pool.active and round(float(probabilities.sum())) == n_slots:
        return stored
    places = {link_id: place for place, link_id in enumerate(stored.link_ids)}
    kept = [places.get(link_id, -1) for link_id in pool.active]

    def moved(column: Floats) -> Floats:
        return np.append(column, 0.0)[kept]

    rates = stored.rates()
    return replace(
        stored,
        link_ids=pool.active,
        probabilities=fill_slots(moved(probabilities), n_slots).tobytes(),
        click_rates=moved(rates.clicks).tobytes(),
        revenue_rates=moved(rates.revenue).tobytes(),
        click_variances=moved(rates.click_variance).tobytes(),
    )


class PageSolver(Protocol):
    """Computes the probabilities that a policy gives to some of its links."""

    def page_probabilities(
        self, free: Links, n_slots: int, pinned: Links, rates: LinkRates
    ) -> Floats:
        """Return the inclusion probabilities of the `free` links on the slots that pins leave.

        `free` and `pinned` are indices of the version's links; `rates` are those of all links.
        """
        ...

    def page_within(self, rules: PageRules, rates: LinkRates) -> Floats:
        """Return the inclusion probabilities of all links on a page within rules."""
        ...


class PagesForVisitors(Protocol):
    """The pages of a version for its visitors, such as `PageSet`. One thread at a time."""

    links: Links
    rate: Floats
    """Each link's expected outcome per view for the visitor of the last page, by level."""
    rewards: Floats
    """The weight of an outcome of each level."""
    prices: Floats
    """The stored part of the pages, a row for each round ahead; the rest is in the state."""
    has_prices: bool
    """Whether a page follows from the prices, which is quicker than letting the policy choose."""

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
        """Return the scores of the links for the visitor of the last page."""
        ...


class Shown(NamedTuple):
    """What was shown since the last call of learning."""

    links: Mapping[str, int]
    """How often each link was shown."""
    views: Sequence[DecisionRecord] = ()
    """The latest views of visitors that may have known features."""


class ShownSince:
    """The pages that one pool has shown since the last version; not thread-safe.

    A page view only adds to `latest`. The caller that makes it longer than `MAX_LATEST` calls
    `count`.
    """

    def __init__(self) -> None:
        self.latest: list[DecisionRecord] = []
        """Pages that are not counted yet."""
        self._counted: Counter[str] = Counter()
        self._views: deque[DecisionRecord] = deque(maxlen=MAX_VIEWS)

    def count(self) -> None:
        """Count the latest pages."""
        latest, self.latest = self.latest, []
        self._counted.update(map(_link_id, chain.from_iterable(map(_shown, latest))))
        self._views.extend(decision for decision in latest if decision.segment)

    def sum(self) -> Shown:
        """Return what was shown."""
        self.count()
        return Shown(self._counted, self._views)


class Version(NamedTuple):
    """A version in use, with its pool and the solver of pages with constraints."""

    pool: Pool
    stored: StoredVersion
    solver: PageSolver | None
    """None after a restart, before the first fold: constraints are then solved from the rates."""
    visitors: PagesForVisitors | None = None
    """Set where pages depend on the visitor."""
    quotas: Mapping[str, int] = MappingProxyType({})
    """By rule with a hard budget, how many slots the process that learns may show in total. Other
    processes, and one that has just started, show no link of such a rule."""


class VersionUser(Protocol):
    """Draws pages from versions, and counts what it shows."""

    def install(self, version: Version) -> None:
        """Draw the pool's next pages from this version."""
        ...

    def take_shown(self, pool_id: str) -> Shown:
        """Return what was shown since the last call."""
        ...

    def hard_shown(self, pool_id: str, now_us: int) -> Mapping[str, int]:
        """Return the total slots that links of rules with a hard budget have had, by rule."""
        ...
