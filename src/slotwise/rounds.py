"""A decision: the links that were shown, with the exact probability of each.

Used by `player`, `selector` and `testing`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a default: `Decision` alone is of any link

    AnyLink = TypeVar("AnyLink", bound=Hashable, default=Hashable, covariant=True)
else:
    from typing import TypeVar

    AnyLink = TypeVar("AnyLink", bound=Hashable, covariant=True)

__all__ = ["Decision", "Link"]

Link = Hashable
"""What a program calls a link: any hashable value."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[AnyLink]):
    """One page: the links shown, in order, and the probability that each link had.

    `id` names the page in feedback; it is different for every page of every selector. `group` is
    "own" for the page that the team has today, otherwise "chosen". For type checkers
    `Decision[str]` is a page of links that are texts.
    """

    id: str
    shown: tuple[AnyLink, ...]
    probabilities: Mapping[AnyLink, float] = field(hash=False)
    group: str = "chosen"
