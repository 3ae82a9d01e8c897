"""The report: settings, tables, figures and the paper's claims, as HTML and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from slotwise.errors import InvalidInput
from slotwise.figures.look.canvas import USUAL_FORMATS, rendered
from slotwise.figures.look.style import BACKGROUND, GRID, INK, MUTED
from slotwise.figures.look.themed_svg import ThemedSvg, dark_rules
from slotwise.figures.report.claims import scale_phrase
from slotwise.figures.report.page import TABLE_METRICS, gather
from slotwise.figures.report.verdicts import SUB_LINEAR_BELOW
from slotwise.figures.results.experiment import draw_experiment
from slotwise.figures.results.sweep import draw_sweep, is_sweep
from slotwise.figures.templating import templates
from slotwise.simulation.results import Results

__all__ = ["Pictures", "WrittenReport", "write_report"]


class WrittenReport(NamedTuple):
    """The files of a report."""

    html: Path
    markdown: Path
    figures: list[Path]


class Pictures:
    """The figures of results, each drawn once: a report may find them drawn already."""

    def __init__(self) -> None:
        self._drawn: dict[int, tuple[Results, dict[str, bytes]]] = {}

    def of(self, results: Results) -> dict[str, bytes]:
        """Return the contents of the figure's files by format."""
        if id(results) not in self._drawn:
            figure = draw_sweep(results) if is_sweep(results) else draw_experiment(results)
            files = {kind: rendered(figure, kind) for kind in USUAL_FORMATS}
            self._drawn[id(results)] = results, files  # the results must live as long as their id
        return self._drawn[id(results)][1]


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
    drawings: dict[str, ThemedSvg] = {}
    for chapter in (*page.chapters, *page.sweeps):
        name, files = chapter.figure_name, pictures.of(chapter.results)
        for kind, contents in files.items():
            figures.append(folder / f"{name}.{kind}")
            figures[-1].write_bytes(contents)
        drawings[name] = ThemedSvg.of(files["svg"].decode(), prefix=f"f{len(drawings)}")
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
