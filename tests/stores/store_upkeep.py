"""The laws of purging and forgetting, for every store."""

from __future__ import annotations

from msgspec.structs import replace

from slotwise.service.records import (
    SECOND_US,
)
from slotwise.service.storage.contract import (
    AppendDecision,
    ForgetViews,
    Learned,
    PurgeViews,
    SaveLearned,
    SaveLinks,
    SavePool,
    Store,
)
from slotwise.service.storage.verify import verify
from tests.stores.store_case import StoreCase, outcomes
from tests.stores.store_rows import (
    CLICK_WINDOW_US,
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


class StoreUpkeep(StoreCase):
    """Rows go or count no more; counters and rows still agree."""

    def test_purging_drops_folded_views_and_changes_no_counter(self, store: Store) -> None:
        closed_us = START_US + 3 * REVENUE_WINDOW_US
        for k in range(9):
            name, issued_us = f"d{k}", START_US + k * SECOND_US
            store.commit(
                [
                    AppendDecision(decision=decision_row(name, issued_us, holdout=k % 3 == 0)),
                    click_row(name, received_us=issued_us),
                    conversion_row(f"c{k}", name, issued_us),
                    refund_row(f"r{k}", f"c{k}", issued_us),
                    conversion_row(f"w{k}", name, issued_us, currency="USD"),
                ]
            )
        store.commit([click_row("nobody"), refund_row("r-nobody", "c-nobody")])
        store.commit([click_row("d1", "l2", START_US + REVENUE_WINDOW_US)])
        before_us = START_US + REVENUE_WINDOW_US + 6 * SECOND_US
        assert store.commit([_purge(before_us, 100)]) == [2]  # nothing is folded yet
        self.fold(store, closed_us)
        store.commit([AppendDecision(decision=decision_row("unfolded", closed_us))])
        counters = reads(store).counters("home")
        assert store.commit([_purge(before_us, 4), _purge(before_us, 4)]) == [4, 2]
        assert store.commit([_purge(before_us, 4)]) == [0]
        assert reads(store).counters("home") == counters
        left = reads(store).views_after("home", 0, None, 0, 100).views
        assert [view.decision.decision_id for view in left] == ["d6", "d7", "d8", "unfolded"]
        assert reads(store).view("d1") is None
        assert reads(store).refusals("d1") == []
        assert reads(store).n_quarantined() == 0
        assert verify(store).mismatches == ()
        assert outcomes(store.commit([click_row("d1"), refund_row("r1", "c1")])) == [
            "quarantined",
            "quarantined",
        ]
        assert reads(store).counters("home") == counters

    def test_a_reset_after_purging_forgets_what_was_purged(self, store: Store) -> None:
        for k in range(3):
            store.commit([AppendDecision(decision=decision_row(f"d{k}", START_US + k))])
            store.commit([click_row(f"d{k}")])
        self.fold(store, START_US + 2 * REVENUE_WINDOW_US)
        store.commit([_purge(START_US + 2 * REVENUE_WINDOW_US, 2)])
        reset = link_row("l1", counted_from_us=START_US + 3)
        store.commit([SaveLinks(links=(reset,), changes=(), reset=("l1",))])
        assert ("policy", "l1") not in reads(store).purged("home").links
        assert reads(store).purged("home").links["policy", "l2"].click_views == 2

    def test_forgotten_views_count_no_more(self, store: Store) -> None:
        for k in range(6):
            key_id = "k1" if k % 2 else ""
            decision = decision_row(f"d{k}", START_US + k, key_id=key_id)
            store.commit([AppendDecision(decision=decision), click_row(f"d{k}")])
        self.fold(store, START_US + CLICK_WINDOW_US + 10)
        learned = Learned(pool_id="home", version=1, published=b"p", state=b"s")
        store.commit([SaveLearned(learned=learned)])
        change = change_row("k1", action="key.forget")
        forget = ForgetViews(key_id="k1", since_us=START_US + 2, change=change)
        assert store.commit([forget]) == [2]
        assert store.commit([forget]) == [0]
        left = reads(store).counters("home").pages["policy"]
        assert (left.click_views, left.clicks) == (4, 4)
        reset = replace(learned, state=b"", n_resets=1, needs_rows_us=0)
        assert reads(store).learned("home") == reset
        assert reads(store).progress().n_resets == 1
        # What was learned with the forgotten views must not come back.
        assert store.commit([SaveLearned(learned=replace(learned, version=2))]) == [False]
        assert reads(store).learned("home") == reset
        assert self.fold(store, START_US + 2 * REVENUE_WINDOW_US) == 4
        assert [item.action for item in reads(store).changes("k1", 9)] == ["key.forget"] * 2

    def test_a_change_is_stored_only_after_the_state_that_it_was_made_from(
        self, store: Store
    ) -> None:
        [pool] = reads(store).pools()
        first = replace(pool, changed_us=pool.changed_us + 1, holdout=0.5)
        other = replace(pool, changed_us=pool.changed_us + 2, explore=0.5)
        change, n_before = change_row("home"), len(reads(store).changes("home", 99))
        saves = [
            SavePool(pool=one, change=change, after_us=pool.changed_us) for one in (first, other)
        ]
        answers = store.commit(saves)
        assert answers == [True, False]
        assert reads(store).pools() == [first]
        assert len(reads(store).changes("home", 99)) == n_before + 1
        new = SavePool(pool=other, change=change, after_us=0)
        assert store.commit([new]) == [False]
        [link] = [one for one in reads(store).links("home") if one.link_id == "l1"]
        retired = replace(link, retired=True, changed_us=link.changed_us + 1)
        titled = replace(link, title="A", changed_us=link.changed_us + 2)
        made = link_row("made", changed_us=START_US)
        saved = SaveLinks(links=(retired,), changes=(), after_us=(link.changed_us,))
        both = SaveLinks(links=(titled, made), changes=(), after_us=(link.changed_us, 0))
        assert store.commit([saved, both]) == [[retired], False]
        assert retired in reads(store).links("home")
        assert not [one for one in reads(store).links("home") if one.link_id == "made"]

    def test_a_reset_names_the_pools_that_it_touches(self, store: Store) -> None:
        store.commit([SavePool(pool=pool_row(pool_id="side"), change=change_row("side"))])
        learned = Learned(pool_id="side", version=1, published=b"p", state=b"s")
        for pool_id in ("home", "side"):
            store.commit([SaveLearned(learned=replace(learned, pool_id=pool_id))])
        unused = ForgetViews(key_id="k1", since_us=0, change=change_row("k1", action="key.forget"))
        assert store.commit([unused]) == [0]
        assert reads(store).progress().n_resets == 0
        one = link_row("l1", counted_from_us=START_US)
        store.commit([SaveLinks(links=(one,), changes=(), reset=("l1",))])
        assert reads(store).pool_resets() == {"home": 1, "side": 0}
        assert reads(store).learned("home") == replace(learned, pool_id="home", n_resets=1)
        store.commit([AppendDecision(decision=decision_row("d1", START_US, key_id="k1"))])
        assert store.commit([unused]) == [1]
        assert reads(store).pool_resets() == {"home": 2, "side": 0}
        assert reads(store).learned("side") == learned

    def test_a_reset_of_all_links_drops_the_state(self, store: Store) -> None:
        learned = Learned(pool_id="home", version=1, published=b"p", state=b"s")
        store.commit([SaveLearned(learned=learned)])
        links = tuple(reads(store).links("home"))
        reset = tuple(link.link_id for link in links)
        store.commit([SaveLinks(links=links, changes=(), reset=reset)])
        assert reads(store).learned("home") == replace(
            learned, state=b"", n_resets=1, needs_rows_us=0
        )

    def test_rows_that_a_state_has_not_learned_are_not_purged(self, store: Store) -> None:
        for k in range(4):
            store.commit([AppendDecision(decision=decision_row(f"d{k}", START_US + k))])
        self.fold(store, START_US + 2 * REVENUE_WINDOW_US)
        learned = Learned(
            pool_id="home",
            version=1,
            published=b"p",
            state=b"s",
            needs_rows_us=START_US + 2 + REVENUE_WINDOW_US,
        )
        store.commit([SaveLearned(learned=learned)])
        assert store.commit([_purge(START_US + 2 * REVENUE_WINDOW_US, 9)]) == [2]
        left = reads(store).views_after("home", 0, None, 0, 100).views
        assert [view.decision.decision_id for view in left] == ["d2", "d3"]


def _purge(before_us: int, limit: int) -> PurgeViews:
    return PurgeViews(pool_id="home", before_us=before_us, limit=limit)
