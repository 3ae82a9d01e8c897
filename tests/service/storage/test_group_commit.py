"""Group commit: acknowledged means stored, and a store that is away loses no decision."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pytest

from slotwise.service.records import ChangeRecord, DecisionRecord, Outcome
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.storage import group_commit
from slotwise.service.storage.contract import (
    AppendDecision,
    CloseWindows,
    Operation,
    RecordEvent,
    SavePool,
    ShownViews,
)
from slotwise.service.storage.group_commit import GroupCommitter
from slotwise.service.storage.sql_reads import StoreReader
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.rows import T0, click, decision, pool
from tests.stores.memory_store import MemoryStore
from tests.stores.store_rows import reads

CREATED = ChangeRecord(changed_us=T0, changed_by="test", action="pool.create", subject="home")


class FlakyStore(MemoryStore):
    """A store that can be taken away, and that counts its commits."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.groups: list[int] = []
        self.poisoned: Operation | None = None

    def commit(self, operations: Sequence[Operation]) -> list[object]:
        if self.is_away:
            raise StoreUnavailable("the cable is out")
        if any(operation is self.poisoned for operation in operations):
            raise RuntimeError("no such thing")
        self.groups.append(len(operations))
        return super().commit(operations)


@pytest.fixture
def store() -> FlakyStore:
    store = FlakyStore()
    MemoryStore.commit(store, [SavePool(pool=pool(), change=CREATED)])
    return store


@pytest.fixture
def committer(store: FlakyStore) -> GroupCommitter:
    return GroupCommitter(store, 0.0, max_waiting=10, by_hand=True)


def shown(name: str) -> AppendDecision:
    return AppendDecision(decision=decision(name))


def clicked(name: str) -> RecordEvent:
    return RecordEvent(event=click(decision_id=name), received_us=T0)


def outcomes(answers: Future[list[object]]) -> list[str]:
    return [item.outcome for item in answers.result(0) if isinstance(item, Outcome)]


def test_what_waits_shares_one_commit_and_is_answered_after_it(
    committer: GroupCommitter, store: FlakyStore
) -> None:
    committer.append(shown("d1"))
    first = committer.submit([clicked("d1"), clicked("d2")])
    second = committer.submit([clicked("d1")])
    assert not first.done()
    assert committer.n_waiting == 3
    assert committer.commit_waiting()
    assert store.groups == [4]
    assert outcomes(first) == ["accepted", "quarantined"]
    assert outcomes(second) == ["duplicate"]


def test_a_group_is_bounded(committer: GroupCommitter, store: FlakyStore) -> None:
    committer.MAX_OPERATIONS = 3
    for k in range(5):
        committer.append(shown(f"d{k}"))
    committer.commit_waiting()
    committer.commit_waiting()
    assert store.groups == [3, 2]


def test_a_store_that_is_away_refuses_feedback_and_keeps_decisions_in_order(
    committer: GroupCommitter, store: FlakyStore
) -> None:
    store.is_away = True
    committer.append(shown("d1"))
    refused = committer.submit([clicked("d1")])
    committer.append(shown("d2"))
    assert not committer.commit_waiting()
    with pytest.raises(StoreUnavailable, match="the cable is out"):
        refused.result(0)
    assert not committer.available
    with pytest.raises(StoreUnavailable, match="the store is away"):
        committer.submit([clicked("d1")])
    committer.append(shown("d3"))
    store.is_away = False
    assert committer.commit_waiting()
    assert committer.available
    assert [
        view.decision.decision_id for view in reads(store).views_after("home", 0, None, 0, 99).views
    ] == ["d1", "d2", "d3"]
    assert committer.n_lost_decisions == 0
    again = committer.submit([clicked("d1")])
    committer.commit_waiting()
    assert outcomes(again) == ["accepted"]


def test_when_too_much_waits_feedback_is_refused_and_the_oldest_decisions_go(
    committer: GroupCommitter, store: FlakyStore
) -> None:
    store.is_away = True
    for k in range(9):
        committer.append(shown(f"d{k}"))
    waiting = committer.submit([clicked("d8")])
    with pytest.raises(StoreUnavailable, match="10 writes wait for the store already"):
        committer.submit([clicked("d8")])
    committer.commit_waiting()
    for k in range(9, 13):
        committer.append(shown(f"d{k}"))
    assert isinstance(waiting.exception(0), StoreUnavailable)
    assert committer.n_waiting == 10
    assert committer.n_lost_decisions == 3
    store.is_away = False
    committer.commit_waiting()
    assert [
        view.decision.decision_id for view in reads(store).views_after("home", 0, None, 0, 99).views
    ] == [f"d{k}" for k in range(3, 13)]


def test_a_write_that_breaks_a_rule_of_the_store_takes_no_other_with_it(
    committer: GroupCommitter, store: FlakyStore
) -> None:
    committer.append(shown("d1"))
    poison = clicked("d1")
    store.poisoned = poison
    bad = committer.submit([poison])
    good = committer.submit([clicked("d1")])
    assert committer.commit_waiting()
    with pytest.raises(RuntimeError, match="no such thing"):
        bad.result(0)
    assert outcomes(good) == ["accepted"]


def test_a_caller_that_went_away_does_not_stop_its_write(
    committer: GroupCommitter, store: FlakyStore
) -> None:
    committer.append(shown("d1"))
    abandoned = committer.submit([clicked("d1")])
    assert abandoned.cancel()
    assert committer.commit_waiting()
    view = reads(store).view("d1")
    assert view is not None
    assert len(view.clicks) == 1


def test_closing_commits_what_waits_and_refuses_what_comes_later(
    committer: GroupCommitter, store: FlakyStore
) -> None:
    committer.append(shown("d1"))
    last = committer.submit([clicked("d1")])
    committer.close()
    assert outcomes(last) == ["accepted"]
    with pytest.raises(StoreUnavailable, match="stopping"):
        committer.submit([clicked("d1")])


def test_closing_without_a_store_fails_what_waits(
    committer: GroupCommitter, store: FlakyStore
) -> None:
    committer.append(shown("d1"))
    last = committer.submit([clicked("d1")])
    store.is_away = True
    committer.close()
    assert isinstance(last.exception(0), StoreUnavailable)
    assert committer.n_lost_decisions == 1


def test_the_thread_commits_by_itself_and_finds_the_store_again(store: FlakyStore) -> None:
    came_back = Event()
    committer = GroupCommitter(store, 0.0, max_waiting=10)
    committer.RETRY_S = 0.001
    committer.append(shown("d1"))
    assert committer.submit([clicked("d1")]).result(600) == [Outcome(outcome="accepted")]
    store.is_away = True
    with pytest.raises(StoreUnavailable):
        committer.submit([clicked("d1")]).result(600)
    committer.append(shown("d2"))
    store.is_away = False
    while not committer.available:
        came_back.wait(0.001)
    assert committer.submit([clicked("d2")]).result(600) == [Outcome(outcome="accepted")]
    committer.close()


def test_a_store_that_does_not_answer_is_away(store: FlakyStore, committer: GroupCommitter) -> None:
    """What waits is refused by another thread; the commit under way is made all the same."""
    begun, go_on, commit = Event(), Event(), store.commit

    def hang(operations: Sequence[Operation]) -> list[object]:
        begun.set()
        go_on.wait()
        return commit(operations)

    store.commit = hang  # type: ignore[method-assign]
    committer.append(shown("d1"))
    under_way = committer.submit([clicked("d1")])
    thread = Thread(target=committer.commit_waiting)
    thread.start()
    begun.wait()
    began_s = time.monotonic()
    waiting = committer.submit([clicked("d1")])
    committer.append(shown("d2"))
    committer.refuse_if_stuck(began_s + committer.STUCK_S / 2)
    assert committer.available
    assert not waiting.done()
    for _ in range(2):
        committer.refuse_if_stuck(began_s + committer.STUCK_S + 1)
        assert not committer.available
        for refused in (under_way, waiting):
            with pytest.raises(StoreUnavailable, match="the store has not answered for 30 s"):
                refused.result(0)
    assert committer.n_waiting == 1, "the decision"
    with pytest.raises(StoreUnavailable):
        committer.submit([clicked("d1")])
    go_on.set()
    thread.join()
    assert committer.available
    again = committer.submit([clicked("d1")])
    assert committer.commit_waiting()
    assert outcomes(again) == ["duplicate"]
    assert reads(store).decision("d2") is not None
    assert committer.n_lost_decisions == 0


def test_an_answer_and_a_refusal_at_once_settle_a_write_once() -> None:
    interval = sys.getswitchinterval()
    writes = [group_commit._Awaited([clicked("d1")], Future()) for _ in range(5_000)]
    refusal = StoreUnavailable("too late")
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(2) as threads:
            settle: list[Callable[[Any], object]] = [
                lambda one: group_commit._answer(one, []),
                lambda one: group_commit._fail(one, refusal),
            ]
            list(threads.map(lambda how: [how(one) for one in writes], settle))
    finally:
        sys.setswitchinterval(interval)
    assert all(one.answers.done() for one in writes)


@pytest.mark.parametrize("repeated", [0.0, 0.01, 0.05, 0.3])
def test_committed_pages_are_counted_as_the_store_has_them(tmp_path: Path, repeated: float) -> None:
    """Two pools, decisions that are committed again, and reads that fail."""
    random, known = Random(5), list[DecisionRecord]()
    places = {"home": 0, "away": 0}
    counted = {pool_id: Counter[str]() for pool_id in places}
    n_read = 0

    class Reader(StoreReader):
        def place_of(self, decision_id: str) -> int:
            if random.random() < 0.05:
                raise StoreUnavailable("the cable is out")
            return super().place_of(decision_id)

        def shown_since(self, pool_id: str, after: int) -> ShownViews:
            nonlocal n_read
            n_read += 1
            return super().shown_since(pool_id, after)

    def ask(pool_id: str) -> None:
        with suppress(StoreUnavailable), opened.reading() as reader:
            own = Reader(reader._session)
            found = asked.committed.shown_since(own, pool_id, places[pool_id])
            assert found.until >= places[pool_id]
            places[pool_id] = found.until
            counted[pool_id] += Counter(found.links) + Counter({"": found.n_pages})

    with closing(SqliteStore(tmp_path / "store.db")) as opened:
        asked = GroupCommitter(opened, 0.0, max_waiting=10, by_hand=True)
        for _ in range(400):
            for _ in range(random.randrange(6)):
                pool_id, page = random.choice(["home", "away"]), (random.choice("abc"), "z")
                new = decision(f"d{len(known)}", pool_id=pool_id, links=page)
                if known and random.random() < repeated:
                    new = random.choice([known[-1], random.choice(known)])
                else:
                    known.append(new)
                asked.append(AppendDecision(decision=new))
            asked.commit_waiting()
            ask(random.choice(sorted(places)))
        for pool_id in places:
            while places[pool_id] < len(known):
                ask(pool_id)
            whole = reads(opened).shown_since(pool_id, 0)
            assert counted[pool_id] == Counter(whole.links) + Counter({"": whole.n_pages})
            assert whole.n_pages > 200
    assert 5 < n_read < (100 if repeated < 0.05 else 500)  # of 400 and more


def test_a_view_that_is_sent_again_is_not_counted_again(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        committer = GroupCommitter(store, 0.0, max_waiting=99, by_hand=True)
        views = {name: decision(name, links=(name, "z")) for name in "ABC"}
        place, counted = 0, Counter[str]()
        for sent in ("", "ABA", "AC"):
            for name in sent:
                committer.append(AppendDecision(decision=views[name]))
            committer.commit_waiting()
            with store.reading() as reader:
                found = committer.committed.shown_since(reader, "home", place)
            place = found.until
            counted.update(found.links)
        assert counted == {"A": 1, "B": 1, "C": 1, "z": 3}


def test_clicks_on_links_wait_for_a_store_that_is_away(
    committer: GroupCommitter, store: FlakyStore
) -> None:
    """A page that was stored before, and one that is queued with its click."""
    committer.append(shown("d1"))
    committer.commit_waiting()
    store.is_away = True
    committer.append(shown("d2"))
    answers = [committer.submit_click(click(decision_id=one), T0 + 5) for one in ("d1", "d2")]
    assert not committer.commit_waiting()
    again = committer.submit_click(click(decision_id="d2"), T0 + 6)
    assert not any(one.done() for one in [*answers, again])
    store.is_away = False
    assert committer.commit_waiting()
    assert [outcomes(one) for one in [*answers, again]] == [
        ["accepted"],
        ["accepted"],
        ["duplicate"],
    ]
    for name in ("d1", "d2"):
        view = reads(store).view(name)
        assert view is not None
        assert (len(view.clicks), view.clicks[0].received_us, view.decision.learned) == (
            1,
            T0 + 5,
            True,
        )
    assert committer.n_lost_clicks == 0


def test_views_whose_clicks_were_dropped_are_not_learned(
    committer: GroupCommitter, store: FlakyStore
) -> None:
    """The queue has ten places: two clicks are dropped. An earlier and a closed view stay."""
    closed = decision("closed", issued_us=T0 - 2 * 1_800_000_000)
    for one in (closed, decision("d1"), decision("d2")):
        committer.append(AppendDecision(decision=one))
    committer.commit([CloseWindows(until_us=T0 - 1)])
    store.is_away = True
    for k in range(12):
        committer.submit_click(click(decision_id="d1" if k else "d2"), T0 + k)
        committer.commit_waiting()
    assert committer.n_lost_clicks == 2
    store.is_away = False
    committer.append(shown("later"))
    while committer.n_waiting:
        committer.commit_waiting()
    learned = {}
    for name in ("closed", "d1", "d2", "later"):
        view = reads(store).view(name)
        assert view is not None
        learned[name] = view.decision.learned
    # "later" was queued after the dropped clicks, so all of its clicks are there.
    assert learned == {"closed": True, "d1": False, "d2": False, "later": True}
    committer.append(shown("last"))
    committer.commit_waiting()
    last = reads(store).view("last")
    assert last is not None
    assert last.decision.learned
