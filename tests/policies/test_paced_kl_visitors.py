from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from slotwise.environments import BernoulliLinks, SegmentLinks
from slotwise.policies import NO_SLOTS, NOBODY, PacedKL, Policy
from slotwise.policies.paced_kl_visitors import BLOCK, PacedKLVisitors
from slotwise.problem import Problem
from slotwise.selection import dense_probabilities, draw_page
from slotwise.simulation.engine import play_run
from slotwise.testing import PolicyContract
from tests.reference.visitor_effects import learned, upper_bounds
from tests.unnamed_features import features_of

SIZES = (2, 3)
PROBLEM = Problem(n_links=6, n_slots=2, click_floor=0.6, features=features_of(SIZES))


class TestWithoutFeatures(PolicyContract):
    """With no features it is a policy like any other."""

    def make_policy(self, problem: Problem) -> Policy:
        return PacedKLVisitors()


def random_visitor(rng: np.random.Generator) -> Any:
    return np.array([rng.integers(2), 2 + rng.integers(3)], np.int64)


def test_paced_kl_uses_features_where_there_are_some() -> None:
    policy = PacedKL(exploration=0.7, patience=2.0)
    assert policy.for_problem(Problem(6, 2)) is policy
    assert policy.for_problem(PROBLEM) == PacedKLVisitors(0.7, 2.0)


@pytest.mark.parametrize("seed", [1, 2])
def test_every_step_is_that_of_the_slow_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    click_rate = rng.uniform(0.1, 0.8, (5, 6))
    state: Any = PacedKLVisitors().start(PROBLEM)
    effects, evidence = state.effects, state.evidence
    shown, chances, once = np.zeros(2, np.int64), np.zeros(2), np.ones(2)
    names = [name for name in effects._fields if isinstance(getattr(effects, name), np.ndarray)]
    names = [name for name in names if name not in ("rate", "bonus")]
    n_fits = 0
    for _ in range(150):
        visitor = random_visitor(rng)
        PacedKLVisitors.choose(state, visitor, rng)
        arrays = {name: getattr(effects, name).copy() for name in names}
        price = state.queues.lengths[0] / math.sqrt(0.6 * (evidence.rounds[0] + 1))
        clicks, revenue = (upper_bounds(arrays, visitor.tolist(), level) for level in (0, 1))
        scores = np.array(revenue) + price * np.array(clicks)
        np.testing.assert_allclose(state.score, scores, rtol=1e-9)
        draw_page(state.mix, rng, shown, chances)
        assert scores[shown].min() >= np.sort(scores)[-2] - 1e-9
        clicked = (rng.random(2) < click_rate[visitor[0], shown]).astype(float)
        earned = clicked * (rng.random(2) < 0.5) * rng.choice([0.1, 0.2, 0.5], 2)
        for level, outcomes in enumerate((clicked, earned)):
            arrays = {name: getattr(effects, name).copy() for name in names}
            PacedKLVisitors.learn(state, visitor, level, shown, NO_SLOTS, chances, once, outcomes)
            counts = {name: getattr(evidence, name) for name in ("views", "sums", "rounds")}
            page = (visitor.tolist(), level, shown.tolist(), outcomes.tolist())
            expected = learned(arrays, counts, page, (0.5, 2))
            n_fits += expected["pool"][level, 2] != arrays["pool"][level, 2]
            for name in names:
                found = getattr(effects, name)
                rtol = 1e-9 if found.dtype == np.float64 else 2e-7  # the last bit may differ
                np.testing.assert_allclose(found, expected[name], rtol=rtol)
    assert n_fits > 30


def shown_in_currency(scale: float, segment_floors: Any) -> list[list[int]]:
    """Return the pages of 1,500 rounds with sales of two sizes, in some currency."""
    problem = Problem(
        n_links=12,
        n_slots=3,
        click_floor=1.2,
        features=features_of(SIZES),
        segment_floors=segment_floors,
    )
    state: Any = PacedKLVisitors().start(problem)
    rng, feedback = np.random.default_rng(3), np.random.default_rng(4)
    rates = np.linspace(0.1, 0.6, 12)
    shown, chances, once = np.zeros(3, np.int64), np.zeros(3), np.ones(3)
    pages = []
    for _ in range(1_500):
        visitor = random_visitor(feedback)
        PacedKLVisitors.choose(state, visitor, rng)
        draw_page(state.mix, rng, shown, chances)
        pages.append(sorted(shown.tolist()))
        clicks = (feedback.random(3) < rates[(shown + visitor[0]) % 12]).astype(float)
        sizes = np.where(shown % 2, 0.0625, 0.015625) * scale
        revenue = clicks * (feedback.random(3) < 0.7 - rates[shown]) * sizes
        for level, outcomes in enumerate((clicks, revenue)):
            PacedKLVisitors.learn(state, visitor, level, shown, NO_SLOTS, chances, once, outcomes)
    assert state.queues.worth[0] > 0.0
    return pages


@pytest.mark.parametrize("scale", [10.0, 0.1, 0.25])
@pytest.mark.parametrize(
    "segment_floors", [{}, {"f0": {"v0": 1.3}}], ids=["one floor", "of a segment too"]
)
def test_another_currency_gives_the_same_pages(scale: float, segment_floors: Any) -> None:
    assert shown_in_currency(scale, segment_floors) == shown_in_currency(1.0, segment_floors)


def test_scores_of_a_pool_of_several_blocks_are_those_of_the_slow_twin() -> None:
    rng = np.random.default_rng(5)
    n_links = 2 * BLOCK + 77
    problem = Problem(n_links, n_slots=9, click_floor=2.0, features=features_of(SIZES))
    state: Any = PacedKLVisitors().start(problem)
    shown, chances, once = np.zeros(9, np.int64), np.zeros(9), np.ones(9)
    for _ in range(300):
        visitor = random_visitor(rng)
        PacedKLVisitors.choose(state, visitor, rng)
        draw_page(state.mix, rng, shown, chances)
        clicked = (rng.random(9) < 0.3).astype(float)
        for level, outcomes in enumerate((clicked, clicked * (rng.random(9) < 0.5))):
            PacedKLVisitors.learn(state, visitor, level, shown, NO_SLOTS, chances, once, outcomes)
    PacedKLVisitors.choose(state, visitor, rng)
    arrays = state.effects._asdict()
    clicks, revenue = (upper_bounds(arrays, visitor.tolist(), level) for level in (0, 1))
    scores = np.array(revenue) + state.queues.worth[0] * np.array(clicks)
    np.testing.assert_allclose(state.score, scores, rtol=1e-9)
    assert len(set(scores.tolist())) > 300


def played(n_rounds: int = 400, seed: int = 3) -> Any:
    rng = np.random.default_rng(seed)
    state: Any = PacedKLVisitors().start(PROBLEM)
    shown, chances, once = np.zeros(2, np.int64), np.zeros(2), np.ones(2)
    for _ in range(n_rounds):
        visitor = random_visitor(rng)
        PacedKLVisitors.choose(state, visitor, rng)
        draw_page(state.mix, rng, shown, chances)
        for level in (0, 1):
            outcomes = (rng.random(2) < 0.3 + 0.4 * (shown == visitor[0])).astype(float)
            PacedKLVisitors.learn(state, visitor, level, shown, NO_SLOTS, chances, once, outcomes)
    return state


def pages(state: Any) -> list[list[float]]:
    """Return the probabilities for every visitor there can be, and for nobody in particular."""
    everybody = [np.array([a, 2 + b], np.int64) for a in range(2) for b in range(3)]
    found = []
    for visitor in [*everybody, NOBODY]:
        PacedKLVisitors.choose(state, visitor, np.random.default_rng(0))
        found.append(dense_probabilities(state.mix).tolist())
    return found


def test_visitors_get_pages_of_their_own_and_asking_teaches_nothing() -> None:
    state = played()
    before = PacedKLVisitors().knowledge(state)
    first = pages(state)
    assert first == pages(state)
    assert first[0] != first[3]
    assert all(sum(page) == pytest.approx(2.0) for page in first)
    for name, array in PacedKLVisitors().knowledge(state).items():
        assert np.array_equal(array, before[name])


def test_what_is_known_of_visitors_survives_saving() -> None:
    policy, state = PacedKLVisitors(), played()
    loaded: Any = policy.restore(PROBLEM, policy.knowledge(state))
    assert pages(loaded) == pages(state)
    for name, array in policy.knowledge(loaded).items():
        assert np.array_equal(array, policy.knowledge(state)[name])


def test_links_join_and_leave_without_touching_what_is_known_of_the_others() -> None:
    policy, state = PacedKLVisitors(), played()
    kept = np.array([5, 0, -1, 3, 1], np.int64)
    problem = Problem(n_links=5, n_slots=2, click_floor=0.6, features=features_of(SIZES))
    moved: Any = policy.move(state, problem, kept)
    stays = kept >= 0
    for name in policy.per_link:
        old, new = policy.knowledge(state)[name], policy.knowledge(moved)[name]
        assert np.array_equal(new[..., stays], old[..., kept[stays]])
    assert moved.effects.effect[:, :, 2].tolist() == np.ones((2, 5)).tolist()
    assert all(sum(page) == pytest.approx(2.0) for page in pages(moved))


def test_visitors_who_want_different_links_get_them() -> None:
    """Fails by accident with probability below 1e-6: the margin is over ten standard errors."""
    rates = np.full((2, 10), 0.1)
    rates[0, :2] = rates[1, 2:4] = 0.5
    links = SegmentLinks(rates, np.full((2, 10), 0.5), [0.5, 0.5])
    n_rounds = 6_000
    problem = Problem(10, 2, 0.5, horizon=n_rounds, features=links.features)
    record = play_run(PacedKL(), links, problem, np.array([n_rounds]), seed=1, run=0)
    # without context a page of two links brings 0.3 a view, with context 0.5
    assert record[0, 1, 0] / n_rounds > 0.44


def test_features_that_do_not_matter_are_found_out() -> None:
    """The variance of effects is fitted to less than 0.02: a fifth of what one standard deviation
    of 30 % would be. Seeded; over seeds 1 to 20 the largest was 0.006."""
    rng = np.random.default_rng(4)
    links = BernoulliLinks(rng.uniform(0.1, 0.4, 10), rng.uniform(0.2, 0.6, 10))
    rates = np.asarray(links.rates_given_last)
    shares = np.full(6, 1 / 6)
    alike = SegmentLinks(
        np.tile(rates[0], (6, 1)),
        np.tile(rates[1], (6, 1)),
        shares,
        visitors=[{"a": a, "b": b} for a in range(2) for b in range(3)],
    )
    policy: Any = PacedKLVisitors()
    state: Any = policy.start(Problem(10, 3, 0.5, features=alike.features))
    visitor, shown, chances, once = (
        np.zeros(3, np.int64),
        np.zeros(3, np.int64),
        np.zeros(3),
        np.ones(3),
    )
    outcomes, world = np.zeros((2, 3)), alike.world(1)
    for k in range(8_000):
        alike.arriving(world, k, rng, visitor)
        policy.choose(state, visitor[:2].copy(), rng)
        draw_page(state.mix, rng, shown, chances)
        alike.serving(world, k, visitor, shown, rng, outcomes)
        for level in range(2):
            policy.learn(
                state, visitor[:2].copy(), level, shown, NO_SLOTS, chances, once, outcomes[level]
            )
    assert (1.0 / state.effects.tau[:, :2]).max() < 0.02
