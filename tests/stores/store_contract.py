"""The laws of a store as tests: subclass `StoreContract`, say how to open your store, run pytest.

    class TestMyStore(StoreContract):
        def open_store(self, place: Path) -> Store:
            return MyStore(place)

Laws of your own take the fixture `store`: it has a pool, and is verified after the test.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service.counting.attribution import (
    CLICKS,
    FOLD_START,
    REVENUE,
    FoldPosition,
    Level,
    LinkCounters,
    fold_position,
)
from slotwise.service.counting.counters import count_settled
from slotwise.service.records import (
    SECOND_US,
    KeyRecord,
)
from slotwise.service.storage.contract import (
    AppendDecision,
    ApplyFold,
    CloseWindows,
    EndSession,
    Learned,
    Operation,
    SaveChange,
    SaveKey,
    SaveLearned,
    SaveLinks,
    SavePool,
    Store,
)
from tests.stores.store_case import outcomes
from tests.stores.store_rows import (
    CLICK_WINDOW_US,
    LINK_IDS,
    REVENUE_WINDOW_US,
    START_US,
    change_row,
    click_row,
    conversion_row,
    decision_row,
    link_row,
    pool_row,
    reads,
    refund_row,
)
from tests.stores.store_upkeep import StoreUpkeep


class StoreContract(StoreUpkeep):
    """Laws of `slotwise.service.storage.contract.Store`."""

    def test_what_was_saved_is_read_back(self, store: Store) -> None:
        key = KeyRecord(key_id="k1", key_hash="aa", scopes=("decide", "read"), created_us=7)
        store.commit([SaveKey(key=key, change=change_row("k1", action="key.create"))])
        assert reads(store).pools() == [pool_row()]
        assert [link.link_id for link in reads(store).links("home")] == list(LINK_IDS)
        assert [link.place for link in reads(store).links("home")] == [0, 1, 2]
        assert reads(store).links("elsewhere") == []
        assert reads(store).keys() == [key]

    def test_everything_can_be_read_in_the_order_of_storing(self, store: Store) -> None:
        store.commit([AppendDecision(decision_row(f"d{k}", START_US + k)) for k in range(5)])
        store.commit([click_row("d1", received_us=START_US + 10)])
        store.commit([conversion_row("o1", "d1", START_US + 20)])
        store.commit(
            [refund_row("r1", "o1", START_US + 30), click_row("lost", "l2", START_US + 40)]
        )
        with store.reading() as reader:
            first = reader.decisions_after(0, 3)
            rest = reader.decisions_after(first[-1][0], 100)
            assert [one.decision_id for _, one in [*first, *rest]] == [f"d{k}" for k in range(5)]
            assert [place for place, _ in first] == [reader.place_of(f"d{k}") for k in range(3)]
            assert reader.place_of("lost") == 0
            assert reader.first_received(0) == START_US + 10
            assert reader.first_received(START_US + 11) == START_US + 20
            assert reader.first_received(START_US + 41) is None
            some = reader.received_between(START_US + 10, START_US + 40)
            found = {item.event.kind: item.received_us - START_US for one in some for item in one}
        assert found == {"click": 10, "conversion": 20, "adjustment": 30}

    def test_saving_again_replaces_and_keeps_the_place(self, store: Store) -> None:
        changed = link_row("l1", title="Spring sale", retired=True)
        store.commit([SaveLinks(links=(changed, link_row("l4")), changes=())])
        store.commit(
            [SavePool(pool=pool_row(slots=3), change=change_row("home", action="pool.change"))]
        )
        found = {link.link_id: link for link in reads(store).links("home")}
        assert found["l1"] == replace(changed, place=0)
        assert found["l4"].place == 3
        assert reads(store).pools() == [pool_row(slots=3)]

    def test_changes_are_listed_newest_first(self, store: Store) -> None:
        store.commit([SavePool(pool=pool_row(), change=change_row("home", action="pool.change"))])
        assert [item.action for item in reads(store).changes("", 10)] == [
            "pool.change",
            "link.create",
            "pool.create",
        ]
        assert [item.action for item in reads(store).changes("home", 10)] == [
            "pool.change",
            "pool.create",
        ]
        assert [item.action for item in reads(store).changes("home/", 10)] == ["link.create"]
        assert reads(store).changes("hom", 10) == reads(store).changes("hom/", 10) == []
        assert len(reads(store).changes("", 2)) == 2

    def test_a_change_of_nothing_else_is_kept(self, store: Store) -> None:
        note = change_row("home", action="pool.note")
        store.commit([SaveChange(change=note)])
        assert reads(store).changes("home", 1) == [note]

    def test_ended_sessions_are_kept_until_they_would_have_ended(self, store: Store) -> None:
        """Each is stored once; reading goes on after a place."""
        first = EndSession(session_id="s1", ends_us=START_US + 10, now_us=START_US)
        store.commit([first, replace(first, session_id="s2", ends_us=START_US + 20)])
        place, found = reads(store).ended_sessions(0)
        assert found == [("s1", START_US + 10), ("s2", START_US + 20)]
        third = EndSession(session_id="s3", ends_us=START_US + 30, now_us=START_US + 10)
        store.commit([third])
        assert reads(store).ended_sessions(place)[1] == [("s3", START_US + 30)]
        assert [one for one, _ in reads(store).ended_sessions(0)[1]] == ["s2", "s3"]

    def test_a_commit_is_all_or_nothing(self, store: Store) -> None:
        broken: Any = object()
        with pytest.raises(InvalidInput, match="`operations` must be operations of a store"):
            store.commit([AppendDecision(decision=decision_row("d1")), click_row("d1"), broken])
        assert reads(store).view("d1") is None
        assert reads(store).n_quarantined() == 0
        assert outcomes(store.commit([click_row("d1")])) == ["quarantined"]

    @pytest.mark.parametrize("amount", [10**30, -(10**30), 1.5, math.nan, True, None, "1"])
    def test_what_is_no_amount_is_rejected_by_itself(self, store: Store, amount: object) -> None:
        events = [
            conversion_row("c1", "d1"),
            conversion_row("c2", "d1", revenue_micros=amount),
            refund_row("r1", "c1", refund_micros=amount),
            click_row("d1"),
        ]
        first, *answers = store.commit([AppendDecision(decision=decision_row("d1")), *events])
        assert first is None
        assert outcomes(answers) == ["accepted", "rejected", "rejected", "accepted"]

    def test_a_commit_survives_reopening(self, store: Store, tmp_path: Path) -> None:
        store.commit(
            [
                AppendDecision(decision=decision_row("d1")),
                click_row("d1"),
                conversion_row("c1", "d1"),
                refund_row("r1", "c1"),
            ]
        )
        before = reads(store).view("d1")
        self.fold(store, START_US + 2 * REVENUE_WINDOW_US)
        counters, progress = reads(store).counters("home"), reads(store).progress()
        store.close()
        again = self.open_store(tmp_path)
        assert reads(again).view("d1") == before
        assert reads(again).counters("home") == counters
        assert reads(again).progress() == progress
        again.close()

    def test_later_operations_of_a_batch_see_earlier_ones(self, store: Store) -> None:
        answers = store.commit(
            [
                AppendDecision(decision=decision_row("d1")),
                click_row("d1"),
                click_row("d1"),
                conversion_row("c1", "d1"),
                refund_row("r1", "c1"),
            ]
        )
        assert outcomes(answers) == ["accepted", "duplicate", "accepted", "accepted"]

    def test_a_decision_is_read_back_whole(self, store: Store) -> None:
        decision = decision_row("d1", holdout=True, fallback="policy-failed", asked='{"slots":1}')
        store.commit([AppendDecision(decision=decision)])
        assert reads(store).decision("d1") == replace(decision, stored_us=START_US)
        assert reads(store).decision("d2") is None
        assert reads(store).view("d2") is None

    def test_committing_the_same_again_changes_nothing(self, store: Store) -> None:
        late_us = START_US + 2 * REVENUE_WINDOW_US
        batch: list[Operation] = [
            AppendDecision(decision=decision_row("d1")),
            click_row("d1"),
            conversion_row("c1", "d1"),
            refund_row("r1", "c1"),
            click_row("d1", "l2", late_us),
            conversion_row("c2", "d1", late_us),
            refund_row("r2", "c2", late_us),
        ]
        store.commit(batch)
        self.fold(store, late_us)
        before = reads(store).view("d1"), reads(store).counters("home")
        assert set(outcomes(store.commit(batch))) == {"duplicate"}
        assert (reads(store).view("d1"), reads(store).counters("home")) == before
        assert self.fold(store, late_us) == 0

    def test_a_decision_stored_twice_after_its_window_counts_its_late_feedback_once(
        self, store: Store
    ) -> None:
        store.commit([click_row("d1", received_us=START_US + CLICK_WINDOW_US + 1)])
        for _ in range(2):
            store.commit([AppendDecision(decision=decision_row("d1"))])
        assert reads(store).counters("home").links["policy", "l1"] == LinkCounters(late_clicks=1)

    def test_the_first_content_of_an_id_stays(self, store: Store) -> None:
        answers = store.commit(
            [
                AppendDecision(decision=decision_row("d1")),
                conversion_row("c1", "d1"),
                conversion_row("c1", "d1", revenue_micros=1),
                refund_row("r1", "c1"),
                refund_row("r1", "c1", refund_micros=1),
            ]
        )
        assert outcomes(answers) == ["accepted", "rejected", "accepted", "rejected"]
        view = reads(store).view("d1")
        assert view is not None
        assert view.conversions[0].event.revenue_micros == 9_000_000
        assert view.adjustments[0].event.refund_micros == 2_000_000

    def test_a_refused_event_is_noted_once_with_its_reason(self, store: Store) -> None:
        store.commit([AppendDecision(decision=decision_row("d1"))])
        for _ in range(2):
            store.commit([conversion_row("c1", "d1", currency="USD"), click_row("d1", "l9")])
        noted = [(item.kind, item.event_id, item.reason) for item in reads(store).refusals("d1")]
        assert sorted(noted) == [
            ("click", "l9", "link-not-shown"),
            ("conversion", "c1", "wrong-currency"),
        ]

    def test_order_and_grouping_do_not_matter_inside_the_windows(
        self, store: Store, tmp_path: Path
    ) -> None:
        operations: list[Operation] = []
        for k in range(40):
            operations += [
                AppendDecision(decision=decision_row(f"d{k}", holdout=k % 5 == 0)),
                click_row(f"d{k}", LINK_IDS[k % 2]),
                click_row(f"d{k}", LINK_IDS[k % 2]),
                conversion_row(f"c{k}", f"d{k}", revenue_micros=k * 1_000_000),
                refund_row(f"r{k}", f"c{k}", refund_micros=k * 400_000),
            ]
        chance = random.Random(7)
        other = self.open_store(tmp_path / "other")
        other.commit([SavePool(pool=pool_row(), change=change_row("home"))])
        for target in (store, other):
            chance.shuffle(operations)
            rest = list(operations)
            while rest:
                size = chance.randint(1, 20)
                target.commit(rest[:size])
                del rest[:size]
            self.fold(target, START_US + 2 * REVENUE_WINDOW_US, limit=7)
        assert reads(store).counters("home") == reads(other).counters("home")
        assert reads(store).counters("home").pages["holdout"].click_views == 8
        other.close()

    def test_received_times_never_run_backwards(self, store: Store) -> None:
        store.commit([AppendDecision(decision=decision_row("d1"))])
        store.commit([click_row("d1", "l1", START_US + 50)])
        store.commit([click_row("d1", "l2", START_US + 40)])
        view = reads(store).view("d1")
        assert view is not None
        times = {click.event.link_id: click.received_us for click in view.clicks}
        assert times == {"l1": START_US + 50, "l2": START_US + 50}

    def test_links_are_counted_since_a_place(self, store: Store) -> None:
        store.commit([AppendDecision(decision=decision_row("d1"))])
        place, n_pages, shown = reads(store).shown_since("home", 0)
        assert n_pages == 1
        assert shown == dict.fromkeys((link.link_id for link in decision_row("d1").shown), 1)
        assert reads(store).shown_since("home", place) == (place, 0, {})
        store.commit([AppendDecision(decision=decision_row(name)) for name in ("d2", "d3")])
        later, n_pages, shown = reads(store).shown_since("home", place)
        assert n_pages == 2
        assert later > place
        assert set(shown.values()) == {2}
        assert reads(store).shown_since("elsewhere", 0) == (later, 0, {})

    def test_clicks_of_views_that_close_after_a_time(self, store: Store) -> None:
        store.commit([AppendDecision(decision=decision_row("d1")), click_row("d1")])
        read = reads(store)
        link_id = read.clicks_after("home", 0, 0, 0).clicks[0][0]
        closes_us = START_US + CLICK_WINDOW_US
        assert read.clicks_after("home", 0, 0, closes_us - 1) == (
            [(link_id, False, 1)],
            dict.fromkeys((link.link_id for link in decision_row("d1").shown), 1),
        )
        assert read.clicks_after("home", 0, 0, closes_us) == ([(link_id, True, 1)], {})
        assert read.clicks_after("home", 0, closes_us, closes_us) == ([], {})
        assert read.clicks_after("home", START_US + 1, 0, 0) == ([], {})

    def test_closed_windows_stay_closed(self, store: Store, tmp_path: Path) -> None:
        in_window = START_US + CLICK_WINDOW_US
        store.commit([AppendDecision(decision=decision_row("d1"))])
        store.commit([CloseWindows(until_us=in_window)])
        store.close()
        again = self.open_store(tmp_path)
        assert outcomes(again.commit([click_row("d1", received_us=in_window)])) == ["late"]
        again.commit([CloseWindows(until_us=in_window - 1)])
        assert reads(again).progress().closed_until_us == in_window
        again.close()

    def test_a_decision_that_comes_after_its_window_closed_is_not_learned(
        self, store: Store
    ) -> None:
        store.commit([CloseWindows(until_us=START_US + CLICK_WINDOW_US)])
        store.commit([AppendDecision(decision=decision_row("d1"))])
        store.commit([AppendDecision(decision=decision_row("d2", START_US + 1))])
        learned = {item: reads(store).decision(item) for item in ("d1", "d2")}
        assert {key: item.learned for key, item in learned.items() if item} == {
            "d1": False,
            "d2": True,
        }
        assert self.fold(store, START_US + 2 * REVENUE_WINDOW_US) == 2

    def test_a_fold_moves_position_and_counters_together_once(self, store: Store) -> None:
        store.commit([AppendDecision(decision=decision_row("d1")), click_row("d1")])
        closes_us = START_US + CLICK_WINDOW_US
        store.commit([CloseWindows(until_us=closes_us)])
        views = reads(store).closed_views("home", CLICKS, FOLD_START, closes_us, 10)
        fold = ApplyFold(
            pool_id="home",
            level=CLICKS,
            after=FOLD_START,
            until=fold_position(views[0], CLICKS),
            n_resets=0,
            increment=count_settled(views, CLICKS, {}),
        )
        assert store.commit([fold, fold]) == [True, False]
        assert store.commit([fold]) == [False]
        assert reads(store).counters("home").links["policy", "l1"].clicks == 1
        assert reads(store).progress().folded == {("home", CLICKS): fold.until}

    def test_a_fold_computed_before_a_reset_is_not_applied(self, store: Store) -> None:
        store.commit([AppendDecision(decision=decision_row("d1")), click_row("d1")])
        self.fold(store, START_US + CLICK_WINDOW_US)
        reset = link_row("l1", counted_from_us=START_US + 5)
        store.commit([SaveLinks(links=(reset,), changes=(), reset=("l1",))])
        assert ("policy", "l1") not in reads(store).counters("home").links
        assert reads(store).counters("home").links["policy", "l2"].click_views == 1
        closes_us = START_US + REVENUE_WINDOW_US
        views = reads(store).closed_views("home", REVENUE, FOLD_START, closes_us, 10)
        stale = ApplyFold(
            pool_id="home",
            level=REVENUE,
            after=FOLD_START,
            until=fold_position(views[0], REVENUE),
            n_resets=0,
            increment=count_settled(views, REVENUE, {}),
        )
        assert store.commit([stale]) == [False]
        self.fold(store, closes_us)
        assert ("policy", "l1") not in reads(store).counters("home").links

    def test_closed_views_come_in_folding_order_page_by_page(self, store: Store) -> None:
        for decision_id, offset in (("b", 0), ("c", 9), ("a", 0), ("d", 4)):
            decision = decision_row(decision_id, START_US + offset)
            store.commit([AppendDecision(decision=decision)])
        expected = ["a", "b", "d", "c"]
        for level, window in ((CLICKS, CLICK_WINDOW_US), (REVENUE, REVENUE_WINDOW_US)):
            assert self._folding_order(store, level, START_US + window + 9) == expected
            assert self._folding_order(store, level, START_US + window + 8) == expected[:3]

    def _folding_order(self, store: Store, level: Level, until_us: int) -> list[str]:
        found: list[str] = []
        after = FOLD_START
        while True:
            views = reads(store).closed_views("home", level, after, until_us, 1)
            if not views:
                return found
            after = fold_position(views[0], level)
            found.append(after.decision_id)

    def test_positions_order_by_time_then_id(self) -> None:
        early = FoldPosition(closes_us=1, decision_id="z")
        assert early < FoldPosition(closes_us=2, decision_id="a")
        assert early > FoldPosition(closes_us=1, decision_id="a")

    def test_all_views_come_in_the_order_they_were_stored(self, store: Store) -> None:
        for k in range(7):
            decision = decision_row(f"d{9 - k}", START_US + (k * 5) % 7)
            store.commit([AppendDecision(decision=decision), click_row(f"d{9 - k}")])
        views, last, sizes = [], 0, []
        while (batch := reads(store).views_after("home", 0, None, last, 3)).views:
            last = batch.last
            sizes.append(len(batch.views))
            views += batch.views
        assert sizes == [3, 3, 1]
        assert batch.last == last
        assert [view.decision.decision_id for view in views] == [f"d{9 - k}" for k in range(7)]
        assert all(len(view.clicks) == 1 for view in views)
        some = [
            view.decision.issued_us
            for view in reads(store).views_after("home", START_US + 2, START_US + 5, 0, 100).views
        ]
        assert sorted(some) == [START_US + 2, START_US + 3, START_US + 4]

    def test_quarantined_events_are_counted_until_they_are_joined(self, store: Store) -> None:
        store.commit([click_row("d1"), conversion_row("c1", "d1"), refund_row("r1", "c1")])
        assert reads(store).n_quarantined() == 3
        store.commit([AppendDecision(decision=decision_row("d1"))])
        assert reads(store).n_quarantined() == 0
        view = reads(store).view("d1")
        assert view is not None
        assert (len(view.clicks), len(view.conversions), len(view.adjustments)) == (1, 1, 1)

    def test_late_feedback_is_counted_apart(self, store: Store) -> None:
        late_us = START_US + REVENUE_WINDOW_US + 1
        store.commit([AppendDecision(decision=decision_row("d1", holdout=True))])
        store.commit([refund_row("r1", "c1", received_us=START_US + SECOND_US)])
        store.commit([click_row("d1", received_us=late_us), conversion_row("c1", "d1", late_us)])
        store.commit([refund_row("r2", "c1", late_us)])
        self.fold(store, late_us)
        assert reads(store).counters("home").links["holdout", "l1"] == LinkCounters(
            click_views=1, revenue_views=1, late_clicks=1, late_revenue_micros=5_000_000
        )

    def test_a_duplicate_says_that_the_first_was_late(self, store: Store) -> None:
        late_us = START_US + REVENUE_WINDOW_US + 1
        for number, received_us in ((1, START_US + 1), (2, late_us)):
            page, sale = f"d{number}", f"c{number}"
            store.commit([AppendDecision(decision=decision_row(page))])
            sent = [click_row(page, received_us=received_us)]
            sent += [conversion_row(sale, page, received_us)]
            sent += [refund_row(f"r{number}", sale, received_us)]
            first, second = store.commit(sent), store.commit(sent)
            name, reason = ("accepted", "") if number == 1 else ("late", "first-was-late")
            assert outcomes(first) == [name] * 3
            assert outcomes(second) == ["duplicate"] * 3
            assert [getattr(answer, "reason", None) for answer in second] == [reason] * 3

    def test_what_was_learned_is_replaced(self, store: Store) -> None:
        assert reads(store).learned("home") is None
        for version in (1, 2):
            learned = Learned(
                pool_id="home", version=version, published=b"\x00p%d" % version, state=b"s"
            )
            store.commit([SaveLearned(learned=learned)])
        assert reads(store).learned("home") == learned

    def test_reads_at_one_moment(self, store: Store) -> None:
        with store.reading() as reader:
            assert reader.pools() == reads(store).pools()
            assert reader.progress() == reads(store).progress()

    def test_an_empty_commit_changes_nothing_and_closing_twice_is_fine(self, store: Store) -> None:
        before = reads(store).progress()
        store.commit(())
        assert reads(store).progress() == before
        store.close()
        store.close()
