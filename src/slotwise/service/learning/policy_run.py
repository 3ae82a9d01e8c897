"""A policy on the links of a pool: it learns from counts or rounds and gives probabilities."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from slotwise.compile import loop_maker, switching
from slotwise.player.player import OWED, may_raise
from slotwise.policies import Feedback, Policy
from slotwise.policies.page_views import average_ahead, expect_views, rest_of_page
from slotwise.policies.policy import NO_SLOTS, NOBODY
from slotwise.policies.sampling import average_probabilities
from slotwise.problem import Problem
from slotwise.service.counting.attribution import CLICKS, Level, View, attribute
from slotwise.service.counting.rates import LinkCounts, LinkRates, count_known
from slotwise.service.learning.slots_seen import SlotsSeen
from slotwise.service.records import KnownCounts

MANY_BYTES = 1_000_000
COMPRESSED = zlib.compress(b"", 1)[:2]
"""How compressed bytes begin; a state that is not compressed begins otherwise."""
STATE_FORMAT = 1
"""How the state of a policy is written; one in another format is learned again from the rounds."""

DRAWS = 64
MANY_LINKS, FEW_DRAWS = 1_000, 16
"""Draws that a page with wishes averages, fewer where each takes longer."""

Floats = NDArray[np.float64]
Links = NDArray[np.int64]


def needs_only_counts(policy: Policy) -> bool:
    """Say whether a policy learns as much from counts per link as from the rounds.

    A queue that forgets a surplus is only right when it saw the rounds one by one.
    """
    return policy.needs is Feedback.COUNTS


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy fed by rounds needs to go on after a restart."""

    policy: str
    policy_settings: dict[str, Any]
    link_ids: tuple[str, ...]
    counted_from_us: tuple[int, ...]
    closes_us: int
    level: Level
    decision_id: str
    """The last outcome taken in: its time of closing, level and decision."""
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
    """When the counts of the past that it has learned were imported."""
    floors_by: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    """The floors of segments whose queues are among `arrays`."""
    open_views: tuple[bytes, bytes] = (b"", b"")
    """Where pages depend on the visitor: views that were open, by link, and by value and link."""


def encode_state(state: RunState) -> bytes:
    """Write the state of a policy; a large one is compressed: most links see few of the values."""
    written = msgspec.msgpack.encode(state)
    return zlib.compress(written, 1) if len(written) > MANY_BYTES else written


def decode_state(stored: bytes) -> RunState | None:
    """Read the state of a policy; None when it is in a format of another version of slotwise."""
    if stored.startswith(COMPRESSED):
        stored = zlib.decompress(stored)
    try:
        state = msgspec.msgpack.decode(stored, type=RunState)
    except msgspec.ValidationError:
        return None
    return state if state.format == STATE_FORMAT else None


@loop_maker
def _feeding(learn: Any) -> Any:
    """Return what lets a state learn many rounds, by the `learn` of its policy."""

    def feed_rounds(
        state: Any,
        visitors: Links,
        levels: Links,
        starts: Links,
        links: Links,
        slots: Links,
        probabilities: Floats,
        views: Floats,
        outcomes: Floats,
    ) -> None:
        """Let a state learn one round after the other; round k has the links from `starts[k]` on.

        `visitors` has a row for each round; `slots` are empty where slots are alike.

        Called from Python round by round, unpacking the state would take longer than learning.
        """
        for k in range(len(levels)):
            first, last = starts[k], starts[k + 1]
            learn(
                state,
                visitors[k],
                levels[k],
                links[first:last],
                slots[first:last],
                probabilities[first:last],
                views[first:last],
                outcomes[first:last],
            )

    return feed_rounds


class PolicyRun:
    """A policy, the problem it solves and what it knows of `link_ids`."""

    _learned: tuple[str, ...] = ("_state", "slots")
    """The attributes that learning changes."""

    def __init__(
        self, policy: Policy, problem: Problem, link_ids: Sequence[str], state: Any
    ) -> None:
        self.policy = policy
        self.problem = problem
        self.link_ids = tuple(link_ids)
        self.slots: SlotsSeen | None = None
        """Where slots differ."""
        self._places = {link_id: place for place, link_id in enumerate(link_ids)}
        self._state = self._held(state)

    def _held(self, state: Any) -> Any:
        """Return the state as this run keeps it."""
        return state

    @classmethod
    def started(cls, policy: Policy, problem: Problem, link_ids: Sequence[str]) -> PolicyRun:
        """Return a run that has seen nothing."""
        return cls(policy, problem, link_ids, policy.start(problem))

    @classmethod
    def from_counts(
        cls, policy: Policy, problem: Problem, link_ids: Sequence[str], counts: LinkCounts
    ) -> PolicyRun:
        """Return a run that has learned exactly these counts."""
        run = cls.started(policy, problem, link_ids)
        run._learn_counts(NOBODY, counts)
        return run

    def _learn_counts(self, visitor: Links, counts: LinkCounts) -> None:
        for level in range(len(counts.views)):
            seen = np.flatnonzero(counts.views[level] > 0)
            views, sums = counts.views[level][seen], counts.sums[level][seen]
            certain = np.ones(len(seen))
            learn = switching(type(self.policy).learn)
            learn(self._state, visitor, level, seen, NO_SLOTS, certain, views, sums)
            if self.slots is not None:
                self.slots.add(np.full(len(seen), level), seen, views, sums)

    def learn_known(
        self, known: Sequence[tuple[str, KnownCounts]], max_revenue_micros: int
    ) -> None:
        """Take in counts of the past, which owe the floor nothing.

        A policy that weighs every page by its probabilities cannot use them.
        """
        before = self.policy.knowledge(self._state)
        if not known or "views" not in before:
            return
        self._meet(known)
        rows: dict[tuple[int, ...], list[tuple[str, KnownCounts]]] = {}
        for link_id, counts in known:
            rows.setdefault(tuple(self._known_visitor(counts.visitor)), []).append(
                (link_id, counts)
            )
        for visitor, counted in rows.items():
            counts_of_links = count_known(counted, self.link_ids, max_revenue_micros)
            self._learn_counts(np.array(visitor, np.int64), counts_of_links)
        after = self.policy.knowledge(self._state)
        owed = {name: before[name] for name in OWED if name in before}
        self._state = self._held(self.policy.restore(self.problem, {**after, **owed}))

    def _meet(self, known: Sequence[tuple[str, KnownCounts]]) -> None:
        """Get to know the visitors of counts of the past."""

    def _known_visitor(self, values: Mapping[str, str]) -> Sequence[int]:  # noqa: ARG002 - overridden
        """Return the visitor of counts of the past as the policy takes them."""
        return ()

    def moved(
        self,
        problem: Problem,
        link_ids: Sequence[str],
        forgotten: frozenset[str] = frozenset(),
        policy: Policy | None = None,
    ) -> PolicyRun:
        """Return the same knowledge for other links or another page; `forgotten` start afresh.

        Another form of the policy, such as that for large pools, may go on with it.
        """
        policy = self.policy if policy is None else policy
        kept = np.array(
            [-1 if link_id in forgotten else self._places.get(link_id, -1) for link_id in link_ids],
            dtype=np.int64,
        )
        state = policy.move(self._state, problem, kept)
        run = self._of_state(policy, problem, link_ids, state)
        run.slots = None if self.slots is None else self.slots.moved(kept)
        return run

    def _of_state(
        self, policy: Policy, problem: Problem, link_ids: Sequence[str], state: Any
    ) -> PolicyRun:
        return PolicyRun(policy, problem, link_ids, state)

    def copy(self) -> PolicyRun:
        """Return a run that knows the same and shares nothing."""
        return self.moved(self.problem, self.link_ids)

    def learn_rounds(self, rounds: Iterable[tuple[View, Level]]) -> None:
        """Take in the outcomes of settled views, each at one level, in this order.

        If the policy raises, nothing is learned: the same rounds can be fed again.
        """
        if not may_raise(type(self.policy)):
            return self._learn_rounds(rounds)
        before = {name: copy.deepcopy(getattr(self, name)) for name in self._learned}
        try:
            self._learn_rounds(rounds)
        except BaseException:
            self.__dict__.update(before)
            raise

    def _learn_rounds(self, rounds: Iterable[tuple[View, Level]]) -> None:
        levels: list[int] = []
        starts, links, probabilities, outcomes = [0], [], [], []
        visitors: list[Sequence[int]] = []
        positions: list[int] = []
        views: list[float] = []
        for view, level in rounds:
            visitor = self._visitor(view, level)
            counted = _outcomes(view, level)
            if self.slots is not None:
                self.slots.learn(view, level, counted)
            shown = [link for link in view.decision.shown if link.link_id in self._places]
            if not shown:
                continue
            levels.append(level)
            visitors.append(visitor)
            links += [self._places[link.link_id] for link in shown]
            probabilities += [link.propensity for link in shown]
            if self.slots is not None:
                positions += [link.position for link in shown]
                views += self.slots.weights([link.position for link in shown])
            outcomes += [counted.get(link.link_id, 0.0) for link in shown]
            starts.append(len(links))
        if not levels:
            return
        feed = switching(_feeding(type(self.policy).learn))
        places, brought = np.array(links, dtype=np.int64), np.array(outcomes)
        exposure = np.array(views) if self.slots is not None else np.ones(len(links))
        feed(
            self._state,
            np.array(visitors, np.int64).reshape(len(levels), -1),
            np.array(levels),
            np.array(starts),
            places,
            np.array(positions, dtype=np.int64) - 1,
            np.array(probabilities),
            exposure,
            brought,
        )
        if self.slots is not None:
            of_links = np.repeat(np.array(levels), np.diff(starts))
            self.slots.add(of_links, places, exposure, brought)

    def _visitor(self, view: View, level: Level) -> Sequence[int]:  # noqa: ARG002 - overridden
        """Return the visitor of a round as the policy takes them."""
        return ()

    def page_probabilities(
        self, free: Links, n_slots: int, pinned: Links, rates: LinkRates
    ) -> Floats:
        """Return the probabilities of the free links; as `PageSolver` has it."""
        n_draws = FEW_DRAWS if len(free) > MANY_LINKS else DRAWS

        def page_of(state: Any, problem: Problem) -> Floats:
            whole = problem is self.problem
            known = rates if whole else LinkRates(*(column[free] for column in rates))
            moved = PolicyRun(self.policy, problem, (), state)
            return moved.probabilities(np.random.default_rng(0), n_draws, known)

        return rest_of_page(
            self.policy,
            self._state,
            self.problem,
            free=free,
            n_slots=n_slots,
            pinned=pinned,
            rates=_by_level(rates),
            page_of=page_of,
        )

    def expect_views(self, views: Floats, rates: LinkRates) -> None:
        """Take in what views that are still open are expected to bring, where that steers pages.

        Before anything has settled nothing can be expected.
        """
        if self.policy.moves_each_round and self._has_learned():
            expect_views(self.policy, self._state, views, _by_level(rates))

    def probabilities(self, rng: np.random.Generator, n_draws: int, rates: LinkRates) -> Floats:
        """Return the average page over many draws, or over rounds ahead where pages follow others.

        One draw is enough for a policy that does not sample. The average is what is rounded and
        logged, so the logged propensity is exact also for a policy whose every page is certain
        given its draw.
        """
        if self.policy.moves_each_round and self._has_learned():
            by_level = _by_level(rates)
            return average_ahead(self.policy, self.problem, self._state, by_level, rng, n_draws)
        return average_probabilities(self.policy, self._state, rng, n_draws)

    def _has_learned(self) -> bool:
        # what is known of the pool as a whole may start above zero, as a prior does
        knowledge = self.policy.knowledge(self._state)
        return any(knowledge[name].any() for name in self.policy.per_link or knowledge)

    def knowledge(self) -> dict[str, tuple[tuple[int, ...], bytes]]:
        """Return what is known as plain bytes."""
        arrays = self.policy.knowledge(self._state)
        return {
            name: (array.shape, np.ascontiguousarray(array, np.float64).tobytes())
            for name, array in arrays.items()
        }

    def has_shape_of(self, arrays: Mapping[str, tuple[tuple[int, ...], bytes]]) -> bool:
        """Say whether stored knowledge has the names and shapes of this run's own."""
        own = {name: array.shape for name, array in self.policy.knowledge(self._state).items()}
        return own == {name: tuple(shape) for name, (shape, _) in arrays.items()}

    @classmethod
    def restored(
        cls,
        policy: Policy,
        problem: Problem,
        link_ids: Sequence[str],
        arrays: Mapping[str, tuple[tuple[int, ...], bytes]],
    ) -> PolicyRun:
        """Return the run whose `knowledge` this was."""
        knowledge = {
            name: np.frombuffer(stored, np.float64).reshape(shape).copy()
            for name, (shape, stored) in arrays.items()
        }
        return cls(policy, problem, link_ids, policy.restore(problem, knowledge))


def _outcomes(view: View, level: Level) -> Mapping[str, float]:
    """Return the outcome of each link that has one, from 0 to 1."""
    if not view.clicks:  # most pages: nothing can have counted
        return {}
    decision = view.decision
    if level == CLICKS:
        return dict.fromkeys(attribute(view, decision.click_closes_us).clicked, 1.0)
    revenue = attribute(view, decision.revenue_closes_us).revenue_micros
    scale = decision.max_revenue_micros
    return {link_id: amount / scale for link_id, amount in revenue.items()}


def _by_level(rates: LinkRates) -> Floats:
    return np.stack([rates.clicks, rates.revenue])
