"""What policies know that depends on the order in which feedback comes.

Used by tests that compare two ways of reporting the same feedback.
"""

from __future__ import annotations

from slotwise.policies import LExp, PacedBayes
from slotwise.policies.paced_bayes import OF_FLOORS

OF_VISITORS = frozenset({"information", "tilt", "waiting", "center", "variance", "segment_missing"})
OF_POOL = frozenset({"pool", "amounts", "worth", "margin", "sales", "squares"})

ORDERED: dict[str, frozenset[str]] = {
    LExp.name: frozenset({"log_weights", "multiplier"}),
    "queue-ts": frozenset({"queue"}),
    PacedBayes.name: OF_POOL
    | OF_VISITORS
    | OF_FLOORS.keys()
    | {"views", "sums", "missing", "drift", "clock", "recent", "turns", "priced"},
}
"""What depends on the order of feedback."""
REFITTED: dict[str, frozenset[str]] = {PacedBayes.name: OF_POOL | OF_VISITORS | {"price"}}
"""What depends on the levels that had settled before."""


def ordered(name: str) -> frozenset[str]:
    """Return the names of the knowledge of a policy that depends on the order of feedback."""
    return ORDERED.get(name, frozenset())


def refitted(name: str) -> frozenset[str]:
    """Return the names of the knowledge that depends on the levels that had settled before."""
    return REFITTED.get(name, frozenset())
