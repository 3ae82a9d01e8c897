"""A mistake in a policy of another package is named, wrong probabilities before a page is drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from slotwise import BernoulliLinks, Selector, simulate
from slotwise.errors import InvalidInput
from slotwise.player.page_set import Chooser, average_probabilities
from slotwise.policies import (
    CountingPolicy,
    Counts,
    Mix,
    Policy,
    Problem,
    compiled,
    new_counts,
    new_mix,
)
from slotwise.policies.policy import check_page
from slotwise.selection import set_probabilities
from slotwise.simulation import simulate_log

LINKS = BernoulliLinks([0.5] * 4, [0.5] * 4)


class State(NamedTuple):
    counts: Counts
    first: np.ndarray
    then: np.ndarray
    n_wrong: float
    mix: Mix


@compiled
def choose(state, visitor, rng):  # type: ignore[no-untyped-def]
    n_pages = state.counts.views[0].sum() / 2.0
    is_then = 0.0 < n_pages <= state.n_wrong
    set_probabilities(state.mix, state.then if is_then else state.first)


@compiled
def learn(state, visitor, level, feedback):  # type: ignore[no-untyped-def]
    links, views = feedback.links, feedback.views
    for k in range(len(links)):
        state.counts.views[level, links[k]] += views[k]


@dataclass(frozen=True)
class Fixed(CountingPolicy):
    """Shows the first page with some probabilities, and the next `n_wrong` with other ones."""

    name: ClassVar[str] = "fixed"
    choose: ClassVar[Any] = staticmethod(choose)
    learn: ClassVar[Any] = staticmethod(learn)
    first: tuple[float, ...] = (0.5,) * 4
    then: tuple[float, ...] = (0.5,) * 4
    n_wrong: float = 1e9

    def start(self, problem: Problem) -> State:
        pages = np.array(self.first), np.array(self.then)
        return State(new_counts(problem), *pages, self.n_wrong, new_mix(problem.n_links))


NAN = float("nan")
MESSAGE = (
    r"`probabilities` of the policy `fixed` must be in \[0, 1\] and sum to n_slots \(2\), "
    r"with each link listed once, got "
)


@pytest.mark.parametrize(
    "wrong", [(0.9,) * 4, (0.1,) * 4, (1.0,) * 4, (NAN, 1.0, 0.5, 0.0), (NAN, 1.0, 1.0, 0.0)]
)
@pytest.mark.parametrize("place", ["first", "then"])
def test_wrong_probabilities_are_refused(
    wrong: tuple[float, ...], place: str, tmp_path: Path
) -> None:
    policy = Fixed(**{place: wrong})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=MESSAGE):
        simulate(LINKS, [policy], n_slots=2, n_rounds=50, n_runs=1)
    with pytest.raises(InvalidInput, match=MESSAGE):
        simulate_log(tmp_path / "log", LINKS, policy, 2, n_rounds=50, explore=0.0)
    selector = Selector(range(4), 2, policy=policy)
    if place == "then":
        with pytest.raises(InvalidInput, match=MESSAGE):
            simulate(LINKS, [replace(policy, n_wrong=1.0)], n_slots=2, n_rounds=50, n_runs=1)
        selector.update(selector.select(), clicks=[], revenue={})
    with pytest.raises(InvalidInput, match=MESSAGE):
        selector.select()
    problem = Problem(4, 2)
    chooser = Chooser(policy, problem, replace(policy, first=wrong).start(problem))
    with pytest.raises(InvalidInput, match=MESSAGE):
        average_probabilities(chooser, np.random.default_rng(1))


@compiled
def choose_unknown(state, visitor, rng):  # type: ignore[no-untyped-def]
    state.first[0] = not_defined  # type: ignore[name-defined]  # noqa: F821


@compiled
def choose_text(state, visitor, rng):  # type: ignore[no-untyped-def]
    state.first[0] = "a" + 1.0  # type: ignore[operator]


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (choose_unknown, r"`choose_unknown`: NameError: name 'not_defined' is not defined"),
        (choose_text, r"`choose_text` \(.*pages.py, line \d+\): No impl.*Literal\[str\]\(a\), f.*"),
    ],
)
def test_a_function_that_numba_refuses_is_named(wrong: Any, message: str) -> None:
    class Wrong(Fixed):
        choose: ClassVar[Any] = staticmethod(wrong)

    whole = rf"^the policy `fixed`: numba cannot compile {message}; fix it, or leave out @comp"
    with pytest.raises(InvalidInput, match=whole):
        simulate(LINKS, [Wrong()], n_slots=2, n_rounds=50, n_runs=1)


def test_a_policy_without_a_part_is_refused() -> None:
    functions = {"choose": staticmethod(choose), "learn": staticmethod(learn)}
    parts = {"name": "part", "start": Fixed.start, **functions}
    for missing in parts:
        rest = {name: part for name, part in parts.items() if name != missing}
        with pytest.raises(TypeError, match=f"^the policy Part has no `{missing}`; docs/write-a-"):
            type("Part", (Policy,), rest)()
    whole = type("Whole", (Policy,), parts)()
    for name, arguments in (("knowledge", (None,)), ("restore", (Problem(4, 2), {}))):
        with pytest.raises(NotImplementedError, match=f"^the policy Whole has no `{name}`"):
            getattr(whole, name)(*arguments)


def test_right_ones_are_not() -> None:
    results = simulate(LINKS, [Fixed()], n_slots=2, n_rounds=50, n_runs=1)
    assert results.n_rounds == 50


def test_small_probabilities_that_are_left_out_break_no_law() -> None:
    tail = np.full(3_000, 0.9e-9)
    chances = np.concatenate([[1.0, 1.0 - tail.sum()], tail])
    selector = Selector(range(len(chances)), 2, policy=Fixed(first=tuple(chances.tolist())))
    assert len(selector.select().shown) == 2


def test_rounding_errors_break_no_law() -> None:
    mix = new_mix(3)
    mix.open[:2], mix.probabilities[:2] = (0, 2), (1.0 + 4e-16, 1.0)
    mix.sizes[:] = 0, 2, 0, 0
    check_page(Fixed(), mix, 2)


@pytest.mark.parametrize(
    ("sizes", "links"),
    [
        ((0, 2, 0, 0), (0, 7)),
        ((0, 2, -1, 0), (0, 1)),
        ((0, 1, 1, 2), (0, 1)),
        ((2, 2, 0, 0), (0, 1)),
        ((0, 2, 0, 0), (1, 1)),
        ((1, 1, 0, 0), (0, 1)),
        ((0, 1, 1, 1), (0, 1)),
    ],
)
def test_links_and_sizes_that_no_page_has_are_refused(
    sizes: tuple[int, ...], links: tuple[int, int]
) -> None:
    mix = new_mix(3)
    mix.open[:2], mix.probabilities[:2] = links, 1.0
    mix.sizes[:] = sizes
    with pytest.raises(InvalidInput, match="`probabilities` of the policy `fixed` must be in"):
        check_page(Fixed(), mix, 2)
