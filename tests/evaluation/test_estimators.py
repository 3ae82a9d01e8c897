"""Each estimator equals its naive twin; for one slot it is the textbook's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.evaluation import Evaluation, EvaluationSettings, LinkMix, evaluate
from slotwise.evaluation.link_tallies import shrunk_rates
from tests.evaluation.logs import as_file, random_log
from tests.reference import evaluation as twin

MIX = {"link-0": 0.2, "link-1": 1.0, "link-3": 0.5, "link-5": 0.3}
BOUNDARIES = [100, 125, 156, 195, 243, 303, 378]  # 100, then a quarter more each time


def pages(columns: dict[str, list[Any]]) -> list[list[twin.Row]]:
    names = list(columns)
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return twin.pages_of(rows)


def both(answer: Evaluation) -> dict[str, float]:
    return {"clicked": answer.clicks.value, "revenue": answer.revenue.value}


@pytest.mark.parametrize("level", ["clicked", "revenue"])
def test_inverse_propensity_equals_its_twin(level: str) -> None:
    log = random_log()
    answer = both(evaluate([as_file(log)], LinkMix.of(MIX), EvaluationSettings("ips")))
    assert answer[level] == pytest.approx(twin.ips(pages(log), MIX, level), rel=1e-12)


@pytest.mark.parametrize("level", ["clicked", "revenue"])
def test_self_normalised_equals_its_twin(level: str) -> None:
    log = random_log()
    answer = both(evaluate([as_file(log)], LinkMix.of(MIX), EvaluationSettings("sn")))
    assert answer[level] == pytest.approx(twin.self_normalised(pages(log), MIX, level), rel=1e-12)


@pytest.mark.parametrize("level", ["clicked", "revenue"])
def test_clipped_equals_its_twin(level: str) -> None:
    log = random_log()
    answer = both(
        evaluate([as_file(log)], LinkMix.of(MIX), EvaluationSettings("clipped", clip=1.5))
    )
    expected = twin.clipped(pages(log), MIX, level, 1.5)
    assert answer[level] == pytest.approx(expected, rel=1e-12)
    assert expected < twin.ips(pages(log), MIX, level)


@pytest.mark.parametrize("level", ["clicked", "revenue"])
def test_doubly_robust_equals_its_twin(level: str) -> None:
    log = random_log()
    by_page = pages(log)

    def model(number: int) -> dict[str, float]:
        known = max((end for end in BOUNDARIES if end <= number), default=0)
        links = [f"link-{i}" for i in range(6)]
        views, sums = np.zeros(6), np.zeros(6)
        for page in by_page[:known]:
            for row in page:
                views[links.index(row["link"])] += 1
                sums[links.index(row["link"])] += row[level]
        if not known:
            return {}
        return dict(zip(links, shrunk_rates(sums[None, :], views)[0].tolist(), strict=True))

    answer = both(evaluate([as_file(log)], LinkMix.of(MIX)))
    assert answer[level] == pytest.approx(twin.doubly_robust(by_page, MIX, level, model), rel=1e-9)


def test_diagnostics_equal_their_twins() -> None:
    log = random_log()
    answer = evaluate([as_file(log)], LinkMix.of(MIX))
    by_page = pages(log)
    expected = twin.effective_sample_size(by_page, MIX)
    assert answer.effective_sample_size == pytest.approx(expected, rel=1e-12)
    largest = max(twin.weight(MIX, row) for page in by_page for row in page)
    assert answer.max_weight == pytest.approx(largest, rel=1e-12)


def test_one_slot_is_the_textbook_formula() -> None:
    log = random_log(n_slots=1)
    chances = {"link-2": 0.7, "link-4": 0.3}
    links, logged = np.array(log["link"]), np.array(log["probability"])
    wanted = np.array([chances.get(link, 0.0) for link in links.tolist()])
    expected = np.mean(wanted / logged * np.array(log["revenue"]))
    answer = evaluate([as_file(log)], LinkMix.of(chances), EvaluationSettings("ips"))
    assert answer.revenue.value == pytest.approx(float(expected), rel=1e-12)


def test_shrinking_keeps_differences_that_the_data_show() -> None:
    sums, views = np.array([[9000.0, 1000.0]]), np.array([10_000.0, 10_000.0])
    assert shrunk_rates(sums, views)[0] == pytest.approx([0.9, 0.1], abs=1e-3)
    noise = shrunk_rates(np.array([[51.0, 49.0]]), np.array([100.0, 100.0]))[0]
    assert noise == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"estimator": "magic"}, "`estimator` must be one of dr, ips, sn, clipped, got 'magic'"),
        ({"confidence": 1.0}, "`confidence` must be between 0 and 1, got 1.0"),
        ({"clip": 0}, "`clip` must be a positive finite number, got 0"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        EvaluationSettings(**settings)
