"""`slotwise evaluate`: ask a log what another floor, mix or policy would have earned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from slotwise.errors import InvalidInput
from slotwise.evaluation import (
    BestMix,
    Evaluation,
    LogFrontier,
    Settings,
    evaluate_all,
    fit_links,
    frontier_of_log,
    read_mix,
)
from slotwise.policies import make_policy

__all__ = ["register"]

MAX_ROUNDS = 50_000
HELP = """Ask a log of page views what another floor, mix or policy would have earned.

LOG is a Parquet file, or a folder of them, with a row for each link shown. Answers are revenue and
clicks a page view. Both intervals hold together, also for a log whose policy learned meanwhile.

Examples:

  slotwise evaluate log.parquet --floor 0.35

  slotwise evaluate log.parquet --mix mine.csv

  slotwise evaluate log.parquet --policy paced-kl --floor 0.35

  slotwise evaluate log.parquet --frontier --out figures
"""


class Question(NamedTuple):
    """What was asked of a log, as it was typed."""

    log: Path
    floor: float | None
    mix: Path | None
    policy: str | None
    by: tuple[str, ...]


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("evaluate", help=HELP)
    def evaluate_log(
        log: Annotated[Path, typer.Argument(metavar="LOG", help="A Parquet file or a folder.")],
        floor: Annotated[
            float | None, typer.Option("--floor", help="The click floor to keep.")
        ] = None,
        mix: Annotated[
            Path | None, typer.Option("--mix", help="A CSV file: link, probability, features.")
        ] = None,
        policy: Annotated[
            str | None, typer.Option("--policy", help="A policy, on a simulator fitted to the log.")
        ] = None,
        frontier: Annotated[
            bool, typer.Option("--frontier", help="The best mix at eleven floors.")
        ] = False,
        by: Annotated[
            list[str] | None,
            typer.Option("--by", help="A feature of visitors: a mix for each of its values."),
        ] = None,
        estimator: Annotated[
            str, typer.Option("--estimator", help="dr, ips, sn or clipped.")
        ] = "dr",
        confidence: Annotated[
            float, typer.Option("--confidence", help="Of both intervals together.")
        ] = 0.95,
        clip: Annotated[
            float, typer.Option("--clip", help="The largest weight of the clipped estimator.")
        ] = 100.0,
        max_revenue: Annotated[
            float | None,
            typer.Option("--max-revenue", help="The most that a link can bring, in money."),
        ] = None,
        runs: Annotated[int, typer.Option("--runs", help="Simulated runs of --policy.")] = 20,
        seed: Annotated[int, typer.Option("--seed", help="Of the simulator and bootstrap.")] = 1,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
        out: Annotated[
            Path | None, typer.Option("--out", help="The directory for a figure of the answer.")
        ] = None,
        formats: Annotated[
            str, typer.Option("--format", help="svg, png, or both with a comma.")
        ] = "svg,png",
    ) -> None:
        question = Question(log, floor, mix, policy, tuple(by or ()))
        _check(question, frontier)
        settings = Settings(estimator, confidence, clip, max_revenue, floor, seed)
        if policy is not None:
            _print_simulated(_simulated(question, settings, runs), as_json)
        elif frontier:
            curve = frontier_of_log(log, settings=settings, features=question.by)
            _print_frontier(curve, as_json)
            _draw(
                curve, f"frontier-{log.stem}", f"{log.name}: the price of the floor", out, formats
            )
        else:
            candidate = (
                read_mix(mix) if mix is not None else BestMix(floor or 0.0, features=question.by)
            )
            asked = "best mix" if mix is None else mix.stem
            answer = evaluate_all(log, {asked: candidate}, settings)[asked]
            _print_answer(answer, as_json)
            _draw(
                answer,
                f"answer-{log.stem}-{asked.replace(' ', '-')}",
                f"{log.name}: {asked}",
                out,
                formats,
            )


def _check(question: Question, frontier: bool) -> None:
    wanted = [frontier, question.mix is not None, question.policy is not None]
    if sum(wanted) > 1 or not (any(wanted) or question.floor is not None):
        rule = "one question: --floor, --mix, --policy or --frontier"
        raise InvalidInput.of("the options", rule, "none" if not any(wanted) else "several")
    if frontier and question.floor is not None:
        raise InvalidInput.of("--floor", "left out with --frontier", question.floor)
    if question.by and (question.mix is not None or question.policy is not None):
        rule = "left out with --mix and --policy; a mix has its features in its columns"
        raise InvalidInput.of("--by", rule, list(question.by))


def _simulated(question: Question, settings: Settings, n_runs: int) -> dict[str, Any]:
    """Return what a policy earned on links with the rates of the log."""
    # the engine takes longer to load than a log takes to read
    from slotwise.simulation.series import LinkCounts, simulate_fitted

    if n_runs < 2:
        raise InvalidInput.of("--runs", "at least 2", n_runs)
    policy = make_policy(str(question.policy))
    links = fit_links(question.log, settings.max_revenue)
    n_rounds = min(links.n_pages, MAX_ROUNDS)
    played = simulate_fitted(
        LinkCounts(links.views, links.clicks, links.revenue),
        policy,
        links.n_slots,
        question.floor or 0.0,
        n_rounds,
        n_runs,
        settings.seed,
    )
    answer: dict[str, Any] = {"candidate": policy.name, "kind": "simulated"}
    ends = [(1 - settings.confidence) / 4, 1 - (1 - settings.confidence) / 4]
    for level, unit, values in (
        ("revenue", links.max_revenue, played.revenue),
        ("clicks", 1.0, played.clicks),
    ):
        low, high = np.quantile(values, ends)
        found = {"value": float(values.mean()), "low": float(low), "high": float(high)}
        answer[level] = {name: number * unit for name, number in found.items()}
    return answer | {
        "effective_sample_size": None,
        "max_weight": None,
        "uncovered": 0.0,
        "n_rounds": n_rounds,
        "n_runs": n_runs,
        "n_unsettled": links.n_unsettled,
        "currency": links.currency,
        "click_floor": question.floor,
    }


def _print_simulated(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
        return
    console = Console(highlight=False)
    console.print(_levels_table(answer))
    console.print(
        f"{answer['candidate']} from scratch, {answer['n_runs']} runs of {answer['n_rounds']:,} "
        "pages on a simulator with the log's rates: links that do not influence each other, one "
        "kind of visitor, no drift. A simulation, not an estimate from the log.",
        markup=False,
    )


def _print_answer(answer: Evaluation, as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer.as_dict()))
        return
    console = Console(highlight=False)
    console.print(_levels_table(answer.as_dict()))
    for sentence in _sentences(answer):
        console.print(sentence, markup=False)


def _levels_table(answer: dict[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    money = f" ({answer['currency']})" if answer["currency"] else ""
    for heading in ("a page view", "estimate", "low", "high"):
        table.add_column(heading, justify="left" if heading == "a page view" else "right")
    for level in ("revenue", "clicks"):
        found = answer[level]
        name = level + (money if level == "revenue" else "")
        table.add_row(name, *(f"{found[end]:.5g}" for end in ("value", "low", "high")))
    return table


def _sentences(answer: Evaluation) -> list[str]:
    """Return what the numbers do not say by themselves."""
    said = []
    if answer.click_floor is not None:
        verdict = {True: "kept", False: "missed", None: "open: the interval has it inside"}
        said.append(f"floor {answer.click_floor:g}: {verdict[answer.floor_is_kept]}")
    size = f"{answer.effective_sample_size:,.0f} effective of {answer.n_pages:,} page views"
    said.append(f"{size}, largest weight {answer.max_weight:.4g}")
    was = answer.logged_revenue, answer.logged_clicks
    money, clicks = (f"{one.value:.5g} ({one.low:.5g} to {one.high:.5g})" for one in was)
    said.append(f"the pages of the log itself brought revenue {money}, clicks {clicks}")
    if answer.uncovered > 0:
        said.append(
            f"{answer.uncovered:.1%} of the page could not be shown by the log; the intervals "
            "allow it to bring anything"
        )
    if answer.n_fitted:
        said.append(f"{answer.n_fitted:,} pages at the beginning only served to fit the mix")
    if answer.n_unsettled:
        said.append(f"{answer.n_unsettled:,} unsettled pages left out")
    if answer.n_clipped:
        said.append(f"{answer.n_clipped:,} amounts above max_revenue counted as max_revenue")
    low, high = answer.bootstrap["revenue"]
    said.append(
        f"second opinion, bootstrap: revenue {low:.5g} to {high:.5g} (not valid for a log whose "
        "policy learned)"
    )
    said += answer.notes
    if answer.cannot_tell:
        said.append(answer.cannot_tell)
    return said


def _print_frontier(curve: LogFrontier, as_json: bool) -> None:
    if as_json:
        points = [point.as_dict() for point in curve.points]
        print(json.dumps({"floors": list(curve.floors), "points": points}))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("floor", "revenue", "low", "high", "clicks", "low", "high", "kept"):
        table.add_column(heading, justify="right", no_wrap=True)
    kept = {True: "yes", False: "no", None: "open"}
    for floor, point in zip(curve.floors, curve.points, strict=True):
        cells = [
            f"{number:.4g}"
            for estimate in (point.revenue, point.clicks)
            for number in (estimate.value, estimate.low, estimate.high)
        ]
        table.add_row(f"{floor:.4g}", *cells, kept[point.floor_is_kept])
    console = Console(highlight=False)
    console.print(table)
    console.print("each floor's intervals hold by themselves", markup=False)


def _draw(
    answer: Evaluation | LogFrontier, name: str, title: str, out: Path | None, formats: str
) -> None:
    if out is None:
        return
    from slotwise.figures import save_figure

    kinds = [kind.strip() for kind in formats.split(",")]
    for path in save_figure(answer.plot(title), out, name, kinds):
        typer.echo(path)
