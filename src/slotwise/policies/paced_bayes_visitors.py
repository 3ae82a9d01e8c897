"""Paced Bayes for visitors with features: one price for all, a posterior for each visitor.

Used by `paced_bayes`, `visitor_pages` and `service`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import hot, inner, switching
from slotwise.policies.evidence import (
    Evidence,
    EvidencePolicy,
    add_views,
    count_open,
    count_rounds,
    new_evidence,
)
from slotwise.policies.joint_posterior import (
    JointPosterior,
    new_joint_posterior,
    note_outcomes,
    outcome_worth,
    prior_mean,
    refit_level,
    reward_in_sales,
    score_boosted,
    score_jointly,
)
from slotwise.policies.link_posterior import SALES, UNIT, entries_of, new_layout, pair
from slotwise.policies.policy import (
    Feedback,
    Floats,
    Knowledge,
    Links,
    State,
    Visitor,
    check_positive,
    require_no_rate_floors,
)
from slotwise.policies.prices import (
    QueuePolicy,
    Queues,
    SegmentFloors,
    moved_segment_floors,
    new_queues,
    new_segment_floors,
    price_clicks,
    priced,
    queue_clicks,
    queue_outcomes,
    segment_knowledge,
)
from slotwise.policies.visitor_regression import (
    KNOWN,
    Sight,
    VisitorRegression,
    by_link,
    count_visitor,
    fit_prior,
    known_part,
    learn_link,
    new_sight,
    new_visitor_regression,
    notice_missing,
    rate_for,
    refresh_level,
    rescale,
)
from slotwise.problem import Problem
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.page_rules import PageRules
from slotwise.selection.page_search import Search, new_search
from slotwise.selection.page_within_rules import best_within
from slotwise.selection.share_slots import take_top_links

MAX_NUMBERS = 1_600_000
"""Maximum number of entries of a pool for pairs of values: about 45 MB in total."""
MAX_ADDED = 20_000
"""Maximum number of terms of a page at each level: 30,000 took more than 100 us."""
MAX_OTHER_VALUES = 24
"""Maximum number of values of all features but the largest: a link is learned in microseconds."""

N_VISITORS = 64
"""Number of visitors that represent those seen: enough for shares in steps of 1.6 %."""

LOG_GROWTH = math.log(1.1)
"""With many values, the prior of effects is fitted when rounds have grown by 10 %."""

FITTED = ("pool", "clock", "sales")


def has_few_pairs(problem: Problem) -> bool:
    """Return whether features have few enough values to store an effect for every pair of them."""
    sizes, n_links = problem.feature_sizes, problem.n_links
    n_added = n_links * (1 + len(sizes)) * (2 + len(sizes)) // 2
    is_small = n_links * entries_of(sizes) <= MAX_NUMBERS and n_added <= MAX_ADDED
    return is_small and sum(sizes) - max(sizes, default=0) <= MAX_OTHER_VALUES


def visitors_like_those_seen(
    pages: Floats, feature_of: Links, n_visitors: int
) -> NDArray[np.int64]:
    """Return visitors, a row each, with the frequencies of values in the pages seen.

    Correlations of features are not known: each is assigned independently, deterministically.
    """
    dealer = np.random.default_rng(0)
    places = (np.arange(n_visitors) + 0.5) / n_visitors
    columns = []
    for feature in range(int(feature_of.max(initial=-1)) + 1):
        values = np.flatnonzero(feature_of == feature)
        seen = pages[values]
        shares = np.cumsum(seen if seen.any() else np.ones(len(values)))
        column = values[np.searchsorted(shares, places * shares[-1], side="right")]
        columns.append(dealer.permutation(column))
    return np.array(columns, np.int64).reshape(len(columns), n_visitors).T.copy()


class PacedBayesVisitorsState(NamedTuple):
    """Evidence, the regression made from it, and the queues that set the price.

    `posterior` has the estimates of the pool; the rest of it is a buffer for one visitor.
    """

    evidence: Evidence
    queues: Queues
    segment_floors: SegmentFloors
    regression: VisitorRegression
    sight: Sight
    posterior: JointPosterior
    score: Floats
    buffer: Floats
    search: Search
    mix: Mix


@inner
def price_in_sales(state: PacedBayesVisitorsState) -> None:
    """Compute the value of a unit of each level: its reward and the price of its floors."""
    queues, posterior = state.queues, state.posterior
    for level in range(len(queues.worth)):
        queues.worth[level] = reward_in_sales(posterior, queues.rewards, level)
    for floor in range(len(queues.lengths)):
        level = queues.levels[floor]
        unit = outcome_worth(posterior, queues.rewards, level)
        debt = 0.0
        if state.evidence.open_pages[level] > 0.0:
            debt = _open_debt(state, level, queues.least[floor])
        queues.worth[level] += unit * priced(queues, floor, 0.0, state.evidence.rounds, debt)


@inner
def _open_debt(state: PacedBayesVisitorsState, level: int, least: float) -> float:
    """Return the expected shortfall of open pages from `least` per page, by average rates.

    A link not seen yet has the expected outcome of the pool.
    """
    evidence, pool = state.evidence, state.posterior.pool[level]
    opened, views, sums = evidence.open_views[level], evidence.views[level], evidence.sums[level]
    expected = 0.0
    for link in range(len(opened)):
        expected += opened[link] * (sums[link] + pool) / (views[link] + 1.0)
    return least * evidence.open_pages[level] - expected


@inner
def _discount_open(state: PacedBayesVisitorsState) -> None:
    """Count open views in the variance and width of links as if they were settled."""
    evidence, posterior = state.evidence, state.posterior
    for link in range(len(posterior.width)):
        opened = evidence.open_views[0, link]
        if opened > 0.0:
            settled = evidence.views[0, link] + 1.0
            share = settled / (settled + opened)
            grown = math.expm1(posterior.width[link] / posterior.exploration)
            posterior.width[link] = posterior.exploration * math.log1p(share * grown)
            for level in range(len(posterior.mean)):
                posterior.variance[level, link] *= share


@hot
def note_open(state: PacedBayesVisitorsState, level: int, links: Links, n_views: float) -> None:
    """Count page views whose feedback at a level has yet to come."""
    count_open(state.evidence, level, links, n_views)


@inner
def _score_for(state: PacedBayesVisitorsState, visitor: Visitor) -> None:
    """Write the scores of all links for a visitor."""
    queues, posterior = state.queues, state.posterior
    price_in_sales(state)
    unit = outcome_worth(posterior, queues.rewards, 0)
    queues.worth[0] += unit * price_clicks(state.segment_floors, visitor)
    rate_for(state.regression.layout, state.sight, posterior, visitor, queues.n_slots)
    if state.evidence.open_pages[0] > 0.0:
        _discount_open(state)
    score_jointly(posterior, queues.worth, state.score, state.buffer)


@hot
def choose(state: PacedBayesVisitorsState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Take the links with the largest bound on the value of a view by this visitor."""
    _score_for(state, visitor)
    clicks, n_slots = state.posterior.mean[0], state.queues.n_slots
    take_top_links(state.score, clicks, 0.0, n_slots, state.search, state.mix)


@hot
def choose_within(
    state: PacedBayesVisitorsState, visitor: Visitor, rng: np.random.Generator, rules: PageRules
) -> None:
    """Take the best page within the rules at the scores of all links."""
    _score_for(state, visitor)
    queues = state.queues
    for k in range(len(state.score)):  # a boost affects the page, not the order of its slots
        rules.worth[k] = state.score[k]
    score_boosted(state.posterior, queues.worth, queues.rewards, rules.boost, rules.worth)
    best_within(rules, rules.worth, rules.worth)


@hot
def rank(state: PacedBayesVisitorsState, links: Links, worth: Floats) -> None:
    """Write the scores of links on the page chosen last."""
    for k in range(len(links)):
        worth[k] = state.score[links[k]]


@hot
def refresh(state: PacedBayesVisitorsState) -> None:
    """Recompute everything that is derived from the knowledge."""
    if len(state.sight.odds) > 0:
        for level in range(len(state.queues.worth)):
            refresh_level(state.regression, state.sight, level)


@inner
def _is_due(state: PacedBayesVisitorsState, level: int, before: float) -> bool:
    """Return whether a fit of the prior of effects is due; rounds grow by 10 % with many values.

    `before` are the rounds of the previous fit of the pool.
    """
    if state.regression.layout.has_pairs:
        return True
    now = state.posterior.clock[level]
    return math.floor(math.log(now) / LOG_GROWTH) > math.floor(math.log(before) / LOG_GROWTH)


@inner
def _refit(state: PacedBayesVisitorsState, level: int) -> None:
    """Fit the prior of a level, and refresh all links if it moved."""
    regression, posterior = state.regression, state.posterior
    must = False
    if level == len(regression.center) - 1 and posterior.sales[SALES] > 0.0:
        must = rescale(regression, posterior.sales[UNIT])
    moved = fit_prior(regression, level, prior_mean(posterior, level), must)
    if moved and len(state.sight.odds) > 0:
        refresh_level(regression, state.sight, level)


@hot
def learn(
    state: PacedBayesVisitorsState,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, update the queues of the level, and learn from the visitor."""
    evidence, regression = state.evidence, state.regression
    before = evidence.rounds[level]
    count_rounds(evidence, level, views)
    queue_outcomes(state.queues, level, views, outcomes, evidence.rounds)
    if level == 0:
        queue_clicks(state.segment_floors, visitor, views, outcomes)
        count_visitor(regression, visitor, evidence.rounds[0] - before)
    note_outcomes(state.posterior, evidence, level, links, views, outcomes)
    if regression.unit[0] == 0.0 and state.posterior.sales[SALES] > 0.0:
        rescale(regression, state.posterior.sales[UNIT])
    expected = n_clicks = 0.0
    for k in range(len(links)):
        link = links[k]
        add_views(evidence, level, link, views[k], outcomes[k])
        due = learn_link(regression, state.sight, visitor, level, link, views[k], outcomes[k])
        n_clicks += outcomes[k]  # also further clicks, which come without a view
        if level == 0 and views[k] > 0.0:
            expected += due * known_part(regression, visitor, link, due / views[k])
    if level == 0:
        n_pages = evidence.rounds[0] - before
        if notice_missing(regression, visitor, evidence.rounds[0], expected, n_clicks, n_pages):
            refresh(state)
    clock = state.posterior.clock[level]
    if refit_level(state.posterior, evidence, level) and _is_due(state, level, clock):
        _refit(state, level)


@dataclass(frozen=True)
class PacedBayesVisitors(QueuePolicy):
    """Paced Bayes where visitors have features; `PacedBayes.for_problem` returns it.

        shown = the L largest  E + sqrt(2 w Var) + (2/3) w Var / E  of  a(x) (b(x) + price)
        w     = c ln(1 + t L / (K N(x)))
        N(x)  = N times (N_v + 1) / (N t_v / t + 1) for each value v of x
        price = b0 Q / (v sqrt(floor t))

    a(x) and b(x) are a link's click rate and revenue per click for visitor x, by the posterior of
    `visitor_regression`. The bound is that of `joint_posterior`. Of the t page views, N showed the
    link, t_v had a visitor with value v of a feature, and N_v both; N(x) is how often all visitors
    would have seen the link if they had seen it as often as visitors like x.

    If clicks of a segment stay far below those expected, its preferences have changed, and most of
    what was learned from its views is discarded; from all views, if visitors have several features.

    The best mix for different visitors has one price for all of them, so there is one paced queue Q
    for the floor (`prices`), in units of b0, the pool's mean revenue per click. Floors of segments
    have a queue each, whose prices are added to that of the floor for all.
    """

    exploration: float = 0.6
    patience: float = 0.5

    name: ClassVar[str] = "paced-bayes"
    choose: ClassVar[Any] = staticmethod(choose)
    uses_rng: ClassVar[bool] = False
    learn: ClassVar[Any] = staticmethod(learn)
    choose_within: ClassVar[Any] = staticmethod(choose_within)
    rank: ClassVar[Any] = staticmethod(rank)
    ranks_all: ClassVar[bool] = True
    note_open: ClassVar[Any] = staticmethod(note_open)
    refresh: ClassVar[Any] = staticmethod(refresh)
    needs: ClassVar[Any] = Feedback.PAGES_IN_ORDER
    per_link: ClassVar[frozenset[str]] = EvidencePolicy.per_link | {
        *("information", "tilt", "waiting", "value_views")
    }
    ordered_knowledge: ClassVar[Any] = frozenset(
        {"queue", "segment_queue", *KNOWN, *FITTED} - {"value_views", "seen"}
    )
    refitted_knowledge: ClassVar[frozenset[str]] = frozenset(
        {"pool", *KNOWN} - {"value_views", "seen"}
    )
    newer_knowledge: ClassVar[frozenset[str]] = frozenset({"missing"})
    keeps_segment_floors: ClassVar[bool] = True
    uses_visitors: ClassVar[bool] = True
    has_pairs: ClassVar[bool] = True
    """Whether links store an entry for every pair of values."""

    def __post_init__(self) -> None:
        check_positive("exploration", self.exploration)
        check_positive("patience", self.patience)

    def start(self, problem: Problem) -> PacedBayesVisitorsState:
        """Return a state in which every link has the pool's prior for all visitors."""
        require_no_rate_floors(self.name, problem)
        evidence = new_evidence(problem)
        regression = new_visitor_regression(problem, self.has_pairs)
        state = PacedBayesVisitorsState(
            evidence=evidence,
            queues=new_queues(problem, patience=self.patience),
            segment_floors=new_segment_floors(problem, self.patience),
            regression=regression,
            sight=new_sight(regression, evidence.rounds, evidence.views[0]),
            posterior=new_joint_posterior(problem, self.exploration),
            score=np.zeros(problem.n_links),
            buffer=np.zeros(problem.n_links),
            search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
        )
        switching(refresh)(state)
        return state

    def learning_only(self, state: PacedBayesVisitorsState) -> PacedBayesVisitorsState:
        """Return the state without the arrays of `choose`: it can learn, but not choose."""
        none = np.zeros((0, 0, 0), np.float32)
        return state._replace(sight=state.sight._replace(odds=none, doubt=none))

    def visitors_seen(self, state: PacedBayesVisitorsState) -> NDArray[np.int64]:
        """Return visitors with the values that were seen, in the same shares."""
        regression = state.regression
        return visitors_like_those_seen(regression.seen, regression.layout.feature_of, N_VISITORS)

    def knowledge(self, state: PacedBayesVisitorsState) -> Knowledge:
        """Return the evidence, the queues, the regression and the fit of the pool."""
        regression = {name: array.copy() for name, array in by_link(state.regression).items()}
        fitted = {name: getattr(state.posterior, name).copy() for name in FITTED}
        segments = {
            name: array.copy() for name, array in segment_knowledge(state.segment_floors).items()
        }
        return {**super().knowledge(state), **regression, **fitted, **segments}

    def restore_beyond_counts(
        self, state: PacedBayesVisitorsState, knowledge: Mapping[str, Floats]
    ) -> None:
        """Restore the queues, the regression and the fit of the pool."""
        super().restore_beyond_counts(state, knowledge)
        for name, array in by_link(state.regression).items():
            array[:] = knowledge.get(name, 0.0) if name in self.newer_knowledge else knowledge[name]
        for name in FITTED:
            getattr(state.posterior, name)[:] = knowledge[name]
        for name, array in segment_knowledge(state.segment_floors).items():
            array[:] = knowledge[name]

    def merge_value(
        self, knowledge: Knowledge, problem: Problem, value: int, into: int
    ) -> Knowledge:
        """Add the feedback of visitors with one value to that of those with another one.

        J and the tilt are sums over views, so this is exact for the rates at which views were
        learned.
        """
        merged = {name: array.copy() for name, array in knowledge.items()}
        layout = new_layout(problem.feature_sizes)
        own = layout.feature_of[value]
        others = [one for one, feature in enumerate(layout.feature_of) if feature != own]
        places = {
            "information": [(1 + value, 1 + into)]
            + [(pair(layout, value, one), pair(layout, into, one)) for one in others],
            "tilt": [(1 + value, 1 + into)],
        }
        for name, moves in places.items():
            for old, new in moves:
                merged[name][:, new] += merged[name][:, old]
                merged[name][:, old] = 0.0
        for name in ("value_views", "seen"):
            merged[name][into] += merged[name][value]
            merged[name][value] = 0.0
        merged["center"][:, 1 + value] = 0.0
        merged["missing"][value] = 0.0
        return merged

    def move(self, state: PacedBayesVisitorsState, problem: Problem, kept: Links) -> State:
        """Return a state for a changed pool; a segment that still has a floor keeps its queue."""
        floors = moved_segment_floors(state.segment_floors, problem, self.patience)
        return super().move(state._replace(segment_floors=floors), problem, kept)


def _apart(names: frozenset[str]) -> frozenset[str]:
    return frozenset("precision" if name == "information" else name for name in names)


class PacedBayesWide(PacedBayesVisitors):
    """Paced Bayes for features with many values, or many links.

    The effects on a link are assumed to be independent (`add_apart` in `link_posterior`), so a link
    needs one number for each value, not for each pair, and the time to learn a page grows with the
    number of features.
    """

    has_pairs: ClassVar[bool] = False
    per_link: ClassVar[frozenset[str]] = _apart(PacedBayesVisitors.per_link)
    ordered_knowledge: ClassVar[Any] = _apart(PacedBayesVisitors.ordered_knowledge)
    refitted_knowledge: ClassVar[frozenset[str]] = _apart(PacedBayesVisitors.refitted_knowledge)
