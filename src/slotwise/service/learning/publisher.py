"""Make the versions of all pools, hand them to the decider and store them.

Used by `learner` and `service`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Lock
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from slotwise.arrays import Floats
from slotwise.compile import switching
from slotwise.features import Features
from slotwise.selection.page_within_rules import solve_within
from slotwise.service.counting.attribution import Counters
from slotwise.service.counting.rates import (
    LinkRates,
    estimate_rates,
    floor_report,
    solve_page,
)
from slotwise.service.giving_way import give_way
from slotwise.service.learning.delivered_pages import ALL_VISITORS
from slotwise.service.learning.pool_player import player_of_counts
from slotwise.service.learning.pool_run import MAX_FAILURE_CHARS, Draft, PoolRun, pool_counts
from slotwise.service.learning.version_pages import (
    MAX_CELLS,
    AveragePages,
    OfSegment,
    VisitorDraft,
)
from slotwise.service.pool import Pool, pool_problem
from slotwise.service.pool_version import (
    EMPTY_POOL,
    LEARNING_FAILED,
    POLICY_FAILED,
    SegmentFloor,
    Shown,
    StoredVersion,
    Version,
    VersionUser,
    stored_early,
)
from slotwise.service.records import PoolSettings
from slotwise.service.refusals import (
    StoreUnavailable,
    Superseded,
    UnreadableState,
    describe_unreadable,
)
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.contract import SaveLearned, Store
from slotwise.service.storage.group_commit import GroupCommitter
from slotwise.service.storage.sql_reads import StoreReader

MAX_DRAWS = 256
MIN_DRAWS = 64
DRAWN_LINKS = 2_000_000
"""Links drawn for one version, unless that leaves fewer than `MIN_DRAWS` draws."""


def publish(draft: Draft, now_us: int, rng: np.random.Generator) -> Version:
    """Return the version that the policy chooses now.

    A policy that uses open views learns their expected outcomes. If the policy fails, the version
    has the pool's own page and the reason.
    """
    pool, n_links = draft.pool.settings, len(draft.pool.active)
    if n_links == 0:
        return stand_in(draft.pool, draft.counters, draft.version, now_us, EMPTY_POOL)
    settled = draft.exposure or pool_counts(draft.pool, draft.counters)
    counts = settled if draft.early is None else settled.plus(draft.early)
    rates = estimate_rates(counts)
    n_slots = min(pool.slots, n_links)
    pages, fallback = draft.pages, ""
    probabilities = np.zeros(n_links)
    try:
        if pages is None and draft.visitors is None:
            pages = AveragePages(player_of_counts(draft.pool, counts))
        n_draws = min(MAX_DRAWS, max(MIN_DRAWS, DRAWN_LINKS // n_links))
        if draft.visitors is not None:
            probabilities = draft.visitors.probabilities
        elif pages is not None:
            if draft.pages is not None and draft.early is not None:
                pages.learn_early(draft.early)
            if draft.open_views is not None:
                left = draft.open_views
                if draft.early is not None:
                    left = np.maximum(left - draft.early.views, 0.0)
                pages.note_open(left)
            if draft.pool.settings.until_us and (
                views_to_come := draft.progress.views_to_come(draft.pool, now_us)
            ):
                pages.plan_for(views_to_come)
            rules = None if draft.within is None else draft.within.rules
            probabilities = pages.probabilities(rng, n_draws, rates, rules)
    except Exception:  # noqa: BLE001
        _log.exception("policy %s of pool %s failed", pool.policy, pool.pool_id)
        fallback = POLICY_FAILED
    # Without the compiler it is a numpy number, which cannot be stored.
    price = float(_price(draft, rates, n_slots))
    stored = _stored_version(
        draft,
        now_us,
        rates,
        estimate_rates(settled),
        _PageOfAll(probabilities, price if math.isfinite(price) else None, fallback),
    )
    if draft.within is not None or draft.pool.settings.until_us:
        stored = _with_rules(stored, draft, now_us)
    if draft.visitors is None:
        return Version(draft.pool, stored, pages)
    return Version(
        draft.pool, _for_visitors(stored, draft, draft.visitors), None, draft.visitors.pages
    )


def _with_rules(stored: StoredVersion, draft: Draft, now_us: int) -> StoredVersion:
    """Return a version with the progress of its rules and of the traffic until its end."""
    progress, settings = draft.progress, draft.pool.settings
    return replace(
        stored,
        rules_key=draft.pool.rules_key(now_us, progress.paced),
        rule_counts=progress.counts,
        counted_to=progress.counted_to,
        counted_us=progress.counted_us,
        paced_rules=progress.paced,
        traffic=progress.traffic.stored() if settings.rules or settings.until_us else b"",
    )


def _price(draft: Draft, rates: LinkRates, n_slots: int) -> float:
    """Return the price of a click at the floor, within the rules."""
    floor = draft.pool.settings.click_floor
    if draft.within is None:
        return solve_page(rates, n_slots, floor).shadow_price
    rules = draft.within.rules
    value = np.minimum(rates.revenue * rules.boost, 1.0)
    return float(switching(solve_within)(rules, value, rates.clicks, floor).price)


def _for_visitors(stored: StoredVersion, draft: Draft, visitors: VisitorDraft) -> StoredVersion:
    """Return a version with the data of its pages for visitors, and their price."""
    pages = visitors.pages
    floors = tuple(_segment_floor(one, draft) for one in visitors.segments)
    return replace(
        stored,
        prices=pages.prices.tobytes(),
        words=visitors.words,
        kinds=visitors.kinds,
        early=stored_early(draft.early_by_kind, MAX_CELLS),
        shadow_price=None if stored.shadow_price is None else pages.shadow_price,
        floor=replace(stored.floor, expected=visitors.expected_clicks),
        segment_floors=floors,
    )


def _segment_floor(one: OfSegment, draft: Draft) -> SegmentFloor:
    """Return the state of a segment's floor under the pool's settings."""
    pages, since_us = draft.delivered[one.feature, one.value]
    least = draft.pool.settings.segment_floors[one.feature][one.value]
    n_slots = round(float(one.probabilities.sum()))
    return SegmentFloor(
        feature=one.feature,
        value=one.value,
        floor=floor_report(one.rates, one.probabilities, n_slots, least, pages),
        shadow_price=one.shadow_price,
        delivered=pages,
        since_us=since_us,
    )


def stand_in(pool: Pool, counters: Counters, version: int, now_us: int, reason: str) -> Version:
    """Return the own page as a version that is never stored; empty without links."""
    rates = estimate_rates(pool_counts(pool, counters))
    fallback = reason if pool.active else EMPTY_POOL
    page = _PageOfAll(np.zeros(len(pool.active)), None, fallback)
    draft = Draft(pool, counters, version=version)
    stored = _stored_version(draft, now_us, rates, rates, page)
    return Version(pool, stored, None)


class _PageOfAll(NamedTuple):
    """The page of a version: probabilities, the price of the floor, why no policy chose it."""

    probabilities: Floats
    shadow_price: float | None
    fallback: str


def _stored_version(
    draft: Draft, now_us: int, rates: LinkRates, settled: LinkRates, page: _PageOfAll
) -> StoredVersion:
    """Return a version; `settled`, the rates of closed windows, decide the state of the floor."""
    settings, link_ids = draft.pool.settings, draft.pool.active
    n_slots = min(settings.slots, len(link_ids))
    delivered = draft.delivered[ALL_VISITORS]
    rules = None if draft.within is None else draft.within.rules
    floor = (page.probabilities, n_slots, settings.click_floor, delivered.pages, rules)
    return StoredVersion(
        version=draft.version,
        published_us=now_us,
        pool_changed_us=settings.changed_us,
        policy=settings.policy,
        link_ids=link_ids,
        probabilities=page.probabilities.tobytes(),
        click_rates=rates.clicks.tobytes(),
        revenue_rates=rates.revenue.tobytes(),
        click_variances=rates.click_variance.tobytes(),
        shadow_price=page.shadow_price,
        floor=floor_report(settled, *floor),
        fallback=page.fallback,
        delivered=delivered.pages,
        delivered_since_us=delivered.since_us,
        words=_words_with_floors(settings),
        slot_clicks=draft.slot_clicks,
        sales_missing=draft.sales_missing,
        promise=draft.promise,
    )


def _words_with_floors(pool: PoolSettings) -> dict[str, tuple[str, ...]]:
    """Return the words of open lists that have floors: known even without any feedback."""
    if not pool.segment_floors:
        return {}
    features = Features.of_json(pool.features)
    return features.words if pool_problem(pool, pool.slots, features) else {}


_log = logging.getLogger(__name__)


class Publisher:
    """Holds the run of every pool and publishes its next version.

    A changed pool is published at once, in a thread of its own. A pool that fails shows its
    own page; the others continue to learn.
    """

    def __init__(
        self,
        store: Store,
        committer: GroupCommitter,
        decider: VersionUser,
        options: ServiceOptions,
    ) -> None:
        self._store = store
        self._committer = committer
        self._decider = decider
        self._options = options
        self._seed = np.random.SeedSequence(options.seed, spawn_key=(1,))
        self.runs: dict[str, PoolRun] = {}
        """By pool."""
        self.changing = Lock()
        """Guards `runs` and the pool of each run."""
        self._publisher = ThreadPoolExecutor(1, thread_name_prefix="slotwise-publishing")
        self._waiting: dict[str, Future[None]] = {}
        self._sharing = store.sharing
        self.closed_until_us = 0
        """Windows are closed up to this time."""

    def new_seed(self) -> np.random.SeedSequence:
        """Return a seed for the run of a pool."""
        return self._seed.spawn(1)[0]

    def close(self) -> None:
        """Publish changed pools, then stop."""
        self._publisher.shutdown()

    @contextmanager
    def guarding(self, run: PoolRun, now_us: int) -> Iterator[None]:
        """Contain the failure of one pool, which then shows its own page.

        An unavailable store is not a failure of a pool. A pool whose state cannot be read shows its
        last version.
        """
        try:
            yield
        except (StoreUnavailable, Superseded):
            raise
        except UnreadableState as error:
            if str(error) != run.failure:
                _log.error("pool %s: %s", run.pool_id, describe_unreadable(str(error)))
            run.n_failures += 1
            run.failure = str(error)
            kept = run.last_version()
            failed = stand_in(run.pool, run.counters, run.version, now_us, LEARNING_FAILED)
            self._decider.install(kept or failed)
        except Exception as error:  # noqa: BLE001
            failure = f"{type(error).__name__}: {error}"[:MAX_FAILURE_CHARS]
            if failure != run.failure:  # do not log it every second
                _log.exception("pool %s cannot learn and shows its own page", run.pool_id)
            run.n_failures += 1
            run.failure, run.latest = failure, None
            failed = stand_in(run.pool, run.counters, run.version, now_us, LEARNING_FAILED)
            self._decider.install(failed)

    def change(self, pool: Pool, now_us: int, were_reset: bool = False) -> Future[None]:
        """Publish a new or changed pool; done when its pages are drawn from a new version.

        `were_reset`: whether statistics of its links were reset.
        """
        pool_id = pool.settings.pool_id
        with self.changing:
            run = self.runs.get(pool_id)
            if run is None:
                run = self.runs[pool_id] = PoolRun(pool, self.new_seed())
            run.pool = pool
            run.were_reset |= were_reset
            waiting = self._waiting.get(pool_id)
            if waiting is None:
                waiting = self._publisher.submit(self._publish_change, pool_id, now_us)
                self._waiting[pool_id] = waiting
            return waiting

    def read_counters(self, run: PoolRun) -> None:
        """Read the counters of a pool again."""
        with self._store.reading() as reader, run.lock:
            run.counters = reader.counters(run.pool_id)

    def _publish_change(self, pool_id: str, now_us: int) -> None:
        with self.changing:
            self._waiting.pop(pool_id, None)
            run = self.runs[pool_id]  # it may have been loaded from the store since
            were_reset, run.were_reset = run.were_reset, False
        with self.guarding(run, now_us):
            if were_reset:
                self.read_counters(run)
            self.install(run, now_us)

    def install(self, run: PoolRun, now_us: int) -> None:
        """Install the last version of a pool, or make a new one."""
        # Under the lock, so that a version of the pool before a change never follows one after it.
        with run.publishing:
            if run.is_behind or not run.is_stale:
                quotas = self._count_rules(run, now_us)
                last = run.last_version()
                if last is not None:
                    self._decider.install(last._replace(quotas=quotas) if quotas else last)
                    return
        self.publish(run, now_us)

    def publish(self, run: PoolRun, now_us: int) -> None:
        """Make the next version, without blocking decisions, install it and store it."""
        with run.publishing:
            quotas = self._count_rules(run, now_us)
            self._count_groups(run, now_us)
            draft = run.draft(self._take_shown(run), now_us)
            give_way()
            version = publish(draft, now_us, run.rng)._replace(quotas=quotas)
            give_way()
            learned = run.take(draft, version)
            has_failed = version.stored.fallback == POLICY_FAILED
            run.n_failures += has_failed
            run.failure = POLICY_FAILED if has_failed else ""
            if self._may_store():
                try:  # queued before any decision that is drawn from it
                    self._committer.submit([SaveLearned(learned=learned)])
                except StoreUnavailable:
                    _log.info("version %d of pool %s was not stored", learned.version, run.pool_id)
            self._decider.install(version)

    def drop_shown(self, run: PoolRun) -> None:
        """Exclude the pages shown so far from the next version."""
        self._decider.take_shown(run.pool_id)

    def _take_shown(self, run: PoolRun) -> Shown:
        """Return what was shown since the last version; links are counted over all processes."""
        shown = self._decider.take_shown(run.pool_id)
        if not self._may_store() or self._sharing is None or not run.counts_open_views:
            return shown
        try:
            with self._store.reading() as reader:
                after, run.shown_to = run.shown_to, reader.shown_since(run.pool_id, 2**62).until
                links = {} if after is None else reader.shown_since(run.pool_id, after).links
                return shown._replace(links=links)
        except StoreUnavailable:
            return shown

    def _count_rules(self, run: PoolRun, now_us: int) -> dict[str, int]:
        """Count what the links of rules have delivered; other processes read it from the version.

        Return by rule how many slots links of hard budgets may have had in total; empty if they
        cannot be counted.
        """
        rules = run.pool.settings.rules
        if not (rules or run.pool.settings.until_us) or not self._may_store():
            return {}
        shown = dict(self._decider.hard_shown(run.pool_id, now_us))
        with suppress(StoreUnavailable):
            if any(rule.budget is not None and rule.budget.hard for rule in rules):
                self._committer.commit(())  # so that what is in `shown` is stored
            is_alone = self._sharing is None
            count = self._committer.committed.shown_since if is_alone else StoreReader.shown_since
            with self._store.reading() as reader:
                run.count_rules(reader, now_us, count)
            paced = [one for one in run.progress.paced if one.quota >= 0]
            return {one.name: shown.get(one.name, 0) + one.quota for one in paced}
        return {}

    def _count_groups(self, run: PoolRun, now_us: int) -> None:
        """Count the pages of each group of a pool with a promise, over all processes."""
        if run.pool.settings.keep and self._may_store():
            with suppress(StoreUnavailable), self._store.reading() as reader:
                run.count_groups(reader, now_us)

    def _may_store(self) -> bool:
        """Return whether this process stores versions: it learns, and has read everything."""
        sharing = self._sharing
        return sharing is None or (
            sharing.epoch is not None and sharing.epoch == sharing.used_epoch
        )
