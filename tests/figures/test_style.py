"""Colours, names and numbers of the figures."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from matplotlib.figure import Figure

from slotwise.figures import style
from slotwise.figures.canvas import dark_rules, house_style, save_figure, themed_colours, themed_svg
from slotwise.figures.style import (
    BASELINES,
    FLOORLESS,
    KNOWN,
    PAPER,
    SUBJECT,
    display_name,
    measured,
    readable,
    spread,
    strokes,
)
from slotwise.policies import POLICIES


def test_well_known_labels_never_change_their_stroke() -> None:
    look = strokes(["zz", *KNOWN, "aa"])
    for label, known in KNOWN.items():
        assert look[label] == known.stroke


def test_every_label_of_a_figure_has_its_own_stroke() -> None:
    labels = [*KNOWN, *(f"policy {number}" for number in range(15))]
    assert len(set(strokes(labels).values())) == len(labels)


def test_the_order_of_labels_does_not_change_a_stroke() -> None:
    labels = [f"policy {number}" for number in range(12)]
    assert strokes(labels) == strokes(labels[::-1])


def test_more_labels_than_strokes_still_get_one() -> None:
    assert len(strokes([f"policy {number}" for number in range(100)])) == 100


def test_long_names_are_cut() -> None:
    assert display_name("x" * 50, longest=10) == "x" * 9 + "…"
    assert display_name("con-ucb/wide") == "con-ucb/wide"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999.4, "999"),
        (999.6, "1k"),
        (1e15, "1.00e+15"),
        (3e-7, "3.00e−07"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
        (0.0, "0"),
        (-2.5e6, "−2.5M"),
    ],
)
def test_numbers_read_well_at_the_edges(value: float, text: str) -> None:
    assert readable(value) == text


def test_measured_numbers_keep_three_digits() -> None:
    assert [measured(value) for value in (1000, 12.0, 123.4, 0.5)] == [
        "1.00k",
        "12.0",
        "123",
        "0.500",
    ]


@given(st.lists(st.floats(0, 100), max_size=12), st.floats(0.1, 5))
def test_spread_heights_keep_their_gap_order_and_room(heights: list[float], gap: float) -> None:
    placed = spread(heights, gap, 0.0, 100.0)
    order = np.argsort(heights, kind="stable")
    assert (np.diff(placed[order]) >= gap - 1e-9).all()
    assert placed.min(initial=0.0) >= 0.0
    assert placed.max(initial=0.0) <= 100.0 + 1e-9


def test_heights_far_enough_apart_stay() -> None:
    assert spread([30.0, 10.0, 20.0], 5.0, 0.0, 100.0).tolist() == [30.0, 10.0, 20.0]


def test_a_themed_drawing_names_colours_and_keeps_ids_apart(tmp_path: Path) -> None:
    with house_style():
        figure = Figure(figsize=(2, 2))
        figure.add_subplot().plot([0, 1], [0, 1], color="#0072b2")
    (path,) = save_figure(figure, tmp_path, "line", ["svg"])
    one, other = (themed_svg(path.read_text(), prefix) for prefix in ("a", "b"))
    assert one.startswith("<svg")
    assert "var(--c-0072b2, #0072b2)" in one
    assert "#0072b2" in themed_colours(one)
    ids = [{part.split('"')[0] for part in svg.split(' id="')[1:]} for svg in (one, other)]
    assert ids[0]
    assert ids[0].isdisjoint(ids[1])
    for reference in one.split('href="#')[1:]:
        assert reference.split('"')[0] in ids[0]


def test_dark_rules_cover_every_colour() -> None:
    rules = dark_rules({"#0072b2", "#1c2530"})
    assert rules == "--c-0072b2: #57a2cc; --c-1c2530: #e8edf2;"


def test_the_papers_algorithms_are_those_of_its_experiments() -> None:
    assert PAPER == ("con-ucb", "lexp", "cucb", "exp3-m")
    assert (SUBJECT, *BASELINES) == PAPER
    assert {name for name in PAPER if not POLICIES[name].keeps_floor} == set(FLOORLESS)


def test_every_registered_policy_has_a_line_of_its_own() -> None:
    assert set(POLICIES) - {"fixed-mix"} <= set(KNOWN)


def test_one_module_of_the_figures_knows_policies_by_name() -> None:
    folder = Path(style.__file__).parent
    for path in folder.glob("*.py"):
        if path.name == "style.py":
            continue
        literals = {
            node.value
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        assert not literals & {*POLICIES, *KNOWN}, path.name
