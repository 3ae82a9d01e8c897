"""The report: settings, tables, figures and the paper's claims, as HTML and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from slotwise.errors import InvalidInput
from slotwise.figures.look.canvas import USUAL_FORMATS, save_figure
from slotwise.figures.look.style import BACKGROUND, GRID, INK, MUTED
from slotwise.figures.look.themed_svg import ThemedSvg, dark_rules
from slotwise.figures.report.claims import scale_phrase
from slotwise.figures.report.page import TABLE_METRICS, gather
from slotwise.figures.report.verdicts import SUB_LINEAR_BELOW
from slotwise.figures.results.experiment import draw_experiment
from slotwise.figures.results.sweep import draw_sweep
from slotwise.figures.templating import templates
from slotwise.simulation.results import Results

__all__ = ["WrittenReport", "write_report"]


class WrittenReport(NamedTuple):
    """The files of a report."""

    html: Path
    markdown: Path
    figures: list[Path]


def write_report(
    results: Sequence[Results], sweeps: Sequence[Results], out_dir: str | Path
) -> WrittenReport:
    """Write `report.html`, `report.md` and `figures/` into `out_dir`.

    `results` are the experiments, one per data set; `sweeps` are those of Con-UCB over many γ. The
    page is one file: styles and figures are inside. Verdicts and conclusion are computed from the
    numbers.
    """
    if not results:
        raise InvalidInput.of("results", "of at least one experiment", list(results))
    directory = Path(out_dir)
    page = gather(results, sweeps)
    figures: list[Path] = []
    drawings: dict[str, ThemedSvg] = {}
    for chapters, draw in ((page.chapters, draw_experiment), (page.sweeps, draw_sweep)):
        for chapter in chapters:
            figure = draw(chapter.results)
            name = chapter.figure_name
            written = save_figure(figure, directory / "figures", name)
            figures += written
            svg = written[USUAL_FORMATS.index("svg")].read_text(encoding="utf-8")
            drawings[name] = ThemedSvg.of(svg, prefix=f"f{len(drawings)}")
    colours = {INK, MUTED, GRID, BACKGROUND}.union(*(svg.colours for svg in drawings.values()))
    html, markdown = directory / "report.html", directory / "report.md"
    shared = {
        "page": page,
        "metrics": TABLE_METRICS,
        "scale_phrase": scale_phrase,
        "sub_linear_below": SUB_LINEAR_BELOW,
    }
    html.write_text(
        templates(is_html=True)
        .get_template("report.html.jinja")
        .render(
            **shared,
            drawings={name: Markup(svg) for name, svg in drawings.items()},
            dark_rules=dark_rules(colours),
        ),
        encoding="utf-8",
    )
    markdown.write_text(
        templates(is_html=False).get_template("report.md.jinja").render(**shared),
        encoding="utf-8",
    )
    return WrittenReport(html, markdown, figures)
