"""Draw the figure that fits a results file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slotwise.figures.look.canvas import USUAL_FORMATS, save_figure
from slotwise.figures.results.chosen_panels import Layout, draw_panels
from slotwise.figures.results.experiment import draw_experiment
from slotwise.figures.results.for_whom import draw_for_whom, knows_for_whom
from slotwise.figures.results.several_floors import draw_several_floors, has_several_floors
from slotwise.figures.results.sweep import draw_sweep, is_sweep
from slotwise.simulation.results import Results

__all__ = ["draw_results"]


def draw_results(
    results: Results,
    directory: str | Path,
    name: str,
    formats: Sequence[str] = USUAL_FORMATS,
    *,
    panels: Sequence[str] = (),
    layout: Layout | None = None,
) -> list[Path]:
    """Draw `results` into `directory` as `name` with each format's ending; return the files.

    With `panels` or `layout` the figure has the panels of these metrics only. Otherwise:

    Con-UCB at four scales of γ or more is drawn as a sweep, more floors than a click floor with
    panels for each of them, anything else as an experiment. Where visitors differ, a second figure,
    `name`-for-whom, shows what each of them brings.
    """
    if panels or layout is not None:
        figure = draw_panels(results, panels, layout)
    elif is_sweep(results):
        figure = draw_sweep(results)
    elif has_several_floors(results):
        figure = draw_several_floors(results)
    else:
        figure = draw_experiment(results)
    written = save_figure(figure, Path(directory), name, formats)
    if not panels and layout is None and knows_for_whom(results):
        further = draw_for_whom(results)
        written += save_figure(further, Path(directory), f"{name}-for-whom", formats)
    return written
