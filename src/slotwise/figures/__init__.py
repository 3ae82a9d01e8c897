"""A results file in, a picture out: figures and the report, which know no policy."""

from slotwise.figures.canvas import FORMATS, save_figure
from slotwise.figures.drawing import draw_results
from slotwise.figures.experiment import draw_experiment
from slotwise.figures.report import WrittenReport, write_report
from slotwise.figures.sweep import draw_sweep, is_sweep

__all__ = [
    "FORMATS",
    "WrittenReport",
    "draw_experiment",
    "draw_results",
    "draw_sweep",
    "is_sweep",
    "save_figure",
    "write_report",
]
