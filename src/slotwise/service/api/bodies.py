"""What callers send and what they get back where that is not simply a stored record."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from slotwise.policies import default_policy
from slotwise.service.api.answers import Time
from slotwise.service.api.destinations import HOST_PATTERN, MAX_URL_CHARS
from slotwise.service.http.router import ID_PATTERN
from slotwise.service.records import (
    AdjustmentEvent,
    ClickEvent,
    ConversionEvent,
    Event,
    OutcomeName,
    Scope,
)

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
DecisionId = Annotated[Id, Meta(description="The page, as `decide` named it")]
LinkId = Annotated[Id, Meta(description="The link, by its id in the pool")]
ConversionId = Annotated[Id, Meta(description="Your own, for ever this sale's: an order's number")]
Host = Annotated[str, Meta(pattern=HOST_PATTERN, max_length=255, description="host or host:port")]
Currency = Annotated[str, Meta(pattern=r"^[A-Z]{3}$(?!\n)", description="ISO 4217")]
Url = Annotated[
    str,
    Meta(
        pattern="^https?://",
        max_length=MAX_URL_CHARS,
        description="Where the link leads, on one of the pool's hosts",
    ),
]
Title = Annotated[str, Meta(max_length=200, description="What a page calls the link")]
Reset = Annotated[bool, Meta(description="Forget what is known of the link")]
Slots = Annotated[int, Meta(ge=1, le=100, description="How many links a page has")]
ClickFloor = Annotated[float, Meta(ge=0, lt=100, description="Expected clicks a page view")]
WindowSeconds = Annotated[int, Meta(ge=1, le=7_776_000)]
ClickWindow = Annotated[
    WindowSeconds, Meta(description="How long after the page view a click counts")
]
RevenueWindow = Annotated[
    WindowSeconds, Meta(description="How long after the page view a sale counts")
]
Holdout = Annotated[float, Meta(ge=0, le=1, description="Share of uniformly random pages")]
Hosts = Annotated[
    tuple[Host, ...],
    Meta(min_length=1, max_length=100, description="Where links may lead and the script may run"),
]
Order = Annotated[
    tuple[Id, ...],
    Meta(max_length=10_000, description="What to show, in order, while there is nothing better"),
]
ClientTime = Annotated[str, Meta(max_length=64, description="Annotation only")]


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of what admin and decide calls send: an unknown field is a mistake."""


class PinBody(Strict, frozen=True, kw_only=True):
    """A link that must stand at a position, 1 being the first."""

    link_id: LinkId
    position: Annotated[int, Meta(ge=1, le=100, description="1 is the first place")]


Pins = Annotated[
    tuple[PinBody, ...], Meta(max_length=100, description="Links at a position of their own")
]


class MoneyBody(Strict, frozen=True, kw_only=True):
    """An amount in micro-units: 12.50 EUR is 12500000."""

    amount_micros: Annotated[
        int, Meta(ge=1, le=1_000_000_000_000_000, description="Millionths of the currency")
    ]
    currency: Currency


MaxRevenue = Annotated[
    MoneyBody, Meta(description="The most that one click can bring; more is clipped")
]


class PolicyBody(Strict, frozen=True, kw_only=True):
    """A policy by its name in the registry, with its settings."""

    name: Annotated[str, Meta(min_length=1, max_length=64)]
    settings: dict[str, Any] = {}


class PoolBody(Strict, frozen=True, kw_only=True):
    """How a pool is run."""

    slots: Slots
    max_revenue: MaxRevenue
    allowed_hosts: Hosts
    click_floor: ClickFloor = 0.0
    click_window_s: ClickWindow = 1800
    revenue_window_s: RevenueWindow = 86400
    policy: PolicyBody = PolicyBody(name=default_policy().name)
    holdout: Holdout = 0.0
    fallback_order: Order = ()
    pins: Pins = ()


class PoolPatch(Strict, frozen=True, kw_only=True):
    """The fields of a pool to change; the others stay."""

    slots: Slots | UnsetType = UNSET
    max_revenue: MaxRevenue | UnsetType = UNSET
    allowed_hosts: Hosts | UnsetType = UNSET
    click_floor: ClickFloor | UnsetType = UNSET
    click_window_s: ClickWindow | UnsetType = UNSET
    revenue_window_s: RevenueWindow | UnsetType = UNSET
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
    reset_statistics: Reset = False


class LinkPatch(Strict, frozen=True, kw_only=True):
    """The fields of a link to change; the others stay."""

    url: Url | UnsetType = UNSET
    title: Title | UnsetType = UNSET
    retired: (
        Annotated[bool, Meta(description="Shown no more; still followed and counted")] | UnsetType
    ) = UNSET
    reset_statistics: Reset = False


class LinkItem(Strict, frozen=True, kw_only=True):
    """One link of a batch."""

    link_id: LinkId
    url: Url
    title: Title = ""


class LinkBatchBody(Strict, frozen=True, kw_only=True):
    """Links to add or replace, all or none."""

    links: Annotated[
        tuple[LinkItem, ...],
        Meta(min_length=1, description="Links to add, or to put in their place"),
    ]
    reset_statistics: Reset = False


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

    exclude: Annotated[
        tuple[Id, ...], Meta(max_length=1000, description="Links that must not be on this page")
    ] = ()
    pin: Pins = ()
    slots: Slots | None = None
    decision_id: (
        Annotated[Id, Meta(description="An id of your own, so that asking again is safe")] | None
    ) = None


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

    decision_id: DecisionId
    link_id: LinkId
    client_time: ClientTime | None = None

    def event(self) -> Event:
        """Return the event as it is recorded."""
        return ClickEvent(
            decision_id=self.decision_id, link_id=self.link_id, client_time=self.client_time
        )


class ConversionBody(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="conversion"):
    """A click brought revenue."""

    conversion_id: ConversionId
    decision_id: DecisionId
    link_id: LinkId
    revenue_micros: Annotated[int, Meta(description="What it brought, in millionths")]
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

    adjustment_id: Annotated[Id, Meta(description="Your own, for ever this refund's")]
    conversion_id: ConversionId
    refund_micros: Annotated[int, Meta(description="What was taken back, in millionths")]
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

    events: Annotated[
        tuple[msgspec.Raw, ...], Meta(min_length=1, description="Clicks, conversions and refunds")
    ]


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
        tuple[Scope, ...],
        Meta(
            min_length=1,
            description="What the key may do",
            extra_json_schema={"uniqueItems": True},
        ),
    ]
    label: Annotated[str, Meta(max_length=200, description="Whose key it is")] = ""


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
