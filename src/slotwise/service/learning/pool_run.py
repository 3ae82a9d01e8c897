"""What has been learned about one pool: its counters, the policy's state and its open views.

Used by `learner` and `publisher`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from threading import Lock, RLock
from typing import NamedTuple

import msgspec
import numpy as np

from slotwise.arrays import Floats
from slotwise.errors import UnsupportedState
from slotwise.player.player import PlayerKnowledge
from slotwise.player.rules_in_force import RuledPage
from slotwise.policies.policy import Debt
from slotwise.service.counting.attribution import CLICKS, Counters, FloorKey
from slotwise.service.counting.rates import LinkCounts, count_known, estimate_rates, link_counts
from slotwise.service.learning.delivered_pages import (
    NOTHING_DELIVERED,
    Delivered,
    DeliveredPages,
    Segment,
)
from slotwise.service.learning.early_feedback import EarlyFeedback, SentVisitor
from slotwise.service.learning.open_view_groups import OpenViews
from slotwise.service.learning.pool_player import (
    PoolPlayer,
    RoundPosition,
    decode_state,
    needs_rounds,
    subject_of,
)
from slotwise.service.learning.promise_progress import PromiseProgress
from slotwise.service.learning.rule_goals import RuleProgress, ShownSince
from slotwise.service.learning.settled_rounds import Round
from slotwise.service.learning.version_pages import AveragePages, VisitorDraft
from slotwise.service.pool import Pool
from slotwise.service.pool_version import (
    PagesForVisitors,
    PromiseState,
    Shown,
    StoredVersion,
    Version,
    moved_version,
)
from slotwise.service.records import SECOND_US
from slotwise.service.refusals import UnreadableState
from slotwise.service.storage.contract import NEEDS_NO_ROWS, Learned
from slotwise.service.storage.sql_reads import StoreReader


def pool_counts(pool: Pool, counters: Counters) -> LinkCounts:
    """Return the counts of the links that may be shown, imported ones at their discount."""
    scale = pool.settings.max_revenue_micros
    counts = link_counts(counters, pool.active, scale)
    if not pool.known_us:
        return counts
    known = count_known(pool.known_counts(), pool.active, scale)
    return counts.plus(known)


MAX_FED_ROUNDS = 20_000
"""Rounds fed to a policy before the next version: a long replay publishes versions meanwhile."""
MAX_BEHIND_S = 60
"""How long the last version is shown after a start, at most, until its successor knows as much."""

MAX_FAILURE_CHARS = 300
"""Characters of an error that are shown to people."""
NEW_SETTINGS = "pool %s has new settings: its views are learned again, from the rows that are left"

_log = logging.getLogger(__name__)


class Draft(NamedTuple):
    """What the next version is made of."""

    pool: Pool
    counters: Counters
    pages: AveragePages | None = None
    """Made from the player fed round by round; None for a policy that is rebuilt from counts."""
    state: bytes = b""
    needs_rows_us: int = NEEDS_NO_ROWS
    """Rows that closed before this time are in the state."""
    open_views: Floats | None = None
    """By level and link, for a policy whose pages depend on them."""
    version: int = 0
    delivered: Mapping[Segment, Delivered] = NOTHING_DELIVERED
    visitors: VisitorDraft | None = None
    """Set where pages depend on the visitor; `pages` is then None."""
    exposure: LinkCounts | None = None
    """Counts of links weighted by slot, where slots differ."""
    slot_clicks: tuple[float, ...] = ()
    early: LinkCounts | None = None
    """Weighted counts of open views with their feedback so far: used for pages, not learned."""
    early_by_kind: Mapping[SentVisitor, LinkCounts] = {}
    """The same by kind of visitor, where pages depend on the visitor."""
    sales_missing: bool = False
    within: RuledPage | None = None
    """What rules and dates of links allow on a page; None where nothing is restricted."""
    progress: RuleProgress = RuleProgress()
    promise: PromiseState | None = None


class PoolRun:
    """What has been learned about one pool; makes the draft of its next version.

    A stored state is never discarded in silence. It is restored, or learned again from the rows if
    all of them exist. Otherwise every call that needs it raises `UnreadableState`: the pool shows
    its last version, and nothing replaces the state.

    `pool` may be replaced at any time, by any thread; everything else is guarded by `lock`.
    """

    def __init__(self, pool: Pool, seed: np.random.SeedSequence) -> None:
        self.pool = pool
        self.pool_id = pool.settings.pool_id
        self.lock = RLock()
        self.publishing = Lock()
        """Held while a version is made, so that only one is made at a time."""
        self.were_reset = False
        """Whether the counters must be read again."""
        self.rng = np.random.default_rng(seed)
        self.counters = Counters()
        self.fed_to = RoundPosition()
        """The last round that the policy was fed."""
        self.version = 0
        self.latest: Version | None = None
        """The last version that was published for the present pool."""
        self._last_stored: StoredVersion | None = None
        """The last version, also one for other links or settings."""
        self.is_behind = False
        """Whether the last version knows more than the policy: after a start, until the policy has
        been fed all settled rounds and has read the feedback of open views."""
        self.behind_since_us = 0
        self.unreadable = ""
        """Why the stored state cannot be restored, or empty."""
        self.must_reload = False
        """Whether the policy failed while it learned, so that its state must be read again."""
        self.n_resets = 0
        """How often statistics of the pool had been reset when it was loaded."""
        self.n_failures = 0
        self.failure = ""
        """What failed when the pool was last updated or published; empty if nothing did."""
        self.shown_to: int | None = None
        """The position in the store up to which shown links are counted."""
        self.closed_until_us = 0
        """Windows that closed by this time are folded."""
        self.learned_us = 0
        """When learning last completed without a failure."""
        self._known: Pool | None = None
        """The pool for which the policy's state was made."""
        self._fed: PoolPlayer | None = None
        self._stored_state = b""
        self._purged = Counters()
        """What purged views had added to the counters when the pool was loaded."""
        self._open_views = OpenViews()
        self.early = EarlyFeedback()
        self.knows_open_views = True
        """False after a start, until `recall_open_views` has read them."""
        self._delivered = DeliveredPages(pool.settings, {})
        self.progress = RuleProgress()
        """What the rules of the pool have delivered."""
        self.promise = PromiseProgress()

    @classmethod
    def load(cls, reader: StoreReader, pool: Pool, seed: np.random.SeedSequence) -> PoolRun:
        """Load a pool's run from the store."""
        run = cls(pool, seed)
        run.knows_open_views = False
        run.counters = reader.counters(run.pool_id)
        run._purged = reader.purged(run.pool_id)
        run._delivered = DeliveredPages(pool.settings, run.counters.delivered)
        learned = reader.learned(run.pool_id)
        if learned is None:
            return run
        run.version, run._stored_state = learned.version, learned.state
        run.n_resets = learned.n_resets
        try:
            stored = StoredVersion.decode(learned.published)
        except Exception:  # noqa: BLE001 - damaged bytes can make the readers raise anything
            _log.exception("the version of pool %s cannot be read; a new one is made", run.pool_id)
            return run
        run._delivered = DeliveredPages(pool.settings, run.counters.delivered, stored)
        run.progress = RuleProgress(stored)
        run.promise = PromiseProgress(stored.promise)
        run._last_stored, run.is_behind = stored, not stored.fallback
        rules_key = pool.rules_key(stored.published_us, stored.paced_rules)
        made_for = (stored.link_ids, stored.pool_changed_us, stored.rules_key)
        if made_for == (pool.active, pool.settings.changed_us, rules_key):
            run.latest = Version(pool, stored, None)
        return run

    @property
    def is_stale(self) -> bool:
        """Whether the pool changed since the last version was published."""
        return self.latest is None or self.latest.pool is not self.pool

    def catches_up(self, n_fed: int, now_us: int) -> bool:
        """Return whether the last version must be shown until the policy knows as much.

        `n_fed` is how many rounds the policy was fed just now. A pool with more views than can be
        read in `MAX_BEHIND_S` publishes what it has learned by then.
        """
        if not self.is_behind:
            return False
        self.behind_since_us = self.behind_since_us or now_us
        is_reading = n_fed >= MAX_FED_ROUNDS or self.early.is_behind
        self.is_behind = is_reading and now_us < self.behind_since_us + MAX_BEHIND_S * SECOND_US
        return self.is_behind

    def has_dates_since(self, now_us: int) -> bool:
        """Return whether a link started or ended since the last version was published."""
        if self.latest is None or not self.pool.scheduled:
            return False
        return 0 < self.pool.next_date(self.latest.stored.published_us) <= now_us

    @property
    def has_goals(self) -> bool:
        """Whether a promise, a goal or a budget of the pool depends on the pages just shown."""
        return self.pool.settings.keep > 0 or any(
            rule.has_goals for rule in self.pool.settings.rules
        )

    @property
    def counts_open_views(self) -> bool:
        """Whether the policy's pages depend on views whose windows are open."""
        return self.pool.policy().debt.moves_each_round

    def needs_rounds(self) -> bool:
        """Return whether the policy is fed round by round."""
        with self.lock:
            return self._fed_player() is not None

    def knowledge(self) -> PlayerKnowledge | None:
        """Return copies of what was learned round by round; None where counts are enough."""
        with self.lock:
            fed = self._fed_player()
            return None if fed is None else fed.player.knowledge()

    def feed(self, rounds: Sequence[Round], after: RoundPosition) -> bool:
        """Feed the policy rounds that follow a position; return whether they were next."""
        with self.lock:
            if self.unreadable:
                return False
            fed = self._fed_player()
            if fed is None or self.fed_to != after:
                return False
            try:
                levels = ((view, position.level) for position, view in rounds)
                fed.feed(levels, self._known.reset_times if self._known else {})
            except BaseException:
                self.must_reload = True
                raise
            self.fed_to = rounds[-1].position
            return True

    def floors(self) -> tuple[list[FloorKey], list[FloorKey]]:
        """Return the present floors, and those of them without stored counters."""
        with self.lock:
            return self._delivered.floors(self.pool.settings)

    def take_delivered(self, increment: Counters) -> None:
        """Add the counts that a fold of clicks has stored."""
        with self.lock:
            self._delivered.add(increment)

    def count_rules(
        self,
        reader: StoreReader,
        now_us: int,
        shown_since: ShownSince = StoreReader.shown_since,
    ) -> None:
        """Count what rules have delivered, and find the bounds of their goals."""
        with self.lock:
            pool = self.pool  # other threads may replace it
            self.progress.count(reader, shown_since, pool, now_us)
            rates: dict[str, float] = {}
            if self.latest is not None:
                known = self.latest.stored
                clicks = known.rates().clicks.tolist()
                rates = dict(zip(known.link_ids, clicks, strict=True))
            self.progress.pace(pool, rates, now_us)

    def count_groups(self, reader: StoreReader, now_us: int) -> None:
        """Count the pages of each group, from which the share of chosen pages follows."""
        with self.lock:
            self.promise.count(reader, self.pool.settings, now_us)

    def recall_open_views(self, reader: StoreReader, closed_until_us: int) -> None:
        """Count the open views from the store."""
        with self.lock:
            self.knows_open_views = True
            fed = self._fed_player()
            if fed is not None and fed.player.form.debt.moves_each_round:
                self._open_views = OpenViews.stored(reader, self.pool.settings, closed_until_us)

    def read_early(self, reader: StoreReader, now_us: int) -> bool:
        """Read feedback of open views; return whether any was read."""
        with self.lock:
            fed = self._fed_player()
            if not self.pool.active or not self._uses_early(fed):
                return False
            has_weights = fed is not None and fed.slots_differ
            weights = fed.player.slots.order.weights.tolist() if fed and has_weights else []
            pool_id = self.pool.settings.pool_id
            return self.early.refresh(
                lambda *span: reader.closed_views(pool_id, CLICKS, *span),
                self.pool,
                weights,
                now_us,
                has_kinds=fed is not None and fed.ahead is not None,
            )

    def _uses_early(self, fed: PoolPlayer | None) -> bool:
        """Return whether feedback counts before windows close."""
        if fed is None:
            return bool(self.pool.policy().needs.takes_counts)
        if fed.ahead is not None:
            return fed.ahead.learns_early
        forgets_surplus = fed.player.form.debt is Debt.QUEUE
        return fed.player.takes_counts and not forgets_surplus

    def draft(self, shown: Shown, now_us: int) -> Draft:
        """Return the draft of the next version, which can be completed without the lock."""
        with self.lock:
            fed, pool = self._fed_player(), self._known  # `pool` may have been replaced
            assert pool is not None
            has_rules = pool.settings.rules or pool.scheduled
            within = pool.ruled_page(now_us, self.progress.paced) if has_rules else None
            early, of_kinds = None, dict[SentVisitor, LinkCounts]()
            if self._uses_early(fed):
                early = self.early.counts(pool.active, self.closed_until_us)
            open_views = visitors = None
            if fed is not None and fed.player.form.debt.moves_each_round:
                self._open_views.add(shown.links, now_us)
                open_views = self._open_views.views(pool.active, pool.settings, now_us)
            if fed is not None and fed.ahead is not None:
                fed.ahead.note_shown(shown.views, pool.settings, now_us)
                rules, rates = None if within is None else within.rules, self._counts(fed, pool)
                if early is not None:
                    rates = rates.plus(early)
                    of_kinds = self.early.counts_by_kind(pool.active, self.closed_until_us)
                visitors = fed.ahead.for_visitors(
                    open_views, estimate_rates(rates), rules, of_kinds
                )
            pages = None
            if fed is not None and visitors is None:
                pages = AveragePages(fed.player.move(fed.player.problem, fed.player.pool))
            promise = None
            if pool.settings.keep:
                promise = self.promise.state(pool.settings, self.counters)
            return Draft(
                pool=pool,
                counters=self.counters,
                pages=pages,
                state=b"" if fed is None else fed.save(pool, self.fed_to),
                needs_rows_us=NEEDS_NO_ROWS if fed is None else self.fed_to.closes_us,
                open_views=open_views,
                version=self.version + 1,
                delivered=self._delivered.under(pool.settings),
                visitors=visitors,
                exposure=fed.exposure() if fed is not None and fed.slots_differ else None,
                slot_clicks=() if fed is None else fed.slot_clicks(),
                early=early,
                early_by_kind=of_kinds,
                sales_missing=self.early.sales_are_missing,
                within=within,
                progress=self.progress,
                promise=promise,
            )

    def last_version(self) -> Version | None:
        """Return the last version for the present links and settings; None if there is none.

        It contains its prices and the feedback of open views; its pages for visitors are made from
        them and the state of the policy. If the state is unreadable, all visitors get the average
        page.
        """
        with self.lock:
            last, pool = self._last_stored, self.pool
            if last is None or last.fallback or not pool.active:
                return None
            latest = None if self.is_stale else self.latest
            if latest is not None and (latest.visitors is not None or not last.prices):
                return latest
            visitors = None if self.unreadable else self._last_pages(last)
            version = Version(pool, moved_version(last, pool), None, visitors)
            if latest is not None:
                self.latest = version
            return version

    def _last_pages(self, last: StoredVersion) -> PagesForVisitors | None:
        """Return the pages of the last version for visitors; None if they cannot be made."""
        fed, prices = self._fed_player(), np.frombuffer(last.prices)
        if fed is None or fed.ahead is None or not last.prices:
            return None
        n_floors = len(fed.player.problem.segment_floor_places)
        has_early = bool(last.early)
        if len(prices) % (1 + n_floors) or (self.fed_to == RoundPosition() and not has_early):
            return None
        rates = moved_version(last, self.pool).rates()
        return fed.ahead.pages_at(prices, rates, last.early_counts(self.pool.active))

    def _counts(self, fed: PoolPlayer, pool: Pool) -> LinkCounts:
        return fed.exposure() if fed.slots_differ else pool_counts(pool, self.counters)

    def take(self, draft: Draft, version: Version) -> Learned:
        """Record a version that was made from a draft; return what to store."""
        with self.lock:
            self.version = draft.version
            self.latest, self._last_stored, self.is_behind = version, version.stored, False
        return Learned(
            pool_id=self.pool_id,
            version=draft.version,
            published=msgspec.msgpack.encode(version.stored),
            state=draft.state,
            n_resets=self.n_resets,
            needs_rows_us=draft.needs_rows_us,
        )

    def _fed_player(self) -> PoolPlayer | None:
        """Return the player to feed with rounds, or None for a policy that needs only counts.

        Raises `UnreadableState` if what was stored cannot be restored.
        """
        known, pool = self._known, self.pool
        if known is pool and self._fed is not None:  # nearly always, for every pool at every fold
            return self._fed
        if known is not None and subject_of(known) != subject_of(pool):
            _log.info(NEW_SETTINGS, self.pool_id)
            self._fed, self.fed_to, self._stored_state = None, RoundPosition(), b""
            self.unreadable = ""
        self._known = pool
        if not pool.active or not needs_rounds(pool):
            return None
        if self.unreadable and known is pool:
            raise UnreadableState(self.unreadable)
        if self._fed is not None and known is not None and known is not pool:
            self._fed.make_room(pool)
            if self._fed.problem_in(pool) is None:
                self._stored_state = self._fed.save(known, self.fed_to)
                self._fed, self.fed_to = None, RoundPosition()
        if self._fed is None:
            self._fed, self.fed_to = self._restored(pool)
            self._stored_state = b""  # may be large, and is not needed again
        elif known is not pool:
            assert known is not None
            starts = {link_id: link.counted_from_us for link_id, link in known.links.items()}
            self._fed = self._fed.move(pool, starts)
        return self._fed

    def _restored(self, pool: Pool) -> tuple[PoolPlayer, RoundPosition]:
        """Return the stored player, or one that has yet to be fed all rounds."""
        self.unreadable = ""
        if self._stored_state:
            try:
                stored = decode_state(self._stored_state)
                if stored.subject == subject_of(pool):
                    return PoolPlayer.restore(stored, pool)
                _log.info(NEW_SETTINGS, self.pool_id)
            except Exception as error:  # damaged bytes can make the readers raise anything
                is_known = isinstance(error, UnsupportedState)
                why = str(error) if is_known else f"it is damaged: {type(error).__name__}: {error}"
                if self._purged.pages:
                    self.unreadable = why[:MAX_FAILURE_CHARS]
                    raise UnreadableState(self.unreadable) from error
                _log.warning(
                    "what pool %s has learned cannot be read (%s): all its views are learned again "
                    "from the rows, and its last version is shown meanwhile",
                    self.pool_id,
                    why,
                )
        return PoolPlayer.start(pool, self._purged), RoundPosition()
