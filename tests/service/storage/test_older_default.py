"""A service goes on with pools whose state an earlier form of the default policy has saved."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from slotwise.service.records import SECOND_US
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.golden.write_default import N_LINKS, N_SLOTS, POOLS, T0, visitor_of
from tests.stores.store_rows import reads

GOLDEN = Path(__file__).parents[2] / "golden" / "default-1.db.gz"
LATER_US = T0 + 90_000 * SECOND_US


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    path.write_bytes(gzip.decompress(GOLDEN.read_bytes()))
    return path


def test_what_was_learned_is_that_of_the_rows(path: Path) -> None:
    store = SqliteStore(path)
    assert verify(store).mismatches == ()
    shown = {kind: reads(store).views_after(kind, 0, None, 0, 1_000).views for kind in POOLS}
    service = Service(store, ServiceOptions(seed=1, commit_every_ms=0.0))
    for kind, views in shown.items():
        known = service.knowledge(kind)
        assert known is not None
        assert known.arrays["rounds"].tolist() == [40.0, 40.0]
        of_links = np.zeros(N_LINKS)
        clicks = np.zeros(N_LINKS)
        for view in views:
            for one in view.decision.shown:
                of_links[int(one.link_id[1:])] += 1
            for click in view.clicks:
                clicks[int(click.event.link_id[1:])] += 1
        assert known.arrays["views"][0].tolist() == of_links.tolist()
        assert known.arrays["sums"][0].tolist() == clicks.tolist()
        assert "owed" in known.arrays
        assert "queue" not in known.arrays
    service.close()


def test_it_decides_learns_and_saves_in_the_present_form(path: Path) -> None:
    service = Service(SqliteStore(path), ServiceOptions(seed=1, commit_every_ms=0.0))
    versions = {item.pool_id: item.policy_version for item in service.health().pools}
    assert versions.keys() == POOLS.keys()
    for kind in POOLS:
        for number in range(6):
            page = service.decider.decide(kind, LATER_US, visitor=visitor_of(kind, number))
            assert page.fallback == ""
            assert len({one.link_id for one in page.shown}) == N_SLOTS
    service.learner.learn(LATER_US + 7200 * SECOND_US)
    learned = {}
    for item in service.health().pools:
        assert item.fallback == ""
        assert item.policy_version > versions[item.pool_id]
        known = service.knowledge(item.pool_id)
        assert known is not None
        assert known.arrays["rounds"].tolist() == [46.0, 46.0]
        learned[item.pool_id] = {name: array.tolist() for name, array in known.arrays.items()}
    service.close()
    again = Service(SqliteStore(path), ServiceOptions(seed=1, commit_every_ms=0.0))
    for kind, before in learned.items():
        known = again.knowledge(kind)
        assert known is not None
        assert {name: array.tolist() for name, array in known.arrays.items()} == before
    again.close()
