"""Paced Bayes: one optimistic score per link, and a price paced by the clicks owed to the floor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.compile import hot, inner, int64, switching
from slotwise.policies.evidence import Evidence, add_views, count_open, count_rounds, new_evidence
from slotwise.policies.joint_posterior import (
    JointPosterior,
    largest_growth,
    margin_of_page,
    mean_worth,
    new_joint_posterior,
    note_outcomes,
    note_worth,
    notice_change,
    open_debt,
    outcome_worth,
    refit_level,
    refresh_posteriors,
    reward_in_sales,
    score_boosted,
    score_jointly,
    score_link_jointly,
)
from slotwise.policies.paced_bayes_visitors import (
    PacedBayesVisitors,
    PacedBayesWide,
    has_few_pairs,
)
from slotwise.policies.policy import (
    Floats,
    Knowledge,
    Links,
    Policy,
    State,
    Visitor,
    check_horizon,
    check_positive,
    require_no_rate_floors,
)
from slotwise.policies.prices import (
    MAX_EXPECTED,
    QueuePolicy,
    Queues,
    correct_queues,
    expect_price,
    new_queues,
    priced,
)
from slotwise.policies.tied_group import (
    LEAST_POOL,
    TiedGroup,
    fill_up_from_group,
    find_above_group,
    forget_group,
    keep_group,
    leave_group,
    list_from,
    new_tied_group,
)
from slotwise.problem import Problem
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_search import N_CANDIDATES, Search, new_search
from slotwise.selection.page_within_rules import best_within
from slotwise.selection.share_slots import take_top_links

UNKNOWN = -1.0
"""Marks an expected price that is not computed yet."""

NO_FLOOR = int64(-1)

UNBOUNDED = 1e9
"""The margin while no known page keeps the floors: any better link is worth its trials."""

MAX_GROWTH, MIN_LINKS_PER_NEAR = 1.2, 8
"""All links are scored again if scores may have grown more, or too many may be on the page."""

SAFE = 1.0 + 1e-9
"""Rounding never makes a score grow by this factor."""

HIDDEN = -1.0
"""Less than any score."""

REFITTED = ("worth", "margin")
FITTED = ("pool", "clock", "sales", *REFITTED)
"""Parts of the posterior that are saved: those of the pool as a whole."""

FORGOTTEN = frozenset({"forgotten_views", "forgotten_sums"})


class PacedBayesState(NamedTuple):
    """Evidence, the posterior made from it, and the inputs of the price of each level.

    `expected` is the price of each floor by the posterior means, in units of the revenue of an
    outcome of its level. `score` is each link's bound at the values `scored_at` of the levels.
    """

    evidence: Evidence
    queues: Queues
    expected: Floats
    posterior: JointPosterior
    score: Floats
    scored_at: Floats
    value: Floats
    buffer: Floats
    search: Search
    price_search: Search
    mix: Mix
    group: TiedGroup


@inner
def _price_levels(state: PacedBayesState, without: int) -> None:
    """Compute the value of a unit of each level, in sales: its reward and its floors' prices.

    Leaves out the price of floor `without`.
    """
    queues = state.queues
    for level in range(len(queues.worth)):
        queues.worth[level] = reward_in_sales(state.posterior, queues.rewards, level)
    for floor in range(len(queues.lengths)):
        if floor != without:
            level = queues.levels[floor]
            unit = outcome_worth(state.posterior, queues.rewards, level)
            debt = 0.0
            if state.evidence.open_pages[level] > 0.0:
                least = queues.least[floor]
                debt = open_debt(state.posterior, state.evidence, level, least, state.buffer)
            price = priced(queues, floor, state.expected[floor], state.evidence.rounds, debt)
            queues.worth[level] += unit * price


@inner
def _expect_prices(state: PacedBayesState) -> None:
    """Compute the expected price of each floor at the prices of the others, and the margin."""
    queues = state.queues
    refresh_posteriors(state.posterior, state.evidence, False)
    forget_group(state.group)
    for floor in range(len(queues.lengths)):
        if state.expected[floor] == UNKNOWN:
            state.expected[floor] = 0.0
    is_short = False
    for floor in range(len(queues.lengths)):
        _price_levels(state, floor)
        level = queues.levels[floor]
        mean_worth(state.posterior, queues.worth, level, state.value, state.buffer)
        unit = outcome_worth(state.posterior, queues.rewards, level)
        price = expect_price(
            state.value,
            state.buffer,
            queues.n_slots,
            queues.least[floor],
            MAX_EXPECTED * unit,
            state.price_search,
        )
        state.expected[floor] = price / unit
        is_short = is_short or price >= MAX_EXPECTED * unit
    _price_levels(state, NO_FLOOR)
    mean_worth(state.posterior, queues.worth, 0, state.value, state.buffer)
    margin = UNBOUNDED
    if not is_short:
        margin = margin_of_page(state.value, queues.n_slots, state.price_search)
    note_worth(state.posterior, state.evidence, queues.worth, margin)


@inner
def _has_open_pages(state: PacedBayesState) -> bool:
    """Return whether pages are open: prices then change with every page, not only with feedback."""
    is_any = False
    for level in range(len(state.evidence.open_pages)):
        is_any |= state.evidence.open_pages[level] > 0.0
    return is_any


@hot
def note_open(state: PacedBayesState, level: int, links: Links, n_views: float) -> None:
    """Count page views whose feedback at a level is open."""
    count_open(state.evidence, level, links, n_views)
    if level == 0:
        for k in range(len(links)):
            state.posterior.is_stale[links[k]] = True


@inner
def _score_all(state: PacedBayesState) -> None:
    """Write the scores of all links."""
    refresh_posteriors(state.posterior, state.evidence, True)
    if _has_open_pages(state):
        _price_levels(state, NO_FLOOR)
    score_jointly(state.posterior, state.queues.worth, state.score, state.buffer)


@inner
def _choose_of_few(state: PacedBayesState) -> None:
    """Choose a page by scoring every link, for a small pool."""
    _score_all(state)
    n_slots, clicks = state.queues.n_slots, state.posterior.mean[0]
    take_top_links(state.score, clicks, 0.0, n_slots, state.search, state.mix)


@inner
def _find_above_group(state: PacedBayesState, changed: Links) -> bool:
    """Put the links above the group into `state.search`; return whether the group fills the rest.

    Scores are those of the worths `state.scored_at`. Few links can have risen above the group since
    then, and only these are scored again. Returns False if there are more.
    """
    posterior, score, entry = state.posterior, state.score, state.search.entry
    worth, n_slots = state.queues.worth, state.queues.n_slots
    growth = largest_growth(worth, state.scored_at)
    if state.group.size[0] < n_slots or growth > MAX_GROWTH:
        return False
    for link in changed:
        score[link] = score_link_jointly(posterior, state.scored_at, link)
    of_group = score_link_jointly(posterior, worth, state.mix.tied[0])
    n_near = list_from(score, of_group / (growth * SAFE), entry)
    if n_near * MIN_LINKS_PER_NEAR > len(score):
        return False
    n_above = int64(0)
    for k in range(n_near):
        link = entry[k]
        its_score = score_link_jointly(posterior, worth, link)
        if its_score == of_group:
            return False
        entry[n_above] = link
        n_above += its_score > of_group
    state.search.sizes[N_CANDIDATES] = n_above
    return n_above < n_slots


@inner
def _choose_beside_group(state: PacedBayesState) -> None:
    """Choose the same page as `_choose_of_few`, with the tied links of the last page's group.

    Scores of links in the group are set to `HIDDEN`: they are all equal and known.
    """
    posterior, group, score, mix = state.posterior, state.group, state.score, state.mix
    changed = posterior.to_do[: refresh_posteriors(posterior, state.evidence, True)]
    if _has_open_pages(state):
        _price_levels(state, NO_FLOOR)
    leave_group(group, changed, mix)
    n_slots, search = state.queues.n_slots, state.search
    if _find_above_group(state, changed):
        fill_up_from_group(group, n_slots, search, mix)
        return
    score_jointly(posterior, state.queues.worth, score, state.buffer)
    for level in range(len(state.scored_at)):
        state.scored_at[level] = state.queues.worth[level]
    if find_above_group(group, score, n_slots, search, mix):
        fill_up_from_group(group, n_slots, search, mix)
    else:
        take_top_links(score, posterior.mean[0], 0.0, n_slots, search, mix)
        keep_group(group, mix)
    for k in range(group.size[0]):
        score[mix.tied[k]] = HIDDEN


@hot
def choose(state: PacedBayesState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Take the links with the largest bound on the value of a view."""
    if len(state.score) < LEAST_POOL:
        _choose_of_few(state)
    else:
        _choose_beside_group(state)


@hot
def choose_within(
    state: PacedBayesState, visitor: Visitor, rng: np.random.Generator, rules: PageRules
) -> None:
    """Take the best page within the rules at the scores of all links."""
    _score_all(state)
    forget_group(state.group)  # it does not belong to this page
    queues = state.queues
    for k in range(len(state.score)):
        rules.worth[k] = state.score[k]
    score_boosted(state.posterior, queues.worth, queues.rewards, rules.boost, rules.worth)
    best_within(rules, rules.worth, rules.worth)


@hot
def rank(state: PacedBayesState, links: Links, worth: Floats) -> None:
    """Write the scores of links on the page chosen last."""
    for k in range(len(links)):
        worth[k] = score_link_jointly(state.posterior, state.queues.worth, links[k])


@hot
def refresh(state: PacedBayesState) -> None:
    """Mark all posteriors to be recomputed before the next page, and compute missing prices."""
    state.posterior.is_stale[:] = True
    is_unknown = False
    for floor in range(len(state.expected)):
        is_unknown |= state.expected[floor] == UNKNOWN
    if is_unknown:
        _expect_prices(state)
    _price_levels(state, NO_FLOOR)


@hot
def learn(
    state: PacedBayesState,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, correct the queues of the level, and refit pool and prices as the rounds grow."""
    count_rounds(state.evidence, level, views)
    if level == 0 and notice_change(state.posterior, state.evidence, links, views, outcomes):
        state.posterior.clock[0] = 0.0
    correct_queues(state.queues, level, views, outcomes, state.evidence.rounds)
    note_outcomes(state.posterior, state.evidence, level, links, views, outcomes)
    for k in range(len(links)):
        add_views(state.evidence, level, links[k], views[k], outcomes[k])
    if refit_level(state.posterior, state.evidence, level):
        _expect_prices(state)
    if not _has_open_pages(state):
        _price_levels(state, NO_FLOOR)


@dataclass(frozen=True)
class PacedBayes(QueuePolicy):
    """Paced Bayes: show the links with the largest bounds, at the price of the floor.

        shown = the L largest  E + sqrt(2 w Var) + (2/3) w Var / E  of  a (b + price)
        w     = c ln(1 + 7 t L / (K N) * D / (D + 2 sqrt(Var)))
        price = b0 [expected + s Q / (v sqrt(floor t))]+,   b0 the pool's mean revenue per click

    a and b are the posterior click rate and revenue per click of a link, under priors fitted to the
    pool, and D is the margin of a link on the page over one not on it (`joint_posterior`). One
    bound on the whole score explores less than the sum of two, which counts the uncertainty of the
    click twice. The expected price is that of the floor program on the posterior means, and Q what
    the page owes and a reserve (`prices`). The price is in units of the revenue of a click, so that
    revenue in another currency gives the same pages. If clicks stay far below those expected, the
    links have changed, and most of the counts are discarded (`link_posterior`). c = `exploration`,
    v = `patience`: larger is smoother and slower to react.

    `horizon` is the number of rounds T if it is known: T - t then replaces t, which reduces regret.
    Set it only if it is certain: a horizon that is too short costs much more than it gains. After
    it, and for visitors with features, the policy plays as without one.

    Needs no horizon and no tuning. Several floors have a queue each. No regret bound is proven for
    the whole policy; the leaderboard shows its performance.

    >>> from slotwise.policies import NOBODY
    >>> from slotwise.problem import Problem
    >>> state = PacedBayes().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> PacedBayes.choose(state, NOBODY, np.random.default_rng(1))
    >>> state.mix.probabilities[:4].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    exploration: float = 0.6
    patience: float = 0.5
    horizon: int | None = None

    name: ClassVar[str] = "paced-bayes"
    choose: ClassVar[Any] = staticmethod(choose)
    uses_rng: ClassVar[bool] = False
    learn: ClassVar[Any] = staticmethod(learn)
    choose_within: ClassVar[Any] = staticmethod(choose_within)
    rank: ClassVar[Any] = staticmethod(rank)
    ranks_all: ClassVar[bool] = True
    note_open: ClassVar[Any] = staticmethod(note_open)
    carries_surplus: ClassVar[bool] = True
    refresh: ClassVar[Any] = staticmethod(refresh)
    per_link: ClassVar[frozenset[str]] = QueuePolicy.per_link | FORGOTTEN
    ordered_knowledge: ClassVar[Any] = (
        FORGOTTEN | {"queue", "owed", "price", "missing", "drift"} | set(FITTED)
    )
    refitted_knowledge: ClassVar[frozenset[str]] = frozenset({"price", "pool", *REFITTED})

    def __post_init__(self) -> None:
        check_positive("exploration", self.exploration)
        check_positive("patience", self.patience)
        check_horizon(self.horizon)

    def for_problem(self, problem: Problem) -> Policy:
        """Return this policy, or its form for visitors with features, or with many values."""
        if not problem.feature_sizes:
            return self
        return PacedBayesVisitors() if has_few_pairs(problem) else PacedBayesWide()

    def for_knowledge(self, problem: Problem, knowledge: Mapping[str, Any]) -> Policy:
        """Return the form for visitors that has learned `knowledge`, regardless of the features."""
        if problem.feature_sizes and "information" in knowledge:
            return PacedBayesVisitors()
        if problem.feature_sizes and "precision" in knowledge:
            return PacedBayesWide()
        return self.for_problem(problem)

    def start(self, problem: Problem) -> PacedBayesState:
        """Return a state that has only the prior."""
        require_no_rate_floors(self.name, problem)
        state = PacedBayesState(
            evidence=new_evidence(problem),
            queues=new_queues(problem, patience=self.patience),
            expected=np.full(len(problem.active_floors), MAX_EXPECTED),
            posterior=new_joint_posterior(problem, self.exploration, self.horizon),
            score=np.zeros(problem.n_links),
            scored_at=np.zeros(problem.n_levels),
            value=np.zeros(problem.n_links),
            buffer=np.zeros(problem.n_links),
            search=new_search(problem.n_links),
            price_search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
            group=new_tied_group(problem.n_links),
        )
        _price_levels(state, NO_FLOOR)
        return state

    def plan_for(self, state: PacedBayesState, n_rounds: float) -> Policy:
        """Return the policy with a horizon `n_rounds` ahead."""
        return replace(self, horizon=max(1, round(float(state.evidence.rounds[0]) + n_rounds)))

    def knowledge(self, state: PacedBayesState) -> Knowledge:
        """Return the evidence, the queues, the fit of the pool and the discarded counts."""
        fitted = {name: getattr(state.posterior, name).copy() for name in FITTED}
        change = state.posterior.change
        return {
            **super().knowledge(state),
            **fitted,
            "price": state.expected.copy(),
            "missing": change.missing.copy(),
            "drift": change.drift.copy(),
            "forgotten_views": change.views.copy(),
            "forgotten_sums": change.sums.copy(),
        }

    def restore_beyond_counts(
        self, state: PacedBayesState, knowledge: Mapping[str, Floats]
    ) -> None:
        """Restore the queues, the fit of the pool and the discarded counts."""
        super().restore_beyond_counts(state, knowledge)
        for name in FITTED:
            getattr(state.posterior, name)[:] = knowledge[name]
        is_known = len(knowledge["price"]) == len(state.expected)
        state.expected[:] = knowledge["price"] if is_known else UNKNOWN
        change = state.posterior.change
        change.missing[:] = knowledge["missing"]
        change.drift[:] = knowledge.get("drift", 0.0)  # older states have none
        change.views[:] = np.clip(knowledge["forgotten_views"], 0.0, state.evidence.views)
        change.sums[:] = np.clip(knowledge["forgotten_sums"], 0.0, state.evidence.sums)

    def move(self, state: PacedBayesState, problem: Problem, kept: Links) -> State:
        """Return a state for a changed pool, with the prices of its floors there."""
        moved: Any = super().move(state, problem, kept)
        moved.expected[:] = UNKNOWN
        switching(refresh)(moved)
        return moved
