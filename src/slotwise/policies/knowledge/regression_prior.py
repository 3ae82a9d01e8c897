"""The prior that all links share, fitted to what visitors were seen to do.

The variance of a feature's effects is renewed with the pool, and all links follow when it moved:

    variance <- (v0 + sum (e - center)^2) / (1 + sum (1 - Var e / variance))

(MacKay 1992), at most that of the links: few links whose effects are extreme would otherwise
make everybody try all links. The denominator counts the effects that the data determines, so few
data say little. A feature that does not matter gets a small variance, and its effects are then
nearly 0.
"""

from __future__ import annotations

import math

from slotwise.policies.knowledge.visitor_regression import (
    FIRST_VARIANCE,
    LINK_VARIANCE,
    VisitorRegression,
    solve_posterior,
)
from slotwise.selection.compiled import inner

__all__ = ["fit_prior", "rescale"]

WEIGHT_OF_FIRST = 1.0
"""Effects that the first guess of a variance counts for."""
LEAST_VARIANCE = 1e-4
COMMON_EFFECTS = 5.0
"""Links after which what a value does to all links has half its full weight."""
MOVED = 0.05
"""Links are refreshed when a part of the prior's center moves so far, or a variance by 10 %."""


@inner
def rescale(regression: VisitorRegression, unit: float) -> bool:
    """Count the last level in another size of a sale; return whether that made a difference.

    All logits of the level move by the same step, which is the log of the ratio.
    """
    before = regression.unit[0]
    if unit <= 0.0 or (before > 0.0 and abs(math.log(unit / before)) <= MOVED):
        return False
    regression.unit[0] = unit
    if before <= 0.0:  # nothing was sold yet
        return False
    level = len(regression.center) - 1
    step = math.log(before / unit)
    tilt, information = regression.tilt[level], regression.information[level]
    for link in range(len(tilt)):
        for parameter in range(tilt.shape[1]):
            tilt[link, parameter] += step * information[link, parameter]
    return True


@inner
def fit_prior(regression: VisitorRegression, level: int, pool_mean: float, must: bool) -> bool:
    """Fit the prior of a level to the links; return whether it moved, so that all must follow."""
    layout, solution, fitted = regression.layout, regression.solution, regression.fitted
    center, variance = regression.center[level], regression.variance[level]
    n_links = regression.tilt.shape[1]
    fitted[:] = 0.0
    for link in range(n_links):
        if regression.information[level, link, 0] > 0.0:
            solve_posterior(regression, level, link)
            for value in range(len(layout.feature_of)):
                own = variance[1 + layout.feature_of[value]]
                known = max(0.0, 1.0 - solution.variance[1 + value] / own)
                effect = solution.mean[1 + value] - center[1 + value]
                fitted[0, value] += known
                fitted[1, value] += known * solution.mean[1 + value]
                fitted[2, value] += effect * effect
    moved = must
    level_of_pool = math.log(pool_mean / (1.0 - pool_mean))
    moved |= abs(level_of_pool - center[0]) > MOVED
    fitted[3, 0] = level_of_pool
    for value in range(len(layout.feature_of)):
        common = fitted[1, value] / (fitted[0, value] + COMMON_EFFECTS)
        fitted[3, 1 + value] = common
        moved |= abs(common - center[1 + value]) > MOVED
    first = FIRST_VARIANCE / max(1, len(variance) - 1)
    for feature in range(len(variance) - 1):
        before = variance[1 + feature]
        above, below = WEIGHT_OF_FIRST * first, WEIGHT_OF_FIRST
        for value in range(layout.first[feature], layout.first[feature + 1]):
            above += fitted[2, value]
            below += fitted[0, value]
        own = min(LINK_VARIANCE, max(LEAST_VARIANCE, above / below))
        moved |= abs(own / before - 1.0) > 2.0 * MOVED
        solution.tilt[1 + feature] = own
    if moved:
        for parameter in range(len(center)):
            center[parameter] = fitted[3, parameter]
        for feature in range(len(variance) - 1):
            variance[1 + feature] = solution.tilt[1 + feature]
    return moved
