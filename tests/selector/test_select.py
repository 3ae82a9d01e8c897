"""Choosing a page: any ids, pins and exclusions, and the floor kept where it can be."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from slotwise import ConUCB, Selector
from slotwise.compile import switch
from slotwise.errors import InvalidInput
from slotwise.policies import Estimates
from slotwise.policies.policy import ignore_open
from slotwise.rounds import Link
from tests.selector.selectors import KINDS, LINKS, STEADY, everything, new_selector, play

Floats = NDArray[np.float64]
MAX_FILES = 18


def test_ids_are_any_hashable_values() -> None:
    links: list[Link] = ["a", 7, ("shop", 3), None, 2.5, frozenset({1}), b"raw", int]
    selector = Selector(links, 8, policy=ConUCB(horizon=100), seed=1)
    page = selector.select(pin=[("shop", 3)])
    assert set(page.shown) == set(links)
    selector.update(page, clicks=[None, int], revenue={None: 0.5})
    assert {link.link: link.clicks for link in selector.report().links} == {
        link: int(link in (None, int)) for link in links
    }


@pytest.mark.parametrize("policy", KINDS)
def test_a_page_has_different_links_with_their_chances(policy: str) -> None:
    selector = new_selector(policy)
    play(selector, 30)
    page = selector.select()
    assert len(set(page.shown)) == len(page.shown) == 2
    assert set(page.shown) <= set(LINKS)
    assert sum(page.probabilities.values()) == pytest.approx(2)
    assert all(page.probabilities[link] > 0 for link in page.shown)


@pytest.mark.parametrize("policy", KINDS)
def test_the_same_seed_gives_the_same_pages_under_other_ids(policy: str) -> None:
    first, second, other = (new_selector(policy, seed=seed) for seed in (5, 5, 6))
    pages = play(first, 40)
    assert pages == play(second, 40)
    assert pages != play(other, 40)
    assert first.select().id != second.select().id


@pytest.mark.parametrize("policy", KINDS)
def test_reports_do_not_change_the_pages(policy: str) -> None:
    for seed in range(10):
        quiet, watched = (new_selector(policy, links=range(5), seed=seed) for _ in range(2))
        if quiet.policy.needs.takes_counts:
            # links 1 and 2 tie, so that only how the state is arranged decides their order
            views = [30, 20, 20, 27, 27]
            revenue = [7, 2.625, 2.625, 6.5, 6]
            for selector in (quiet, watched):
                selector.update_batch(dict(enumerate(views)), None, dict(enumerate(revenue)))
        for round_number in range(4):
            watched.report()
            assert play(quiet, 10, seed=round_number) == play(watched, 10, seed=round_number)


@pytest.mark.parametrize("policy", KINDS)
def test_pinned_links_are_on_the_page_and_excluded_ones_are_not(policy: str) -> None:
    selector = new_selector(policy, n_slots=3)
    play(selector, 20)
    for _ in range(50):
        page = selector.select(exclude=["outlet"], pin=["blog"])
        assert len(set(page.shown)) == len(page.shown) == 3
        assert "blog" in page.shown
        assert "outlet" not in page.shown
        assert page.probabilities["blog"] == 1.0
        assert page.probabilities["outlet"] == 0.0
        assert sum(page.probabilities.values()) == pytest.approx(3)
        latest = list(selector._pages)[-1]
        assert latest.probabilities == tuple(page.probabilities[link] for link in page.shown)


@pytest.mark.parametrize("policy", STEADY)
def test_a_restriction_holds_for_one_page(policy: str) -> None:
    selector = new_selector(policy)
    play(selector, 20)
    before = dict(selector.select().probabilities)
    selector.select(exclude=["blog", "outlet"], pin=["new-in"])
    after = dict(selector.select().probabilities)
    if type(selector.policy).note_open is ignore_open:  # others count the two pages that are open
        assert after == pytest.approx(before)
    else:
        assert after.get("blog", 0.0) + after.get("outlet", 0.0) > 0.0


@pytest.mark.parametrize("policy", KINDS)
def test_restrictions_may_leave_no_choice(policy: str) -> None:
    selector = new_selector(policy)
    assert set(selector.select(pin=["blog", "outlet"]).shown) == {"blog", "outlet"}
    rest = selector.select(exclude=["spring-sale", "new-in", "gift-cards"])
    assert set(rest.shown) == {"blog", "outlet"}
    one_left = selector.select(exclude=["spring-sale", "new-in", "gift-cards"], pin=["blog"])
    assert set(one_left.shown) == {"blog", "outlet"}


def best_by_highs(
    estimates: Estimates, n_slots: int, floor: float, pinned: list[int], excluded: list[int]
) -> Any:
    """Solve the floor program with fixed entries by a general solver."""
    fixed = {**dict.fromkeys(pinned, (1, 1)), **dict.fromkeys(excluded, (0, 0))}
    return linprog(
        -estimates.value,
        A_ub=-estimates.clicks[None, :],
        b_ub=[-floor],
        A_eq=np.ones((1, len(estimates.value))),
        b_eq=[n_slots],
        bounds=[fixed.get(i, (0, 1)) for i in range(len(estimates.value))],
    )


def informed_selector(seed: int, n_links: int, n_slots: int, floor: float) -> Selector:
    """Return a selector that knows random rates so well that its bounds are close to them.

    Links that are clicked often earn little, so that the floor costs something.
    """
    rng = np.random.default_rng(seed)
    policy = ConUCB(horizon=1000, gamma_scale=1e-3)
    selector = Selector(range(n_links), n_slots, policy=policy, click_floor=floor, seed=seed)
    clicks = rng.integers(1, 9_000, n_links)
    earned = clicks * rng.random(n_links) * (1 - clicks / 9_000) ** 2
    selector.update_batch(
        dict.fromkeys(range(n_links), 10_000),
        dict(enumerate(clicks.tolist())),
        dict(enumerate(earned.tolist())),
    )
    return selector


class RestrictedCase(NamedTuple):
    selector: Selector
    estimates: Estimates
    pinned: list[int]
    excluded: list[int]

    def best(self, value: Floats, floor: float) -> Any:
        """Return the general solver's answer for these links."""
        estimates = Estimates(value, self.estimates.clicks)
        n_slots = self.selector.problem.n_slots
        return best_by_highs(estimates, n_slots, floor, self.pinned, self.excluded)


def restricted_case(seed: int) -> RestrictedCase:
    rng = np.random.default_rng(1000 + seed)
    selector = informed_selector(seed, 12, 4, floor=float(rng.uniform(1.0, 3.0)))
    estimates = selector.policy.estimates(selector._player.state)
    assert estimates is not None
    chosen = rng.permutation(12).tolist()
    return RestrictedCase(selector, estimates, chosen[: seed % 4], chosen[4 : 4 + seed % 5])


def test_the_rest_of_the_page_is_the_best_that_keeps_the_floor() -> None:
    for seed in range(60):
        case = restricted_case(seed)
        clicks, value = case.estimates.clicks, case.estimates.value
        floor = case.selector.problem.click_floor
        page = case.selector.select(exclude=case.excluded, pin=case.pinned)
        x = np.array([page.probabilities[link] for link in range(12)])
        best = case.best(value, floor)
        if best.status == 0:
            assert x @ clicks >= floor - 1e-9
            assert x @ value == pytest.approx(-best.fun, abs=1e-9)
        else:
            most_clicks = -case.best(clicks, floor=0.0).fun
            assert most_clicks < floor
            assert x @ clicks == pytest.approx(most_clicks, abs=1e-9)


def test_the_cases_above_are_of_every_kind() -> None:
    kinds = {"slack": 0, "binding": 0, "infeasible": 0}
    for seed in range(60):
        case = restricted_case(seed)
        best = case.best(case.estimates.value, case.selector.problem.click_floor)
        free = case.best(case.estimates.value, floor=0.0)
        if best.status != 0:
            kinds["infeasible"] += 1
        else:
            kinds["binding" if best.fun > free.fun + 1e-9 else "slack"] += 1
    assert min(kinds.values()) >= 5, kinds


def test_restricted_pages_are_drawn_with_their_probabilities() -> None:
    selector = informed_selector(seed=3, n_links=8, n_slots=4, floor=2.0)
    n_pages = 4000
    shown = np.zeros(8)
    for _ in range(n_pages):
        page = selector.select(exclude=[0], pin=[1])
        shown[np.array(page.shown, dtype=int)] += 1
    chances = np.array([page.probabilities[link] for link in range(8)])
    assert ((chances > 0.02) & (chances < 0.98)).any(), "no link was open: the test shows nothing"
    # 6 standard deviations for each of 8 links: fails by accident less than once in 10^7
    tolerance = 6 * np.sqrt(chances * (1 - chances) / n_pages) + 1e-12
    assert np.all(np.abs(shown / n_pages - chances) <= tolerance)


@pytest.mark.parametrize(
    ("restriction", "message"),
    [
        (
            {"pin": ["blog", "outlet", "new-in"]},
            "`pin` must be at most 2 links, one a slot, got 3",
        ),
        (
            {"pin": ["blog"], "exclude": ["outlet", "blog"]},
            "`pin` must be links that are not excluded, got 'blog'",
        ),
        (
            {"exclude": LINKS[1:]},
            "`exclude` must be few enough links to leave 2 for the page, got 4",
        ),
        ({"pin": ["sale"]}, "`pin` must be links of the pool, got 'sale'"),
        ({"exclude": [3]}, "`exclude` must be links of the pool, got 3"),
        ({"pin": ["blog", "blog"]}, "`pin` must be different from each other, got 'blog'"),
        ({"pin": "blog"}, r"`pin` must be a collection of links, got 'blog'; write \['blog'\]"),
        ({"exclude": b"blog"}, "`exclude` must be a collection of links, got b'blog'"),
        ({"pin": [["blog"]]}, r"`pin` must be a collection of hashable links, got \[\['blog'\]\]"),
        (
            {"exclude": {"device": "phone"}},
            "`exclude` must be links of the pool, got 'device'; .* is given as visitor={...}",
        ),
        ({"exclude": 3}, "`exclude` must be a collection of hashable links, got 3"),
    ],
)
def test_a_restriction_that_cannot_hold_is_refused(
    restriction: dict[str, Any], message: str
) -> None:
    selector = new_selector()
    play(selector, 5)
    before = everything(selector)
    with pytest.raises(InvalidInput, match=message):
        selector.select(**restriction)
    assert everything(selector) == before


def test_a_page_enters_the_files_that_the_guide_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switch, "_codes", {})  # other tests may have loaded machine code
    switch._calling.cache_clear()
    selector, files = Selector(LINKS, 2, click_floor=0.3, seed=1), set()
    selector.update(selector.select(), clicks=[], revenue={})
    selector.select()

    def note(frame: FrameType, event: str, _: object) -> None:
        _, found, file = frame.f_code.co_filename.rpartition("/src/slotwise/")
        if event == "call" and found:
            files.add(file)

    sys.setprofile(note)
    try:
        selector.select()
    finally:
        sys.setprofile(None)
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    assert f"`Selector.select` enters {len(files)} files" in guide, sorted(files)
    assert len(files) <= MAX_FILES
