"""All pools side by side: one row each, from counters and the versions in use."""

from __future__ import annotations

import msgspec

from slotwise.service.deciding.snapshot import Snapshot
from slotwise.service.records import FloorReport, PoolSettings
from slotwise.service.reporting.pool_report import report_totals
from slotwise.service.reporting.reports import GroupReport, Health, Rate
from slotwise.service.reporting.trouble import describe_trouble
from slotwise.service.storage.contract import StoreReader

__all__ = ["PoolRow", "describe_pool"]


class PoolRow(msgspec.Struct, frozen=True, kw_only=True):
    """How one pool is doing."""

    pool_id: str
    archived: bool
    n_links: int
    slots: int
    currency: str
    floor: FloorReport
    clicks_delivered: Rate | None
    groups: tuple[GroupReport, ...]
    lift: Rate | None
    trouble: str
    """What keeps the pool from learning, in one sentence, or empty."""


def describe_pool(
    reader: StoreReader, pool: PoolSettings, n_links: int, snapshot: Snapshot, health: Health
) -> PoolRow:
    """Sum up one pool; links are not looked at."""
    totals = report_totals(reader.counters(pool.pool_id), pool, snapshot)
    return PoolRow(
        pool_id=pool.pool_id,
        archived=pool.archived,
        n_links=n_links,
        slots=pool.slots,
        currency=pool.currency,
        floor=totals.floor,
        clicks_delivered=totals.clicks_delivered,
        groups=totals.groups,
        lift=totals.lift,
        trouble=describe_trouble(health, pool.pool_id),
    )
