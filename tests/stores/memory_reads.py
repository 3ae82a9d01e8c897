"""The tables of the memory store as dictionaries, and its reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from slotwise.service.counting.attribution import (
    CLICKS,
    FOLD_START,
    REVENUE,
    Counters,
    FoldPosition,
    Level,
    StoredAdjustment,
    StoredClick,
    StoredConversion,
    StoredEvent,
    View,
)
from slotwise.service.counting.counters import has_late_event
from slotwise.service.records import (
    ChangeRecord,
    DecisionRecord,
    KeyRecord,
    LinkRecord,
    PoolSettings,
)
from slotwise.service.storage.activity import MAX_DELAYS, Activity, link_spans_of, spans_of
from slotwise.service.storage.contract import (
    ClicksAfter,
    Learned,
    Progress,
    Refusal,
    ShownViews,
    ViewBatch,
)
from slotwise.service.storage.ledger import ClickKey
from slotwise.service.storage.sql_reads import StoreReader


class Tables:
    """Every row of the store, by its identity."""

    def __init__(self) -> None:
        self.pools: dict[str, PoolSettings] = {}
        self.links: dict[str, dict[str, LinkRecord]] = defaultdict(dict)
        self.keys: dict[str, KeyRecord] = {}
        self.changes: list[ChangeRecord] = []
        self.ended_sessions: dict[int, tuple[str, int]] = {}
        """Id and latest end by place."""
        self.n_ended = 0
        self.decisions: dict[str, DecisionRecord] = {}
        self.stored: list[str] = []
        """The ids of the decisions in the order they were stored."""
        self.clicks: dict[ClickKey, StoredClick] = {}
        self.clicks_of: dict[str, list[ClickKey]] = defaultdict(list)
        self.conversions: dict[str, StoredConversion] = {}
        self.conversions_of: dict[str, list[str]] = defaultdict(list)
        self.adjustments: dict[str, StoredAdjustment] = {}
        self.adjustments_of: dict[str, list[str]] = defaultdict(list)
        self.refusals: dict[tuple[str, str, str, str], Refusal] = {}
        self.counters: dict[str, Counters] = {}
        self.purged: dict[str, Counters] = {}
        self.learned: dict[str, Learned] = {}
        self.folded: dict[tuple[str, Level], FoldPosition] = {}
        self.closed_until_us = 0
        self.latest_us = 0
        self.n_resets = 0


class MemoryReader(StoreReader):
    """Reads the tables; the store holds back commits meanwhile."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def adjustments_of(self, conversion_ids: Iterable[str]) -> list[StoredAdjustment]:
        """Return the adjustments of conversions, in the order of arrival."""
        of_conversions = (self._tables.adjustments_of.get(one, []) for one in conversion_ids)
        return [self._tables.adjustments[item] for found in of_conversions for item in found]

    def largest_sum(self, pool_id: str, link_id: str) -> int:
        counters = self.counters(pool_id)
        of_links = [one for (_, name), one in counters.links.items() if name == link_id]
        sums = [abs(one.late_revenue_micros) for one in of_links]
        sums += [one.revenue_micros for one in of_links]
        sums += [max(one.revenue_micros, one.revenue_squared) for one in counters.pages.values()]
        return max(sums, default=0)

    def pools(self) -> list[PoolSettings]:
        """Return every pool, by id."""
        return [self._tables.pools[pool_id] for pool_id in sorted(self._tables.pools)]

    def links(self, pool_id: str) -> list[LinkRecord]:
        """Return the links of a pool, by place."""
        return sorted(self._tables.links[pool_id].values(), key=lambda link: link.place)

    def reset_times(self, pool_id: str) -> dict[str, int]:
        """Return `counted_from_us` of the links whose statistics were ever reset."""
        links = self._tables.links[pool_id].values()
        return {item.link_id: item.counted_from_us for item in links if item.counted_from_us}

    def keys(self) -> list[KeyRecord]:
        """Return every key, by id."""
        return [self._tables.keys[key_id] for key_id in sorted(self._tables.keys)]

    def changes(self, subject: str, limit: int) -> list[ChangeRecord]:
        """Return changes of a subject (`home/`: of all below `home`, "": of all), newest first."""
        found = [
            item
            for item in reversed(self._tables.changes)
            if subject in ("", item.subject)
            or (subject.endswith("/") and item.subject.startswith(subject))
        ]
        return found[:limit]

    def progress(self) -> Progress:
        """Return how far windows are closed and folded."""
        return Progress(
            closed_until_us=self._tables.closed_until_us,
            latest_us=self._tables.latest_us,
            n_resets=self._tables.n_resets,
            folded=dict(self._tables.folded),
        )

    def counters(self, pool_id: str) -> Counters:
        """Return the counters of a pool."""
        return self._tables.counters.get(pool_id, Counters())

    def purged(self, pool_id: str) -> Counters:
        """Return what dropped views had added to the counters of a pool."""
        return self._tables.purged.get(pool_id, Counters())

    def purgeable_views(self, pool_id: str, before_us: int, limit: int) -> list[View]:
        """Return the first views that closed before a time and can be deleted."""
        folded, learned = self._tables.folded, self._tables.learned.get(pool_id)
        if learned is not None:
            before_us = min(before_us, learned.needs_rows_us)
        clicks_us = folded.get((pool_id, CLICKS), FOLD_START).closes_us
        revenue_us = min(before_us, folded.get((pool_id, REVENUE), FOLD_START).closes_us)
        closed = [
            decision
            for decision in self._tables.decisions.values()
            if decision.pool_id == pool_id
            and decision.revenue_closes_us < revenue_us
            and decision.click_closes_us < clicks_us
        ]
        closed.sort(key=lambda decision: _position(decision, REVENUE))
        return [self._view_of(decision) for decision in closed[:limit]]

    def learned(self, pool_id: str) -> Learned | None:
        """Return what the pool published last."""
        return self._tables.learned.get(pool_id)

    def moving_from(self) -> str:
        """Return nothing: only stores that outlive a process are moved."""
        return ""

    def pool_resets(self) -> dict[str, int]:
        """Return how often statistics of each pool were reset."""
        return {pool_id: one.n_resets for pool_id, one in self._tables.learned.items()}

    def learned_versions(self) -> dict[str, int]:
        """Return the number of the version that each pool published last."""
        return {pool_id: learned.version for pool_id, learned in self._tables.learned.items()}

    def changed_since(self, after: int) -> tuple[int, list[str]]:
        """Return the place of the newest change, and the subjects of those after a place."""
        changes = self._tables.changes
        return len(changes), [change.subject for change in changes[after:]]

    def ended_sessions(self, after: int) -> tuple[int, list[tuple[str, int]]]:
        """Return the place of the newest, and id and latest end of those stored after a place."""
        ended = self._tables.ended_sessions
        return self._tables.n_ended, [one for place, one in ended.items() if place > after]

    def decision(self, decision_id: str) -> DecisionRecord | None:
        """Return a decision by its id."""
        return self._tables.decisions.get(decision_id)

    def view(self, decision_id: str) -> View | None:
        """Return a decision with what was received for it."""
        decision = self._tables.decisions.get(decision_id)
        return None if decision is None else self._view_of(decision)

    def refusals(self, decision_id: str) -> list[Refusal]:
        """Return the events refused for a decision, in order of arrival."""
        return [item for item in self._tables.refusals.values() if item.decision_id == decision_id]

    def closed_views(
        self, pool_id: str, level: Level, after: FoldPosition, until_us: int, limit: int
    ) -> list[View]:
        """Return views that learn and closed at this level by `until_us`, in folding order."""
        closed = []
        for decision in self._tables.decisions.values():
            if decision.pool_id == pool_id and decision.learned:
                position = _position(decision, level)
                if after < position and position.closes_us <= until_us:
                    closed.append((position, decision))
        closed.sort(key=lambda item: item[0])
        return [self._view_of(decision) for _, decision in closed[:limit]]

    def views_after(
        self, pool_id: str, since_us: int, until_us: int | None, after: int, limit: int
    ) -> ViewBatch:
        """Return the next views issued in [since, until), in the order they were stored."""
        views: list[View] = []
        for place, decision_id in enumerate(self._tables.stored[after:], start=after + 1):
            decision = self._tables.decisions.get(decision_id)
            if decision is None:  # purged
                continue
            in_time = until_us is None or decision.issued_us < until_us
            if decision.pool_id == pool_id and decision.issued_us >= since_us and in_time:
                views.append(self._view_of(decision))
                after = place
                if len(views) == limit:
                    break
        return ViewBatch(views=views, last=after)

    def decisions_after(self, after: int, limit: int) -> list[tuple[int, DecisionRecord]]:
        """Return the next decisions of all pools with their places, in the order of storing."""
        places = enumerate(self._tables.stored[after:], start=after + 1)
        found = [(place, self._tables.decisions.get(one)) for place, one in places]
        return [(place, one) for place, one in found if one is not None][:limit]

    def place_of(self, decision_id: str) -> int:
        """Return the place of a decision, 0 where it is not stored."""
        stored = decision_id in self._tables.decisions
        return self._tables.stored.index(decision_id) + 1 if stored else 0

    def first_received(self, since_us: int) -> int | None:
        """Return the time of the first event received at or after a time."""
        [found] = self.received_between(since_us, 2**63)
        return min((item.received_us for item in found), default=None)

    def received_between(self, since_us: int, until_us: int) -> Iterator[list[StoredEvent]]:
        """Go through the events received in [since, until)."""
        tables = self._tables
        kinds = (tables.clicks, tables.conversions, tables.adjustments)
        events: list[StoredEvent] = [item for kind in kinds for item in kind.values()]
        yield [item for item in events if since_us <= item.received_us < until_us]

    def shown_since(self, pool_id: str, after: int) -> ShownViews:
        """Return the place of the newest view of all, and how often each link is on those after."""
        stored = self._tables.stored
        new = map(self._tables.decisions.get, stored[after:])
        views = [one for one in new if one is not None and one.pool_id == pool_id]
        shown = Counter(link.link_id for one in views for link in one.shown)
        return ShownViews(len(stored), len(views), dict(shown))

    def open_groups(self, pool_id: str, since_us: int) -> tuple[int, int, int]:
        """Return the place of the newest view, and the own and other pages not yet settled."""
        folded = self._tables.folded.get((pool_id, REVENUE), FOLD_START)
        return self._groups(
            pool_id,
            lambda one: (
                one.issued_us >= since_us
                and (one.revenue_closes_us, one.decision_id)
                > (folded.closes_us, folded.decision_id)
            ),
        )

    def groups_since(self, pool_id: str, since_us: int, after: int) -> tuple[int, int, int]:
        """Return the place of the newest view, and the own and other pages after a place."""
        new = {*self._tables.stored[after:]}
        return self._groups(
            pool_id, lambda one: one.issued_us >= since_us and one.decision_id in new
        )

    def _groups(
        self, pool_id: str, counts: Callable[[DecisionRecord], bool]
    ) -> tuple[int, int, int]:
        found = [
            one.is_own
            for one in self._tables.decisions.values()
            if one.pool_id == pool_id and one.learned and one.own_share > 0 and counts(one)
        ]
        return len(self._tables.stored), sum(found), len(found) - sum(found)

    def clicks_after(
        self, pool_id: str, since_us: int, after_us: int, closed_until_us: int
    ) -> ClicksAfter:
        """Return clicks of views whose window closes after a time, and views that are open."""
        clicks: Counter[tuple[str, bool]] = Counter()
        shown: Counter[str] = Counter()
        for one in self._tables.decisions.values():
            closes_us = one.click_closes_us
            if one.pool_id != pool_id or one.issued_us < since_us:
                continue
            if closes_us > closed_until_us:
                shown.update(link.link_id for link in one.shown)
            for click in self._view_of(one).clicks if closes_us > after_us else ():
                if not click.event.invalid and click.received_us <= closes_us:
                    clicks[click.event.link_id, closes_us <= closed_until_us] += 1
        return ClicksAfter([(*key, n) for key, n in clicks.items()], dict(shown))

    def late_views(self, pool_id: str) -> Iterator[list[View]]:
        """Go through the views with an event that came after its window."""
        views = [self._view_of(one) for one in self._tables.decisions.values()]
        yield [view for view in views if view.decision.pool_id == pool_id and has_late_event(view)]

    def damage(self) -> str:
        """Return nothing: there are no files."""
        return ""

    def n_quarantined(self) -> int:
        """Count the events that wait for their decision or conversion."""
        known = self._tables.decisions
        conversions = self._tables.conversions
        n_clicks = sum(decision_id not in known for decision_id, _, _ in self._tables.clicks)
        n_conversions = sum(item.event.decision_id not in known for item in conversions.values())
        n_adjustments = sum(
            item.event.conversion_id not in conversions
            or conversions[item.event.conversion_id].event.decision_id not in known
            for item in self._tables.adjustments.values()
        )
        return n_clicks + n_conversions + n_adjustments

    def activity(self, pool_id: str, since_us: int, span_us: int, closed_until_us: int) -> Activity:
        """Sum up the pages shown since a time; windows after `closed_until_us` are open."""
        views = [
            self._view_of(decision)
            for decision in self._tables.decisions.values()
            if decision.pool_id == pool_id
        ]
        n_refusals = Counter(item.decision_id for item in self._tables.refusals.values())
        return activity_of(views, n_refusals, since_us, span_us, closed_until_us)

    def _view_of(self, decision: DecisionRecord) -> View:
        tables = self._tables
        conversion_ids = tables.conversions_of.get(decision.decision_id, [])
        click_keys = tables.clicks_of.get(decision.decision_id, [])
        return View(
            decision=decision,
            clicks=tuple(tables.clicks[key] for key in click_keys),
            conversions=tuple(tables.conversions[item] for item in conversion_ids),
            adjustments=tuple(
                tables.adjustments[adjustment_id]
                for conversion_id in conversion_ids
                for adjustment_id in tables.adjustments_of.get(conversion_id, [])
            ),
        )


def _position(decision: DecisionRecord, level: Level) -> FoldPosition:
    closes_us = decision.click_closes_us if level == CLICKS else decision.revenue_closes_us
    return FoldPosition(closes_us=closes_us, decision_id=decision.decision_id)


def activity_of(
    views: Iterable[View],
    n_refusals: Mapping[str, int],
    since_us: int,
    span_us: int,
    closed_until_us: int,
) -> Activity:
    """Sum up the views of a pool, one by one; `n_refusals` are refused events by decision."""
    spans: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    links: dict[tuple[str, int], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    pending: dict[str, int] = defaultdict(int)
    click_delays: list[tuple[int, int]] = []
    sale_delays: list[tuple[int, int]] = []
    late_clicks = late_sales = invalid_clicks = refused = 0
    for view in views:
        decision = view.decision
        if decision.click_closes_us > closed_until_us:
            for shown in decision.shown:
                pending[shown.link_id] += 1
        if decision.issued_us < since_us:
            continue
        span = decision.issued_us // span_us
        sums = spans[span, 2 if decision.is_own else int(decision.holdout)]
        sums["views"] += 1
        refused += n_refusals.get(decision.decision_id, 0)
        for shown in decision.shown:
            links[shown.link_id, span]["views"] += 1
        n_clicks = 0
        for click in view.clicks:
            if click.event.invalid:
                invalid_clicks += 1
                continue
            click_delays.append((click.received_us, click.received_us - decision.issued_us))
            if click.received_us <= decision.click_closes_us:
                n_clicks += 1
                links[click.event.link_id, span]["clicks"] += 1
            else:
                late_clicks += 1
        sums["clicks"] += n_clicks
        sums["clicks_squared"] += n_clicks**2
        net: dict[str, int] = {}
        for sale in view.conversions:
            if sale.event.currency != decision.currency:
                continue
            sale_delays.append((sale.received_us, sale.received_us - decision.issued_us))
            if sale.received_us <= decision.revenue_until_us:
                net[sale.event.conversion_id] = sale.event.revenue_micros
                sums["sales"] += 1
                sums["cut_sales"] += sale.event.revenue_micros > decision.max_revenue_micros
            else:
                late_sales += 1
        for refund in view.adjustments:
            belongs = refund.event.conversion_id in net
            same_money = refund.event.currency == decision.currency
            if belongs and same_money and refund.received_us <= decision.revenue_until_us:
                net[refund.event.conversion_id] -= refund.event.refund_micros
        sums["revenue_micros"] += sum(
            min(max(amount, 0), decision.max_revenue_micros) for amount in net.values()
        )
    return Activity(
        spans=spans_of(spans, span_us),
        link_spans=link_spans_of(links, span_us),
        pending_views=dict(pending),
        click_delays_us=_latest(click_delays),
        sale_delays_us=_latest(sale_delays),
        late_clicks=late_clicks,
        late_sales=late_sales,
        invalid_clicks=invalid_clicks,
        refused=refused,
    )


def _latest(delays: list[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(sorted(delay for _, delay in sorted(delays)[-MAX_DELAYS:]))
