"""The types of fields and bodies that several resources share."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from slotwise.service.limits import (
    CURRENCY_PATTERN,
    ID_PATTERN,
    MAX_ID_CHARS,
    MAX_SLOTS,
)

__all__ = ["Currency", "DecisionId", "Id", "LinkId", "PinBody", "Pins", "Slots", "Strict"]

Id = Annotated[str, Meta(pattern=ID_PATTERN, min_length=1, max_length=MAX_ID_CHARS)]
DecisionId = Annotated[Id, Meta(description="The page, as `decide` named it")]
LinkId = Annotated[Id, Meta(description="The link, by its id in the pool")]
Currency = Annotated[str, Meta(pattern=CURRENCY_PATTERN, description="ISO 4217")]
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
