"""`slotwise evaluate`, `frontier` and `plan`: questions to a log, to rates and to simulations."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from typer import Argument, Option

from slotwise.cli.catalogue import parse_option
from slotwise.cli.progress import answer_interrupts, progress_bar
from slotwise.environments.datasets import DATASETS, Dataset, find_dataset, load_dataset
from slotwise.errors import InvalidInput, whole_number
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
from slotwise.selection import Frontier, SlotRule, frontier, solve_rules
from slotwise.selector import Selector
from slotwise.simulation.simulated_log import (
    MOST_RAMP,
    PlannedRamp,
    RoughPage,
    Waiting,
    plan_traffic,
)

if TYPE_CHECKING:  # the service runs `plan` where matplotlib is not installed
    from slotwise.figures import FrontierPicture

MAX_ROUNDS = 50_000


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
    if out is None:
        return
    from slotwise.figures import save_figure

    kinds = [kind.strip() for kind in formats.split(",")]
    for path in save_figure(answer.plot(title), out, name, kinds):
        typer.echo(path)


N_ROWS = 10
N_GUARANTEES = 100
"""Guarantees at which the best mix within a floor is computed."""


Priced = tuple["FrontierPicture", str]
"""A figure to draw, and the name of its files."""


def frontier_command(
    table: Annotated[
        str | None, Argument(metavar="[TABLE]", help="A file, or a data set's name.")
    ] = None,
    slots: Annotated[int | None, Option(help="Slots on the page; needed for a file.")] = None,
    floor: Annotated[
        float | None, Option(help="The floor to mark, in clicks per page view.")
    ] = None,
    selector: Annotated[Path | None, Option(help="A saved selector, instead of TABLE.")] = None,
    rule: Annotated[
        str | None, Option(help='The price of a guarantee instead: "partner: 3,4 >= 0.5".')
    ] = None,
    data: Annotated[
        Path | None, Option(help="The folder of a data set's files, or one of them.")
    ] = None,
    option: Annotated[
        list[str] | None, Option("--option", "-o", help="An option of the table, as name=value.")
    ] = None,
    out: Annotated[Path | None, Option(help="The directory for the figure and the CSV.")] = None,
    formats: Annotated[str, Option("--format", help="svg, png, or both with a comma.")] = "svg,png",
) -> None:
    """Print or draw the best revenue for every click floor and the price of one more click.

    TABLE is a CSV, TSV or Parquet file with clicks, views and revenue of each link, or the name of
    a data set. With --selector the curve is computed from the present estimates of a saved
    selector, with a band. With --rule it shows what a guarantee costs as it grows, while the floor
    is kept; links are named as in the table, or numbered from 0 on.

    Examples:

      slotwise frontier links.csv --slots 15 --floor 4 --out figures

      slotwise frontier coupon-mild --rule "partner: 3,4 >= 0.5" --out figures

      slotwise frontier links.csv --slots 15 -o clicks=n_clicks -o max_revenue=80

      slotwise frontier coupon-mild

      slotwise frontier --selector front-page.sel --out figures
    """
    if (table is None) == (selector is None):
        message = "give TABLE, a file or the name of a data set, or --selector, a saved selector"
        raise InvalidInput(f"{message}; got {'neither' if table is None else 'both'}")
    if selector is not None:
        if slots is not None or data is not None or option or rule:
            wanted = "left out with --selector, which has its own"
            names, found = "--slots, --data, --option and --rule", slots or data or option or rule
            raise InvalidInput.of(names, wanted, found)
        picture, name = _of_selector(selector, floor)
    else:
        options = dict(parse_option(text) for text in option or [])
        loaded = _load(str(table), slots, floor, data, options)
        picture, name = _of_dataset(loaded, floor) if rule is None else _of_guarantee(loaded, rule)
    console = Console(highlight=False)
    console.print(picture.title, style="bold", markup=False)
    console.print(picture.subtitle, markup=False)
    console.print(_table(picture))
    if out is not None:
        from slotwise.figures import draw_frontier, save_figure

        kinds = [kind.strip() for kind in formats.split(",")]
        paths = save_figure(draw_frontier(picture), out, name, kinds)
        for path in [*paths, _write_corners(picture.curve, out, name)]:
            typer.echo(path)


def _load(
    table: str,
    slots: int | None,
    floor: float | None,
    data: Path | None,
    options: dict[str, str | int | float],
) -> Dataset:
    """Return the data set of that name, or one from a file of the user."""
    if slots is not None:
        options["n_slots"] = slots
    if floor is not None:
        options["click_floor"] = floor
    if table in DATASETS or find_dataset(table) is not None:
        return load_dataset(table, data, **options)
    path = Path(table)
    if not path.is_file():
        rule = f"a file, or one of the data sets {', '.join(DATASETS)}"
        raise InvalidInput.of("TABLE", rule, table)
    if slots is None:
        raise InvalidInput(f"give --slots, the number of links on a page, for the file {table}")
    options.setdefault("click_floor", 0.0)
    return load_dataset("table", path, **options)


def _of_dataset(data: Dataset, floor: float | None) -> Priced:
    from slotwise.figures import FrontierPicture

    curve = frontier(data.revenue_rate, data.click_rate, data.n_slots)
    present = data.click_floor if data.click_floor > 0 else floor
    return (
        FrontierPicture(
            title=f"{data.title}: the price of the floor",
            subtitle=f"{data.n_links} links, {data.n_slots} slots  ·  {_sentence(curve, present)}",
            curve=curve,
            floor=present,
            revenue_word="scaled revenue per page view",
        ),
        f"frontier-{Path(data.title).stem if data.name == 'table' else data.name}",
    )


def _of_guarantee(data: Dataset, text: str) -> Priced:
    """Return the best revenue against the slots that a rule guarantees, within the click floor."""
    from slotwise.figures import FrontierPicture

    rule = _rule_of(data, text)
    if not rule.at_least:
        raise rule.error("at_least", "given, as in NAME: LINK,LINK >= SLOTS", text)
    rule.check_page(data.n_slots)
    places = np.array(rule.links, np.int64)
    value, clicks, n_slots = data.revenue_rate, data.click_rate, data.n_slots
    most = float(min(n_slots, len(places)))
    if data.click_floor > 0:
        slots = np.linspace(0.0, most, N_GUARANTEES + 1)
        bounds = [[SlotRule(places, least, most)] for least in slots.tolist()]
        found = [solve_rules(value, clicks, n_slots, data.click_floor, one) for one in bounds]
        values = np.array([one.value for one in found])
        curve = Frontier(slots, values, np.maximum(-np.diff(values) / np.diff(slots), 0.0))
    else:  # slots of the rule in the place of clicks: exact
        is_of_rule = np.zeros(data.n_links)
        is_of_rule[places] = 1.0
        curve = frontier(value, is_of_rule, n_slots)
    cost = curve.value_at(0.0) - curve.value_at(rule.at_least)
    floor = f"floor {data.click_floor:g}"
    sentence = f"{rule.at_least:g} slots cost {cost:.3g} of {curve.value_at(0.0):.3g} a page view"
    return (
        FrontierPicture(
            title=f"{data.title}: the price of the guarantee {rule.name}",
            subtitle=f"{data.n_links} links, {n_slots} slots, {floor}  ·  {sentence}",
            curve=curve,
            floor=rule.at_least,
            revenue_word="scaled revenue per page view",
            bound="guarantee",
            axis="guaranteed slots per page",
            unit="slot per page",
        ),
        f"guarantee-{Path(data.title).stem if data.name == 'table' else data.name}",
    )


def _rule_of(data: Dataset, text: str) -> Rule:
    """Return a rule whose links are places of a data set."""
    rule, names = Rule.of_text(text), list(data.link_names or map(str, range(data.n_links)))
    for link in rule.links:
        if link not in names:
            raise rule.error("links", "links of the table", link)
    return replace(rule, links=[names.index(link) for link in rule.links])


def _of_selector(path: Path, floor: float | None) -> Priced:
    from slotwise.figures import FrontierPicture

    selector = Selector.load(path)
    price, problem = selector.frontier(), selector.problem
    present = floor if floor is not None else (price.click_floor or None)
    sizes = f"{problem.n_links} links, {problem.n_slots} slots, {selector.policy.name}"
    if price.n_unseen:
        sizes += f", {price.n_unseen} not yet seen"
    return (
        FrontierPicture(
            title=f"{path.name}: the price of the floor, as estimated now",
            subtitle=f"{sizes}  ·  {_sentence(price.estimate, present)}",
            curve=price.estimate,
            floor=present,
            band=(price.low, price.high),
        ),
        f"frontier-{path.stem}",
    )


def _sentence(curve: Frontier, floor: float | None) -> str:
    free, most = curve.floors[0], curve.floors[-1]
    sentence = f"costs nothing up to {free:.3g} clicks, at most {most:.3g}"
    if floor is None:
        return sentence
    if floor > most:
        return f"floor {floor:g}, infeasible; {sentence}"
    price = curve.shadow_price_at(floor)
    return f"floor {floor:g} at a shadow price of {price:.3g}; {sentence}"


def _rows(picture: FrontierPicture) -> list[float]:
    """Return the floors to print: evenly spaced ones that cost revenue, and the present one."""
    curve = picture.curve
    floors = set(np.linspace(curve.floors[0], curve.floors[-1], N_ROWS + 1).tolist())
    if picture.floor is not None:
        floors.add(picture.floor)
    return sorted(floors)


def _table(picture: FrontierPicture) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    headings = [picture.bound, "best revenue", "share", "shadow price"]
    if picture.band is not None:
        headings[2:2] = ["low", "high"]
        table.caption = "low and high: 95 % band for all floors at once, for constant rates"
        table.caption_justify = "left"
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for floor in _rows(picture):
        table.add_row(*_cells(picture, floor))
    return table


def _cells(picture: FrontierPicture, floor: float) -> list[str]:
    curve = picture.curve
    best, value = float(curve.values[0]), curve.value_at(floor)
    note = "present" if floor == picture.floor else ""
    cells = [f"{floor:.4g}", "infeasible" if np.isnan(value) else f"{value:.4f}"]
    if picture.band is not None:
        ends = [one.value_at(floor) for one in picture.band]
        cells += ["none" if np.isnan(end) else f"{end:.4f}" for end in ends]
    share = "" if np.isnan(value) or best == 0 else f"{value / best:.1%}"
    price = "" if np.isnan(value) else f"{curve.shadow_price_at(floor):.4f}"
    return [*cells, share, price, note]


def _write_corners(curve: Frontier, directory: Path, name: str) -> Path:
    """Write the exact corners; up to each floor, one more click costs the price in its row."""
    path = directory / f"{name}.csv"
    prices = np.concatenate([[0.0], curve.shadow_prices])
    lines = [
        f"{floor!r},{value!r},{price!r}"
        for floor, value, price in zip(
            curve.floors.tolist(), curve.values.tolist(), prices.tolist(), strict=True
        )
    ]
    path.write_text("\n".join(["floor,best_revenue,shadow_price", *lines, ""]), encoding="utf-8")
    return path


def plan_command(
    links: Annotated[int, Option(help="Links to choose from.")],
    slots: Annotated[int, Option(help="Links on a page.")],
    click_rate: Annotated[float, Option(help="Click rate of a typical link.")],
    revenue: Annotated[
        float,
        Option(
            "--revenue-per-click",
            help="Revenue per click of a typical link, as a share of the largest sale.",
        ),
    ],
    per_day: Annotated[float, Option("--views-per-day", help="Page views per day.")],
    floor: Annotated[float, Option(help="The click floor: fewest clicks per page view.")] = 0.0,
    certainty: Annotated[
        float, Option(help="The share of cases in which the answer holds.")
    ] = 0.95,
    holdout: Annotated[float, Option(help="The share of views with random links.")] = 0.05,
    own_page: Annotated[
        bool, Option("--own-page", help="Say when half and all pages are chosen over your own.")
    ] = False,
    keep: Annotated[
        float, Option(help="The part of the own page's revenue to keep, with --own-page.")
    ] = 0.95,
    views: Annotated[int, Option(help="Page views of each simulated case.")] = 20_000,
    cases: Annotated[int, Option(help="Simulated cases.")] = 100,
    policy: Annotated[str | None, Option(help="A policy instead of the default.")] = None,
    rule: Annotated[
        list[str] | None, Option(help='A rule: "partner: 3,4 >= 0.5", links numbered from 0 on.')
    ] = None,
    seed: Annotated[int, Option(help="Seed of the simulation.")] = 1,
    as_json: Annotated[bool, Option("--json", help="Print JSON, in page views.")] = False,
    as_lines: Annotated[
        bool, Option("--json-lines", help="Print progress, then the answer, as lines of JSON.")
    ] = False,
    within: Annotated[
        float, Option(show_default=False, help="Give up after so many seconds.")
    ] = math.inf,
) -> None:
    """Estimate how many days of traffic a page needs to keep its floor and to show its lift.

    Give the rough rates of a typical link. Many cases are simulated, each with links whose rates
    are drawn around these; the answer holds in the given share of the cases. The lift is measured
    against random links, which a holdout shows to some visitors. With --own-page, the holdout shows
    the page that you have today, which is assumed to earn as much as random links.

    Examples:

      slotwise plan --links 40 --slots 5 --click-rate 0.03 --revenue-per-click 0.1 --views-per-day 5000

      slotwise plan --links 40 --slots 5 --click-rate 0.03 --revenue-per-click 0.1 --views-per-day 5000 --own-page --keep 0.95
    """  # noqa: E501 - a command
    if not (math.isfinite(per_day) and per_day > 0):
        raise InvalidInput.of("--views-per-day", "a positive finite number", per_day)
    whole_number("--links", links, at_least=1)
    if not 1 <= slots <= links:
        raise InvalidInput.of("--slots", f"from 1 to the number of links ({links})", slots)
    showing = nullcontext(_tell_line) if as_lines else progress_bar("plan")
    with _naming_options(), _giving_up_after(within), answer_interrupts(), showing as tell:
        page = RoughPage(links, slots, click_rate, revenue, floor, holdout)
        tell(0.0, "plan")
        found = plan_traffic(
            page,
            certainty=certainty,
            n_views=views,
            n_cases=cases,
            policy=None if policy is None else make_policy(policy),
            rules=[_numbered(text) for text in rule or ()],
            keep=keep if own_page else None,
            seed=seed,
            progress=lambda share: tell(share, "plan"),
        )
    if as_json or as_lines:
        plain = asdict(found)
        if not own_page:
            del plain["ramp"]
        answer = json.dumps(plain).replace("Infinity", "null")
        print(f'{{"plan": {answer}}}' if as_lines else answer)
        return
    console = Console(highlight=False)
    share = f"{certainty:.0%} of {cases} simulated cases"
    if floor > 0:
        console.print(f"floor kept:   {_days(found.floor, per_day, views)}", markup=False)
    console.print(f"lift visible: {_days(found.lift, per_day, views)}", markup=False)
    if found.ramp is not None:
        for line in _ramp_lines(found.ramp, per_day):
            console.print(line, markup=False)
    console.print(f"in {share}; intervals allow for the number of cases", markup=False)
    if found.share_of_floors_in_reach < 1:
        reach = f"{found.share_of_floors_in_reach:.0%}"
        console.print(f"the floor is in reach of the links in {reach} of cases", markup=False)


OPTIONS = {"click_floor": "floor", "n_rounds": "views", "n_cases": "cases"}
"""The options of `plan` whose arguments have other names."""


@contextmanager
def _naming_options() -> Iterator[None]:
    """Name the option instead of the argument in an error."""
    try:
        yield
    except InvalidInput as error:
        argument = error.argument
        option = f"--{OPTIONS.get(argument, argument).replace('_', '-').removeprefix('--')}"
        raise InvalidInput(str(error).replace(f"`{argument}`", f"`{option}`", 1)) from None


def _numbered(text: str) -> Rule:
    """Return a rule for links that are numbered from 0 on."""
    rule = Rule.of_text(text)
    if not all(isinstance(link, str) and link.isdecimal() for link in rule.links):
        raise rule.error("links", "numbers from 0 on", ",".join(rule.links))
    return replace(rule, links=[int(link) for link in rule.links])


@contextmanager
def _giving_up_after(seconds: float) -> Iterator[None]:
    """End the process when the time is over: a simulated case cannot be interrupted."""
    if not seconds > 0:
        raise InvalidInput.of("--within", "a positive number of seconds", seconds)

    def give_up() -> None:
        message = f"slotwise: the simulation took longer than {seconds:g} seconds"
        print(message, file=sys.stderr, flush=True)
        os._exit(1)

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell_line(share: float, _name: str = "") -> None:
    """Print the share that is done, for a program that reads it."""
    print(json.dumps({"done": round(share, 4)}), flush=True)


def _ramp_lines(ramp: PlannedRamp, per_day: float) -> list[str]:
    """Return when half and all pages are chosen."""
    lines = []
    for name, views in (("half chosen:  ", ramp.half), ("all chosen:   ", ramp.all)):
        when = f"not within {MOST_RAMP:,.0f} page views"
        if views is not None:
            when = f"after {views / per_day:.3g} days, {views:,.0f} page views"
        lines.append(f"{name}{when}")
    earned = f"chosen pages earn {ramp.ratio:.3g} times your own page"
    return [*lines, f"if {earned}; at least {ramp.keep:.0%} of it at all times"]


def _days(waiting: Waiting, per_day: float, n_views: int) -> str:
    """Return page views as days with their interval."""
    if not math.isfinite(waiting.views):
        return f"not within {n_views / per_day:.3g} days ({n_views:,} page views)"
    low, high = waiting.low / per_day, waiting.high / per_day
    up_to = f"{high:.3g}" if math.isfinite(high) else "more"
    views = f"{waiting.views:,.0f} page views"
    return f"after {waiting.views / per_day:.3g} days ({low:.3g} to {up_to}), {views}"
