"""Sums that would not fit in 64 bits: refused before they are stored, and never a broken report."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from slotwise.service.counting.attribution import (
    CLICKS,
    FOLD_START,
    Counters,
    FoldPosition,
    LinkCounters,
    PageCounters,
)
from slotwise.service.limits import MAX_AMOUNT_MICROS, MAX_SUM_MICROS
from slotwise.service.records import SECOND_US, Outcome
from slotwise.service.storage.contract import AppendDecision, ApplyFold, SavePool, Store
from slotwise.service.storage.group_commit import GroupCommitter
from slotwise.service.storage.sqlite import SqliteStore
from tests.stores.memory_store import MemoryStore
from tests.stores.store_rows import (
    REVENUE_WINDOW_US,
    START_US,
    change_row,
    conversion_row,
    decision_row,
    pool_row,
    reads,
    refund_row,
)

IN_TIME_US = START_US + SECOND_US
LATE_US = START_US + REVENUE_WINDOW_US + SECOND_US
FULL = MAX_SUM_MICROS + 1


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "a.db")
    opened.commit([SavePool(pool=pool_row(), change=change_row("home"))])
    opened.commit([AppendDecision(decision=decision_row("d1"))])
    opened.commit([conversion_row("earlier", "d1", IN_TIME_US)])
    yield opened
    opened.close()


def fold(store: Store, increment: Counters) -> None:
    """Add sums as if so much had been counted before."""
    until = FoldPosition(closes_us=1, decision_id="")
    operation = ApplyFold(
        pool_id="home", level=CLICKS, after=FOLD_START, until=until, n_resets=0, increment=increment
    )
    assert store.commit([operation]) == [True]


@pytest.mark.parametrize(
    "increment",
    [
        Counters(links={("policy", "l1"): LinkCounters(revenue_micros=FULL)}),
        Counters(links={("holdout", "l1"): LinkCounters(late_revenue_micros=FULL)}),
        Counters(links={("policy", "l1"): LinkCounters(late_revenue_micros=-FULL)}),
        Counters(pages={"policy": PageCounters(revenue_micros=FULL)}),
        Counters(pages={"holdout": PageCounters(revenue_squared=FULL)}),
    ],
)
def test_what_would_be_added_to_a_full_sum_is_rejected(store: Store, increment: Counters) -> None:
    fold(store, increment)
    for received_us in (IN_TIME_US, LATE_US):
        batch = [
            conversion_row(f"sale-{received_us}", "d1", received_us),
            refund_row(f"refund-{received_us}", "earlier", received_us),
        ]
        for outcome in store.commit(batch):
            assert isinstance(outcome, Outcome)
            assert (outcome.outcome, outcome.reason) == ("rejected", "sum-too-large")
    with store.reading() as reader:
        assert len(reader.refusals("d1")) == 4
        view = reader.view("d1")
        assert view is not None
        assert [sale.event.conversion_id for sale in view.conversions] == ["earlier"]


def test_the_largest_batch_cannot_carry_a_sum_over_64_bits(store: Store) -> None:
    just_below = LinkCounters(late_revenue_micros=MAX_SUM_MICROS)
    fold(store, Counters(links={("policy", "l1"): just_below}))
    batch = [
        conversion_row(f"sale-{n}", "d1", LATE_US, revenue_micros=MAX_AMOUNT_MICROS)
        for n in range(GroupCommitter.MAX_OPERATIONS)
    ]
    outcomes = store.commit(batch)
    assert {one.outcome for one in outcomes if isinstance(one, Outcome)} == {"late"}
    total = reads(store).counters("home").links["policy", "l1"].late_revenue_micros
    assert total == MAX_SUM_MICROS + len(batch) * MAX_AMOUNT_MICROS < 2**63
    [outcome] = store.commit([conversion_row("one-more", "d1", LATE_US)])
    assert isinstance(outcome, Outcome)
    assert outcome.reason == "sum-too-large"


def test_other_links_and_pools_are_not_concerned(store: Store) -> None:
    fold(store, Counters(links={("policy", "l1"): LinkCounters(revenue_micros=FULL)}))
    [outcome] = store.commit([conversion_row("sale", "d1", IN_TIME_US, link_id="l2")])
    assert isinstance(outcome, Outcome)
    assert outcome.outcome == "accepted"


def test_charts_bear_sales_whose_sum_exceeds_64_bits(tmp_path: Path) -> None:
    """Here the largest sale that counts is as large, so nothing is cut."""
    store = SqliteStore(tmp_path / "store.db")
    store.commit([SavePool(pool=pool_row(), change=change_row("home"))])
    store.commit([AppendDecision(decision=decision_row("d1"))])
    store.commit([conversion_row(f"s{n}", "d1", IN_TIME_US) for n in range(3)])
    with closing(sqlite3.connect(tmp_path / "store.db")) as connection, connection:
        connection.execute("UPDATE conversions SET revenue_micros = ?", (2**62 + 7,))
        connection.execute("UPDATE decisions SET max_revenue_micros = ?", (2**62 + 7,))
    connection.close()
    activity = reads(store).activity("home", 0, 3600 * SECOND_US, START_US)
    store.close()
    assert sum(span.revenue_micros for span in activity.spans) == 3 * (2**62 + 7)
