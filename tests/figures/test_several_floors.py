"""Figures of experiments with several floors, and of the price of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from slotwise.cli.experiments import finals_table
from slotwise.figures import (
    FrontierPicture,
    draw_frontier,
    draw_results,
    draw_several_floors,
    has_several_floors,
)
from slotwise.figures.setting import Setting
from slotwise.selection import frontier
from slotwise.simulation.results import Results
from tests.simulation.synthetic import make_results

OPTIMUM = {
    "value": 0.5,
    "clicks": 4.0,
    "shadow_price": 0.1,
    "status": "binding",
    "attainable_clicks": 7.0,
    "amounts": {"click": 4.0, "cart": 1.2, "cart/click": 0.3},
    "shadow_prices": {"click": 0.1, "cart": 0.0, "cart/click": 0.25},
    "largest_shortfall": 0.0,
}


def with_floors(**optimum: Any) -> Results:
    plain = make_results(n_runs=3, n_checkpoints=20)
    config = {
        **plain.config,
        "levels": ["click", "cart", "purchase"],
        "floors": {"click": 4.0, "cart": 1.0},
        "rate_floors": {"cart": 0.2},
        "optimum": {**OPTIMUM, **optimum},
    }
    totals = {}
    for label, quantities in plain.totals.items():
        own = dict(quantities)
        for name in ("click", "cart", "cart/click"):
            own[f"total:{name}"] = quantities["clicks"] - 3.0 * plain.rounds
            own[f"violation:{name}"] = quantities["violation"]
            own[f"deficit:{name}"] = quantities["deficit"]
        own["total:purchase"] = quantities["reward"]
        totals[label] = own
    return Results(config, plain.rounds, totals)


def words(figure: Figure) -> str:
    texts: list[Any] = figure.findobj(Text)
    return "\n".join(text.get_text() for text in texts)


def test_each_floor_has_its_panels() -> None:
    results = with_floors()
    assert has_several_floors(results)
    assert not has_several_floors(make_results(n_runs=2))
    figure = draw_several_floors(results)
    said = words(figure)
    for name in ("click", "cart", "cart/click"):
        assert f"Violation: {name}\n" in said
        assert f"Shortfall: {name}\n" in said
    assert "cart below 0.2 of click, summed over rounds" in said
    assert (
        "floors click 4, cart 1, cart/click 0.2, binding: click at 0.1, cart/click at 0.25" in said
    )
    assert len(figure.axes) == 2 + 1 + 6


@pytest.mark.parametrize(
    ("optimum", "sentence"),
    [
        ({"status": "slack"}, "slack: the best page keeps them"),
        (
            {"status": "infeasible", "largest_shortfall": 0.0852},
            "infeasible: 8.52 % is the largest relative shortfall",
        ),
    ],
)
def test_the_title_says_whether_floors_cost(optimum: dict[str, Any], sentence: str) -> None:
    assert sentence in Setting.of(with_floors(**optimum)).floor_sentence


def test_draw_results_finds_the_figure(tmp_path: Path) -> None:
    (first,) = draw_results(with_floors(), tmp_path, "shop", ["svg"])
    (second,) = draw_results(with_floors(), tmp_path, "again", ["svg"])
    assert first.read_bytes() == second.read_bytes()


def test_the_table_has_a_column_a_floor() -> None:
    table = finals_table(with_floors())
    headings = [column.header for column in table.columns]
    assert headings == [
        "policy",
        "regret",
        "shortfall:click",
        "shortfall:cart",
        "shortfall:cart/click",
        "reward",
    ]


CURVE = frontier(value=[0.9, 0.6, 0.1], clicks=[0.1, 0.5, 0.9], n_slots=1)


def test_the_price_of_a_floor_is_marked() -> None:
    figure = draw_frontier(FrontierPicture("Links", "three links", CURVE, floor=0.3))
    said = words(figure)
    assert "floor 0.3: 0.75" in said
    revenue, price = figure.axes
    heights = [np.asarray(line.get_ydata(), np.float64).tolist() for line in revenue.lines]
    assert [0.9, 0.9, 0.6, 0.1] in heights
    assert price.get_ylim()[1] == pytest.approx(1.06 * 1.25)


def test_a_floor_out_of_reach_is_marked_so() -> None:
    said = words(draw_frontier(FrontierPicture("Links", "", CURVE, floor=1.2)))
    assert said.count("floor 1.2: infeasible") == 2


def test_a_band_and_worthless_links_can_be_drawn() -> None:
    low = frontier([0.5, 0.3, 0.0], [0.1, 0.3, 0.7], 1)
    high = frontier([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], 1)
    said = words(draw_frontier(FrontierPicture("Links", "", CURVE, band=(low, high))))
    assert "shaded: 95 % band" in said
    nothing = frontier([0.0, 0.0], [0.0, 0.0], 1)
    draw_frontier(FrontierPicture("Nothing", "", nothing, floor=0.5))
