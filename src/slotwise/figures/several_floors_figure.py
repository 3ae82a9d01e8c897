"""The figure of several floors: the shortfall and the outcome of each floor over the rounds.

Used by `result_figures`.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from slotwise.figures.canvas import ShownFigure, house_style, write_frame
from slotwise.figures.experiment_figure import draw_finals
from slotwise.figures.panels import Panel, draw_panel, panel_of
from slotwise.figures.setting import Setting
from slotwise.simulation.results import Results

PANEL_INCHES = 4.5
HEIGHT_INCHES = 11.6
MAX_COLUMNS = 4
"""With more floors than this the table would not fit; the results file has them all."""


def has_several_floors(results: Results) -> bool:
    """Return whether an experiment has floors beyond a click floor."""
    return bool(Setting.of(results).floor_names)


def draw_several_floors(results: Results) -> Figure:
    """Draw regret and reward, then for each floor its violation and its shortfall."""
    setting = Setting.of(results)
    names = setting.floor_names[:MAX_COLUMNS]
    n_columns = max(3, len(names))
    with house_style():
        figure = ShownFigure(figsize=(PANEL_INCHES * n_columns, HEIGHT_INCHES))
        grid = figure.add_gridspec(
            3, n_columns, left=0.0404, right=0.898, top=0.88, bottom=0.064, wspace=0.56, hspace=0.46
        )
        for place, metric in enumerate(("regret", "reward")):
            draw_panel(figure.add_subplot(grid[0, place]), panel_of(metric), results)
        in_two_lines = {f"shortfall:{name}": name.replace("/", "/\n") for name in names}
        columns = {"regret": "regret", **in_two_lines}
        meaning = "regret, and the shortfall of each floor"
        hidden = len(setting.floor_names) - MAX_COLUMNS
        note = "The oracle is the best fixed mix under all floors."
        if hidden > 0:
            note = f"{hidden} more floors are in the file."
        draw_finals(figure.add_subplot(grid[0, 2]), results, columns, meaning, note)
        for place, name in enumerate(names):
            for row, panel in enumerate(_floor_panels(name, setting), start=1):
                draw_panel(figure.add_subplot(grid[row, place]), panel, results)
        write_frame(figure, setting, setting.figure_title)
    return figure


def _floor_panels(name: str, setting: Setting) -> tuple[Panel, Panel]:
    """Return the violation and the shortfall of one floor."""
    floor = setting.floor_in_words(name).removeprefix(name).strip()
    level, _, before = name.partition("/")
    missing = f"{level} below {floor} of {before}" if before else f"{level} below {floor}"
    return (
        Panel(f"violation:{name}", f"Violation: {name}", f"{missing}, summed over rounds"),
        Panel(f"shortfall:{name}", f"Shortfall: {name}", f"{missing}, in total"),
    )
