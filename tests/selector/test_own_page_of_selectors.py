"""A selector with an own page: groups, exact probabilities, the promise, files and reports."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise import Rule, Selector
from slotwise.errors import InvalidInput
from slotwise.selector.report import Report
from tests.selector.selectors import registered_policy

LINKS = ["a", "b", "c", "d", "e", "f"]
RATES = dict(zip(LINKS, (0.3, 0.25, 0.2, 0.6, 0.5, 0.1), strict=True))
OWN = ["a", "b", "c"]


def shop(**asked: Any) -> Selector[str]:
    asked = {"n_slots": 2, "own_page": OWN, "seed": 5, **asked}
    return Selector(LINKS, **asked)


def play(selector: Selector[str], n_pages: int, rates: dict[str, float], seed: int = 1) -> Any:
    """Sell at these rates; return the groups and the least revenue relative to the own page."""
    rng, groups = np.random.default_rng(seed), []
    earned, of_own, least = 0.0, 0.0, np.inf
    for _ in range(n_pages):
        page = selector.select()
        clicks = [link for link in page.shown if rng.random() < rates[link]]
        selector.update(page, clicks=clicks, revenue=dict.fromkeys(clicks, 1.0))
        groups.append(page.group)
        earned += sum(rates[link] for link in page.shown)
        of_own += rates["a"] + rates["b"]
        least = min(least, earned / of_own)
    return groups, least


def test_own_pages_are_shown_in_their_order_and_with_the_share_asked_for() -> None:
    selector = shop(holdout=0.5)
    pages = [selector.select() for _ in range(400)]
    own = [page for page in pages if page.group == "own"]
    assert {page.shown for page in own} == {("a", "b")}
    # 400 fair coins: further than 100 from 200 with a probability below 1e-22
    assert 100 < len(own) < 300


@pytest.mark.parametrize("slot_weights", ["equal", "learn", [1.5, 0.5]])
@pytest.mark.parametrize("rules", [(), (Rule("one", ["a", "b"], at_most=1),)])
@pytest.mark.parametrize("policy", ["paced-bayes", "exp3-m"])
def test_probabilities_are_those_of_the_mixture(policy: str, rules: Any, slot_weights: Any) -> None:
    """Without feedback nothing changes, so many pages have the same probabilities."""
    form = registered_policy(policy, len(LINKS), 2)
    selector = shop(holdout=0.4, explore=0.3, rules=rules, slot_weights=slot_weights, policy=form)
    n_pages, counts = 800, dict.fromkeys(LINKS, 0)
    expected = dict.fromkeys(LINKS, 0.0)
    variance = dict.fromkeys(LINKS, 0.0)
    for _ in range(n_pages):
        page = selector.select()
        for link in LINKS:
            p = page.probabilities[link]
            expected[link] += p
            variance[link] += p * (1.0 - p)
        for link in page.shown:
            counts[link] += 1
    for link in LINKS:  # 6 deviations: 2e-9 a link
        assert abs(counts[link] - expected[link]) <= 6.0 * variance[link] ** 0.5 + 1e-6


LEFT: dict[str, tuple[list[str], dict[str, Any]]] = {
    "pins and exclusions": ([], {"pin": ["f"], "exclude": ["a"]}),
    "an own page that left": (["a", "b", "c"], {}),
    "a part that left": (["a"], {"exclude": ["e"]}),
}


@pytest.mark.parametrize("case", LEFT)
@pytest.mark.parametrize("rules", [(), (Rule("some", ["d", "f"], at_least=1),)])
def test_probabilities_are_exact_within_constraints(case: str, rules: Any) -> None:
    """A chi-square test over links; pages that differ only by chance are those of one mixture."""
    gone, asked = LEFT[case]
    selector = shop(holdout=0.4, explore=0.3, rules=rules, policy="uniform", slot_weights="equal")
    selector.retire(gone)
    n_pages, counts = 1_200, dict.fromkeys(selector.links, 0)
    for _ in range(n_pages):
        page = selector.select(**asked)
        for link in page.shown:
            counts[link] += 1
    expected = page.probabilities  # of every page: the uniform policy learns nothing
    assert sum(expected[link] for link in selector.links) == pytest.approx(2.0)
    squares = 0.0
    for link in selector.links:
        p = expected[link]
        if p < 1e-9 or p > 1.0 - 1e-9:
            assert counts[link] == n_pages * round(p)
        else:
            squares += (counts[link] - n_pages * p) ** 2 / (n_pages * p * (1.0 - p))
    # at most 6 squares of mean 1, with links that exclude each other: above 60 with less than 1e-8
    assert squares < 60.0


def test_the_same_visitor_gets_the_same_group_and_moves_once() -> None:
    selector = shop(keep=0.8, policy="uniform")
    better = {**RATES, "a": 0.05, "b": 0.05}
    keys = [f"visitor {k}" for k in range(100)]
    groups: dict[str, list[str]] = {key: [] for key in keys}
    shares = []
    rng = np.random.default_rng(3)
    for _ in range(40):
        promised = selector._promised
        assert promised is not None
        before = promised.share
        for key in keys:
            page = selector.select(visitor_key=key)
            clicks = [link for link in page.shown if rng.random() < better[link]]
            selector.update(page, clicks=clicks, revenue=dict.fromkeys(clicks, 1.0))
            groups[key].append(page.group)
        shares.append(before.chosen)
    assert shares[-1] > 0.9
    for key in keys:
        moves = sum(a != b for a, b in zip(groups[key], groups[key][1:], strict=False))
        assert moves <= 3
    settled = [key for key in keys if groups[key][-1] == "chosen"]
    assert len(settled) > 75


@pytest.mark.parametrize("ratio", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("keep", [0.9, 0.5])
def test_the_promise_is_kept(keep: float, ratio: float) -> None:
    rates = {link: 0.3 if link in OWN else 0.3 * ratio for link in LINKS}
    groups, least = play(shop(keep=keep, policy="uniform"), 1_500, rates)
    assert least >= keep
    assert "chosen" in groups


def test_better_pages_get_nearly_all_views() -> None:
    selector = shop(keep=0.9)
    groups, least = play(selector, 3_000, RATES)
    assert least >= 0.9
    assert groups[-500:].count("chosen") > 400
    found = selector.report().comparison
    assert found is not None
    assert found.lift is not None
    assert found.lift.low <= 1.0 <= found.lift.high  # d and e sell twice as often as a and b
    assert found.cost > 0.0


def test_worse_pages_are_reported_and_lose_their_share() -> None:
    selector = shop(keep=0.9, policy="uniform")
    rates = {link: 0.5 if link in OWN[:2] else 0.0 for link in LINKS}
    play(selector, 4_000, rates)
    found = selector.report().comparison
    assert found is not None
    assert found.is_worse
    assert found.share_chosen <= 0.2


def test_late_revenue_counts_when_it_is_settled() -> None:
    selector = shop(keep=0.5)
    pages = [selector.select() for _ in range(300)]
    found = selector.report().comparison
    assert found is not None
    assert (found.n_own, found.n_chosen) == (0, 0)
    for page in pages:
        selector.update(page, clicks=[page.shown[0]])
    assert selector.report().comparison.n_own == 0  # type: ignore[union-attr]
    for page in pages:
        selector.update(page, revenue={page.shown[0]: 0.5})
    found = selector.report().comparison
    assert found is not None
    assert found.n_own + found.n_chosen == 300
    assert found.own_revenue.estimate == pytest.approx(0.5)


def test_links_that_leave_are_skipped_and_the_policy_fills_the_page() -> None:
    selector = shop(holdout=1.0)
    selector.retire(["a"])
    assert selector.select().shown == ("b", "c")
    selector.retire(["b", "d"])
    page = selector.select()
    assert page.shown[0] == "c"
    assert len(page.shown) == 2
    selector.add_links(["a"])
    assert selector.select().shown == ("a", "c")
    assert selector.select(exclude=["a"], pin=["f"]).shown == ("c", "f")


def test_an_own_page_below_the_floor_is_reported() -> None:
    selector = shop(click_floor=0.9, holdout=0.5)
    play(selector, 2_000, {**RATES, "a": 0.1, "b": 0.1})
    found = selector.report().comparison
    assert found is not None
    assert found.own_misses_floor
    assert "the own page misses the click floor" in str(selector.report())
    assert "make up for it at the expense of revenue" in str(selector.report())


def test_a_file_goes_on_with_promise_and_evidence(tmp_path: Path) -> None:
    selector = shop(keep=0.9)
    play(selector, 700, RATES)
    open_page = selector.select()
    selector.save(tmp_path / "shop.sel")
    loaded = Selector.load(tmp_path / "shop.sel")
    assert loaded.report().comparison == selector.report().comparison
    for one in (selector, loaded):
        one.settle(open_page)
    assert play(loaded, 300, RATES) == play(selector, 300, RATES)
    assert loaded.report().comparison == selector.report().comparison


def test_visitors_keep_their_group_when_the_own_page_is_set_after_a_restart(
    tmp_path: Path,
) -> None:
    selector = Selector(LINKS, n_slots=2, seed=5)
    selector.save(tmp_path / "file")
    loaded = Selector.load(tmp_path / "file")
    for one in (selector, loaded):
        one.set_own_page(LINKS[:2], holdout=0.5)
    keys = [f"visitor {k}" for k in range(40)]  # all equal by chance: 2 ** -40
    groups = [[one.select(visitor_key=key).group for key in keys] for one in (selector, loaded)]
    assert groups[0] == groups[1]


def test_another_own_page_starts_anew_and_another_promise_does_not() -> None:
    selector = shop(keep=0.9)
    play(selector, 300, RATES)
    waiting = selector.select()
    selector.set_own_page(OWN, keep=0.8)
    assert n_views(selector.report()) == 300
    selector.set_own_page(["c", "d"], keep=0.8)
    selector.settle(waiting)  # of the former promise
    assert n_views(selector.report()) == 0
    selector.set_own_page(None)
    assert selector.report().comparison is None
    assert selector.select().group == "chosen"


def n_views(report: Report) -> int:
    found = report.comparison
    assert found is not None
    return found.n_own + found.n_chosen


def test_pages_are_the_same_without_an_own_page() -> None:
    plain, other = Selector(LINKS, 2, seed=3), Selector(LINKS, 2, seed=3)
    other.set_own_page(OWN)
    other.set_own_page(None)
    assert [plain.select().shown for _ in range(50)] == [other.select().shown for _ in range(50)]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"own_page": ["z"]}, "`own_page` must be links of the pool, got 'z'"),
        ({"keep": 1.0}, "`keep` must be a number between 0 and 1"),
        ({"own_page": None, "keep": 0.9}, "`keep` must be given with an own page"),
        ({"holdout": 0.0}, r"`holdout` must be from 0.01 to 1, got 0.0"),
    ],
)
def test_what_cannot_be_promised_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        shop(**asked)


def test_a_key_that_is_no_text_is_refused_and_nothing_changes() -> None:
    selector, other = shop(), shop()
    with pytest.raises(InvalidInput, match="visitor_key"):
        selector.select(visitor_key=7)  # type: ignore[arg-type]
    assert [selector.select().shown for _ in range(9)] == [other.select().shown for _ in range(9)]


def test_chosen_pages_can_replace_an_own_page_that_earns_nothing() -> None:
    selector = shop(keep=0.8, own_page=["e", "f"])
    play(selector, 1_500, {**dict.fromkeys(LINKS, 0.4), "e": 0.0, "f": 0.0})
    found = selector.report().comparison
    assert found is not None
    assert found.lift is None
    assert found.share_chosen > 0.5
    assert found.why.startswith("chosen pages certainly earn at least ")
    text = str(selector.report())
    assert "own page: no revenue yet to compare with" in text
    assert "there is too little evidence" not in text
