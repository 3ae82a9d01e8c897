"""The figure of own pages: what it draws, and when it is drawn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise import BernoulliLinks
from slotwise.figures.own_page_figure import draw_own_pages, has_own_pages
from slotwise.figures.result_figures import draw_results
from slotwise.simulation import simulate
from slotwise.simulation.results import Results


def played(**asked: Any) -> Results:
    links = BernoulliLinks([0.5, 0.4, 0.6], [1.0, 1.0, 1.0])
    return simulate(links, "uniform", 1, n_rounds=400, n_runs=2, n_threads=1, **asked)


def test_revenue_is_drawn_relative_to_the_own_page_with_the_promise(tmp_path: Path) -> None:
    results = played(own_page=[1], keep=0.9)
    assert has_own_pages(results)
    (axes,) = draw_own_pages(results).axes
    lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axes.get_lines()}
    assert lines["promised: 90%"] == pytest.approx(0.9)
    earned = results.totals["uniform"]["reward"][:, -1].mean()
    (curve,) = [one for label, one in lines.items() if label.lower().startswith("uniform")]
    assert curve[-1] == pytest.approx(earned / (0.4 * 400))
    names = [path.name for path in draw_results(results, tmp_path, "own", ["svg"])]
    assert names == ["own.svg", "own-own-page.svg"]


def test_results_without_an_own_page_have_no_such_figure() -> None:
    assert not has_own_pages(played())
