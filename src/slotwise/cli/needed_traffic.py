"""`slotwise plan`: how much traffic an experiment with simulated visitors needs.

The service runs it, too, so it must not import polars or matplotlib.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from typing import Annotated

from rich.console import Console
from typer import Option

from slotwise.cli.progress import answer_interrupts, progress_bar
from slotwise.errors import InvalidInput, whole_number
from slotwise.policies import make_policy
from slotwise.problem import Rule
from slotwise.simulation.simulated_log import (
    MOST_RAMP,
    PlannedRamp,
    RoughPage,
    Waiting,
    plan_traffic,
)


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
