"""What an evaluation admits: links never shown, rare ones, wrong logs, pools that change."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.evaluation import (
    BestMix,
    EvaluationSettings,
    LinkMix,
    evaluate,
    evaluate_all,
    frontier_of_log,
)
from tests.evaluation.logs import as_file, random_log

pytestmark = pytest.mark.compiled  # many pages: interpreted they take eight times as long


def one_slot_log(
    links: list[str], chances: list[float], clicked: list[bool], **more: list[Any]
) -> dict[str, list[Any]]:
    n_pages = len(links)
    return {
        "page_id": list(range(n_pages)),
        "time_us": list(range(n_pages)),
        "slot": [1] * n_pages,
        "link": links,
        "probability": chances,
        "clicked": clicked,
        "revenue": [float(one) for one in clicked],
        **more,
    }


def test_a_link_never_shown_widens_the_interval_by_all_it_may_bring() -> None:
    log = random_log(n_pages=3000)
    known = evaluate([as_file(log)], LinkMix.of({"link-0": 1.0, "link-1": 1.0}))
    partly = evaluate([as_file(log)], LinkMix.of({"link-0": 1.0, "link-1": 0.7, "other": 0.3}))
    assert known.uncovered == 0
    assert partly.uncovered == pytest.approx(0.15)
    assert partly.clicks.high > partly.clicks.value + 0.3
    assert partly.clicks.low < partly.clicks.value


def test_a_log_without_exploration_covers_only_what_it_showed() -> None:
    """Probabilities of 1, as an old log of a policy that has settled; b is never tried."""
    n_pages = 2000
    clicked = (np.random.default_rng(1).random(n_pages) < 0.3).tolist()
    log = one_slot_log(["a"] * n_pages, [1.0] * n_pages, clicked)
    answer = evaluate([as_file(log)], LinkMix.of({"a": 0.5, "b": 0.5}))
    assert answer.uncovered == pytest.approx(0.5)
    assert answer.notes == ("The log never shows 'b'.",)
    assert answer.clicks.low <= 0.15
    assert answer.clicks.high >= 0.65
    assert "could not show 50% of this candidate's page" in answer.cannot_tell


def test_pages_that_could_not_show_a_link_are_counted_as_uncovered() -> None:
    """Link b had a chance of one half on the first half of the pages and none on the second."""
    rng = np.random.default_rng(2)
    n_pages = 4000
    links = ["b" if rng.random() < 0.5 and t < 2000 else "a" for t in range(n_pages)]
    chances = [0.5 if t < 2000 else 1.0 for t in range(n_pages)]
    clicked = (rng.random(n_pages) < 0.3).tolist()
    answer = evaluate([as_file(one_slot_log(links, chances, clicked))], LinkMix.of({"b": 1.0}))
    # binomial with standard error 0.011
    assert answer.uncovered == pytest.approx(0.5, abs=0.06)
    assert answer.clicks.high >= 0.6


def test_a_rare_link_is_admitted() -> None:
    """Two views of probability 1e-6 carry all the weight: the log is worth two page views."""
    rng = np.random.default_rng(3)
    n_pages = 10_000
    links = ["a"] * n_pages
    chances = [0.9] * n_pages
    links[100] = links[5000] = "b"
    chances[100] = chances[5000] = 1e-6
    clicked = (rng.random(n_pages) < 0.05).tolist()
    answer = evaluate([as_file(one_slot_log(links, chances, clicked))], LinkMix.of({"b": 1.0}))
    assert answer.effective_sample_size == pytest.approx(2.0)
    assert answer.max_weight == pytest.approx(1e6)
    assert answer.cannot_tell == "The log cannot tell: it is worth 2 page views of this candidate."
    assert (answer.clicks.low, answer.clicks.high >= 1.0) == (0.0, True)


def test_probabilities_that_did_not_choose_the_pages_are_noticed() -> None:
    log = random_log(n_pages=3000)
    log["min_probability"] = [0.2] * len(log["link"])
    log["probability"] = [0.2] * len(log["link"])
    answer = evaluate([as_file(log)], LinkMix.of({"link-0": 1.0, "link-1": 1.0}))
    assert "are not those that chose its pages" in answer.notes[0]
    assert evaluate(
        [as_file(random_log(n_pages=3000))], LinkMix.of({"link-0": 1.0, "a": 1.0})
    ).notes == ("The log never shows 'a'.",)


def test_a_link_that_left_the_pool_may_have_brought_anything() -> None:
    """Link b leaves after half of the log, which only `pool_changes` tells."""
    rng = np.random.default_rng(4)
    n_pages = 8000
    half = n_pages // 2
    links = rng.choice(["a", "b", "c"], n_pages)
    links[half:] = rng.choice(["a", "c"], half)
    chances = [1 / 3] * half + [1 / 2] * half
    clicked = (rng.random(n_pages) < 0.5).tolist()
    more: dict[str, list[Any]] = {
        "min_probability": chances,
        "pool_changes": [0] * half + [1] * half,
    }
    log = one_slot_log(links.tolist(), chances, clicked, **more)
    answer = evaluate([as_file(log)], LinkMix.of({"b": 1.0}))
    # on the second half anything between 0 and 1 is possible
    assert answer.clicks.low <= 0.25
    assert answer.clicks.high >= 0.75
    kept = evaluate([as_file(log)], LinkMix.of({"a": 1.0}))
    assert kept.clicks.high - kept.clicks.low < 0.2


def test_the_smallest_probability_makes_the_interval_narrower() -> None:
    log = random_log(n_pages=5000)
    mix = LinkMix.of({"link-0": 1.0, "link-1": 1.0})
    told = evaluate([as_file(log)], mix)
    del log["min_probability"]
    untold = evaluate([as_file(log)], mix)
    assert told.revenue.high < untold.revenue.high
    assert told.revenue.value == untold.revenue.value


def test_the_floor_is_kept_missed_or_open() -> None:
    log = [as_file(random_log(n_pages=5000))]
    assert evaluate(log, BestMix(0.2)).floor_is_kept is True
    log[0].seek(0)
    assert evaluate(log, BestMix(1.99)).floor_is_kept is False
    log[0].seek(0)
    mix = LinkMix.of({"link-0": 1.0, "link-1": 1.0})
    without = evaluate(log, mix)
    assert (without.floor_is_kept, without.click_floor) == (None, None)
    log[0].seek(0)
    assert (
        evaluate(log, mix, EvaluationSettings(click_floor=without.clicks.value)).floor_is_kept
        is None
    )
    log[0].seek(0)
    assert (
        evaluate(log, mix, EvaluationSettings(click_floor=without.clicks.low)).floor_is_kept is True
    )


def test_candidates_in_one_pass_equal_candidates_alone() -> None:
    log = random_log()
    mixes = {
        "one": LinkMix.of({"link-0": 1.0, "link-1": 1.0}),
        "two": LinkMix.of({"link-2": 1.0, "link-3": 1.0}),
    }
    together = evaluate_all([as_file(log)], mixes)
    for name, mix in mixes.items():
        alone = evaluate_all([as_file(log)], {name: mix})[name]
        assert together[name] == alone
    with pytest.raises(InvalidInput, match="at least one candidate"):
        evaluate_all([as_file(log)], {})


def test_answers_are_plain_values_and_frames() -> None:
    answer = evaluate([as_file(random_log())], BestMix(0.5))
    plain = answer.as_dict()
    assert set(plain["revenue"]) == {"value", "low", "high"}
    assert {"effective_sample_size", "max_weight", "uncovered", "clicks"} <= set(plain)
    frame = answer.frame()
    assert frame["level"].to_list() == ["revenue", "clicks"]
    assert frame["low"].to_list() == [answer.revenue.low, answer.clicks.low]


def test_a_log_too_short_to_fit_is_refused() -> None:
    log = {name: column[:2] for name, column in random_log().items()}
    with pytest.raises(InvalidInput, match="more than 100 settled pages, to fit the best mix"):
        evaluate([as_file(log)], BestMix(0.5))


def joined(*logs: dict[str, list[Any]]) -> list[io.BytesIO]:
    """One log with the pages of all of them in turn."""
    rows = [
        (time, number, *(log[name][row] for name in log if name not in ("page_id", "time_us")))
        for number, log in enumerate(logs)
        for row, time in enumerate(log["time_us"])
    ]
    rows.sort(key=lambda row: row[:2])
    times, numbers, *columns = (list(column) for column in zip(*rows, strict=True))
    names = [name for name in logs[0] if name not in ("page_id", "time_us")]
    ids = [f"{time} {number}" for time, number in zip(times, numbers, strict=True)]
    return [as_file({"page_id": ids, "time_us": times} | dict(zip(names, columns, strict=True)))]


def test_one_large_page_changes_no_answer() -> None:
    small, large = random_log(n_pages=3000), random_log(n_pages=1, n_slots=6)
    large["probability"] = large["min_probability"] = [1.0] * 6
    alone = evaluate([as_file(small)], BestMix(1.2))
    together = evaluate(joined(small, large), BestMix(1.2))
    assert together.clicks.value == pytest.approx(alone.clicks.value, rel=0.01)
    assert together.revenue.value == pytest.approx(alone.revenue.value, rel=0.01)
    assert together.floor_is_kept == alone.floor_is_kept
    assert not [note for note in alone.notes if "links" in note]
    (note,) = together.notes
    assert note.startswith("The pages of the log have 2 to 6 links, 99.97 % of them 2.")
    assert note.endswith("Each page is evaluated with as many as it has.")


def test_each_page_is_evaluated_at_its_own_size() -> None:
    """Pages of 2 and of 4 links in turn: without a floor, each size earns what it does alone."""
    sizes = [random_log(n_pages=2000, n_slots=n_slots) for n_slots in (2, 4)]
    alone = [evaluate([as_file(log)], BestMix(0.0)) for log in sizes]
    together = evaluate(joined(*sizes), BestMix(0.0))
    for level in ("revenue", "clicks"):
        mean = sum(getattr(answer, level).value for answer in alone) / 2
        assert getattr(together, level).value == pytest.approx(mean, rel=0.03)
    assert sum(together.mix.values()) == pytest.approx(3.0)
    of_two = evaluate(joined(*sizes), BestMix(0.0, n_slots=2))
    assert sum(of_two.mix.values()) == pytest.approx(2.0)
    assert of_two.clicks.value == pytest.approx(alone[0].clicks.value, rel=0.03)
    assert of_two.notes[-1].endswith("Each page is evaluated with 2.")


def test_the_frontier_of_pages_of_two_sizes_ends_where_their_clicks_do(tmp_path: Path) -> None:
    sizes = [random_log(n_pages=1500, n_slots=n_slots) for n_slots in (2, 4)]
    path = tmp_path / "log.parquet"
    path.write_bytes(joined(*sizes)[0].getvalue())
    curve = frontier_of_log(path)
    assert curve.points[-1].clicks.value == pytest.approx(curve.floors[-1], rel=0.05)


def test_an_order_that_the_policy_chose_is_noted() -> None:
    log = random_log()
    mix = LinkMix.of({"link-0": 1.0, "link-1": 1.0})
    for is_random, n_notes in ((True, 0), (False, 1)):
        log["random_order"] = [is_random] * len(log["link"])
        notes = evaluate([as_file(log)], mix).notes
        assert sum("chose the order" in note for note in notes) == n_notes
