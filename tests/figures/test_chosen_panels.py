"""Figures of chosen panels: widths, titles, logarithmic axes and PDF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from IPython.core.formatters import PNGFormatter
from matplotlib.figure import Figure

from slotwise.errors import InvalidInput
from slotwise.figures import Layout, draw_panels, draw_results
from slotwise.figures.chosen_panels import AXES, WIDTHS
from tests.simulation.synthetic import make_results


def test_there_is_a_panel_for_each_metric() -> None:
    figure = draw_panels(make_results(n_runs=2), ["clicks", "regret", "deficit"])
    titles = [axes.texts[0].get_text() for axes in figure.axes]
    assert titles == ["Clicks", "Cumulative regret", "Deficit"]


def test_without_metrics_regret_and_shortfall_are_drawn() -> None:
    figure = make_results(n_runs=2).plot()
    assert [axes.texts[0].get_text() for axes in figure.axes] == ["Cumulative regret", "Shortfall"]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_figure_is_as_wide_as_asked_and_panels_stay_inside(width: str) -> None:
    figure = draw_panels(make_results(n_runs=2), ["regret"] * 5, Layout("Title", width))
    assert figure.get_size_inches()[0] == WIDTHS[width]
    for axes in figure.axes:
        box = axes.get_position()
        assert 0 < box.x0 < box.x1 < 1
        assert 0 < box.y0 < box.y1 < 1
    assert [text.get_text() for text in figure.texts] == ["Title"]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_title_is_the_experiments_and_fits(width: str) -> None:
    titled = {"experiment": "Figure 2: Ad-Clicks with a floor that binds"}
    results = make_results(n_runs=2, changes=titled)
    figure = draw_panels(results, ["regret"], Layout(width=width))
    [title] = [text for text in figure.texts if "Figure 2" in text.get_text()]
    assert title.get_window_extent().x1 <= figure.bbox.x1
    assert draw_panels(results, ["regret"], Layout("", width)).texts == []


@pytest.mark.parametrize("log", AXES)
def test_axes_are_logarithmic_as_asked(log: str) -> None:
    (axes,) = make_results(n_runs=2).plot("violation", log=log).axes
    assert axes.get_xscale() == ("log" if log in ("x", "both") else "linear")
    assert axes.get_yscale() == ("symlog" if log in ("y", "both") else "linear")


def test_labels_stand_where_lines_end_on_logarithmic_axes() -> None:
    results = make_results(("lexp", "oracle"), n_runs=2)
    (axes,) = results.plot("violation", log="y").axes
    end = results.curve("lexp", "violation").mean[-1]
    pixel = axes.transData.transform((0.0, end))[1]
    box = axes.get_window_extent()
    share = (pixel - box.y0) / box.height
    leader = next(line for line in axes.lines if line.get_transform() == axes.transAxes)
    assert leader.get_ydata()[0] == pytest.approx(share)  # type: ignore[index]


@pytest.mark.parametrize("width", WIDTHS)
def test_labels_stay_inside_the_figure(width: str) -> None:
    results = make_results(("con-ucb/72", "a-policy-of-a-long-name", "oracle"), n_runs=2)
    figure = draw_panels(results, ["regret", "shortfall"], Layout(width=width))
    right = figure.get_size_inches()[0] * figure.dpi
    for axes in figure.axes:
        assert axes.get_window_extent().width > 1 * figure.dpi
        assert max(text.get_window_extent().x1 for text in axes.texts) < right


def test_a_pdf_is_the_same_every_time(tmp_path: Path) -> None:
    results = make_results(n_runs=2)
    written = []
    for name in ("one", "two"):
        (path,) = draw_results(results, tmp_path, name, ["pdf"], panels=["regret"])
        written.append(path.read_bytes())
    assert written[0].startswith(b"%PDF")
    assert written[0] == written[1]
    assert b"/Subtype /Type42" in written[0] or b"/FontFile2" in written[0]
    assert b"/Type3" not in written[0]


def test_panels_fill_most_of_a_column() -> None:
    figure = draw_panels(make_results(n_runs=2), ["regret", "shortfall"], Layout(width="column"))
    plots = sum(axes.get_position().height for axes in figure.axes)
    assert plots > 0.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": "narrow"}, "`width` must be one of column, text, wide, got 'narrow'"),
        ({"log": "z"}, "`log` must be one of none, x, y, both, got 'z'"),
    ],
)
def test_a_wrong_layout_is_named(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Layout(**arguments)


def test_an_unknown_panel_is_named_with_those_that_exist() -> None:
    with pytest.raises(
        InvalidInput, match=r"`panels` must be one of regret, violation, .* got 'joy'"
    ):
        draw_panels(make_results(n_runs=2), ["joy"])


def test_a_notebook_shows_the_picture_once_even_with_its_own_formatter() -> None:
    formatter: Any = PNGFormatter()
    figure = make_results(n_runs=2).plot()
    assert formatter(figure).startswith(b"\x89PNG")
    formatter.for_type(Figure, lambda _: b"of pyplot")  # what the inline backend does
    assert formatter(figure) == b"of pyplot"
