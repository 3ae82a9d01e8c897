"""Asking a pool's log: the exported log can be evaluated, and the service does so itself."""

from __future__ import annotations

import io

import numpy as np
import pyarrow.parquet as pq
import pytest

from slotwise.evaluation import LinkMix, evaluate
from slotwise.page_log import REQUIRED_COLUMNS
from slotwise.service.records import SECOND_US, Event
from slotwise.service.reporting.page_view_files import log_file
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from tests.service.rows import T0, click, conversion, link, pool, seconds
from tests.stores.memory_store import MemoryStore

RATES = {"l1": 0.5, "l2": 0.4, "l3": 0.3, "l4": 0.2, "l5": 0.1}
N_PAGES = 900
FAR = seconds(3 * 86_400)


@pytest.fixture(scope="module")
def busy() -> Service:
    """A pool that explores, with a holdout; a link joins it after two thirds of the pages."""
    service = Service(MemoryStore(), ServiceOptions(commit_every_ms=0.0))
    settings = pool(policy="uniform", policy_settings={}, holdout=0.2, explore=0.1)
    service.directory.put_pool(settings, "t", T0).result()
    service.directory.put_links("home", [link(link_id) for link_id in RATES], "t", T0).result()
    rng = np.random.default_rng(5)
    for k in range(N_PAGES):
        now_us = T0 + k * SECOND_US
        if k == 600:
            service.directory.put_links("home", [link("l6")], "t", now_us).result()
        page = service.decider.decide("home", now_us)
        clicked = [one.link_id for one in page.shown if rng.random() < RATES.get(one.link_id, 0.1)]
        sales = [
            conversion(f"c{k}", link_id=link_id, decision_id=page.decision_id)
            for link_id in clicked[:1]
        ]
        events: list[Event] = [*(click(link_id, page.decision_id) for link_id in clicked), *sales]
        service.committer.submit_events(events, now_us).result()
    service.learner.learn(FAR)
    open_page = service.decider.decide("home", FAR)
    assert open_page.shown
    service.flush().result()
    return service


def test_the_exported_log_has_a_row_for_each_link_shown(busy: Service) -> None:
    log = log_file(busy.directory.pool("home"), busy.reporter.export("home"))
    table = pq.read_table(io.BytesIO(log.getvalue()))
    assert table.column_names[:7] == list(REQUIRED_COLUMNS)
    assert table.num_rows == 2 * (N_PAGES + 1)
    assert set(table["currency"].to_pylist()) == {"EUR"}
    assert [row["settled"] for row in table.to_pylist()[-4:]] == [True, True, False, False]
    assert sorted(set(table["pool_changes"].to_pylist())) == [0, 1]
    assert min(table["min_probability"].to_pylist()) == pytest.approx(2 / 6)
    decided = {one.decision_id: one for rows in busy.reporter.export("home") for one in rows}
    for row in table.to_pylist():
        one = decided[row["page_id"]]
        place = row["slot"] - 1
        assert (row["link"], row["probability"]) == (one.links[place], one.propensities[place])
        assert row["revenue"] == one.revenue_micros[place] / 1e6


def test_a_mix_is_evaluated_on_the_exported_log(busy: Service) -> None:
    log = log_file(busy.directory.pool("home"), busy.reporter.export("home"))
    answer = evaluate([io.BytesIO(log.getvalue())], LinkMix.of({"l1": 1.0, "l5": 1.0}))
    assert (answer.n_pages, answer.n_unsettled) == (N_PAGES, 1)
    assert answer.currency == "EUR"
    # the truth is 0.6, five standard errors of 0.05
    assert answer.clicks.value == pytest.approx(0.6, abs=0.25)
    assert answer.clicks.low < 0.6 < answer.clicks.high
    assert answer.notes == ()


def test_the_service_asks_its_own_log(busy: Service) -> None:
    report = busy.reporter.evaluate("home", 0.4, 0, is_recent=True)
    assert report.revenue is not None
    assert report.clicks is not None
    assert report.revenue.low <= report.revenue.value <= report.revenue.high
    assert report.clicks.low <= report.clicks.value <= report.clicks.high
    assert report.n_pages + report.n_fitted == N_PAGES
    assert report.n_unsettled == 1
    again = busy.reporter.evaluate("home", 0.4, 0, is_recent=False)
    assert again == report


def test_a_short_log_cannot_tell(busy: Service) -> None:
    later = busy.reporter.evaluate("home", 0.4, FAR - SECOND_US, is_recent=False)
    assert later.revenue is None
    assert later.cannot_tell.startswith("The log cannot tell: ")
    service = Service(MemoryStore())
    service.directory.put_pool(pool(), "t", T0).result()
    report = service.reporter.evaluate("home", 0.4, 0, is_recent=True)
    assert report.cannot_tell.startswith("The log cannot tell: it has 0 settled pages")
    service.close()
