"""A store to test: how it is opened, filled with a pool, folded and verified at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from slotwise.service.counting.attribution import FOLD_START, LEVELS, fold_position
from slotwise.service.counting.counters import count_settled
from slotwise.service.records import (
    Outcome,
)
from slotwise.service.storage.contract import ApplyFold, CloseWindows, SaveLinks, SavePool, Store
from slotwise.service.storage.verify import verify
from tests.stores.store_rows import (
    LINK_IDS,
    change_row,
    link_row,
    pool_row,
    reads,
)


def outcomes(answers: Sequence[object]) -> list[str]:
    """Return the outcomes among the answers of a commit."""
    return [answer.outcome for answer in answers if isinstance(answer, Outcome)]


class StoreCase:
    """The store under test; say in `open_store` which one."""

    def open_store(self, place: Path) -> Store:
        """Open the store at a place; opened there again, it has what was committed."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        """Return a store with a pool of three links; reopened and verified after the test."""
        store = self.open_store(tmp_path)
        links = tuple(link_row(link_id) for link_id in LINK_IDS)
        store.commit(
            [
                SavePool(pool=pool_row(), change=change_row("home")),
                SaveLinks(links=links, changes=(change_row("home/l1", action="link.create"),)),
            ]
        )
        yield store
        store.close()
        reopened = self.open_store(tmp_path)
        assert verify(reopened).mismatches == ()
        reopened.close()

    def fold(self, store: Store, until_us: int, limit: int = 1_000) -> int:
        """Close windows and fold them as the service does; return how many views were folded."""
        store.commit([CloseWindows(until_us=until_us)])
        reset_times = reads(store).reset_times("home")
        n_folded = 0
        for level in LEVELS:
            while True:
                progress = reads(store).progress()
                after = progress.folded.get(("home", level), FOLD_START)
                views = reads(store).closed_views("home", level, after, until_us, limit)
                if not views:
                    break
                n_folded += len(views)
                operation = ApplyFold(
                    pool_id="home",
                    level=level,
                    after=after,
                    until=fold_position(views[-1], level),
                    n_resets=progress.n_resets,
                    increment=count_settled(views, level, reset_times),
                )
                assert store.commit([operation]) == [True]
        return n_folded
