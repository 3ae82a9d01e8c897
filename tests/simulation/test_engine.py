"""The compiled loop against the obvious one, round by round; what a round teaches, and when."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from slotwise.environments import BernoulliLinks, Environment, IntervalLinks, LateFeedback
from slotwise.errors import InvalidInput
from slotwise.policies import CUCB, POLICIES, ConUCB, LinkFeedback, Policy, default_policy
from slotwise.policies.policy import Visitor
from slotwise.problem import Problem
from slotwise.selection import Mix, new_mix
from slotwise.selector import Selector
from slotwise.simulation import PlainPythonNote, simulate
from slotwise.simulation.engine import (
    CHANCE,
    DEFICIT,
    TOTAL,
    VIOLATION,
    VISITORS,
    play_run,
    run_generator,
)
from tests.simulation.worlds import (
    CLICKS,
    FLOOR,
    LINKS,
    N_LINKS,
    N_SLOTS,
    REVENUE,
    RememberingLinks,
    registered_policy,
)

NOBODY = np.zeros(1, np.int64)

Floats = NDArray[np.float64]
Links = NDArray[np.int64]
N_ROUNDS = 400
PROBLEM = Problem(N_LINKS, N_SLOTS, FLOOR, horizon=N_ROUNDS)
CHECKPOINTS = np.arange(1, N_ROUNDS + 1)


def play_with_selector(
    policy: Policy, environment: Environment, seed: int, run: int
) -> tuple[Links, Floats]:
    """Play a run page by page through `Selector`; return the pages and what they brought."""
    settings: Any = {"click_floor": FLOOR, "slot_weights": ()}  # as the engine's problem has it
    selector = Selector(range(environment.n_links), N_SLOTS, policy=policy, seed=0, **settings)
    selector._rng.bit_generator.state = run_generator(seed, run, CHANCE).bit_generator.state
    visitors = run_generator(seed, run, VISITORS)
    world = environment.world(N_ROUNDS)
    pages, brought = [], []
    for round_number in range(1, N_ROUNDS + 1):
        page = selector.select()
        shown = np.array(page.shown)
        outcomes = np.zeros((2, N_SLOTS))
        environment.serving(world, round_number, NOBODY, shown, visitors, outcomes)
        clicked = [link for link, click in zip(page.shown, outcomes[0], strict=True) if click]
        earned = dict(zip(page.shown, outcomes[1].tolist(), strict=True))
        selector.update(page, clicks=clicked, revenue={link: earned[link] for link in clicked})
        pages.append(shown)
        brought.append(outcomes.sum(axis=1))
    return np.array(pages), np.array(brought)


COMPILED = ("cucb", default_policy().name)
"""Policies whose run is played by machine code, too; that of others is made of the same parts."""


@pytest.mark.parametrize("name", POLICIES)
def test_the_engine_is_a_plain_loop_over_selector(name: str) -> None:
    policy = registered_policy(name, N_ROUNDS)
    links = RememberingLinks(CLICKS, REVENUE)
    record = play_run(policy, links, PROBLEM, CHECKPOINTS, seed=5, run=3)
    pages = links.pages.copy()
    expected_pages, brought = play_with_selector(policy, LINKS, seed=5, run=3)
    assert np.array_equal(pages, expected_pages)
    assert_totals(record, brought)


@pytest.mark.compiled
@pytest.mark.parametrize("name", COMPILED)
def test_a_run_in_machine_code_brings_what_the_plain_loop_brings(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every round: another page would bring something else in one of those that follow.

    The links are of a kind that other tests compile, too, so they do not write down their pages.
    """
    policy = registered_policy(name, N_ROUNDS)
    record = play_run(policy, LINKS, PROBLEM, CHECKPOINTS, seed=5, run=3)
    monkeypatch.setenv("SLOTWISE_COMPILE", "never")
    _, brought = play_with_selector(policy, LINKS, seed=5, run=3)
    assert_totals(record, brought)


def assert_totals(record: Floats, brought: Floats) -> None:
    """Check what a run recorded in every round against what its pages brought."""
    assert np.array_equal(record[TOTAL], np.cumsum(brought, axis=0).T)
    missed = np.maximum(0.0, FLOOR - brought[:, 0])
    assert np.allclose(record[VIOLATION, 0], np.cumsum(missed), rtol=0, atol=1e-9)
    deficit = np.maximum(0.0, FLOOR * CHECKPOINTS - np.cumsum(brought[:, 0]))
    assert np.allclose(record[DEFICIT, 0], np.maximum.accumulate(deficit), rtol=0, atol=1e-9)


def test_all_policies_of_a_run_meet_the_same_visitors() -> None:
    """A page of all links brings the same whoever shows it, in every run something else."""
    everything = np.arange(4)
    links = BernoulliLinks([0.5] * 4, [0.5] * 4)
    problem = Problem(4, 4, horizon=50)
    records = [
        play_run(policy, links, problem, np.arange(1, 51), seed=2, run=run)[TOTAL]
        for policy in (CUCB(), ConUCB())
        for run in (0, 1)
    ]
    assert len(everything) == problem.n_slots
    assert np.array_equal(records[0], records[2])
    assert np.array_equal(records[1], records[3])
    assert not np.array_equal(records[0], records[1])


def choose_plainly(state: Any, visitor: Any, rng: Any) -> None:
    CUCB.choose(state, visitor, rng)


class PlainCUCB(CUCB):
    """CUCB with a function that is not declared to be compiled."""

    choose: ClassVar[Any] = staticmethod(choose_plainly)


@pytest.mark.compiled
def test_a_plain_python_policy_equals_its_compiled_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments: dict[str, Any] = {"n_rounds": 200, "n_runs": 2, "seed": 4}
    compiled = simulate(LINKS, [CUCB()], N_SLOTS, FLOOR, **arguments)
    monkeypatch.setenv("SLOTWISE_COMPILE", "auto")  # what its loop calls is interpreted
    with pytest.warns(PlainPythonNote, match="cucb runs as plain Python"):
        plain = simulate(LINKS, [PlainCUCB()], N_SLOTS, FLOOR, **arguments)
    for quantity, values in compiled.totals["cucb"].items():
        assert np.array_equal(plain.totals["cucb"][quantity], values)


class Diary(NamedTuple):
    """State of a policy that writes down what it is taught."""

    mix: Mix
    pages: list[list[int]]
    lessons: list[tuple[int, int, list[int], list[float], list[float]]]


def choose_next(state: Diary, visitor: Visitor, rng: np.random.Generator) -> None:
    """Show links in turn, so that every round's page can be told by its links."""
    start = len(state.pages)
    page = [(start + slot) % N_LINKS for slot in range(N_SLOTS)]
    state.mix.sure[:N_SLOTS] = page
    state.mix.sizes[:] = N_SLOTS, 0, 0, 0
    state.pages.append(page)


def write_down(state: Diary, visitor: Visitor, level: int, feedback: LinkFeedback) -> None:
    links, _, probabilities, views, outcomes = feedback
    assert probabilities.tolist() == [1.0] * N_SLOTS
    lesson = (len(state.pages), level, links.tolist(), views.tolist(), outcomes.tolist())
    state.lessons.append(lesson)


@dataclass(frozen=True)
class Diarist(Policy):
    """A policy as a user may write it: plain Python, state of lists."""

    diaries: list[Diary] = field(default_factory=list)
    name: ClassVar[str] = "diarist"
    choose: ClassVar[Any] = staticmethod(choose_next)
    learn: ClassVar[Any] = staticmethod(write_down)

    def start(self, problem: Problem) -> Diary:
        diary = Diary(new_mix(problem.n_links), [], [])
        self.diaries.append(diary)
        return diary


def lessons_of(environment: Environment, n_rounds: int) -> Diary:
    policy = Diarist()
    problem = Problem(N_LINKS, N_SLOTS, FLOOR, horizon=n_rounds)
    play_run(policy, environment, problem, np.array([n_rounds]), seed=1, run=0)
    return policy.diaries[-1]


@pytest.mark.parametrize("delays", [(0, 0), (2, 5), (5, 2), (0, 7), (3, 3)])
def test_late_feedback_comes_exactly_so_many_rounds_later(delays: tuple[int, int]) -> None:
    diary = lessons_of(LateFeedback(LINKS, *delays), n_rounds=20)
    for level in (0, 1):
        lessons = [lesson for lesson in diary.lessons if lesson[1] == level]
        assert [lesson[0] for lesson in lessons] == list(range(1 + delays[level], 21))
        expected = [diary.pages[lesson[0] - 1 - delays[level]] for lesson in lessons]
        assert [lesson[2] for lesson in lessons] == expected


def test_random_delays_lie_within_their_spread_and_lose_no_feedback() -> None:
    n_rounds, delays, spread = 400, (4, 20), 0.5
    diary = lessons_of(LateFeedback(LINKS, *delays, spread), n_rounds)
    for level in (0, 1):
        least, most = round(0.5 * delays[level]), round(1.5 * delays[level])
        waits = []
        for known_in, _, links, _, _ in (one for one in diary.lessons if one[1] == level):
            # pages recur after N_LINKS rounds: the page is the latest with these links that fits
            rounds = [r for r in range(known_in - most, known_in - least + 1) if r >= 1]
            waits += [[known_in - r for r in rounds if diary.pages[r - 1] == links]]
        assert all(waits)
        settled = n_rounds - most
        assert settled <= len(waits) <= n_rounds - least
        assert len({wait[0] for wait in waits if len(wait) == 1}) > 2
    late = lessons_of(LateFeedback(LINKS, *delays, 0.0), n_rounds)
    assert late.lessons == lessons_of(LateFeedback(LINKS, *delays), n_rounds).lessons


def test_a_spread_is_a_share() -> None:
    with pytest.raises(InvalidInput, match=r"`spread` must be a share from 0 to 1, got 1.5"):
        LateFeedback(LINKS, 4, 9, 1.5)


def test_late_feedback_is_that_of_the_page_itself() -> None:
    on_time = lessons_of(LINKS, n_rounds=30)
    late = lessons_of(LateFeedback(LINKS, 4, 9), n_rounds=30)
    for level, delay in ((0, 4), (1, 9)):
        told = [lesson[2:] for lesson in late.lessons if lesson[1] == level]
        expected = [lesson[2:] for lesson in on_time.lessons if lesson[1] == level]
        assert told == expected[: 30 - delay]


def test_an_interval_teaches_counts_and_is_measured_per_view() -> None:
    links = IntervalLinks(CLICKS, REVENUE, views_per_round=50)
    diary = lessons_of(links, n_rounds=10)
    assert all(lesson[3] == [50.0] * N_SLOTS for lesson in diary.lessons)
    problem = Problem(N_LINKS, N_SLOTS, FLOOR, horizon=10)
    record = play_run(Diarist(), links, problem, np.arange(1, 11), seed=1, run=0)
    clicks = [sum(lesson[4]) / 50 for lesson in diary.lessons if lesson[1] == 0]
    assert np.allclose(record[TOTAL, 0], np.cumsum(clicks), rtol=0, atol=1e-9)
    missed = [max(0.0, FLOOR - each) for each in clicks]
    assert np.allclose(record[VIOLATION, 0], np.cumsum(missed), rtol=0, atol=1e-9)


def test_intervals_of_one_view_are_rounds() -> None:
    """Same rates, other draws: means agree (fails by accident below 1e-7, by Hoeffding)."""
    results = simulate(
        IntervalLinks(CLICKS, REVENUE, 1), [CUCB()], N_LINKS, n_rounds=2_000, n_runs=4
    )
    mean = results.final("cucb", "clicks").mean() / 2_000
    spread = N_LINKS * np.sqrt(np.log(2 / 1e-7) / (2 * 8_000))
    assert abs(mean - CLICKS.sum()) < spread
