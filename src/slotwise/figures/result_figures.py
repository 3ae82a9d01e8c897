"""Figures of results: choose the kind that fits, and write it to files.

The command line uses it through `slotwise.figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slotwise.figures.canvas import USUAL_FORMATS, save_figure
from slotwise.figures.chosen_panels import Layout, draw_panels
from slotwise.figures.experiment_figure import draw_experiment
from slotwise.figures.own_page_figure import draw_own_pages, has_own_pages
from slotwise.figures.segment_figure import draw_segments, knows_segments
from slotwise.figures.several_floors_figure import draw_several_floors, has_several_floors
from slotwise.figures.sweep_figure import draw_sweep, is_sweep
from slotwise.simulation.results import Results


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
    `name`-segments, shows the revenue of each of them. Where a policy has an own page, a figure
    `name`-own-page shows the revenue relative to it.
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
    if not panels and layout is None and knows_segments(results):
        further = draw_segments(results)
        written += save_figure(further, Path(directory), f"{name}-segments", formats)
    if not panels and layout is None and has_own_pages(results):
        further = draw_own_pages(results)
        written += save_figure(further, Path(directory), f"{name}-own-page", formats)
    return written
