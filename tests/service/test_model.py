"""Random lives of a service, with crashes, against a model in dictionaries."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from slotwise.service.records import (
    SECOND_US,
    AdjustmentEvent,
    ClickEvent,
    ConversionEvent,
    DecisionRecord,
    Event,
    Outcome,
)
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.rows import T0, link, pool
from tests.stores.store_rows import reads

CLICK_WINDOW = 100 * SECOND_US
REVENUE_WINDOW = 1_000 * SECOND_US
DAY = 86_400 * SECOND_US
MAX_REVENUE = 30
LINKS = ("l1", "l2", "l3")


class Page(NamedTuple):
    """A decision as the model remembers it."""

    links: tuple[str, ...]
    group: str
    issued: int
    stored: int
    learned: bool


class Model:
    """The counting rules once more, as plainly as possible, over committed rows only."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.clicks: dict[tuple[str, str], int] = {}
        self.orders: dict[str, tuple[str, str, int, int]] = {}
        self.refunds: dict[str, tuple[str, int, int]] = {}
        self.closed = 0
        self.latest = 0

    def commit(self, what: DecisionRecord | Event, now: int) -> str:
        if isinstance(what, DecisionRecord):
            return self.commit_page(what)
        now = max(now, self.latest, self.closed + 1)
        self.latest = now
        if isinstance(what, ClickEvent):
            return self.commit_click(what, now)
        if isinstance(what, ConversionEvent):
            return self.commit_order(what, now)
        return self.commit_refund(what, now)

    def commit_page(self, page: DecisionRecord) -> str:
        if page.decision_id not in self.pages:
            self.latest = max(self.latest, page.issued_us)
            self.pages[page.decision_id] = Page(
                links=tuple(shown.link_id for shown in page.shown),
                group="holdout" if page.holdout else "policy",
                issued=page.issued_us,
                stored=self.latest,
                learned=page.issued_us + CLICK_WINDOW > self.closed,
            )
        return "stored"

    def commit_click(self, click: ClickEvent, now: int) -> str:
        key = (click.decision_id, click.link_id)
        if key in self.clicks:
            return "duplicate"
        verdict = self.judge(*key, now, CLICK_WINDOW)
        if verdict != "rejected":
            self.clicks[key] = now
        return verdict

    def commit_order(self, order: ConversionEvent, now: int) -> str:
        content = (order.decision_id, order.link_id, order.revenue_micros)
        if order.conversion_id in self.orders:
            same = self.orders[order.conversion_id][:3] == content
            return "duplicate" if same else "rejected"
        verdict = self.judge(order.decision_id, order.link_id, now, REVENUE_WINDOW)
        if verdict != "rejected":
            self.orders[order.conversion_id] = (*content, now)
        return verdict

    def commit_refund(self, refund: AdjustmentEvent, now: int) -> str:
        content = (refund.conversion_id, refund.refund_micros)
        if refund.adjustment_id in self.refunds:
            return "duplicate" if self.refunds[refund.adjustment_id][:2] == content else "rejected"
        verdict = self.judge_refund(refund.conversion_id, now)
        if verdict != "rejected":
            self.refunds[refund.adjustment_id] = (*content, now)
        return verdict

    def judge(self, page_id: str, link_id: str, received: int, window: int) -> str:
        page = self.pages.get(page_id)
        if page is None:
            return "quarantined"
        if link_id not in page.links:
            return "rejected"
        if page.stored - received > DAY:
            return "quarantined"
        return "late" if received > page.issued + window else "accepted"

    def judge_order(self, order_id: str) -> str:
        page_id, link_id, _, received = self.orders[order_id]
        return self.judge(page_id, link_id, received, REVENUE_WINDOW)

    def judge_refund(self, order_id: str, received: int) -> str:
        if order_id not in self.orders or self.orders[order_id][0] not in self.pages:
            return "quarantined"
        page_id, link_id, _, ordered = self.orders[order_id]
        if ordered - received > DAY:
            return "quarantined"
        verdict = self.judge_order(order_id)
        if verdict != "accepted":
            return verdict
        return self.judge(page_id, link_id, received, REVENUE_WINDOW)

    def counters(self) -> dict[tuple[str, str, str], int]:
        """Count everything that is settled, and everything late."""
        sums: Counter[tuple[str, str, str]] = Counter()
        for page_id, page in self.pages.items():
            for link_id in page.links:
                self.count(sums, page_id, page, link_id)
        return {key: value for key, value in sums.items() if value != 0}

    def count(self, sums: Counter[Any], page_id: str, page: Page, link_id: str) -> None:
        received = self.clicks.get((page_id, link_id))
        click = "none" if received is None else self.judge(page_id, link_id, received, CLICK_WINDOW)
        in_time = late = 0
        for order_id, (order_page, order_link, amount, _) in self.orders.items():
            if (order_page, order_link) == (page_id, link_id):
                verdict = self.judge_order(order_id)
                in_time += amount * (verdict == "accepted")
                late += amount * (verdict == "late")
                for refund_order, refund, refunded in self.refunds.values():
                    if refund_order == order_id:
                        verdict = self.judge_refund(order_id, refunded)
                        in_time -= refund * (verdict == "accepted")
                        late -= refund * (verdict == "late")
        key = page.group, link_id
        sums[*key, "late_clicks"] += click == "late"
        sums[*key, "late_revenue_micros"] += late
        if page.learned and page.issued + CLICK_WINDOW <= self.closed:
            sums[*key, "click_views"] += 1
            sums[*key, "clicks"] += click == "accepted"
        if page.learned and page.issued + REVENUE_WINDOW <= self.closed:
            sums[*key, "revenue_views"] += 1
            if click == "accepted":
                sums[*key, "revenue_micros"] += min(max(in_time, 0), MAX_REVENUE)


class Life(RuleBasedStateMachine):
    """Decide, click, buy, refund, repeat, come late, crash, restart."""

    @initialize()
    def open_first(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.model = Model()
        self.now = T0
        self.waiting: list[tuple[DecisionRecord | Event, int, Future[list[Outcome]] | None]] = []
        self.sent: list[Event] = []
        self.answered: list[DecisionRecord] = []
        self.n_made = 0
        self.open()
        home = pool(
            policy="uniform",
            policy_settings={},
            holdout=0.3,
            max_revenue_micros=MAX_REVENUE,
            click_window_s=CLICK_WINDOW // SECOND_US,
            revenue_window_s=REVENUE_WINDOW // SECOND_US,
        )
        made = self.service.directory.put_pool(home, "test", T0)
        self.service.committer.commit_waiting()
        made.result()
        added = self.service.directory.put_links("home", [link(item) for item in LINKS], "test", T0)
        self.service.committer.commit_waiting()
        added.result()

    def open(self) -> None:
        options = ServiceOptions(seed=self.n_made, commit_by_hand=True)
        self.service = Service(SqliteStore(self.folder / "store.db"), options)

    def take_in_waiting(self) -> None:
        """Tell the model of the commit, and compare every answer."""
        for what, now, answer in self.waiting:
            expected = self.model.commit(what, now)
            if answer is not None:
                assert [item.outcome for item in answer.result(0)] == [expected]
        self.waiting.clear()

    def send(self, event: Event) -> None:
        self.sent.append(event)
        self.waiting.append(
            (event, self.now, self.service.committer.submit_events([event], self.now))
        )

    def pick(self, k: int) -> DecisionRecord:
        return self.answered[-1 - k % len(self.answered)]

    @rule(delay=st.sampled_from([0, 1, 99, 100, 101, 950, 86_400]))
    def wait(self, delay: int) -> None:
        self.now += delay * SECOND_US

    @rule()
    def decide(self) -> None:
        self.n_made += 1
        page = self.service.decider.decide("home", self.now, decision_id=f"d{self.n_made}")
        self.answered.append(page)
        self.waiting.append((page, self.now, None))

    @rule(k=st.integers(0, 5))
    def ask_again(self, k: int) -> None:
        """Ask again for a decision: answered the same, unless it was lost in a crash."""
        if self.answered:
            before = self.pick(k)
            page = self.service.decider.decide("home", self.now, decision_id=before.decision_id)
            kept = {what.decision_id for what, _, _ in self.waiting if isinstance(what, type(page))}
            if before.decision_id in self.model.pages or before.decision_id in kept:
                assert page.shown == before.shown
            else:
                self.answered[self.answered.index(before)] = page
                self.waiting.append((page, self.now, None))

    @rule(k=st.integers(0, 5), slot=st.integers(0, 2))
    def click(self, k: int, slot: int) -> None:
        """Click on a link of a page; slot 2 is a link that the page may not have shown."""
        if self.answered:
            page = self.pick(k)
            links = [*(shown.link_id for shown in page.shown), "l3"]
            self.send(ClickEvent(decision_id=page.decision_id, link_id=links[slot]))

    @rule(k=st.integers(0, 5), slot=st.integers(0, 1), amount=st.sampled_from([0, 7, 20, 30, 31]))
    def buy(self, k: int, slot: int, amount: int) -> None:
        if self.answered:
            page = self.pick(k)
            self.n_made += 1
            self.send(
                ConversionEvent(
                    conversion_id=f"c{self.n_made}",
                    decision_id=page.decision_id,
                    link_id=page.shown[slot].link_id,
                    revenue_micros=amount,
                    currency="EUR",
                )
            )

    @rule(k=st.integers(0, 5), amount=st.sampled_from([0, 3, 30, 31]), ahead=st.integers(0, 1))
    def refund(self, k: int, amount: int, ahead: int) -> None:
        """Refund an order, or one that is still to come."""
        orders = [item.conversion_id for item in self.sent if isinstance(item, ConversionEvent)]
        orders = orders or ["c0"]
        self.n_made += 1
        order_id = f"c{self.n_made + 1}" if ahead else orders[-1 - k % len(orders)]
        self.send(
            AdjustmentEvent(
                adjustment_id=f"r{self.n_made}",
                conversion_id=order_id,
                refund_micros=amount,
                currency="EUR",
            )
        )

    @rule(k=st.integers(0, 8))
    def send_again(self, k: int) -> None:
        if self.sent:
            self.send(self.sent[-1 - k % len(self.sent)])

    @rule(k=st.integers(0, 8))
    def contradict(self, k: int) -> None:
        """Send an earlier order again with another amount."""
        orders = [item for item in self.sent if isinstance(item, ConversionEvent)]
        if orders:
            order = orders[-1 - k % len(orders)]
            self.send(
                ConversionEvent(
                    conversion_id=order.conversion_id,
                    decision_id=order.decision_id,
                    link_id=order.link_id,
                    revenue_micros=(order.revenue_micros + 1) % MAX_REVENUE,
                    currency="EUR",
                )
            )

    @rule()
    def commit(self) -> None:
        assert self.service.committer.commit_waiting()
        self.take_in_waiting()

    @rule()
    def learn(self) -> None:
        self.service.learner.learn(self.now)
        self.take_in_waiting()
        self.model.closed = max(self.model.closed, self.now)
        self.model.latest = max(self.model.latest, self.now)

    @rule()
    def lose_the_store_for_a_while(self) -> None:
        """Refuse a commit: feedback fails and may be sent again, decisions wait."""
        with mock.patch.object(SqliteStore, "commit", side_effect=StoreUnavailable("away")):
            assert not self.service.committer.commit_waiting()
        answers = [answer for _, _, answer in self.waiting if answer is not None]
        assert all(isinstance(item.exception(0), StoreUnavailable) for item in answers)
        self.waiting = [item for item in self.waiting if item[2] is None]
        self.commit()

    @rule()
    def crash(self) -> None:
        """Lose everything that was not committed, as a process that is killed does."""
        self.service.committer._waiting.clear()
        self.service.store.close()
        self.waiting.clear()
        self.open()

    @rule()
    def restart(self) -> None:
        self.service.close()
        self.take_in_waiting()
        self.open()

    @invariant()
    def counters_equal_the_model_after_every_fold(self) -> None:
        if hasattr(self, "model") and self.model.closed == self.now and not self.waiting:
            self.compare()

    def compare(self) -> None:
        stored = reads(self.service.store).counters("home")
        found = {
            (group, link_id, name): value
            for (group, link_id), counted in stored.links.items()
            for name in counted.__struct_fields__
            if (value := getattr(counted, name))
        }
        assert found == self.model.counters()

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            self.now += 3 * DAY
            self.learn()
            self.compare()
            assert verify(self.service.store).mismatches == ()
        finally:
            self.service.close()
            shutil.rmtree(self.folder)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=25, stateful_step_count=50)


@pytest.mark.slow
def test_many_lives() -> None:
    run_state_machine_as_test(Life, settings=settings(max_examples=1_000, stateful_step_count=80))
