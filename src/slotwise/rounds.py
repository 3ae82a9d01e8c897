"""A page view and what came of it: the decision, with its exact propensities."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

__all__ = ["Decision", "Link"]

Link = Hashable
"""What a program calls a link: any hashable value."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One page: the links shown, in order, and the probability that each link had.

    `id` names the page in feedback; it is different for every page of every selector.
    """

    id: str
    shown: tuple[Link, ...]
    probabilities: Mapping[Link, float] = field(hash=False)
