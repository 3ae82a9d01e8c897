"""Figures and reports from results files; `known_policies` alone knows policies by name."""

from slotwise.extras import naming_extra

with naming_extra("`slotwise.figures`"):
    from slotwise.figures.drawing import draw_results
    from slotwise.figures.floor_price.answers import draw_answers, draw_log_frontier
    from slotwise.figures.floor_price.frontier import FrontierPicture, draw_frontier
    from slotwise.figures.look.canvas import FORMATS, save_figure
    from slotwise.figures.report.report import Pictures, WrittenReport, write_report
    from slotwise.figures.results.chosen_panels import Layout, draw_panels
    from slotwise.figures.results.experiment import draw_experiment
    from slotwise.figures.results.several_floors import draw_several_floors, has_several_floors
    from slotwise.figures.results.sweep import draw_sweep, is_sweep

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
