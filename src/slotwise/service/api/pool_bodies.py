"""What a pool looks like over HTTP: how it is put, changed and answered."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from slotwise.policies import default_policy
from slotwise.service.api.answers import Time
from slotwise.service.api.fields import (
    Currency,
    Features,
    FloorsBy,
    Id,
    PinBody,
    Pins,
    Slots,
    SlotWeights,
    Strict,
)
from slotwise.service.limits import (
    HOST_PATTERN,
    MAX_AMOUNT_MICROS,
    MAX_HOST_CHARS,
    MAX_HOSTS,
    MAX_POLICY_CHARS,
    MAX_POOL_LINKS,
    MAX_SLOTS,
    MAX_WINDOW_S,
)
from slotwise.service.records import PoolSettings

__all__ = [
    "ClickFloor",
    "MoneyBody",
    "PolicyBody",
    "PoolAnswer",
    "PoolBody",
    "PoolList",
    "PoolPatch",
    "body_of",
]

Host = Annotated[
    str, Meta(pattern=HOST_PATTERN, max_length=MAX_HOST_CHARS, description="host or host:port")
]
ClickFloor = Annotated[
    float, Meta(ge=0, lt=MAX_SLOTS, description="Fewest expected clicks per page view")
]
WindowSeconds = Annotated[int, Meta(ge=1, le=MAX_WINDOW_S)]
ClickWindow = Annotated[
    WindowSeconds, Meta(description="Seconds after the page view in which a click counts")
]
RevenueWindow = Annotated[
    WindowSeconds, Meta(description="Seconds after the page view in which a sale counts")
]
Holdout = Annotated[float, Meta(ge=0, le=1, description="Share of uniformly random pages")]
Explore = Annotated[
    float, Meta(ge=0, le=1, description="Share of every page that random links get")
]
Hosts = Annotated[
    tuple[Host, ...],
    Meta(
        min_length=1,
        max_length=MAX_HOSTS,
        description="Where links may lead and the script may run",
    ),
]
Order = Annotated[
    tuple[Id, ...],
    Meta(
        max_length=MAX_POOL_LINKS,
        description="Links to show, in order, while the policy cannot choose",
    ),
]


class MoneyBody(Strict, frozen=True, kw_only=True):
    """An amount in micro-units: 12.50 EUR is 12500000."""

    amount_micros: Annotated[
        int, Meta(ge=1, le=MAX_AMOUNT_MICROS, description="Millionths of the currency")
    ]
    currency: Currency


MaxRevenue = Annotated[
    MoneyBody, Meta(description="The most that one click can bring; more is clipped")
]


class PolicyBody(Strict, frozen=True, kw_only=True):
    """A policy by its name in the registry, with its settings."""

    name: Annotated[str, Meta(min_length=1, max_length=MAX_POLICY_CHARS)]
    settings: dict[str, Any] = msgspec.field(default_factory=dict)


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
    explore: Explore = 0.0
    fallback_order: Order = ()
    pins: Pins = ()
    features: Features = msgspec.field(default_factory=dict)
    slot_weights: SlotWeights = None
    floors_by: FloorsBy = msgspec.field(default_factory=dict)


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
    explore: Explore | UnsetType = UNSET
    fallback_order: Order | UnsetType = UNSET
    pins: Pins | UnsetType = UNSET
    features: Features | UnsetType = UNSET
    slot_weights: SlotWeights | UnsetType = UNSET
    floors_by: FloorsBy | UnsetType = UNSET


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
    explore: float
    fallback_order: tuple[str, ...]
    pins: tuple[PinBody, ...]
    allowed_hosts: tuple[str, ...]
    features: Features
    slot_weights: SlotWeights
    floors_by: FloorsBy
    archived: bool
    n_links: int
    created_at: Time
    changed_at: Time


class PoolList(msgspec.Struct, frozen=True):
    """Every pool, archived ones too."""

    pools: list[PoolAnswer]


def body_of(pool: PoolSettings) -> PoolBody:
    """Return the body that a pool would be put with."""
    return PoolBody(
        slots=pool.slots,
        max_revenue=MoneyBody(amount_micros=pool.max_revenue_micros, currency=pool.currency),
        allowed_hosts=pool.allowed_hosts,
        click_floor=pool.click_floor,
        click_window_s=pool.click_window_s,
        revenue_window_s=pool.revenue_window_s,
        policy=PolicyBody(name=pool.policy, settings=pool.policy_settings),
        holdout=pool.holdout,
        explore=pool.explore,
        fallback_order=pool.fallback_order,
        pins=tuple(PinBody(link_id=pin.link_id, position=pin.position) for pin in pool.pins),
        features=pool.features,
        slot_weights="learn" if pool.learn_slot_weights else pool.slot_weights or None,
        floors_by=pool.floors_by,
    )
