"""The figure of own pages: revenue relative to the own page over time, with what is promised.

Used by `result_figures`.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from slotwise.figures import style
from slotwise.figures.canvas import ShownFigure, house_style, write_frame
from slotwise.figures.setting import Setting
from slotwise.simulation.results import Results

WIDTH_INCHES, HEIGHT_INCHES = 9.0, 5.0
FIRST_ROUND = 100
"""Before this round, revenue relative to the own page is noise."""


def has_own_pages(results: Results) -> bool:
    """Return whether a policy of the results has an own page."""
    return any("own_page" in policy for policy in results.config["policies"])


def draw_own_pages(results: Results) -> Figure:
    """Draw the revenue so far of every policy, relative to that of its own page alone.

    A policy without an own page is compared with that of the first policy that has one. A dashed
    line is what is promised; a band is two standard errors over the runs on either side.
    """
    plans = {
        one["label"]: one["own_page"] for one in results.config["policies"] if "own_page" in one
    }
    usual = next(iter(plans.values()))
    look = style.strokes(results.labels)
    is_drawn = results.rounds >= min(FIRST_ROUND, results.n_rounds)
    rounds = results.rounds[is_drawn]
    with house_style():
        figure = ShownFigure(figsize=(WIDTH_INCHES, HEIGHT_INCHES))
        axes = figure.add_axes((0.09, 0.14, 0.62, 0.62))
        axes.axhline(1.0, color=style.MUTED, linewidth=1.0, label="own page alone")
        for label in results.labels:
            plan = plans.get(label, usual)
            of_own = plan["revenue"] * rounds
            relative = results.totals[label]["reward"][:, is_drawn] / of_own
            mean = relative.mean(axis=0)
            spread = 2.0 * relative.std(axis=0) / np.sqrt(len(relative))
            colour = look[label].colour
            axes.fill_between(rounds, mean - spread, mean + spread, color=colour, alpha=0.2, lw=0)
            axes.plot(rounds, mean, color=colour, label=style.display_name(label))
            if label in plans and plan["keep"] is not None:
                promised = f"promised: {plan['keep']:.0%}"
                axes.axhline(
                    plan["keep"], color=colour, dashes=(4, 3), linewidth=1.2, label=promised
                )
        axes.set_xscale("log")
        axes.set_xlim(int(rounds[0]), max(results.n_rounds, 2))
        axes.xaxis.set_major_formatter(style.readable_ticks())
        axes.set_xlabel("rounds", loc="right", labelpad=2)
        axes.set_ylabel("revenue so far, relative to the own page")
        figure.legend(loc="center left", bbox_to_anchor=(0.73, 0.45), frameon=False, fontsize=8.5)
        setting = Setting.of(results)
        write_frame(figure, setting, f"Own page: {setting.figure_title}")
    return figure
