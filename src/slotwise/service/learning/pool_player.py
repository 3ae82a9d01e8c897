"""The player of a pool that learns round by round: start, feed, move, store and restore it.

`PoolRun` calls it. The learning itself is in `slotwise.player`; this module turns the rows of the
store into feedback, and the player's state into a row. Used by `pool_run`, `publisher` and
`settled_rounds`.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from slotwise.errors import UnsupportedState
from slotwise.features import Features
from slotwise.player.link_pool import LinkPool
from slotwise.player.pages import PageFeedback
from slotwise.player.player import KNOWS, Player
from slotwise.policies import Feedback
from slotwise.policies.policy import NOBODY
from slotwise.problem import Problem
from slotwise.service.counting.attribution import (
    CLICKS,
    LEVELS,
    Counters,
    Level,
    View,
    attribute,
)
from slotwise.service.counting.rates import LinkCounts, count_known, link_counts
from slotwise.service.giving_way import giving_way
from slotwise.service.learning.version_pages import VisitorsAhead, totals_of
from slotwise.service.pool import Pool, has_slot_weights, policy_of, pool_problem, slots_of_pool
from slotwise.service.pool_version import NumberedFormat
from slotwise.service.records import ImportedCounts

MANY_BYTES = 1_000_000
COMPRESSED = zlib.compress(b"", 1)[:2]
"""First bytes of a compressed state; an uncompressed one never starts with them."""
STATE_FORMAT = 1
"""Format of a stored state."""
NOTHING_PURGED = Counters()


class RoundPosition(NamedTuple):
    """A position in the sequence: closing time, then level, then decision id."""

    closes_us: int = 0
    level: Level = CLICKS
    decision_id: str = ""


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy fed by rounds needs to continue after a restart."""

    policy: str
    policy_settings: dict[str, Any]
    link_ids: tuple[str, ...]
    counted_from_us: tuple[int, ...]
    closes_us: int
    level: Level
    decision_id: str
    """The last outcome learned: its closing time, level and decision."""
    arrays: dict[str, tuple[tuple[int, ...], bytes]]
    format: int = STATE_FORMAT
    features: dict[str, Any] = msgspec.field(default_factory=dict)
    words: list[dict[str, Any]] = msgspec.field(default_factory=list)
    """Words of open lists and their counts, by feature."""
    slots: tuple[Any, ...] = ()
    """Which slots `slot_clicks` and `exposure` are about; empty where slots are alike."""
    slot_clicks: tuple[float, ...] = ()
    exposure: bytes = b""
    known_us: int = 0
    """When the imported counts that it has learned were imported."""
    segment_floors: dict[str, dict[str, float]] = msgspec.field(
        name="floors_by", default_factory=dict
    )
    """The floors of segments whose queues are among `arrays`."""
    click_floor: float | None = None
    """The floor for all visitors then; None in states of earlier versions."""
    open_views: tuple[bytes, bytes] = (b"", b"")
    """Where pages depend on the visitor: views that were open, by link, and by value and link."""

    @property
    def subject(self) -> tuple[object, ...]:
        """The settings for which it was learned, as `subject_of` returns them."""
        policy = (self.policy, self.policy_settings)
        return *policy, self.features, self.slots, self.known_us


def encode_state(state: RunState) -> bytes:
    """Encode the state of a policy; a large one is compressed, since it is mostly sparse."""
    written = msgspec.msgpack.encode(state)
    return zlib.compress(written, 1) if len(written) > MANY_BYTES else written


def decode_state(stored: bytes) -> RunState:
    """Decode the state of a policy, or raise `UnsupportedState`."""
    try:
        if stored.startswith(COMPRESSED):
            stored = zlib.decompress(stored)
        found = msgspec.msgpack.decode(stored, type=NumberedFormat).format  # fields may differ
        if found != STATE_FORMAT:
            raise UnsupportedState(f"its format is {found}, not {STATE_FORMAT}")
        return msgspec.msgpack.decode(stored, type=RunState)
    except (zlib.error, msgspec.MsgspecError) as error:
        raise UnsupportedState(f"it is damaged: {error}") from error


def subject_of(pool: Pool) -> tuple[object, ...]:
    """Return the settings that a state depends on; if they change, all rounds are replayed."""
    settings = pool.settings
    policy = (settings.policy, settings.policy_settings)
    return *policy, settings.features, slots_of(pool), pool.known_us


def slots_of(pool: Pool) -> tuple[object, ...]:
    """Return the settings of slots; empty where slots are alike."""
    settings = pool.settings
    if not has_slot_weights(settings):
        return ()
    return (settings.slots, settings.learn_slot_weights, *settings.slot_weights)


def needs_rounds(pool: Pool) -> bool:
    """Return whether the policy of a pool must be fed round by round.

    A queue that discards a surplus is only correct if it is fed the rounds one by one. Any other
    policy that needs only counts learns the same from them, unless slots or visitors differ.
    """
    form = pool.policy()
    is_told = form.for_visitors is not None and bool(pool.settings.features)
    return form.needs is not Feedback.COUNTS or bool(slots_of(pool)) or is_told


class PoolPlayer:
    """A player on the links of a pool, with the latest visitors where its pages depend on them."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.ahead = VisitorsAhead(player) if player.uses_visitors else None

    @classmethod
    def start(cls, pool: Pool, purged: Counters = NOTHING_PURGED) -> PoolPlayer:
        """Return a player that has seen no page and has learned the imported counts.

        `purged` are the counts of views whose rows were deleted: they cannot be replayed, so they
        are learned like imported counts of visitors without known features.
        """
        features = Features.of_json(pool.settings.features)
        problem = pool_problem(pool.settings, len(pool.active), features)
        assert problem is not None  # no word has taken a place yet
        started = cls(_player(pool, problem, pool.active))
        started._import(tuple(pool.known_counts()), pool.settings.max_revenue_micros)
        player = started.player
        if purged.links and player.takes_counts:
            nobody: Sequence[int] = ()
            if player.uses_visitors:
                nobody = player.features.stored_places({}, is_counted=False)
            counts = link_counts(purged, pool.active, pool.settings.max_revenue_micros)
            player.import_counts(totals_of(counts, np.array(nobody, np.int64)))
        return started

    def problem_in(self, pool: Pool) -> Problem | None:
        """Return the problem of a pool with the values that this player has learned.

        None where an open list has no place left for a word with a floor: all rounds are then
        replayed.
        """
        player = self.player
        features = player.features if player.uses_visitors else None
        return pool_problem(pool.settings, len(pool.active), features)

    def make_room(self, pool: Pool) -> None:
        """Give words with a floor a place in their lists.

        In a full list the least frequent word without a floor loses its place: its visitors count
        as visitors with a rare word.
        """
        player, floors = self.player, pool.settings.segment_floors
        if not (floors and player.uses_visitors and player.can_replace_words):
            return
        features = player.features
        taken = {(name, word) for name, words in features.words.items() for word in words}
        with_floor = [(name, value) for name, of_values in floors.items() for value in of_values]
        for name, value in with_floor:
            protected = [one for one in with_floor if one in taken]
            features.let_words_be_replaced(features.place(*one) for one in protected)
            features.claim_place(name, value)
            self._replace_words()
            taken.add((name, value))

    def _replace_words(self) -> None:
        for value, into in self.player.replace_words():
            if self.ahead is not None:
                self.ahead.merge_value(value, into)

    def move(self, pool: Pool, counted_from_us: Mapping[str, int]) -> PoolPlayer:
        """Return a player for the present links; links that were reset start from nothing."""
        forgotten = frozenset(
            link_id
            for link_id, start_us in counted_from_us.items()
            if pool.links[link_id].counted_from_us != start_us
        )
        player, problem = self.player, self.problem_in(pool)
        assert problem is not None  # otherwise all rounds are replayed
        if player.pool.links == pool.active and player.problem == problem and not forgotten:
            return self
        links = LinkPool(pool.active)
        moved = PoolPlayer(player.move(problem, links, forgotten))
        if self.ahead is not None and moved.ahead is not None:
            kept = links.places_in(player.pool, forgotten)
            moved.ahead = self.ahead.moved(moved.player, kept)
        stays = frozenset(player.pool.links) - forgotten
        came = tuple(one for one in pool.known_counts() if one[0] not in stays)
        moved._import(came, pool.settings.max_revenue_micros)
        return moved

    def feed(
        self, rounds: Iterable[tuple[View, Level]], counted_from_us: Mapping[str, int]
    ) -> None:
        """Learn the outcomes of settled views, each at one level, in this order.

        `counted_from_us` has the links whose statistics were reset: views issued before that time
        teach nothing about them. If this raises, a part of the rounds may have been learned, and
        the player must be restored. A word of an open list replaces another one directly after the
        round that made it frequent, wherever batches end: a replay of all rounds assigns the same
        places.
        """
        player, feedback = self.player, self._feedback(rounds, counted_from_us)
        if not (player.uses_visitors and player.can_replace_words):
            player.learn_many(feedback)
            return
        features = player.features
        features.let_words_be_replaced(place for place, _ in player.problem.segment_floor_places)
        batch: list[PageFeedback] = []
        for one in feedback:
            batch.append(one)
            if features.has_challenger:
                player.learn_many(batch)
                batch = []
                self._replace_words()
        player.learn_many(batch)

    def _feedback(
        self, rounds: Iterable[tuple[View, Level]], counted_from_us: Mapping[str, int]
    ) -> Iterator[PageFeedback]:
        """Yield rounds as feedback; a word is counted once per view, when its clicks settle."""
        player, last_us = self.player, max(counted_from_us.values(), default=0)
        for view, level in giving_way(rounds):
            decision = view.decision
            visitor: Sequence[int] = ()
            if player.uses_visitors:
                is_counted = level == CLICKS
                visitor = player.features.stored_places(decision.visitor, is_counted=is_counted)
            shown: list[Hashable] = [link.link_id for link in decision.shown]
            outcomes = _outcomes(view, level)
            if decision.issued_us < last_us:
                issued_us = decision.issued_us
                gone = {one for one, at_us in counted_from_us.items() if issued_us < at_us}
                shown = [None if one in gone else one for one in shown]  # like a link that left
                outcomes = {one: value for one, value in outcomes.items() if one not in gone}
            yield PageFeedback(
                visitor,
                shown,
                [link.position - 1 for link in decision.shown],
                [link.propensity for link in decision.shown],
                decision.random_order,
                [(level, outcomes, 1)],
            )

    def _import(self, known: Sequence[tuple[str, ImportedCounts]], max_revenue_micros: int) -> None:
        """Learn imported counts, unless the policy weights every page and cannot use them."""
        player = self.player
        if not known or not player.takes_counts:
            return
        if player.uses_visitors:
            player.features.keep_words((counts.visitor, counts.views) for _, counts in known)
        rows: dict[tuple[int, ...], list[tuple[str, ImportedCounts]]] = {}
        for link_id, counts in known:
            visitor: Sequence[int] = ()
            if player.uses_visitors:
                visitor = player.features.stored_places(counts.visitor, is_counted=False)
            rows.setdefault(tuple(visitor), []).append((link_id, counts))
        links = [str(link) for link in player.pool.links]
        player.import_counts(
            one
            for visitor, counted in rows.items()
            for one in totals_of(
                count_known(counted, links, max_revenue_micros), np.array(visitor, np.int64)
            )
        )

    @property
    def slots_differ(self) -> bool:
        """Whether links are counted by the slots in which they were shown."""
        return self.player.slots.have_weights

    def exposure(self) -> LinkCounts:
        """Return copies of the counts of links, weighted by slot."""
        counts = self.player.counts
        return LinkCounts(counts.views.copy(), counts.sums.copy())

    def slot_clicks(self) -> tuple[float, ...]:
        """Return the clicks by slot on pages in random order; empty where slots are alike."""
        return tuple(self.player.slots.order.clicks.tolist()) if self.slots_differ else ()

    def save(self, pool: Pool, fed_to: RoundPosition) -> bytes:
        """Return the state of the player, fed up to a round, to be restored after a restart."""
        player, arrays = self.player, self.player.save()
        links = [str(link) for link in player.pool.links]
        return encode_state(
            RunState(
                policy=pool.settings.policy,
                policy_settings=pool.settings.policy_settings,
                link_ids=tuple(links),
                counted_from_us=tuple(pool.links[one].counted_from_us for one in links),
                closes_us=fed_to.closes_us,
                level=fed_to.level,
                decision_id=fed_to.decision_id,
                arrays={
                    name.removeprefix(KNOWS): (array.shape, np.ascontiguousarray(array).tobytes())
                    for name, array in arrays.items()
                    if name.startswith(KNOWS)
                },
                features=pool.settings.features,
                words=player.features.plain() if player.uses_visitors else [],
                slots=slots_of(pool),
                slot_clicks=self.slot_clicks(),
                exposure=np.stack(self.exposure()).tobytes() if self.slots_differ else b"",
                known_us=pool.known_us,
                segment_floors=pool.settings.segment_floors,
                click_floor=pool.settings.click_floor,
                open_views=(b"", b"") if self.ahead is None else self.ahead.open_bytes(),
            )
        )

    @classmethod
    def restore(cls, stored: RunState, pool: Pool) -> tuple[PoolPlayer, RoundPosition]:
        """Return a stored player, moved to the present links, and the last round that it was fed.

        The state must be about the pool's settings (`subject_of`). Raises `UnsupportedState` where
        this version of slotwise cannot continue from it: the caller must not replace it.
        """
        features = Features.of_json(stored.features)
        if stored.words:
            features.take_words(stored.words)
        settings = replace(pool.settings, segment_floors=stored.segment_floors)
        if stored.click_floor is not None:
            settings = replace(settings, click_floor=stored.click_floor)
        problem = pool_problem(settings, len(stored.link_ids), features)
        if problem is None:
            raise UnsupportedState("a word that has a floor has no place in its list")
        player = _player(pool, problem, stored.link_ids)
        arrays = {
            f"{KNOWS}{name}": np.frombuffer(saved, np.float64).reshape(shape).copy()
            for name, (shape, saved) in stored.arrays.items()
        }
        shape = (2, len(LEVELS), len(stored.link_ids))
        seen = stored.exposure or bytes(8 * np.prod(shape))
        counts = np.frombuffer(seen).reshape(shape).copy()
        slot_clicks = np.zeros_like(player.slots.order.clicks)
        if stored.slot_clicks:  # empty where slots are alike
            slot_clicks = np.array(stored.slot_clicks)
        others = {
            "views": counts[0],
            "sums": counts[1],
            "visits": player.visits,
            "slot_clicks": slot_clicks,
        }
        try:
            player.load({**arrays, **others})
        except LookupError as error:
            raise UnsupportedState(f"the array {error} is missing") from error
        except ValueError as error:
            raise UnsupportedState(str(error)) from error
        run = cls(player)
        if run.ahead is not None:
            run.ahead.take_open(*stored.open_views)
        run.make_room(pool)
        if run.problem_in(pool) is None:
            raise UnsupportedState("the policy cannot hold its arrays for the present links")
        starts = dict(zip(stored.link_ids, stored.counted_from_us, strict=True))
        fed_to = RoundPosition(stored.closes_us, stored.level, stored.decision_id)
        return run.move(pool, starts), fed_to


def _player(pool: Pool, problem: Problem, link_ids: Sequence[str]) -> Player:
    """Return a player on some links that has seen nothing."""
    policy, slots = policy_of(pool.settings), slots_of_pool(pool.settings)
    return Player.start(problem, policy, link_ids, slots=slots)


def player_of_counts(pool: Pool, counts: LinkCounts) -> Player:
    """Return a player that has learned exactly these counts."""
    player = Player.start(pool.problem(), policy_of(pool.settings), pool.active)
    player.learn_counts(totals_of(counts, NOBODY))
    return player


def _outcomes(view: View, level: Level) -> Mapping[Hashable, float]:
    """Return the outcome of each link that has one, from 0 to 1."""
    if not view.clicks:  # most pages: no outcome can be positive
        return {}
    decision = view.decision
    if level == CLICKS:
        return dict.fromkeys(attribute(view, decision.click_closes_us).clicked, 1.0)
    revenue = attribute(view, decision.revenue_closes_us).revenue_micros
    scale = decision.max_revenue_micros
    return {link_id: amount / scale for link_id, amount in revenue.items()}
