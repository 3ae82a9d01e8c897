"""`slotwise plan`: how much traffic a page needs."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from slotwise.cli._progress import progress_bar
from slotwise.errors import InvalidInput
from slotwise.policies import make_policy
from slotwise.simulation.simulated_log import RoughPage, Waiting, plan_traffic

__all__ = ["register"]

HELP = """Say how many days of traffic a page needs until its floor is kept and its lift is visible.

Rates are rough: those of a typical link. Many cases are simulated, each with links whose rates
are drawn around them; the answer holds in the wanted share of the cases. The lift is that over
random links, which a holdout shows to some visitors for comparison.

Examples:

  slotwise plan --links 40 --slots 5 --click-rate 0.03 --revenue-per-click 0.1 --views-per-day 5000
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""

    @app.command("plan", help=HELP)
    def plan(
        links: Annotated[int, typer.Option("--links", help="Links to choose from.")],
        slots: Annotated[int, typer.Option("--slots", help="Links on a page.")],
        click_rate: Annotated[float, typer.Option("--click-rate", help="Of a typical link.")],
        revenue: Annotated[
            float,
            typer.Option(
                "--revenue-per-click", help="Of a typical link, as a share of the largest sale."
            ),
        ],
        per_day: Annotated[float, typer.Option("--views-per-day", help="Page views a day.")],
        floor: Annotated[float, typer.Option("--floor", help="Clicks promised a page view.")] = 0.0,
        certainty: Annotated[
            float, typer.Option("--certainty", help="In which share of cases the answer holds.")
        ] = 0.95,
        holdout: Annotated[
            float, typer.Option("--holdout", help="The share of views with random links.")
        ] = 0.05,
        views: Annotated[int, typer.Option("--views", help="Page views of a case.")] = 20_000,
        cases: Annotated[int, typer.Option("--cases", help="Simulated cases.")] = 100,
        policy: Annotated[str | None, typer.Option("--policy", help="Another policy.")] = None,
        seed: Annotated[int, typer.Option("--seed", help="Another seed.")] = 1,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON, in page views.")] = False,
        as_lines: Annotated[
            bool,
            typer.Option("--json-lines", help="Print progress, then the answer, as lines of JSON."),
        ] = False,
        within: Annotated[
            float,
            typer.Option("--within", show_default=False, help="Give up after so many seconds."),
        ] = math.inf,
    ) -> None:
        if not (math.isfinite(per_day) and per_day > 0):
            raise InvalidInput.of("--views-per-day", "a positive finite number", per_day)
        page = RoughPage(links, slots, click_rate, revenue, floor, holdout)
        showing = nullcontext(_tell_line) if as_lines else progress_bar("plan")
        with _giving_up_after(within), showing as tell:
            tell(0.0, "plan")
            found = plan_traffic(
                page,
                certainty=certainty,
                n_views=views,
                n_cases=cases,
                policy=None if policy is None else make_policy(policy),
                seed=seed,
                progress=lambda share: tell(share, "plan"),
            )
        if as_json or as_lines:
            answer = json.dumps(asdict(found)).replace("Infinity", "null")
            print(f'{{"plan": {answer}}}' if as_lines else answer)
            return
        console = Console(highlight=False)
        share = f"{certainty:.0%} of {cases} simulated cases"
        console.print(f"floor kept:   {_days(found.floor, per_day, views)}", markup=False)
        console.print(f"lift visible: {_days(found.lift, per_day, views)}", markup=False)
        console.print(f"in {share}; intervals for the number of cases", markup=False)
        if found.share_of_floors_in_reach < 1:
            reach = f"{found.share_of_floors_in_reach:.0%}"
            console.print(f"the floor is in reach of the links in {reach} of cases", markup=False)


@contextmanager
def _giving_up_after(seconds: float) -> Iterator[None]:
    """End the process when the time is over: a simulated case cannot be interrupted."""
    if not seconds > 0:
        raise InvalidInput.of("--within", "a positive number of seconds", seconds)

    def give_up() -> None:
        told = f"slotwise: the simulation took longer than {seconds:g} seconds"
        print(told, file=sys.stderr, flush=True)
        os._exit(1)

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell_line(share: float, _name: str = "") -> None:
    """Say how much is done, for a program that reads along."""
    print(json.dumps({"done": round(share, 4)}), flush=True)


def _days(waiting: Waiting, per_day: float, n_views: int) -> str:
    """Return page views as days with their interval."""
    if not math.isfinite(waiting.views):
        return f"not within {n_views / per_day:.3g} days ({n_views:,} page views)"
    low, high = waiting.low / per_day, waiting.high / per_day
    up_to = f"{high:.3g}" if math.isfinite(high) else "more"
    views = f"{waiting.views:,.0f} page views"
    return f"after {waiting.views / per_day:.3g} days ({low:.3g} to {up_to}), {views}"
