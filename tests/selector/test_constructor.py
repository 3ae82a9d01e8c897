"""A selector refuses at once what could not work later."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from slotwise import ConUCB, PacedBayes, Selector, Uniform
from slotwise.errors import InvalidInput, UnknownName
from tests.selector.selectors import new_selector, play

NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_slots": 0}, "`n_slots` must be at least 1, got 0"),
        ({"n_slots": 6}, r"`n_slots` must be at most the number of links \(5\), got 6"),
        ({"n_slots": 2.5}, "`n_slots` must be a whole number, got 2.5"),
        ({"n_slots": "3"}, "`n_slots` must be a whole number, got '3'"),
        ({"n_slots": True}, "`n_slots` must be a whole number, got True"),
        ({"click_floor": -0.1}, r"`click_floor` must be .* below n_slots \(2\), got -0.1"),
        ({"click_floor": 2.0}, r"`click_floor` must be .* below n_slots \(2\), got 2.0"),
        ({"click_floor": NAN}, r"`click_floor` must be .* below n_slots \(2\), got nan"),
        ({"click_floor": "0.3"}, r"`click_floor` must be .* below n_slots \(2\), got '0.3'"),
        ({"max_revenue": 0}, "`max_revenue` must be a positive finite number, got 0"),
        ({"max_revenue": -2.0}, "`max_revenue` must be a positive finite number, got -2.0"),
        ({"max_revenue": NAN}, "`max_revenue` must be a positive finite number, got nan"),
        ({"max_revenue": INFINITE}, "`max_revenue` must be a positive finite number, got inf"),
        ({"max_revenue": "50"}, "`max_revenue` must be a positive finite number, got '50'"),
        ({"links": []}, r"`links` must be at least one link, got \[\]"),
        ({"links": "blog"}, r"`links` must be a collection of links, got 'blog'; write \['blog'\]"),
        ({"links": ["a", "b", "a"]}, "`links` must be different from each other, got 'a'"),
        ({"links": [1, 2, 1.0]}, "`links` must be different from each other, got 1"),
        ({"links": [["a"], ["b"]]}, "`links` must be a collection of hashable links"),
        ({"links": 5}, "`links` must be a collection of hashable links, got 5"),
        ({"max_open_pages": 0}, "`max_open_pages` must be at least 1, got 0"),
        ({"max_open_pages": 1e6}, "`max_open_pages` must be a whole number, got 1000000.0"),
        ({"seed": -1}, "`seed` must be at least 0, got -1"),
        ({"seed": "lucky"}, "`seed` must be a whole number, got 'lucky'"),
        ({"policy": ConUCB}, "`policy` must be a policy with its settings, such as .*, got <class"),
        ({"policy": "con-ucb"}, "`horizon` must be a whole number of rounds, got None"),
        ({"horizon": 0}, "`horizon` must be at least 1, got 0"),
        ({"levels": ("click", "page")}, "`levels` must be other names than self, page, .*'page'"),
        ({"levels": "click"}, "`levels` must be the names of one level or more, got 'click'"),
        ({"floors": {"cart": 0.2}}, r"`floors` must be by level \(click, revenue\), got 'cart'"),
        ({"policy": ConUCB()}, "`horizon` must be a whole number of rounds, got None"),
    ],
)
def test_a_broken_rule_is_named_with_its_value(settings: dict[str, Any], message: str) -> None:
    fitting: dict[str, Any] = {"links": ["a", "b", "c", "d", "e"], "n_slots": 2}
    with pytest.raises(InvalidInput, match=message):
        Selector(**{**fitting, "policy": Uniform(), **settings})


def test_links_may_come_from_any_iterable_and_keep_their_order() -> None:
    selector = Selector((f"link-{i}" for i in range(3)), 1, policy=Uniform())
    assert selector.links == ("link-0", "link-1", "link-2")
    assert Selector({"b": 1, "a": 2}, 1, policy=Uniform()).links == ("b", "a")


def test_numbers_of_numpy_are_numbers() -> None:
    selector = new_selector(
        n_slots=np.int64(2),
        click_floor=np.float32(0.5),
        max_revenue=np.float64(2),
        seed=np.uint8(7),
    )
    assert type(selector.problem.n_slots) is int
    assert play(selector, 5) == play(new_selector(click_floor=0.5, max_revenue=2), 5)


@pytest.mark.parametrize(("n_links", "n_slots"), [(1, 1), (4, 4)])
def test_a_pool_without_a_choice_is_shown_whole(n_links: int, n_slots: int) -> None:
    selector = Selector(range(n_links), n_slots, policy=ConUCB(horizon=10), seed=1)
    assert set(selector.select().shown) == set(range(n_links))


def test_without_a_seed_selectors_differ() -> None:
    first, second = (new_selector(policy=Uniform(), seed=None) for _ in range(2))
    # 30 pages of 10 equally likely pairs agree by accident once in 10^30
    assert play(first, 30) != play(second, 30)


def test_a_policy_may_be_given_by_its_name() -> None:
    selector = Selector(["a", "b", "c"], 1, policy="con-ucb", horizon=500, seed=1)
    assert selector.policy == ConUCB()
    assert selector.problem.horizon == 500
    with pytest.raises(UnknownName, match="no policy is called 'con-ubc'; did you mean"):
        Selector(["a", "b", "c"], 1, policy="con-ubc")


def test_a_selector_says_what_it_is() -> None:
    selector = new_selector("cucb")
    play(selector, 3)
    selector.select()
    asked = "n_links=5, n_slots=2, click_floor=0.3"
    assert repr(selector) == f"<Selector {asked}, policy='cucb': 4 pages, 1 open>"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"segment_floor": {}}, "no argument `segment_floor`; did you mean `segment_floors`?"),
        ({"click_flor": 0.3}, "did you mean `click_floor`?"),
        ({"xyz": 1}, "`Selector` has no argument `xyz`; known are links, n_slots, policy"),
    ],
)
def test_an_argument_that_is_not_there_is_answered_with_the_likely_one(
    wrong: Any, message: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        Selector(["a", "b"], 1, **wrong)


def test_slots_without_their_name_are_asked_for() -> None:
    anything: Any = Selector
    with pytest.raises(TypeError, match="no argument `slots`; did you mean `n_slots`"):
        anything(["a", "b"], slots=1)


def test_the_default_uses_a_horizon_that_is_given() -> None:
    links = ["a", "b", "c"]
    assert Selector(links, n_slots=2, horizon=2_000).policy == PacedBayes(horizon=2_000)
    assert Selector(links, n_slots=2).policy == PacedBayes()
    assert Selector(links, n_slots=2, policy=Uniform(), horizon=2_000).policy == Uniform()
