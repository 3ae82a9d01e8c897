"""The figure of visitors that differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import slotwise
from slotwise.figures import draw_results
from slotwise.figures.segment_figure import draw_segments, knows_segments
from slotwise.policies import PacedBayes, Uniform
from slotwise.simulation.results import Results
from tests.simulation.synthetic import make_results


@pytest.fixture(scope="module")
def results() -> Results:
    links = slotwise.SegmentLinks(
        click_rate=[[0.4, 0.1, 0.1], [0.1, 0.4, 0.1]],
        revenue_per_click=[[0.5] * 3] * 2,
        shares=[0.75, 0.25],
        visitors=[{"device": "phone"}, {"device": "desktop"}],
    )
    return slotwise.simulate(
        links, [PacedBayes(), Uniform()], 1, n_rounds=400, n_runs=2, n_threads=1
    )


def test_what_the_best_mixes_bring_to_whom_is_kept(results: Results) -> None:
    by_value = results.config["optimum"]["by_value"]
    assert by_value["device phone"] == pytest.approx([0.2, 0.2])
    assert by_value["device desktop"] == pytest.approx([0.2, 0.05])


def test_there_is_a_row_for_each_value_and_a_series_for_each_policy(results: Results) -> None:
    figure = draw_segments(results)
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "device phone",
        "device desktop",
    ]
    (marks,) = [line for line in axes.lines if line.get_label() == "best, knows visitors"]
    assert np.asarray(marks.get_xdata()).tolist() == pytest.approx([0.0, 300.0])
    assert np.asarray(marks.get_ydata()).tolist() == [0, 1]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(texts) == 3
    assert "best, knows visitors" in texts


def test_it_is_drawn_beside_the_usual_figure(results: Results, tmp_path: Path) -> None:
    written = draw_results(results, tmp_path, "shop", ["svg"])
    assert [path.name for path in written] == ["shop.svg", "shop-segments.svg"]
    assert "Segments" in written[1].read_text()


def test_results_without_visitors_have_no_such_figure() -> None:
    assert not knows_segments(make_results(n_runs=2))
