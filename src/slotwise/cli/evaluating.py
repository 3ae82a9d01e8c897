"""`slotwise evaluate`: what another policy, floor or page would have earned on a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from slotwise.cli.progress import answer_interrupts
from slotwise.errors import InvalidInput
from slotwise.evaluation import (
    BestMix,
    Evaluation,
    EvaluationSettings,
    LogFrontier,
    evaluate_all,
    fit_links,
    frontier_of_log,
    read_mix,
)
from slotwise.policies import make_policy
from slotwise.problem import Problem, Rule

MAX_ROUNDS = 50_000
"""Rounds of a simulated run of `--policy`; a log with more pages is not played to its end."""
EXCLUSIVE = ("--frontier", "--mix", "--policy")
"""Options of `evaluate` that exclude each other."""


class Question(NamedTuple):
    """The candidate and settings of an evaluation, as they were typed."""

    log: Path
    floor: float | None
    mix: Path | None
    policy: str | None
    by: tuple[str, ...]
    rules: tuple[Rule, ...] = ()
    slots: int | None = None

    def best_mix(self, rules: tuple[Rule, ...] = ()) -> BestMix:
        """Return the best mix at the floor."""
        return BestMix(self.floor or 0.0, self.slots, self.by, rules)


def evaluate_command(
    log: Annotated[Path, Argument(metavar="LOG", help="A Parquet file or a folder.")],
    floor: Annotated[float | None, Option(help="The click floor to keep.")] = None,
    mix: Annotated[Path | None, Option(help="A CSV file: link, probability, features.")] = None,
    policy: Annotated[
        str | None, Option(help="A policy to run on a simulator fitted to the log.")
    ] = None,
    frontier: Annotated[
        bool, Option("--frontier", help="Evaluate the best mix at eleven floors.")
    ] = False,
    by: Annotated[
        list[str] | None, Option(help="A feature of visitors; each of its values gets its own mix.")
    ] = None,
    rule: Annotated[
        list[str] | None, Option(help='A rule for the best mix, as "partner: b1,b2 >= 0.5".')
    ] = None,
    slots: Annotated[
        int | None,
        Option(help="Links on every page; by default, as many as each page of the log has."),
    ] = None,
    estimator: Annotated[str, Option(help="dr, ips, sn or clipped.")] = "dr",
    confidence: Annotated[
        float, Option(help="Confidence level of both intervals together.")
    ] = 0.95,
    clip: Annotated[float, Option(help="The largest weight of the clipped estimator.")] = 100.0,
    max_revenue: Annotated[
        float | None, Option(help="The most that one view of a link can earn, in money.")
    ] = None,
    runs: Annotated[int, Option(help="Simulated runs of --policy.")] = 20,
    seed: Annotated[int, Option(help="Seed of the simulator and the bootstrap.")] = 1,
    as_json: Annotated[bool, Option("--json", help="Print JSON.")] = False,
    out: Annotated[Path | None, Option(help="The directory for a figure of the answer.")] = None,
    formats: Annotated[str, Option("--format", help="svg, png, or both with a comma.")] = "svg,png",
) -> None:
    """Estimate from a log of page views what another floor, mix or policy would have earned.

    LOG is a Parquet file, or a folder of them, with a row for each link shown. The answer is the
    revenue and the clicks per page view, each with an interval. Both intervals hold together, also
    if the policy of the log was learning.

    Examples:

      slotwise evaluate log.parquet --floor 0.35

      slotwise evaluate log.parquet --rule "partner: b1,b2 >= 0.5"

      slotwise evaluate log.parquet --mix mine.csv

      slotwise evaluate log.parquet --policy paced-bayes --floor 0.35

      slotwise evaluate log.parquet --frontier --out figures
    """
    rules = tuple(Rule.of_text(one) for one in rule or ())
    question = Question(log, floor, mix, policy, tuple(by or ()), rules, slots)
    _check(question, frontier)
    settings = EvaluationSettings(estimator, confidence, clip, max_revenue, floor, seed)
    if policy is not None:
        with answer_interrupts():
            simulated = _simulated(question, settings, runs)
        _print_simulated(simulated, as_json)
    elif rules:
        within, ruled = "best mix within the rules", question.best_mix(rules)
        answers = evaluate_all(log, {within: ruled, "best mix": question.best_mix()}, settings)
        _print_rules(answers[within], answers["best mix"], as_json)
    elif frontier:
        curve = frontier_of_log(log, settings=settings, features=question.by, n_slots=slots)
        _print_frontier(curve, as_json)
        _draw(curve, f"frontier-{log.stem}", f"{log.name}: the price of the floor", out, formats)
    else:
        candidate = read_mix(mix) if mix is not None else question.best_mix()
        name = "best mix" if mix is None else mix.stem
        answer = evaluate_all(log, {name: candidate}, settings)[name]
        _print_answer(answer, as_json)
        _draw(
            answer,
            f"answer-{log.stem}-{name.replace(' ', '-')}",
            f"{log.name}: {name}",
            out,
            formats,
        )


def _check(question: Question, frontier: bool) -> None:
    """Refuse options that exclude each other, and a question without any."""
    wanted = [frontier, question.mix is not None, question.policy is not None]
    if question.rules and any(wanted):
        rule = "left out with --mix, --policy and --frontier"
        raise InvalidInput.of("--rule", rule, question.rules[0].name)
    if sum(wanted) > 1:
        given = [name for name, one in zip(EXCLUSIVE, wanted, strict=True) if one]
        raise InvalidInput(f"give one of {', '.join(EXCLUSIVE)}, got {' and '.join(given)}")
    if not (any(wanted) or question.floor is not None or question.rules):
        raise InvalidInput("say what to evaluate: --floor, --rule, --mix, --policy or --frontier")
    if frontier and question.floor is not None:
        raise InvalidInput.of("--floor", "left out with --frontier", question.floor)
    if question.slots is not None and question.slots < 1:
        raise InvalidInput.of("--slots", "at least 1", question.slots)
    if question.slots is not None and question.mix is not None:
        rule = "left out with --mix; the probabilities of a mix sum to its slots"
        raise InvalidInput.of("--slots", rule, question.slots)
    if question.by and (question.mix is not None or question.policy is not None):
        rule = "left out with --mix and --policy; a mix has its features in its columns"
        raise InvalidInput.of("--by", rule, list(question.by))


def _simulated(question: Question, settings: EvaluationSettings, n_runs: int) -> dict[str, object]:
    """Return what a policy earned on links with the rates of the log."""
    # the engine takes longer to load than a log takes to read
    from slotwise.simulation.series import FittedCounts, simulate_fitted

    if n_runs < 2:
        raise InvalidInput.of("--runs", "at least 2", n_runs)
    policy = make_policy(str(question.policy))
    links = fit_links(question.log, settings.max_revenue)
    n_slots = question.slots or links.n_slots
    n_rounds = min(links.n_pages, MAX_ROUNDS)
    counts = FittedCounts(links.views, links.clicks, links.revenue)
    problem = Problem(len(links.views), n_slots, question.floor or 0.0, horizon=n_rounds)
    clicks, revenue = simulate_fitted(counts, policy, problem, n_runs, settings.seed)
    answer: dict[str, Any] = {"candidate": policy.name, "kind": "simulated"}
    ends = [(1 - settings.confidence) / 4, 1 - (1 - settings.confidence) / 4]
    for level, unit, values in (
        ("revenue", links.max_revenue, revenue),
        ("clicks", 1.0, clicks),
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
        "n_slots": n_slots,
        "share_of_such_pages": links.pages_of_size.get(n_slots, 0) / links.n_pages,
        "n_unsettled": links.n_unsettled,
        "currency": links.currency,
        "click_floor": question.floor,
    }


def _print_simulated(answer: dict[str, object], as_json: bool) -> None:
    if as_json:
        print(json.dumps(answer))
        return
    console = Console(highlight=False)
    console.print(_levels_table(answer))
    share = float(str(answer["share_of_such_pages"]))
    n_slots = answer["n_slots"]
    sizes = f" {100 * share:.4g} % of the log's pages have as many (--slots)." if share < 1 else ""
    console.print(
        f"{answer['candidate']} from scratch, {answer['n_runs']} runs of {answer['n_rounds']:,} "
        f"pages of {n_slots} links on a simulator with the log's rates: links that do "
        "not influence each other, one kind of visitor, no drift. A simulation, not an estimate "
        f"from the log.{sizes}",
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


def _print_rules(ruled: Evaluation, free: Evaluation, as_json: bool) -> None:
    """Print what the best mix within rules would have earned, and without them."""
    within, without = ruled.as_dict(), free.as_dict()
    cost = without["revenue"]["value"] - within["revenue"]["value"]
    if as_json:
        print(json.dumps({**within, "without_rules": without, "cost_of_rules": cost}))
        return
    _print_answer(ruled, as_json=False)
    earned = without["revenue"]["value"]
    sentence = f"Without the rules: {earned:.5g} revenue. The rules cost {cost:.5g} a page view."
    Console(highlight=False).print(sentence, markup=False)


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
    lines = []
    if answer.click_floor is not None:
        verdict = {
            True: "kept",
            False: "missed",
            None: "not certain: the floor is within the interval",
        }
        lines.append(f"floor {answer.click_floor:g}: {verdict[answer.floor_is_kept]}")
    size = f"{answer.effective_sample_size:,.0f} effective of {answer.n_pages:,} page views"
    lines.append(f"{size}, largest weight {answer.max_weight:.4g}")
    was = answer.logged_revenue, answer.logged_clicks
    money, clicks = (f"{one.value:.5g} ({one.low:.5g} to {one.high:.5g})" for one in was)
    lines.append(f"the pages of the log itself earned revenue {money}, clicks {clicks}")
    if answer.uncovered > 0:
        lines.append(
            f"{answer.uncovered:.1%} of the page could not be shown by the log; the intervals "
            "allow any outcome for it"
        )
    if answer.n_fitted:
        lines.append(f"the first {answer.n_fitted:,} pages were only used to fit the mix")
    if answer.n_unsettled:
        lines.append(f"{answer.n_unsettled:,} unsettled pages left out")
    if answer.n_clipped:
        lines.append(f"{answer.n_clipped:,} amounts above max_revenue counted as max_revenue")
    low, high = answer.bootstrap["revenue"]
    lines.append(
        f"for comparison, bootstrap: revenue {low:.5g} to {high:.5g} (not valid if the policy of "
        "the log was learning)"
    )
    lines += answer.notes
    if answer.cannot_tell:
        lines.append(answer.cannot_tell)
    return lines


def _print_frontier(curve: LogFrontier, as_json: bool) -> None:
    if as_json:
        points = [point.as_dict() for point in curve.points]
        print(json.dumps({"floors": list(curve.floors), "points": points}))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("floor", "revenue", "low", "high", "clicks", "low", "high"):
        table.add_column(heading, justify="right", no_wrap=True)
    for floor, point in zip(curve.floors, curve.points, strict=True):
        cells = [
            f"{number:.4g}"
            for estimate in (point.revenue, point.clicks)
            for number in (estimate.value, estimate.low, estimate.high)
        ]
        table.add_row(f"{floor:.4g}", *cells)
    console = Console(highlight=False)
    console.print(table)
    console.print("the intervals of each floor hold on their own", markup=False)


def _draw(
    answer: Evaluation | LogFrontier, name: str, title: str, out: Path | None, formats: str
) -> None:
    """Write the figure of an answer into the directory `out`, if there is one; print its files."""
    if out is None:
        return
    from slotwise.figures import save_figure

    kinds = [kind.strip() for kind in formats.split(",")]
    for path in save_figure(answer.plot(title), out, name, kinds):
        typer.echo(path)
