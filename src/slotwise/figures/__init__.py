"""Figures and reports from results files.

`result_figures` lays out `panels` of metrics, `floor_price` draws what a floor costs,
`answers_figure` what candidates would have earned, and `paper_report` puts figures, tables and the
judged `claims` of the paper (`report_contents`) on one page. All share one `style` and are written
by `canvas`. Nothing here simulates: the input is results and answers, the output files. The command
line uses it, and so do results in notebooks.
"""

from slotwise.extras import naming_extra

with naming_extra("`slotwise.figures`"):
    from slotwise.figures.answers_figure import draw_answers
    from slotwise.figures.canvas import FORMATS, save_figure
    from slotwise.figures.chosen_panels import Layout, draw_panels
    from slotwise.figures.experiment_figure import draw_experiment
    from slotwise.figures.floor_price import (
        FrontierPicture,
        draw_frontier,
        draw_log_frontier,
    )
    from slotwise.figures.paper_report import Pictures, WrittenReport, write_report
    from slotwise.figures.result_figures import draw_results
    from slotwise.figures.several_floors_figure import draw_several_floors, has_several_floors
    from slotwise.figures.sweep_figure import draw_sweep, is_sweep

__all__ = [
    "FORMATS",
    "FrontierPicture",
    "Layout",
    "Pictures",
    "WrittenReport",
    "draw_answers",
    "draw_experiment",
    "draw_frontier",
    "draw_log_frontier",
    "draw_panels",
    "draw_results",
    "draw_several_floors",
    "draw_sweep",
    "has_several_floors",
    "is_sweep",
    "save_figure",
    "write_report",
]
