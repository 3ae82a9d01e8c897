"""Goals and budgets with a date in the engine, paced as the service paces them; for `goals`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from slotwise.arrays import Floats, Whole
from slotwise.environments import Environment
from slotwise.errors import InvalidInput, whole_number
from slotwise.player.link_pool import LinkPool
from slotwise.player.pacing import HOUR_US, SECOND_US, Goal, GoalProgress, Goals, Traffic, pace
from slotwise.player.rules_in_force import RulesInForce, check_links
from slotwise.policies import Policy, default_policy, make_policy
from slotwise.problem import Problem, Rule
from slotwise.selection.page_rules import PageRules
from slotwise.simulation.engine import (
    CLICKED,
    LINK_COUNTS,
    SETTLED,
    SHOWN,
    TOTAL,
    new_buffers,
    player_of_run,
)

DAY_S = 86_400
MAX_PAGE_VIEWS = 10**9


@dataclass(frozen=True)
class GoalRule:
    """A goal of views or clicks of some links until the end of a simulation, or a budget of clicks.

    Links are numbered from 0 on and count together.
    """

    name: str
    links: Sequence[int]
    views: int | None = None
    clicks: int | None = None
    budget: int | None = None

    def __post_init__(self) -> None:
        amounts = {name: getattr(self, name) for name in ("views", "clicks", "budget")}
        asked = {name: amount for name, amount in amounts.items() if amount is not None}
        if not asked:
            rule = f"given for rule {self.name!r}, or `clicks` or `budget`"
            raise InvalidInput.of("views", rule, None)
        for name, amount in asked.items():
            whole_number(name, amount, at_least=0)
        if isinstance(self.links, str) or not isinstance(self.links, Sequence):
            raise InvalidInput.of("links", f"a list for rule {self.name!r}", self.links)
        for link in self.links:
            whole_number("links", link, at_least=0)


@dataclass(frozen=True)
class GoalRun:
    """The outcome of goals: views and clicks of the links of each at the end, by name.

    `clicks_per_view` and `revenue_per_view` are means over all page views.
    """

    views: dict[str, int]
    clicks: dict[str, int]
    clicks_per_view: float
    revenue_per_view: float


def simulate_goals(
    links: Environment,
    goals: Sequence[GoalRule],
    n_slots: int,
    page_views: Sequence[int],
    *,
    click_floor: float = 0.0,
    rules: Sequence[Rule] = (),
    policy: Policy | str | None = None,
    interval_s: int = 600,
    seed: int = 1,
) -> GoalRun:
    """Simulate page views with goals and budgets, paced as the service does it.

    `page_views` has the page views of each interval of `interval_s` seconds, from midnight of a
    Thursday on. They may change over time; pacing does not know them in advance. Before each
    interval it sets the slots that goals need and budgets allow, in one program with `rules` and
    the click floor. Clicks count when the environment reveals them.

    >>> import slotwise
    >>> shop = slotwise.BernoulliLinks([0.3, 0.2, 0.1], [0.5, 0.5, 0.5])
    >>> partner = GoalRule("partner", links=[2], views=1_000)
    >>> found = simulate_goals(shop, [partner], 1, [20] * 144, policy=slotwise.CUCB())
    >>> 990 <= found.views["partner"] <= 1_020
    True
    """
    counts = [whole_number("page_views", n, at_least=0) for n in page_views]
    if not 0 < sum(counts) <= MAX_PAGE_VIEWS:
        rule = f"from 1 to {MAX_PAGE_VIEWS:,} page views in all"
        raise InvalidInput.of("page_views", rule, sum(counts))
    n_slots = whole_number("n_slots", n_slots, at_least=1)
    if not 1 <= whole_number("interval_s", interval_s, at_least=1) <= DAY_S:
        raise InvalidInput.of("interval_s", f"from 1 to {DAY_S}", interval_s)
    seed = whole_number("seed", seed, at_least=0)
    if links.slot_weights and len(links.slot_weights) != n_slots:
        rule = f"as many as `slot_weights` ({len(links.slot_weights)})"
        raise InvalidInput.of("n_slots", rule, n_slots)
    if links.views_per_round != 1:
        rule = "links with one page view a round"
        raise InvalidInput.of("links", rule, f"{links.views_per_round} views a round")
    caps = [Rule(one.name, one.links, at_most=min(n_slots, len(one.links))) for one in goals]
    problem = Problem(
        links.n_links,
        n_slots,
        click_floor,
        levels=links.levels,
        horizon=sum(counts),
        features=links.features,
        rules=(*caps, *rules),
    )
    pacing = _Pacing(links, goals, problem, counts, interval_s * SECOND_US)
    ends = np.array(list(accumulate(counts)))
    if not isinstance(policy, Policy):
        policy = default_policy() if policy is None else make_policy(policy)
    of_links, totals = play_paced(policy, links, problem, ends, seed, pacing.rules_now)

    def by_name(row: Floats) -> dict[str, int]:
        return {one.name: round(float(row[list(one.links)].sum())) for one in goals}

    means = totals / sum(counts)
    return GoalRun(
        by_name(of_links[SHOWN]), by_name(of_links[CLICKED]), float(means[0]), float(means[-1])
    )


def play_paced(
    policy: Policy,
    environment: Environment,
    problem: Problem,
    ends: Whole,
    seed: int,
    pace: Callable[[Floats], PageRules],
) -> tuple[Floats, Floats]:
    """Play a run in parts that end at some rounds; return counts of links and totals of levels.

    `pace` gets the counts so far, rows `SHOWN`, `SETTLED` and `CLICKED`, and returns the rules of
    the next part's pages. The problem must have rules, too.
    """
    buffers = new_buffers(problem, environment, ends[-1:])
    buffers = buffers._replace(of_links=np.zeros((len(LINK_COUNTS), problem.n_links)))
    play, first_round = player_of_run(policy, environment, problem, int(ends[-1]), (seed, 0)), 1
    for end in ends.tolist():
        play(
            buffers._replace(rules=pace(buffers.of_links), checkpoints=np.array([end])), first_round
        )
        first_round = end + 1
    return buffers.of_links, buffers.totals[TOTAL, : problem.n_levels]


class _Pacing:
    """Sets the rules of one interval after the other."""

    def __init__(
        self,
        links: Environment,
        goals: Sequence[GoalRule],
        problem: Problem,
        page_views: Sequence[int],
        interval_us: int,
    ) -> None:
        self._pool = LinkPool(range(problem.n_links))
        check_links(problem.rules, self._pool)
        self._goals, self._problem, self._page_views = goals, problem, page_views
        self._interval_us, self._n_played = interval_us, 0
        self._late_views = links.delays[0] * links.views_per_round
        self._traffic = Traffic()

    def rules_now(self, of_links: Floats) -> PageRules:
        """Return the rules of the next interval, from the counts of links so far."""
        now_us, until_us = (n * self._interval_us for n in (self._n_played, len(self._page_views)))
        if self._n_played:
            n_pages = self._page_views[self._n_played - 1]
            self._traffic.add(n_pages, now_us - self._interval_us, now_us)
        self._n_played += 1
        rules = list(self._problem.rules)
        for place, one in enumerate(self._goals):
            asked = (one.views, one.clicks, one.budget)
            goals = Goals(*(None if n is None else Goal(n, until_us) for n in asked))
            views, settled, clicks = of_links[[SHOWN, SETTLED, CLICKED]][:, list(one.links)].sum(1)
            per_hour = max(self._traffic.views_until(now_us, now_us + HOUR_US), 1.0)
            window_us = round(self._late_views * HOUR_US / per_hour)
            done = GoalProgress(views, clicks, views - settled, 0.0, window_us)
            rate = (clicks + 1.0) / (settled + 2.0)
            least, most = pace(goals, done, self._traffic, rate, now_us)
            most = min(most, float(rules[place].at_most or 0.0))
            rules[place] = Rule(one.name, one.links, at_least=min(least, most), at_most=most)
        return RulesInForce(rules, self._pool, self._problem.n_slots).for_page(None).rules
