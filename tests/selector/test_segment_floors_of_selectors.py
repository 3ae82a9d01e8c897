"""Floors of segments in a selector and in simulations."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import slotwise
from slotwise.errors import InvalidInput
from slotwise.policies import PacedBayes
from slotwise.policies.paced_bayes import OF_FLOORS
from slotwise.problem import Problem
from slotwise.selector import KnownCounts, start_from_counts
from tests.unnamed_features import features_of

pytestmark = pytest.mark.compiled  # with features, as `test_slots` compiles it

LINKS = [f"link {k}" for k in range(8)]
FEATURES = {"country": str, "new": bool, "days": (1, 7)}


def selector(segment_floors: Any, **changes: Any) -> slotwise.Selector:
    wanted: dict[str, Any] = {"click_floor": 0.2, "features": FEATURES, "seed": 1, **changes}
    return slotwise.Selector(LINKS, 2, segment_floors=segment_floors, **wanted)


def play(chooser: slotwise.Selector, n_pages: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(n_pages):
        visitor = {"country": "DE" if rng.random() < 0.5 else "FR", "new": bool(rng.random() < 0.5)}
        page = chooser.select(visitor=visitor)
        clicked = [
            link for link in page.shown if rng.random() < 0.05 + 0.04 * LINKS.index(str(link))
        ]
        chooser.update(
            page, clicked, {link: 0.4 - 0.05 * LINKS.index(str(link)) for link in clicked}
        )


def test_a_segment_keeps_its_own_floor() -> None:
    # The most clicked page has 0.62 clicks, the page that earns most about 0.35. Over eight seeds
    # the clicks of DE are 0.546 with a deviation of 0.011, those of FR 0.325 with one of 0.030.
    chooser = selector({"country": {"DE": 0.55}})
    play(chooser, 1_000)
    rows = {(row.feature, row.value): row for row in chooser.report().segments}
    assert rows["country", "DE"].click_floor == 0.55
    assert rows["country", "FR"].click_floor is None
    assert rows["country", "DE"].clicks.estimate > 0.49
    assert rows["country", "FR"].clicks.estimate < 0.48
    assert "(floor 0.55)" in str(chooser.report())


def test_floors_of_segments_are_saved(tmp_path: Path) -> None:
    chooser = selector({"days": {"1 to 7": 0.1}, "country": {"DE": 0.4, "AT": 0.3}})
    play(chooser, 80)
    chooser.save(tmp_path / "selector")
    loaded = slotwise.Selector.load(tmp_path / "selector")
    assert loaded.problem == chooser.problem
    known = [one.knowledge().arrays for one in (chooser, loaded)]
    for name in OF_FLOORS:
        assert known[0][name].tolist() == known[1][name].tolist()
    for _ in range(20):
        asked = {"country": "AT"}
        assert loaded.select(visitor=asked).shown == chooser.select(visitor=asked).shown


def test_pins_leave_fewer_slots_than_the_floor_of_a_segment() -> None:
    chooser = selector({"country": {"DE": 1.2}, "new": {True: 0.0}})
    for pins in (LINKS[:1], LINKS[6:], LINKS[:1]):
        page = chooser.select(visitor={"country": "DE", "new": True}, pin=pins)
        assert set(pins) <= set(page.shown)
        assert sum(page.probabilities.values()) == pytest.approx(2.0)
        chooser.update(page, clicks=[], revenue={})
    assert chooser.problem.segment_floors == {"country": {"DE": 1.2}, "new": {True: 0.0}}


def test_counts_of_the_past_owe_segments_nothing() -> None:
    chooser = selector({"country": {"DE": 0.4}})
    counts = [KnownCounts(LINKS[0], {"country": "DE"}, 1_000, 20, 5.0)]
    start_from_counts(chooser, counts)
    known = chooser.knowledge().arrays
    assert known["owed"].tolist() == known["reserve"].tolist() == [0.0, 0.0]


def test_a_segment_that_still_has_a_floor_keeps_its_queue() -> None:
    chooser = selector({"country": {"DE": 0.55, "AT": 0.3}})
    play(chooser, 100)
    before = chooser.knowledge().arrays
    floors = {"country": {"FR": 0.2, "AT": 0.4}}
    problem = dataclasses.replace(chooser.problem, segment_floors=floors)
    player = chooser._player
    after = player.move(problem, player.pool).knowledge().arrays
    for name in ("owed", "reserve", "floor_rounds"):
        assert after[name].tolist() == [before[name][0], 0.0, before[name][2]]


@pytest.mark.parametrize(
    ("segment_floors", "message"),
    [
        (0.3, "`segment_floors` must be a mapping of features"),
        ({"country": 0.3}, "`segment_floors` must be a mapping of features"),
        (
            {"browser": {"lynx": 0.3}},
            r"`segment_floors`: `feature` must be a declared one \(country",
        ),
        ({"days": {"often": 0.3}}, "`segment_floors`: `days` must be one of its values"),
        (
            {"country": {"DE": float("nan")}},
            r"`segment_floors\['country'\]\['DE'\]` must be at least 0",
        ),
        (
            {"country": {"DE": 2.0}},
            r"`segment_floors\['country'\]\['DE'\]` must be .* below n_slots",
        ),
        ({"country": {"DE": -1}}, "must be at least 0 and below n_slots .*, got -1"),
        ({"country": {"DE": "0.3"}}, "must be at least 0"),
    ],
)
def test_mistakes_are_named(segment_floors: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        selector(segment_floors)


def test_floors_need_features_and_a_policy_that_keeps_them() -> None:
    with pytest.raises(InvalidInput, match="must be a declared one"):
        selector({"country": {"DE": 0.3}}, features=None)
    with pytest.raises(
        InvalidInput, match="`policy` must be paced-bayes, the default, where segments"
    ):
        selector({"country": {"DE": 0.3}}, policy="queue-ts")
    with pytest.raises(InvalidInput, match="`segment_floors`: `f0` must be one of its values"):
        Problem(4, 2, features=features_of((2,)), segment_floors={"f0": {"v2": 0.1}})


def test_a_word_with_a_floor_of_0_does_not_move_the_floors_of_a_saved_selector(
    tmp_path: Path,
) -> None:
    chooser = selector({"country": {"AT": 0.0, "DE": 0.4}})
    chooser.save(tmp_path / "selector")
    loaded = slotwise.Selector.load(tmp_path / "selector")
    assert loaded.problem.segment_floor_places == chooser.problem.segment_floor_places


@pytest.mark.slow
def test_simulations_keep_floors_of_segments() -> None:
    links = slotwise.SegmentLinks(
        click_rate=[[0.3, 0.05, 0.1, 0.1], [0.3, 0.05, 0.1, 0.1]],
        revenue_per_click=[[0.05, 0.9, 0.5, 0.4]] * 2,
        shares=[0.7, 0.3],
        visitors=[{"device": "phone"}, {"device": "desktop"}],
    )
    results = slotwise.simulate(
        links,
        [PacedBayes()],
        1,
        0.05,
        4_000,
        2,
        segment_floors={"device": {"desktop": 0.2}},
        n_threads=1,
    )
    totals = results.totals["paced-bayes"]
    clicks = totals["clicks:device desktop"][:, -1] / totals["rounds:device desktop"][:, -1]
    # 240 clicks of 1,200 page views are promised: 0.16 is 40 clicks or 2.6 standard deviations
    # below what a policy without a queue would bring on average
    assert clicks.min() > 0.16
    assert results.config["optimum"]["value_prices"][0] > 0.0
    with pytest.raises(InvalidInput, match="`segment_floors`: `device` must be one of its values"):
        slotwise.simulate(links, [PacedBayes()], 1, segment_floors={"device": {"fridge": 0.2}})
