"""What callers send and what they get back where that is not simply a stored record."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from slotwise.policies import default_policy
from slotwise.service.answers import Time
from slotwise.service.destinations import HOST_PATTERN, MAX_URL_CHARS
from slotwise.service.records import (
    AdjustmentEvent,
    ClickEvent,
    ConversionEvent,
    Event,
    OutcomeName,
    Scope,
)
from slotwise.service.router import ID_PATTERN

__all__ = [
    "AdjustmentBody",
    "BatchBody",
    "BatchOutcomes",
    "ClickBody",
    "ConversionBody",
    "DecideAnswer",
    "DecideBody",
    "EventBody",
    "ExportQuery",
    "FloorAnswer",
    "Id",
    "ItemOutcome",
    "KeyAnswer",
    "KeyBody",
    "KeyList",
    "LinkAnswer",
    "LinkBatchBody",
    "LinkBody",
    "LinkItem",
    "LinkList",
    "LinkPatch",
    "MoneyBody",
    "NewKeyAnswer",
    "PageLink",
    "PinBody",
    "PolicyBody",
    "PoolAnswer",
    "PoolBody",
    "PoolList",
    "PoolPatch",
]

Id = Annotated[str, Meta(pattern=ID_PATTERN, min_length=1, max_length=64)]
Host = Annotated[str, Meta(pattern=HOST_PATTERN, max_length=255, description="host or host:port")]
Currency = Annotated[str, Meta(pattern=r"^[A-Z]{3}$(?!\n)", description="ISO 4217")]
Url = Annotated[str, Meta(pattern="^https?://", max_length=MAX_URL_CHARS)]
Title = Annotated[str, Meta(max_length=200)]
Slots = Annotated[int, Meta(ge=1, le=100)]
ClickFloor = Annotated[float, Meta(ge=0, lt=100, description="Expected clicks a page view")]
WindowSeconds = Annotated[int, Meta(ge=1, le=7_776_000, description="From the decision on")]
Holdout = Annotated[float, Meta(ge=0, le=1, description="Share of uniformly random pages")]
Hosts = Annotated[tuple[Host, ...], Meta(min_length=1, max_length=100)]
Order = Annotated[tuple[Id, ...], Meta(max_length=10_000)]
ClientTime = Annotated[str, Meta(max_length=64, description="Annotation only")]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of what admin and decide calls send: an unknown field is a mistake."""


class PinBody(Strict, frozen=True, kw_only=True):
    """A link that must stand at a position, 1 being the first."""

    link_id: Id
    position: Annotated[int, Meta(ge=1, le=100)]


Pins = Annotated[tuple[PinBody, ...], Meta(max_length=100)]


class MoneyBody(Strict, frozen=True, kw_only=True):
    """An amount in micro-units: 12.50 EUR is 12500000."""

    amount_micros: Annotated[int, Meta(ge=1, le=1_000_000_000_000_000)]
    currency: Currency


class PolicyBody(Strict, frozen=True, kw_only=True):
    """A policy by its name in the registry, with its settings."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    settings: dict[str, Any] = {}


class PoolBody(Strict, frozen=True, kw_only=True):
    """How a pool is run."""

    slots: Slots
    max_revenue: MoneyBody
    allowed_hosts: Hosts
    click_floor: ClickFloor = 0.0
    click_window_s: WindowSeconds = 1800
    revenue_window_s: WindowSeconds = 86400
    policy: PolicyBody = PolicyBody(name=default_policy().name)
    holdout: Holdout = 0.0
    fallback_order: Order = ()
    pins: Pins = ()


class PoolPatch(Strict, frozen=True, kw_only=True):
    """The fields of a pool to change; the others stay."""

    slots: Slots | UnsetType = UNSET
    max_revenue: MoneyBody | UnsetType = UNSET
    allowed_hosts: Hosts | UnsetType = UNSET
    click_floor: ClickFloor | UnsetType = UNSET
    click_window_s: WindowSeconds | UnsetType = UNSET
    revenue_window_s: WindowSeconds | UnsetType = UNSET
    policy: PolicyBody | UnsetType = UNSET
    holdout: Holdout | UnsetType = UNSET
    fallback_order: Order | UnsetType = UNSET
    pins: Pins | UnsetType = UNSET


class PoolAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A pool as stored."""

    pool_id: str
    slots: int
    click_floor: float
    max_revenue: MoneyBody
    click_window_s: int
    revenue_window_s: int
    policy: PolicyBody
    holdout: float
    fallback_order: tuple[str, ...]
    pins: tuple[PinBody, ...]
    allowed_hosts: tuple[str, ...]
    archived: bool
    n_links: int
    created_at: Time
    changed_at: Time


class PoolList(msgspec.Struct, frozen=True):
    """Every pool, archived ones too."""

    pools: list[PoolAnswer]


class LinkBody(Strict, frozen=True, kw_only=True):
    """Where a link leads."""

    url: Url
    title: Title = ""
    reset_statistics: bool = False


class LinkPatch(Strict, frozen=True, kw_only=True):
    """The fields of a link to change; the others stay."""

    url: Url | UnsetType = UNSET
    title: Title | UnsetType = UNSET
    retired: bool | UnsetType = UNSET
    reset_statistics: bool = False


class LinkItem(Strict, frozen=True, kw_only=True):
    """One link of a batch."""

    link_id: Id
    url: Url
    title: Title = ""


class LinkBatchBody(Strict, frozen=True, kw_only=True):
    """Links to add or replace, all or none."""

    links: Annotated[tuple[LinkItem, ...], Meta(min_length=1)]
    reset_statistics: bool = False


class LinkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A link as stored."""

    pool_id: str
    link_id: str
    url: str
    title: str
    retired: bool
    created_at: Time
    changed_at: Time


class LinkList(msgspec.Struct, frozen=True):
    """Links in the order in which they were first registered."""

    links: list[LinkAnswer]


class DecideBody(Strict, frozen=True, kw_only=True):
    """Wishes for one page; all optional."""

    exclude: Annotated[tuple[Id, ...], Meta(max_length=1000)] = ()
    pin: Pins = ()
    slots: Slots | None = None
    decision_id: Id | None = None


class FloorAnswer(msgspec.Struct, frozen=True):
    """How the page stands to the click floor."""

    clicks: float
    expected: float
    attainable: float
    status: Literal["met", "learning", "infeasible"]


class PageLink(msgspec.Struct, frozen=True):
    """One link of a page."""

    link_id: str
    position: int
    url: str
    click_url: str
    propensity: float
    title: str


class DecideAnswer(msgspec.Struct, frozen=True):
    """A page: its links in order."""

    decision_id: str
    pool_id: str
    issued_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    policy: str
    policy_version: int
    holdout: bool
    fallback: bool
    fallback_reason: str
    floor: FloorAnswer
    links: list[PageLink]


class ClickBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="click"):
    """A link of a page was clicked."""

    decision_id: Id
    link_id: Id
    client_time: ClientTime | None = None

    def event(self) -> Event:
        """Return the event as it is recorded."""
        return ClickEvent(
            decision_id=self.decision_id, link_id=self.link_id, client_time=self.client_time
        )


class ConversionBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="conversion"):
    """A click brought revenue."""

    conversion_id: Id
    decision_id: Id
    link_id: Id
    revenue_micros: int
    currency: Currency
    client_time: ClientTime | None = None

    def event(self) -> Event:
        """Return the event as it is recorded."""
        return ConversionEvent(
            conversion_id=self.conversion_id,
            decision_id=self.decision_id,
            link_id=self.link_id,
            revenue_micros=self.revenue_micros,
            currency=self.currency,
            client_time=self.client_time,
        )


class AdjustmentBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="adjustment"):
    """Revenue of a conversion was taken back."""

    adjustment_id: Id
    conversion_id: Id
    refund_micros: int
    currency: Currency
    client_time: ClientTime | None = None

    def event(self) -> Event:
        """Return the event as it is recorded."""
        return AdjustmentEvent(
            adjustment_id=self.adjustment_id,
            conversion_id=self.conversion_id,
            refund_micros=self.refund_micros,
            currency=self.currency,
            client_time=self.client_time,
        )


EventBody = ClickBody | ConversionBody | AdjustmentBody


class BatchBody(msgspec.Struct, frozen=True):
    """Events, each judged by itself."""

    events: Annotated[tuple[msgspec.Raw, ...], Meta(min_length=1)]


class ItemOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one event; `pointer` names what breaks a rule."""

    outcome: OutcomeName
    reason: str = ""
    detail: str = ""
    pointer: str = ""


class BatchOutcomes(msgspec.Struct, frozen=True):
    """One outcome for each event, in order."""

    outcomes: list[ItemOutcome]


class KeyBody(Strict, frozen=True, kw_only=True):
    """What a new key may do."""

    scopes: Annotated[
        tuple[Scope, ...], Meta(min_length=1, extra_json_schema={"uniqueItems": True})
    ]
    label: Annotated[str, Meta(max_length=200)] = ""


class KeyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret."""

    key_id: str
    scopes: tuple[Scope, ...]
    label: str
    created_at: Time
    revoked_at: Time | None


class NewKeyAnswer(KeyAnswer, frozen=True, kw_only=True):
    """A key with its secret: the only time it is shown."""

    key: str


class KeyList(msgspec.Struct, frozen=True):
    """Every key, revoked ones too."""

    keys: list[KeyAnswer]


class ExportQuery(Strict, frozen=True, kw_only=True):
    """Which rounds, and in which form; times in RFC 3339."""

    format: Literal["jsonl", "parquet"] = "jsonl"
    since: Time | UnsetType = UNSET
    until: Time | UnsetType = UNSET
