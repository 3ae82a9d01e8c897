"""Paced KL: optimism for links seen less than others, and a price paced by the floor's promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from slotwise.compile import hot, inner, int64
from slotwise.policies.evidence import Evidence, add_views, count_pages, new_evidence
from slotwise.policies.moss_bounds import (
    CAP,
    MossBounds,
    compute_bounds,
    forget_bounds,
    new_moss_bounds,
    note_views,
    refresh_bounds,
)
from slotwise.policies.paced_kl_visitors import PacedKLVisitors
from slotwise.policies.policy import (
    Floats,
    Links,
    Policy,
    Visitor,
    check_positive,
    require_no_rate_floors,
)
from slotwise.policies.prices import (
    QueuePolicy,
    Queues,
    new_queues,
    price_levels,
    queue_totals,
    score_link,
    score_links,
)
from slotwise.policies.tied_group import (
    TiedGroup,
    fill_up_from_group,
    find_above_group,
    forget_group,
    keep_group,
    leave_group,
    new_tied_group,
)
from slotwise.problem import Problem
from slotwise.selection.mix import Mix, new_mix
from slotwise.selection.page_search import N_CANDIDATES, Search, new_search
from slotwise.selection.share_slots import share_top_page
from slotwise.selection.top_page import top_page
from slotwise.selection.vectors.totals import total_of


class PacedKLState(NamedTuple):
    """Evidence, bounds made from it, and the queues that weigh them."""

    evidence: Evidence
    queues: Queues
    bounds: MossBounds
    score: Floats
    search: Search
    mix: Mix
    group: TiedGroup


@inner
def _compute_caps_on_page(state: PacedKLState) -> bool:
    """Replace caps that reached the page by bounds; say whether there were any."""
    bounds, search = state.bounds, state.search
    caps, n_caps = bounds.changed, int64(0)  # no link has changed: there is room
    for k in range(search.sizes[N_CANDIDATES]):
        caps[n_caps] = search.entry[k]
        n_caps += bounds.kind[search.entry[k]] == CAP
    compute_bounds(bounds, state.evidence, caps[:n_caps])
    for k in range(n_caps):
        score_link(state.queues, bounds.upper, 1, caps[k], state.score)
    return n_caps > 0


@hot
def choose(state: PacedKLState, visitor: Visitor, rng: np.random.Generator) -> None:
    """Take the links with the largest bound of revenue plus priced bound of clicks."""
    bounds, group, mix = state.bounds, state.group, state.mix
    queues, upper, score, search = state.queues, bounds.upper, state.score, state.search
    leave_group(group, bounds.changed[: bounds.n_changed[0]], mix)
    if refresh_bounds(bounds, state.evidence):
        forget_group(group)
    price_levels(queues, state.evidence.rounds)
    price, n_slots = queues.worth[0], queues.n_slots
    value, weight = score, 1.0
    if len(upper) == 2 and queues.worth[1] > 0.0:  # one bound beside the clicks: no sum to write
        value, weight = upper[1], queues.worth[1]
    else:
        score_links(queues, upper, 1, score)
    has_caps = True
    while has_caps:
        ends_in_group = find_above_group(
            group, value, upper[0], weight, price, n_slots, search, mix
        )
        if not ends_in_group:
            top_page(value, upper[0], len(value), n_slots, weight, price, search)
        has_caps = _compute_caps_on_page(state)
    if ends_in_group:
        fill_up_from_group(group, n_slots, search, mix)
    else:
        share_top_page(search.links, n_slots, search, mix)
        keep_group(group, mix)


@hot
def rank(state: PacedKLState, links: Links, worth: Floats) -> None:
    """Write the scores of links on the page chosen last."""
    queues, upper = state.queues, state.bounds.upper
    for k in range(len(links)):
        score_link(queues, upper, 1, links[k], state.score)
        worth[k] = state.score[links[k]] + queues.worth[0] * upper[0, links[k]]


@hot
def look_again(state: PacedKLState) -> None:
    """Let all bounds be recomputed before the next page."""
    forget_bounds(state.bounds)


@hot
def learn(
    state: PacedKLState,
    visitor: Visitor,
    level: int,
    links: Links,
    slots: Links,
    probabilities: Floats,
    views: Floats,
    outcomes: Floats,
) -> None:
    """Count, and let the queues of the level grow or shrink."""
    evidence = state.evidence
    n_views, brought = total_of(views), total_of(outcomes)
    count_pages(evidence, level, n_views)
    queue_totals(state.queues, level, n_views, brought, evidence.rounds)
    note_views(state.bounds, level, links, n_views, brought)
    for k in range(len(links)):
        add_views(evidence, level, links[k], views[k], outcomes[k])


@dataclass(frozen=True)
class PacedKL(QueuePolicy):
    """Paced KL: show the best links at a price for clicks that follows what the floor is owed.

        U(S, n) = max { q : n kl(S/n, q) <= c ln+(t L / (K N)) n / N },   one pseudo-view included
        shown   = the L largest  U_revenue + (Q / (v sqrt(floor t))) U_clicks
        Q      <- [Q + floor - clicks of the page + reserve / (2t) + debt growth]+
        reserve = Q less the clicks owed so far, where positive
        debt growth = sqrt(floor / t) / 4 while clicks are owed

    Of the N views of a link n are settled; n = N unless feedback comes late. A link with at least
    its share t L / K of views is taken at its mean, so optimism goes to links with fewer views
    (`slotwise.policies.moss_bounds`). c = `exploration`.

    Q is the virtual queue of drift plus penalty: the shortfall never exceeds it. A plain queue
    pays for its price with clicks owed, because the price is Q over a growing root; here the
    part of Q that is not owed grows with that root by itself, and Q grows faster than the debt,
    so that a floor that is expensive from the start is kept, too. The root is that of the clicks
    promised so far, by which their number varies whatever the policy does. v = `patience`:
    larger is smoother and slower to react. Several floors have a queue each, and rewards may be
    on several levels: a link is worth the sum of its bounds, each at its level's worth.

    Where visitors have features, `for_problem` returns `slotwise.policies.paced_kl_visitors`.

    Needs no horizon and no tuning. No bound on regret is proven for the parts together; the
    leaderboard shows what it does. A round costs about two bare rounds.

    >>> from slotwise.policies import NOBODY
    >>> from slotwise.problem import Problem
    >>> state = PacedKL().start(Problem(n_links=4, n_slots=2, click_floor=0.5))
    >>> PacedKL.choose(state, NOBODY, np.random.default_rng(1))
    >>> state.mix.probabilities[:4].tolist()
    [0.5, 0.5, 0.5, 0.5]
    """

    exploration: float = 0.5
    patience: float = 1.0

    name: ClassVar[str] = "paced-kl"
    choose: ClassVar[Any] = staticmethod(choose)
    uses_rng: ClassVar[bool] = False
    learn: ClassVar[Any] = staticmethod(learn)
    rank: ClassVar[Any] = staticmethod(rank)
    ranks_all: ClassVar[bool] = True
    look_again: ClassVar[Any] = staticmethod(look_again)

    def __post_init__(self) -> None:
        check_positive("exploration", self.exploration)
        check_positive("patience", self.patience)

    def for_problem(self, problem: Problem) -> Policy:
        """Return this policy, or paced KL for visitors where they have features."""
        if not problem.feature_sizes:
            return self
        return PacedKLVisitors(self.exploration, self.patience)

    def start(self, problem: Problem) -> PacedKLState:
        """Return a state in which every link has its one pseudo-view."""
        require_no_rate_floors(self.name, problem)
        queues = new_queues(problem, patience=self.patience)
        levels = {0, *np.flatnonzero(queues.rewards).tolist(), *queues.levels.tolist()}
        return PacedKLState(
            evidence=new_evidence(problem),
            queues=queues,
            bounds=new_moss_bounds(problem, levels, self.exploration),
            score=np.zeros(problem.n_links),
            search=new_search(problem.n_links),
            mix=new_mix(problem.n_links),
            group=new_tied_group(problem.n_links),
        )

    def restore_beyond_counts(self, state: PacedKLState, knowledge: Mapping[str, Floats]) -> None:
        """Give `state` the queues of `knowledge` and the totals of its counts."""
        super().restore_beyond_counts(state, knowledge)
        state.bounds.totals[:, 0] = state.evidence.views.sum(axis=1)
        state.bounds.totals[:, 1] = state.evidence.sums.sum(axis=1)
