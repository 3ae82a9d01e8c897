"""The run of a pool's policy: started, moved to other links, stored and restored."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from slotwise.policies import Policy
from slotwise.problem import Problem
from slotwise.service.learning.policy_run import PolicyRun, RunState, decode_state, encode_state
from slotwise.service.learning.replay import RoundPosition
from slotwise.service.learning.slots_seen import SlotsSeen
from slotwise.service.learning.visitor_run import VisitorRun, can_learn, learns_for_whom
from slotwise.service.pool import Pool, has_slot_weights, pool_problem
from slotwise.service.visitors import VisitorCode

__all__ = [
    "moved_run",
    "problem_of_run",
    "restored_run",
    "slots_of",
    "started_run",
    "stored_run",
    "subject_of",
]


def subject_of(pool: Pool) -> tuple[object, ...]:
    """Return what a state is about: where it changes, all rounds are learned again."""
    settings = pool.settings
    policy = (settings.policy, settings.policy_settings)
    return *policy, settings.features, slots_of(pool), pool.known_us


def problem_of_run(run: PolicyRun, pool: Pool) -> Problem | None:
    """Return the problem of a pool for what a run knows.

    None where the words of an open list that it knows leave no place for one that has a floor, and
    where its policy would need too much memory for the links: all is then learned again.
    """
    code = run.code if isinstance(run, VisitorRun) else None
    problem = pool_problem(pool.settings, len(pool.active), code)
    is_too_large = problem is not None and not can_learn(run.policy, problem)
    return None if is_too_large else problem


def slots_of(pool: Pool) -> tuple[object, ...]:
    """Return what the settings say of slots; nothing where they are alike."""
    settings = pool.settings
    if not has_slot_weights(settings):
        return ()
    return (settings.slots, settings.learn_slot_weights, *settings.slot_weights)


def started_run(policy: Policy, pool: Pool) -> PolicyRun:
    """Return a run that has seen no page and knows what was imported."""
    code = VisitorCode(pool.settings.features)
    problem = pool_problem(pool.settings, len(pool.active), code)
    assert problem is not None  # nobody has taken a place yet
    run = PolicyRun.started(policy, problem, pool.active)
    if learns_for_whom(policy):
        run = VisitorRun.of(run, code)
    run.slots = SlotsSeen.of(pool.settings, len(pool.active))
    run.learn_known(tuple(pool.known_counts()), pool.settings.max_revenue_micros)
    return run


def moved_run(run: PolicyRun, pool: Pool, counted_from_us: Mapping[str, int]) -> PolicyRun:
    """Return a run for the present links; those that were reset since start afresh."""
    forgotten = frozenset(
        link_id
        for link_id, start_us in counted_from_us.items()
        if pool.links[link_id].counted_from_us != start_us
    )
    problem = problem_of_run(run, pool)
    assert problem is not None  # otherwise all is learned again
    if run.link_ids == pool.active and run.problem == problem and not forgotten:
        return run
    moved = run.moved(problem, pool.active, forgotten)
    kept = frozenset(run.link_ids) - forgotten
    came = tuple(one for one in pool.known_counts() if one[0] not in kept)
    moved.learn_known(came, pool.settings.max_revenue_micros)
    return moved


def stored_run(run: PolicyRun, pool: Pool, fed_to: RoundPosition) -> bytes:
    """Return a run of a pool that was fed up to a round, to be restored after a restart."""
    return encode_state(
        RunState(
            policy=pool.settings.policy,
            policy_settings=pool.settings.policy_settings,
            link_ids=run.link_ids,
            counted_from_us=tuple(pool.links[one].counted_from_us for one in run.link_ids),
            closes_us=fed_to.closes_us,
            level=fed_to.level,
            decision_id=fed_to.decision_id,
            arrays=run.knowledge(),
            features=pool.settings.features,
            words=run.code.plain() if isinstance(run, VisitorRun) else [],
            slots=slots_of(pool),
            slot_clicks=() if run.slots is None else run.slots.clicks,
            exposure=b"" if run.slots is None else run.slots.exposure(),
            known_us=pool.known_us,
            floors_by=pool.settings.floors_by,
            open_views=run.open_bytes() if isinstance(run, VisitorRun) else (b"", b""),
        )
    )


def restored_run(state: bytes, pool: Pool) -> tuple[PolicyRun, RoundPosition] | None:
    """Return a stored run, moved to the present links, and the last round that it was fed.

    None when it is another policy's or was written by another version of the policy: the
    run then learns from the first round again.
    """
    stored = decode_state(state) if state else None
    if stored is None:
        return None
    about = (
        *(stored.policy, stored.policy_settings, stored.features, stored.slots),
        stored.known_us,
    )
    if about != subject_of(pool):
        return None
    policy = pool.policy(stored.arrays)
    settings = replace(pool.settings, floors_by=stored.floors_by)
    code = VisitorCode(settings.features)
    if learns_for_whom(policy):
        code.take_words(stored.words)
    problem = pool_problem(settings, len(stored.link_ids), code)
    if problem is None or not PolicyRun.started(policy, problem, stored.link_ids).has_shape_of(
        stored.arrays
    ):
        return None
    run = PolicyRun.restored(policy, problem, stored.link_ids, stored.arrays)
    if learns_for_whom(policy):
        run = VisitorRun.of(run, code)
        run.take_open(*stored.open_views)
    if problem_of_run(run, pool) is None:
        return None
    if stored.slots:
        seen = (stored.slot_clicks, stored.exposure)
        run.slots = SlotsSeen.of(pool.settings, len(run.link_ids), *seen)
    starts = dict(zip(stored.link_ids, stored.counted_from_us, strict=True))
    fed_to = RoundPosition(stored.closes_us, stored.level, stored.decision_id)
    return moved_run(run, pool, starts), fed_to
