"""Old raw rows go, beside running traffic and by command; counters and `verify` do not notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotwise.cli.main import main
from slotwise.service.records import DAY_US, ShownLink
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.contract import PurgeViews
from slotwise.service.storage.maintenance import STEP, purge
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.conftest import OpenService
from tests.service.rows import T0, arrays_of, click, decision, link, pool, seconds
from tests.stores.memory_store import MemoryStore
from tests.stores.store_rows import reads

DAY = 86_400


def lived_in(service: Service, n_days: int) -> None:
    """Show four pages a day, click on two of them, and learn every day."""
    for day in range(n_days):
        now_us = seconds(day * DAY)
        pages = [service.decider.decide("home", now_us + k) for k in range(4)]
        clicks = [click(page.shown[0].link_id, page.decision_id) for page in pages[::2]]
        service.committer.submit_events(clicks, now_us + 100).result()
        service.learner.learn(seconds(day * DAY + DAY - 1))


def n_views(service: Service) -> int:
    return len(reads(service.store).views_after("home", 0, None, 0, 1_000).views)


def opened(open_service: OpenService, **options: int) -> Service:
    service = open_service(**options)
    home = pool(policy="uniform", policy_settings={}, revenue_window_s=3600)
    service.directory.put_pool(home, "test", T0).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(1, 6)], "test", T0).result()
    return service


def test_a_service_keeps_rows_for_its_retention_and_counters_for_ever(
    open_service: OpenService,
) -> None:
    service = opened(open_service, retention_days=3)
    lived_in(service, 10)
    assert n_views(service) == 12
    counters = reads(service.store).counters("home").pages["policy"]
    assert counters.click_views == 40
    assert counters.clicks == 20
    assert verify(service.store).mismatches == ()
    # A restart goes on from the counters, with the rows that are left.
    service.close()
    again = open_service(retention_days=3)
    assert reads(again.store).counters("home").pages["policy"] == counters
    again.learner.learn(seconds(11 * DAY))
    assert verify(again.store).mismatches == ()


def test_without_a_retention_nothing_goes(open_service: OpenService) -> None:
    service = opened(open_service)
    lived_in(service, 5)
    assert n_views(service) == 20


def test_the_command_drops_old_rows_once(
    open_service: OpenService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    service = opened(open_service)
    lived_in(service, 5)
    address = ["--store", str(tmp_path / "store.db")]
    assert main(["purge", "--older-than", "2", *address]) == 2
    assert "in use by process" in capsys.readouterr().err
    service.close()
    assert main(["purge", "--older-than", "2", *address]) == 0
    assert "12 views and waiting events deleted" in capsys.readouterr().out
    assert main(["purge", "--older-than", "2", *address]) == 0
    assert "0 views and waiting events deleted" in capsys.readouterr().out
    assert main(["verify", *address]) == 0
    assert "8 decisions: 0 differ" in capsys.readouterr().out
    assert main(["purge", "--older-than", "0", *address]) == 2


def test_verify_is_exact_while_views_are_purged(open_service: OpenService) -> None:
    service = opened(open_service)
    lived_in(service, 6)
    store = service.store

    class PurgedMeanwhile:
        """A store that loses two views after every read."""

        n_reads = 0

        def reading(self):  # type: ignore[no-untyped-def]
            self.n_reads += 1
            if self.n_reads > 1:
                purge_two = PurgeViews(pool_id="home", before_us=seconds(9 * DAY), limit=2)
                store.commit([purge_two])
            return store.reading()

    meanwhile = PurgedMeanwhile()
    assert verify(meanwhile).mismatches == ()
    assert n_views(service) < 20


def test_a_large_backlog_goes_in_bounded_steps() -> None:
    store = MemoryStore()
    steps: list[int] = []

    def commit(operation: object) -> int:
        assert isinstance(operation, PurgeViews)
        steps.append(operation.limit)
        return STEP

    service = Service(store)
    service.directory.put_pool(pool(), "test", T0).result()
    assert purge(store.reading, commit, T0 + DAY_US, max_steps=7) == 7 * STEP
    assert steps == [STEP] * 7
    service.close()


def test_the_sqlite_file_reuses_the_room(open_service: OpenService, tmp_path: Path) -> None:
    service = opened(open_service, retention_days=1)
    lived_in(service, 3)
    service.close()
    store = SqliteStore(tmp_path / "store.db")
    assert store._writer is not None
    [(n_pages,)] = store._writer.execute("PRAGMA page_count").fetchall()
    store.close()
    again = open_service(retention_days=1)
    lived_in(again, 3)
    again.close()
    store = SqliteStore(tmp_path / "store.db")
    assert store._writer is not None
    assert store._writer.execute("PRAGMA page_count").fetchone()[0] <= n_pages + 8
    store.close()


def test_rows_of_years_go_and_leave_what_was_learned(tmp_path: Path) -> None:
    """Pages of 18 months, with and without a retention of 30 days: nobody can tell them apart."""
    learned = []
    for retention_days in (0, 30):
        path = tmp_path / f"{retention_days}.db"
        options = ServiceOptions(seed=1, commit_every_ms=0.0, retention_days=retention_days)
        service = Service(SqliteStore(path), options)
        home = pool(policy="paced-bayes", policy_settings={}, revenue_window_s=3600)
        service.directory.put_pool(home, "test", T0).result()
        service.directory.put_links(
            "home", [link(f"l{k}") for k in range(1, 6)], "test", T0
        ).result()
        for number in range(13):
            now_us = seconds(number * 42 * DAY)
            events = []
            for k in range(3):
                shown = ShownLink(link_id=f"l{1 + (number + k) % 5}", position=1, propensity=0.4)
                page = decision(
                    f"d{number}-{k}", issued_us=now_us + k, shown=(shown,), policy="paced-bayes"
                )
                service.decider.record_view(page, now_us + k)
                events += [click(shown.link_id, page.decision_id)] * (k == 0)
            events += [click("l1", f"nobody-{number}")]  # waits for a page that never comes
            service.committer.submit_events(events, now_us + 100).result()
            service.learner.learn(seconds(number * 42 * DAY + 2 * DAY))
            if number == 6:
                service.close()
                service = Service(SqliteStore(path), options)
        n_left = {0: 3 * 13, 30: 3}[retention_days]
        assert n_views(service) == n_left
        assert verify(service.store).mismatches == ()
        n_waiting = reads(service.store).n_quarantined()
        assert (n_waiting == 13) if not retention_days else (n_waiting <= 3)
        found = reads(service.store).counters("home")
        learned.append((arrays_of(service), found.links, found.pages))
        # Another policy learns from the rows that are left, and from the counters.
        service.directory.put_pool(
            pool(policy="paced-bayes", policy_settings={}), "test", now_us
        ).result()
        service.learner.learn(now_us + 3 * DAY_US)
        assert service.health().pools[0].failure == ""
        service.close()
    assert learned[0] == learned[1]
