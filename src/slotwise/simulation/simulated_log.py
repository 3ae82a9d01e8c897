"""Simulated page views: a log that `slotwise evaluate` reads, and plans of needed traffic.

Used by `cli`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats, Places
from slotwise.compile import loop_maker
from slotwise.environments import BernoulliLinks, Environment
from slotwise.errors import InvalidInput
from slotwise.page_log import LoggedPage, LogWriter
from slotwise.player.own_page import checked_keep
from slotwise.policies import Policy, Uniform, default_policy
from slotwise.policies.within_rules import choosing_within, draw_within
from slotwise.problem import Problem, Rule, is_finite_number, whole_number
from slotwise.selection import draw_page
from slotwise.selection.mean_interval import FAILURE_PROBABILITY, mean_intervals
from slotwise.selection.mix import add_page, is_lawful, new_places, new_sums
from slotwise.selection.page_rules import PageRules
from slotwise.selection.promise import RANGES, PageRevenue, Terms, expected_ramp
from slotwise.selection.rounding import round_entries
from slotwise.simulation.engine import (
    CHANCE,
    VISITORS,
    UnlawfulPage,
    functions_of,
    guarded_loop,
    new_buffers,
    run_generator,
    simulated_rules,
)
from slotwise.simulation.experiment import Experiment
from slotwise.simulation.series import simulate

US_A_ROUND = 1_000_000


class SimulatedPage(NamedTuple):
    """A page of the engine's last round; its arrays are valid until the next one."""

    visitor: Places
    shown: Places
    probabilities: Floats
    outcomes: Floats
    random_order: bool


def simulate_log(  # noqa: PLR0913
    path: str | os.PathLike[str],
    links: Environment,
    policy: Policy,
    n_slots: int,
    click_floor: float = 0.0,
    n_rounds: int = 50_000,
    *,
    explore: float = 0.05,
    slot_weights: Sequence[float] | str | None = None,
    seed: int = 1,
) -> None:
    """Simulate a policy that learns, and log its pages to the folder at `path`.

    `explore` is that of `Selector`: the share of random links on a page. Without it most policies
    stop showing some links, and the log has no information about those. Logged probabilities are
    exact. `slot_weights` is that of `simulate`. Links are named `link-0`, `link-1`, and so on.
    """
    horizon = whole_number("n_rounds", n_rounds, at_least=1)
    problem = Problem(
        links.n_links,
        n_slots,
        click_floor,
        levels=links.levels,
        horizon=horizon,
        features=links.features,
        slot_weights=slot_weights,  # type: ignore[arg-type]
    )
    log_run(Experiment(links, problem, {"policy": policy}, 1, seed), "policy", path, explore)


def log_run(
    experiment: Experiment,
    label: str,
    path: str | os.PathLike[str],
    explore: float = 0.0,
    run: int = 0,
) -> None:
    """Log the pages of one run of one policy of an experiment.

    With `explore` 0 they are the pages of that run in the experiment's results, draw for draw.
    """
    if not (is_finite_number(explore) and 0 <= explore <= 1):
        raise InvalidInput.of("explore", "from 0 to 1", explore)
    environment, problem = experiment.environment, experiment.problem
    if environment.views_per_round != 1:
        rule = "1 for a log, which has a row for every view of a link"
        raise InvalidInput.of("views_per_round", rule, environment.views_per_round)
    names = [one.name for one in environment.features.features]
    writer = LogWriter(
        path,
        names,
        max_revenue=1.0,
        levels=problem.levels[1:-1],
        slots_differ=bool(problem.slot_weights),
    )
    policy = experiment.policies[label].for_problem(problem)
    for number, (page, least) in enumerate(_pages(experiment, policy, explore, run), start=1):
        clicked, *between, revenue = page.outcomes.tolist()
        writer.append(
            LoggedPage(
                page_id=f"{label}-{run}-{number}",
                time_us=US_A_ROUND * number,
                links=[f"link-{place}" for place in page.shown.tolist()],
                probabilities=page.probabilities.tolist(),
                clicked=[outcome > 0 for outcome in clicked],
                revenue=revenue,
                min_probability=least,
                policy=policy.name,
                visitor={**environment.features.describe(page.visitor)},
                levels=dict(zip(problem.levels[1:-1], between, strict=True)),
                random_order=page.random_order,
            )
        )
    writer.flush()


class LoggedPages(NamedTuple):
    """What the functions below need to make pages with a share of random links."""

    explore: float
    rules: PageRules | tuple[()]
    at_random: Floats
    """The probabilities of the links on a random page."""
    probabilities: Floats
    """Those of all links on the last page."""
    links: Places
    sums: Floats
    places: Places


@loop_maker
def _explored_page(choose: Callable[..., None]) -> Callable[..., None]:
    """Return a function that chooses a page with a share of random links and draws it."""

    def page(
        state: Any, logged: LoggedPages, visitor: Any, chance: Any, shown: Any, drawn: Floats
    ) -> None:
        choose(state, visitor, chance)
        if not is_lawful(state.mix, len(shown)):
            raise UnlawfulPage
        probabilities = logged.probabilities
        for link in range(len(probabilities)):
            probabilities[link] = logged.explore * logged.at_random[link]
        add_page(state.mix, 1.0 - logged.explore, probabilities)
        if logged.explore == 0.0:
            draw_page(state.mix, chance, shown, drawn)
        else:
            n_links, buffers = len(probabilities), (logged.sums, logged.places)
            round_entries(probabilities, n_links, chance, logged.links, 0, *buffers)
            for slot in range(len(shown)):
                shown[slot] = logged.links[slot]
                drawn[slot] = probabilities[shown[slot]]

    return page


@loop_maker
def _explored_page_within(choose_within: Callable[..., None]) -> Callable[..., None]:
    """Return a function like `_explored_page` for pages within rules.

    A mix of two pages within the rules is within the rules.
    """

    def page(state: Any, logged: Any, visitor: Any, chance: Any, shown: Any, drawn: Floats) -> None:
        rules = logged.rules
        choose_within(state, visitor, chance, rules)
        for link in range(len(logged.probabilities)):
            random = logged.explore * logged.at_random[link]
            logged.probabilities[link] = (1.0 - logged.explore) * rules.probabilities[link] + random
            rules.probabilities[link] = logged.probabilities[link]
        draw_within(rules, chance, shown, drawn)

    return page


def _pages(
    experiment: Experiment, policy: Policy, explore: float, run: int
) -> Iterator[tuple[SimulatedPage, float]]:
    """Play one run round by round; yield every page and the smallest probability of a link."""
    environment, problem = experiment.environment, experiment.problem
    kind, has_rules = type(policy), bool(problem.rules)
    n_links, n_slots = problem.n_links, problem.n_slots
    rules: PageRules | tuple[()] = ()
    if has_rules:
        rules, _, at_random = simulated_rules(problem).for_page(None)
        page = _explored_page_within(choosing_within(kind))
    else:
        at_random, page = np.full(n_links, n_slots / n_links), _explored_page(kind.choose)
    logged = LoggedPages(
        explore=float(explore),
        rules=rules,
        at_random=at_random,
        probabilities=np.zeros(n_links),
        links=np.zeros(min(n_slots + 1, n_links), np.int64),
        sums=new_sums(n_links),
        places=new_places(n_links),
    )
    _, *others = functions_of(policy, environment, has_rules)
    play = guarded_loop(policy, problem, (page, *others))
    buffers = new_buffers(problem, environment, np.ones(1, np.int64))._replace(rules=logged)
    state, world = policy.start(problem), environment.world(experiment.n_rounds)
    streams = [run_generator(experiment.seed, run, stream) for stream in (VISITORS, CHANCE)]
    for number in range(1, experiment.n_rounds + 1):
        buffers.checkpoints[0] = number
        play(state, world, buffers, number, *streams)
        row = number % len(buffers.shown)
        page_shown = SimulatedPage(
            buffers.visitors[row, :-1],
            buffers.shown[row],
            buffers.probabilities[row],
            buffers.outcomes[row],
            bool(buffers.is_in_random_order[row]),
        )
        yield page_shown, float(logged.probabilities.min())


SHAPE = 2.0
"""Rates of links are drawn from a beta distribution whose first parameter is this."""
TOLERANCE = 0.01
"""A floor counts as kept while the clicks per page view so far are at most 1 % below it."""


@dataclass(frozen=True)
class RoughPage:
    """What a team knows before it starts: sizes, the rates of a typical link, and the floor.

    `holdout` is the share of page views that get random links, with which the rest is compared.
    """

    n_links: int
    n_slots: int
    click_rate: float
    revenue_per_click: float
    click_floor: float = 0.0
    holdout: float = 0.05

    def __post_init__(self) -> None:
        for name in ("click_rate", "revenue_per_click", "holdout"):
            value = getattr(self, name)
            if not (is_finite_number(value) and 0 < value < 1):
                raise InvalidInput.of(name, "between 0 and 1", value)


@dataclass(frozen=True)
class Waiting:
    """Page views after which something holds in the wanted share of simulated cases.

    `low` and `high` are a 95 % interval for what the number of cases leaves open; infinite where
    it did not hold before the end of the simulation.
    """

    views: float
    low: float
    high: float


@dataclass(frozen=True)
class PlannedRamp:
    """Page views after which half and all pages are chosen, where an own page is to be kept.

    None where that takes more than `MOST_RAMP` page views. `ratio` is the revenue of chosen pages
    over that of the own page which the plan assumes.
    """

    keep: float
    ratio: float
    half: float | None
    all: float | None


MOST_RAMP = 1e8
"""Page views that a plan for an own page looks ahead."""


@dataclass(frozen=True)
class TrafficPlan:
    """Page views after which the floor stays kept, and after which the lift stays significant."""

    floor: Waiting
    lift: Waiting
    share_of_floors_in_reach: float
    certainty: float
    n_views: int
    n_cases: int
    ramp: PlannedRamp | None = None


def plan_traffic(  # noqa: PLR0913
    page: RoughPage,
    *,
    certainty: float = 0.95,
    n_views: int = 20_000,
    n_cases: int = 100,
    policy: Policy | None = None,
    rules: Sequence[Rule] = (),
    keep: float | None = None,
    seed: int = 1,
    progress: Callable[[float], None] | None = None,
) -> TrafficPlan:
    """Play many cases of a page whose links have rates around the rough ones.

    In each case the rates of the links are drawn anew, and the policy, the default one unless
    another is given, meets the same visitors as random pages do. The floor counts as kept from
    the view on after which the clicks per page view so far are never more than 1 % below it. The
    lift is visible from the view on after which the dashboard would call it certain: the intervals
    of chosen and random pages, which hold at all times at once with 95 %, do not overlap.
    `rules` are those of `simulate`; random pages keep them, too. With `keep`, the plan also says
    when half and all pages are chosen if the own page earns as much as a random page: at the ratio
    of revenue that is reached in the wanted share of the cases, on average over their views.
    """
    kept_part = checked_keep(keep)
    if not (is_finite_number(certainty) and 0.5 <= certainty < 1):
        raise InvalidInput.of("certainty", "at least 0.5 and below 1", certainty)
    n_cases = whole_number("n_cases", n_cases, at_least=10)
    rng = np.random.default_rng(seed)
    floors, lifts, in_reach = np.zeros(n_cases), np.zeros(n_cases), 0
    revenue = np.zeros((2, n_cases))
    for case in range(n_cases):
        clicks = _around(page.click_rate, page.n_links, rng)
        links = BernoulliLinks(clicks, _around(page.revenue_per_click, page.n_links, rng))
        results = simulate(
            links,
            {"policy": policy or default_policy(), "random": Uniform()},
            page.n_slots,
            page.click_floor,
            n_views,
            n_runs=1,
            seed=seed + case,
            rules=rules,
            n_threads=1,
        )
        in_reach += results.config["optimum"]["status"] != "infeasible"
        views = results.rounds.astype(np.float64)
        played, random = (results.totals[label] for label in ("policy", "random"))
        kept = played["clicks"][0] / views >= (1 - TOLERANCE) * page.click_floor
        floors[case] = _first_for_good(views, kept)
        lifts[case] = _lift_visible(played["reward"][0], random["reward"][0], views, page)
        revenue[:, case] = played["reward"][0, -1], random["reward"][0, -1]
        if progress is not None:
            progress((case + 1) / n_cases)
    ramp = None
    if kept_part is not None:
        ramp = _planned_ramp(page, kept_part, revenue / n_views, certainty)
    return TrafficPlan(
        floor=_waiting(floors, certainty),
        lift=_waiting(lifts, certainty),
        share_of_floors_in_reach=in_reach / n_cases,
        certainty=certainty,
        n_views=n_views,
        n_cases=n_cases,
        ramp=ramp,
    )


def _planned_ramp(page: RoughPage, keep: float, revenue: Floats, certainty: float) -> PlannedRamp:
    """Return when pages are chosen; `revenue` per view has a row for chosen and for own pages."""
    chosen, own = revenue
    is_sold = own > 0.0
    ratio = float(np.quantile(chosen[is_sold] / own[is_sold], 1.0 - certainty))
    mean = float(own.mean())
    own_page, chosen_page = (  # slots earn 0 or 1 on their own, as in `_lift_visible`
        PageRevenue(one, one * (1.0 - one / page.n_slots + one)) for one in (mean, ratio * mean)
    )
    terms = Terms(keep, float(page.n_slots), max(page.holdout, RANGES[-1]))
    found = expected_ramp(terms, own_page, chosen_page, MOST_RAMP)
    return PlannedRamp(keep, ratio, found.half, found.all)


def _around(mean: float, n_links: int, rng: np.random.Generator) -> Floats:
    return rng.beta(SHAPE, SHAPE * (1 - mean) / mean, n_links)


def _lift_visible(earned: Floats, by_chance: Floats, views: Floats, page: RoughPage) -> float:
    """Return the first checkpoint from which on the lift over the holdout stays certain.

    `earned` and `by_chance` sum up the revenue of chosen and random pages over `views`; the holdout
    has a share of the views. The squares are those of slots that earn 0 or 1 on their own.
    """

    def intervals(totals: Floats, share: float) -> tuple[Floats, Floats]:
        means = totals / views
        squares = share * views * means * (1.0 - means / page.n_slots + means)
        return mean_intervals(
            share * views,
            share * totals,
            squares,
            float(page.n_slots),
            failure_probability=FAILURE_PROBABILITY / 2.0,  # as the dashboard's lift
        )

    least, _ = intervals(earned, 1.0 - page.holdout)
    low, high = intervals(by_chance, page.holdout)
    return _first_for_good(views, (low > 0.0) & (least > high))


def _first_for_good(views: Floats, holds: NDArray[np.bool_]) -> float:
    """Return the first checkpoint from which on it holds to the end, infinite if there is none.

    >>> _first_for_good(np.array([1.0, 2.0, 3.0]), np.array([True, False, True]))
    3.0
    """
    fails = np.flatnonzero(~holds)
    first = 0 if not len(fails) else int(fails[-1]) + 1
    return float(views[first]) if first < len(views) else math.inf


def _waiting(found: Floats, certainty: float) -> Waiting:
    """Return the quantile over cases, with an interval from the order statistics."""
    in_order = np.sort(found)
    n_cases = len(found)
    spread = 1.96 * math.sqrt(n_cases * certainty * (1 - certainty))
    places = [certainty * n_cases, certainty * n_cases - spread, certainty * n_cases + spread]
    at = [min(max(math.ceil(place) - 1, 0), n_cases - 1) for place in places]
    views, low, high = (float(in_order[place]) for place in at)
    return Waiting(views, low, high)
