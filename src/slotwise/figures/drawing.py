"""Draw the figure that fits a results file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slotwise.figures.canvas import FORMATS, save_figure
from slotwise.figures.experiment import draw_experiment
from slotwise.figures.several_floors import draw_several_floors, has_several_floors
from slotwise.figures.sweep import draw_sweep, is_sweep
from slotwise.simulation.results import Results

__all__ = ["draw_results"]


def draw_results(
    results: Results, directory: str | Path, name: str, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Draw `results` into `directory` as `name` with each format's ending; return the files.

    Con-UCB at four scales of γ or more is drawn as a sweep, more floors than a click floor with
    panels for each of them, anything else as an experiment.
    """
    if is_sweep(results):
        figure = draw_sweep(results)
    elif has_several_floors(results):
        figure = draw_several_floors(results)
    else:
        figure = draw_experiment(results)
    return save_figure(figure, Path(directory), name, formats)
