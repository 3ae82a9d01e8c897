"""Sources of feedback for simulations, and data sets to build them from.

An environment makes a world from its settings and serves the page of each round with one compiled
function: `bernoulli` has the paper's levels, `revenue_amounts` other amounts of a click,
`visitor_shops` different visitors, `drifting` rates that change, `late_feedback` delays. `datasets`
has the paper's data and look-alikes. Simulations use it, and it may import `selection` and the
layers below.
"""

from slotwise.environments.bernoulli import (
    BernoulliLevels,
    BernoulliLinks,
    IntervalLinks,
)
from slotwise.environments.drifting import DriftingLinks, drift_towards
from slotwise.environments.environment import Environment, VisitorRates
from slotwise.environments.late_feedback import LateFeedback
from slotwise.environments.revenue_amounts import BetaRevenueLinks, FixedPriceLinks
from slotwise.environments.visitor_shops import LogisticLinks, SegmentLinks

__all__ = [
    "BernoulliLevels",
    "BernoulliLinks",
    "BetaRevenueLinks",
    "DriftingLinks",
    "Environment",
    "FixedPriceLinks",
    "IntervalLinks",
    "LateFeedback",
    "LogisticLinks",
    "SegmentLinks",
    "VisitorRates",
    "drift_towards",
]
