"""The types of fields and bodies that several resources share."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slotwise.service.limits import (
    CURRENCY_PATTERN,
    ID_PATTERN,
    MAX_FEATURE_VALUES,
    MAX_FEATURES,
    MAX_ID_CHARS,
    MAX_SEGMENT_FLOORS,
    MAX_SLOTS,
    MAX_VALUE_CHARS,
)

__all__ = [
    "Currency",
    "DecisionId",
    "Features",
    "FloorsBy",
    "Id",
    "LinkId",
    "PinBody",
    "Pins",
    "SlotWeights",
    "Slots",
    "Strict",
    "Visitor",
]

Id = Annotated[str, Meta(pattern=ID_PATTERN, min_length=1, max_length=MAX_ID_CHARS)]
DecisionId = Annotated[Id, Meta(description="The page, as `decide` named it")]
LinkId = Annotated[Id, Meta(description="The link, by its id in the pool")]
Currency = Annotated[str, Meta(pattern=CURRENCY_PATTERN, description="ISO 4217")]
FeatureValues = Annotated[
    tuple[str | float, ...], Meta(min_length=1, max_length=MAX_FEATURE_VALUES)
]
Features = Annotated[
    dict[str, Literal["text", "bool"] | FeatureValues],
    Meta(
        max_length=MAX_FEATURES,
        description="What may be said of a visitor: by name a list of words, a list of rising "
        'numbers (bin edges), "text" (an open list of words) or "bool"',
    ),
]
FloorsBy = Annotated[
    dict[
        str,
        Annotated[
            dict[str, Annotated[float, Meta(ge=0, lt=MAX_SLOTS)]],
            Meta(max_length=MAX_SEGMENT_FLOORS),
        ],
    ],
    Meta(
        max_length=MAX_FEATURES,
        description="Fewest expected clicks per page view of visitors with one value of a "
        "feature, by feature and value, beside the floor for all",
    ),
]
Visitor = Annotated[
    dict[str, Annotated[str, Meta(max_length=MAX_VALUE_CHARS)] | bool | float | None],
    Meta(
        max_length=4 * MAX_FEATURES,
        description="What is known of the visitor: values of the pool's features",
    ),
]
SlotWeights = Annotated[
    Literal["learn"]
    | Annotated[tuple[Annotated[float, Meta(gt=0, le=1e6)], ...], Meta(max_length=MAX_SLOTS)]
    | None,
    Meta(
        description="How often a link is clicked in each slot, relative to the average slot; "
        '"learn" to find out while serving, null where slots are alike',
    ),
]
Slots = Annotated[int, Meta(ge=1, le=MAX_SLOTS, description="How many links a page has")]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of bodies in which an unknown field is refused: it is a mistake of the caller."""


class PinBody(Strict, frozen=True, kw_only=True):
    """A link that must stand at a position, 1 being the first."""

    link_id: LinkId
    position: Annotated[int, Meta(ge=1, le=MAX_SLOTS, description="1 is the first place")]


Pins = Annotated[
    tuple[PinBody, ...], Meta(max_length=MAX_SLOTS, description="Links at a fixed position")
]
