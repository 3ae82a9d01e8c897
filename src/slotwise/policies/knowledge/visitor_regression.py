"""What visitors do to links: a Bayesian logistic regression for every link, with a shared prior.

    logit of link i for visitor x = b_i + sum over features f of e_fi(x_f)

at every level, given that the level before was passed. The prior is shared: `center` has the level
of the pool and what a value does to all links, `variance` how far links and effects lie around it.
A link that no visitor of a kind has seen starts from what is known of the link and from what
the kind does to all links, and a link that nobody has seen from the pool. Posteriors are Gaussian,
with the covariances between the effects on one link (`link_posterior`): bad luck is explained
once, not once by every feature.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.policies.contract import Floats
from slotwise.policies.knowledge.link_posterior import (
    Layout,
    Solution,
    new_layout,
    new_solution,
    solve_link,
)
from slotwise.problem import Problem
from slotwise.selection.compiled import inner

__all__ = ["VisitorRegression", "by_link", "new_visitor_regression", "solve_posterior"]

LINK_VARIANCE = 1.0
"""Variance of the logits of links around the pool: links several times better remain likely."""
FIRST_VARIANCE = 0.03
"""That of all features' effects together before anything is known: they must prove to matter."""
MAX_LOGIT = 4.0
"""Rates are taken to be at most 98 %; more information than that has no rate."""


class VisitorRegression(NamedTuple):
    """What is known, in the first half, and room for what follows from it.

    `information` and `tilt` are J and the tilt of each parameter, by level and link. `waiting` has
    outcomes of each level whose next level has yet to settle, and the views of which they came.
    `unit` is the size of a sale in which `tilt` counts the last level.
    """

    information: Floats
    tilt: Floats
    waiting: Floats
    value_views: Floats
    seen: Floats
    center: Floats
    variance: Floats
    unit: Floats
    layout: Layout
    solution: Solution
    fitted: Floats


KNOWN = ("information", "tilt", "waiting", "value_views", "seen", "center", "variance", "unit")
"""What of the regression is saved."""


def new_visitor_regression(problem: Problem) -> VisitorRegression:
    """Return a regression that has seen nothing."""
    n_levels, n_links, sizes = problem.n_levels, problem.n_links, problem.feature_sizes
    layout = new_layout(sizes)
    n_parameters = 1 + sum(sizes)
    variance = np.full((n_levels, 1 + len(sizes)), FIRST_VARIANCE / max(1, len(sizes)))
    variance[:, 0] = LINK_VARIANCE
    return VisitorRegression(
        information=np.zeros((n_levels, n_links, layout.n_entries)),
        tilt=np.zeros((n_levels, n_links, n_parameters)),
        waiting=np.zeros((2, n_levels, n_links)),
        value_views=np.zeros((sum(sizes), n_links)),
        seen=np.zeros(sum(sizes)),
        center=np.zeros((n_levels, n_parameters)),
        variance=variance,
        unit=np.zeros(1),
        layout=layout,
        solution=new_solution(layout),
        fitted=np.zeros((4, n_parameters)),
    )


def by_link(regression: VisitorRegression) -> dict[str, Floats]:
    """Return what is saved, as views of the arrays in which links are the last axis."""
    known = {name: getattr(regression, name) for name in KNOWN}
    return known | {name: known[name].swapaxes(1, 2) for name in ("information", "tilt")}


@inner
def solve_posterior(regression: VisitorRegression, level: int, link: int) -> None:
    """Write the posterior of a link at a level into `solution`."""
    solve_link(
        regression.layout,
        regression.information[level, link],
        regression.tilt[level, link],
        regression.center[level],
        regression.variance[level],
        regression.solution,
    )
