"""The leaderboard in one picture, from docs/leaderboard.json."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from benchmarks.leaderboard.board import Leaderboard, records
from benchmarks.leaderboard.page import origin_sentence
from slotwise.figures.canvas import house_style
from slotwise.figures.style import BACKGROUND, GRID, INK, MUTED, display_name, readable

BOARD = Path(__file__).resolve().parent.parent / "docs" / "leaderboard.json"
KEPT, MISSED, INFEASIBLE = "#0072b2", "#d55e00", "#999999"


def draw_leaderboard(path: Path = BOARD) -> Figure:
    """Draw one row a policy, the best first, with a mark for each case at its ratio."""
    board = Leaderboard.load(path)
    in_order = records(board)
    with house_style():
        figure = Figure(figsize=(9.6, 0.34 * len(in_order) + 1.9))
        height = figure.get_size_inches()[1]
        axes = figure.add_axes((0.19, 0.62 / height, 0.78, 1 - 1.75 / height))
        for row, record in enumerate(in_order):
            axes.axhline(row, color=GRID, linewidth=0.8, zorder=0)
            for case in board.cases:
                standing = case.find(record.label)
                if standing is None:
                    continue
                if case.floor_status == "infeasible":
                    face, edge = BACKGROUND, INFEASIBLE
                elif standing.keeps_floor:
                    face, edge = KEPT, KEPT
                else:
                    face, edge = BACKGROUND, MISSED
                axes.plot(
                    [standing.ratio],
                    [row],
                    "o",
                    markersize=6,
                    markerfacecolor=face,
                    markeredgecolor=edge,
                    markeredgewidth=1.3,
                    zorder=3,
                )
        axes.set_xscale("log")
        axes.set_ylim(len(in_order) - 0.4, -0.6)
        axes.set_yticks(range(len(in_order)), [display_name(one.label) for one in in_order])
        axes.tick_params(axis="y", labelsize=9, labelcolor=INK)
        axes.set_xticks([0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50])
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: readable(value)))
        axes.xaxis.set_minor_formatter(FuncFormatter(lambda _value, _: ""))
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.axvline(1.0, color=MUTED, linewidth=1.0, dashes=(4, 2), zorder=1)
        axes.set_xlabel("ratio to the best policy of the case, which is 1", loc="right")
        _write_words(figure, origin_sentence(board))
    return figure


def _write_words(figure: Figure, origin: str) -> None:
    height = figure.get_size_inches()[1]
    title = "How far each policy is from the best one, case by case"
    figure.text(0.02, 1 - 0.18 / height, title, fontsize=14, fontweight="bold", va="top")
    figure.text(0.02, 1 - 0.5 / height, origin, fontsize=9, color=MUTED, va="top")
    marks = [
        _mark(KEPT, KEPT, "keeps the floor"),
        _mark(BACKGROUND, MISSED, "misses it"),
        _mark(BACKGROUND, INFEASIBLE, "floor infeasible"),
    ]
    figure.legend(
        handles=marks,
        loc="upper left",
        bbox_to_anchor=(0.01, 1 - 0.68 / height),
        ncols=3,
        frameon=False,
        fontsize=9,
        handletextpad=0.2,
        columnspacing=1.4,
    )


def _mark(face: str, edge: str, words: str) -> Line2D:
    return Line2D(
        [], [], linestyle="", marker="o", markersize=6, markerfacecolor=face,
        markeredgecolor=edge, markeredgewidth=1.3, label=words,
    )  # fmt: skip
