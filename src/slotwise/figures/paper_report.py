"""The report as files: an HTML page, the same in Markdown, and its figures.

`report_contents` has what they say. The command line uses it through `slotwise.figures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2
from markupsafe import Markup

from slotwise.errors import InvalidInput
from slotwise.figures import style
from slotwise.figures.canvas import USUAL_FORMATS, dark_rules, rendered, themed_colours, themed_svg
from slotwise.figures.claims import (
    SUB_LINEAR_BELOW,
    scale_phrase,
)
from slotwise.figures.experiment_figure import draw_experiment
from slotwise.figures.report_contents import TABLED, gather
from slotwise.figures.sweep_figure import draw_sweep, is_sweep
from slotwise.simulation.results import Results


def templates(*folders: Path, is_html: bool) -> jinja2.Environment:
    """Return the templates, with those of further folders; HTML is escaped, plain text is not."""
    own = jinja2.PackageLoader("slotwise.figures", "templates")
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([own, *map(jinja2.FileSystemLoader, folders)]),
        autoescape=is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["cell"] = markdown_cell
    environment.filters["notes_as_markdown"] = lambda html: (
        html.replace("<p>", "").replace("</p>\n", "\n\n").rstrip() + "\n"
    )
    return environment


def markdown_cell(text: str) -> str:
    """Return text escaped for one cell of a Markdown table."""
    escaped = "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text)
    return " ".join(escaped.split())


class WrittenReport(NamedTuple):
    """The files of a report."""

    html: Path
    markdown: Path
    figures: list[Path]


class Pictures:
    """A cache of the figures of results, so that each is drawn once."""

    def __init__(self) -> None:
        self._drawn: dict[Results, dict[str, bytes]] = {}

    def of(self, results: Results) -> dict[str, bytes]:
        """Return the contents of the figure's files by format."""
        if results not in self._drawn:
            figure = draw_sweep(results) if is_sweep(results) else draw_experiment(results)
            self._drawn[results] = {kind: rendered(figure, kind) for kind in USUAL_FORMATS}
        return self._drawn[results]


def write_report(
    results: Sequence[Results],
    sweeps: Sequence[Results],
    out_dir: str | Path,
    pictures: Pictures | None = None,
) -> WrittenReport:
    """Write `report.html`, `report.md` and `figures/` into `out_dir`.

    `results` are the experiments, one per data set; `sweeps` are those of Con-UCB over many γ. The
    page is one file: styles and figures are inside. Verdicts and conclusion are computed from the
    numbers. Figures that are not among `pictures` are drawn.
    """
    if not results:
        raise InvalidInput.of("results", "of at least one experiment", list(results))
    directory = Path(out_dir)
    page = gather(results, sweeps)
    pictures = Pictures() if pictures is None else pictures
    folder = directory / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    figures: list[Path] = []
    drawings: dict[str, Markup] = {}
    for chapter in (*page.chapters, *page.sweeps):
        name, files = chapter.figure_name, pictures.of(chapter.results)
        for kind, contents in files.items():
            figures.append(folder / f"{name}.{kind}")
            figures[-1].write_bytes(contents)
        drawings[name] = Markup(themed_svg(files["svg"].decode(), prefix=f"f{len(drawings)}"))
    colours = {style.INK, style.MUTED, style.GRID, style.BACKGROUND}.union(
        *map(themed_colours, drawings.values())
    )
    html, markdown = directory / "report.html", directory / "report.md"
    shared = {
        "page": page,
        "metrics": TABLED,
        "scale_phrase": scale_phrase,
        "sub_linear_below": SUB_LINEAR_BELOW,
    }
    html.write_text(
        templates(is_html=True)
        .get_template("report.html.jinja")
        .render(
            **shared,
            drawings=drawings,
            dark_rules=dark_rules(colours),
        ),
        encoding="utf-8",
    )
    markdown.write_text(
        templates(is_html=False).get_template("report.md.jinja").render(**shared),
        encoding="utf-8",
    )
    return WrittenReport(html, markdown, figures)
