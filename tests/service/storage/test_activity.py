"""What happened lately: the sums of SQL equal those over views one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slotwise.service.records import SECOND_US, AdjustmentEvent, ClickEvent, ConversionEvent
from slotwise.service.storage.activity import Activity, Span
from slotwise.service.storage.contract import (
    AppendDecision,
    Operation,
    RecordEvent,
    SavePool,
    Store,
)
from slotwise.service.storage.postgresql import PostgresqlStore
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.private_postgresql import PrivatePostgresql
from tests.service.rows import CLICK_WINDOW_S, REVENUE_WINDOW_S, T0, decision, pool, seconds
from tests.service.storage.test_stores import CREATED
from tests.stores.memory_store import MemoryStore
from tests.stores.store_rows import reads

HOUR_US = 3600 * SECOND_US


def random_rows(seed: int) -> list[Operation]:
    """Return two days of pages with clicks, sales and refunds, some of them late or invalid."""
    rng = np.random.default_rng(seed)
    operations: list[Operation] = []
    issued = np.sort(rng.integers(0, 2 * 86_400, 300))
    for number, after_s in enumerate(issued.tolist()):
        made = decision(
            f"d{number}",
            issued_us=seconds(after_s),
            holdout=bool(rng.random() < 0.3),
            pool_id="home" if rng.random() < 0.9 else "other",
        )
        operations.append(AppendDecision(decision=made))
        for shown in made.shown:
            if rng.random() < 0.4:
                invalid = "crawler" if rng.random() < 0.1 else ""
                click = ClickEvent(
                    decision_id=made.decision_id, link_id=shown.link_id, invalid=invalid
                )
                received = seconds(after_s + rng.integers(0, 2 * CLICK_WINDOW_S))
                operations.append(RecordEvent(event=click, received_us=received))
            if rng.random() < 0.3:
                sale_id = f"s{number}-{shown.link_id}"
                sale = ConversionEvent(
                    conversion_id=sale_id,
                    decision_id=made.decision_id,
                    link_id=shown.link_id,
                    revenue_micros=int(rng.integers(0, 90_000_000)),
                    currency="EUR",
                )
                received = seconds(after_s + rng.integers(0, 2 * REVENUE_WINDOW_S))
                operations.append(RecordEvent(event=sale, received_us=received))
                if rng.random() < 0.3:
                    refund = AdjustmentEvent(
                        adjustment_id=f"a{sale_id}",
                        conversion_id=sale_id,
                        refund_micros=int(rng.choice([1_000, 60_000_000])),
                        currency="EUR",
                    )
                    operations.append(RecordEvent(event=refund, received_us=received + 5))
        if rng.random() < 0.1:
            stray = ClickEvent(decision_id=made.decision_id, link_id="never-shown")
            operations.append(RecordEvent(event=stray, received_us=seconds(after_s)))
    return sorted(operations, key=time_of)


def time_of(operation: Operation) -> int:
    if isinstance(operation, RecordEvent):
        return operation.received_us
    assert isinstance(operation, AppendDecision)
    return operation.decision.issued_us


def fill(store: Store, operations: list[Operation]) -> None:
    store.commit([SavePool(pool=pool(pool_id=name), change=CREATED) for name in ("home", "other")])
    store.commit(operations)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("since_s", [0, 90_000])
def test_sql_sums_as_one_would_by_hand(
    tmp_path: Path, seed: int, since_s: int, postgresql: PrivatePostgresql
) -> None:
    stores: list[Store] = [
        SqliteStore(tmp_path / "store.db"),
        PostgresqlStore(postgresql.new_database()),
        MemoryStore(),
    ]
    operations = random_rows(seed)
    found = []
    for store in stores:
        fill(store, operations)
        found.append(reads(store).activity("home", seconds(since_s), HOUR_US, seconds(100_000)))
        store.close()
    assert found[0] == found[1] == found[2]
    assert sum(span.clicks for span in found[0].spans) > 10
    assert any(span.cut_sales for span in found[0].spans)
    assert found[0].late_clicks
    assert found[0].invalid_clicks
    assert found[0].pending_views
    assert found[0].refused
    n_shown = sum(span.views for span in found[0].link_spans)
    assert n_shown == 2 * sum(span.views for span in found[0].spans)


def test_of_many_pages_only_some_are_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimate of a link's views is right within the length of the step."""
    monkeypatch.setattr("slotwise.service.storage.sql_reads.MAX_PAGES", 100)
    store = SqliteStore(tmp_path / "store.db")
    pages = [decision(f"d{n}", issued_us=seconds(n)) for n in range(950)]
    fill(store, [AppendDecision(decision=made) for made in pages])
    activity = reads(store).activity("home", seconds(0), 10 * HOUR_US, T0)
    store.close()
    views = {span.link_id: span.views for span in activity.link_spans}
    assert views.keys() == {"l1", "l2"}
    assert all(abs(total - 950) <= 10 for total in views.values())
    assert all(abs(total - 950) <= 10 for total in activity.pending_views.values())
    assert sum(span.views for span in activity.spans) == 950


def test_a_page_and_its_feedback_stand_in_the_hour_of_the_page() -> None:
    store = MemoryStore()
    made = decision("d1")
    sale = ConversionEvent(
        conversion_id="s", decision_id="d1", link_id="l1", revenue_micros=9, currency="EUR"
    )
    fill(
        store,
        [
            AppendDecision(decision=made),
            RecordEvent(
                event=ClickEvent(decision_id="d1", link_id="l1"), received_us=seconds(1000)
            ),
            RecordEvent(event=sale, received_us=seconds(50_000)),
        ],
    )
    activity: Activity = reads(store).activity("home", T0 - HOUR_US, HOUR_US, T0)
    start_us = T0 // HOUR_US * HOUR_US
    expected = Span(
        start_us=start_us,
        group="policy",
        views=1,
        clicks=1,
        clicks_squared=1,
        sales=1,
        revenue_micros=9,
    )
    assert activity.spans == (expected,)
    assert activity.click_delays_us == (1000 * SECOND_US,)
    assert activity.pending_views == {"l1": 1, "l2": 1}


def test_sales_above_the_most_that_counts_are_cut_and_counted() -> None:
    """A sale of 12 counts as 10; less a refund of 5 it counts as 7, and is above all the same."""
    store = MemoryStore()
    operations: list[Operation] = [
        AppendDecision(decision=decision(f"d{n}", max_revenue_micros=10)) for n in range(3)
    ]
    for n, amount in enumerate((12, 12, 4)):
        sale = ConversionEvent(
            conversion_id=f"s{n}",
            decision_id=f"d{n}",
            link_id="l1",
            revenue_micros=amount,
            currency="EUR",
        )
        operations.append(RecordEvent(event=sale, received_us=seconds(100)))
    refund = AdjustmentEvent(
        adjustment_id="a1", conversion_id="s1", refund_micros=5, currency="EUR"
    )
    operations.append(RecordEvent(event=refund, received_us=seconds(101)))
    fill(store, operations)
    [span] = reads(store).activity("home", T0 - HOUR_US, HOUR_US, T0).spans
    assert (span.sales, span.cut_sales, span.revenue_micros) == (3, 2, 10 + 7 + 4)
