"""The two forms of the default policy for visitors in a service: which plays, and which goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.policies import paced_bayes, paced_bayes_visitors
from slotwise.policies.paced_bayes_visitors import PacedBayesVisitors, PacedBayesWide
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore
from tests.service.rows import T0, learned_of, link
from tests.service.test_visitors import (
    LINKS,
    frequencies_are_exact,
    links_for,
    visit,
    visitors_pool,
)

pytestmark = pytest.mark.compiled

OPTIONS = ServiceOptions(seed=3, commit_every_ms=0.0)


def opened(path: Path) -> Service:
    """Return a service with a pool of the default policy, which has learned from 400 views."""
    service = Service(SqliteStore(path / "store.db"), OPTIONS)
    service.directory.put_pool(visitors_pool(policy="paced-bayes"), "test", T0).result()
    service.directory.put_links("home", [link(one) for one in LINKS], "test", T0).result()
    return service


def phone_page(service: Service) -> list[float]:
    installed: Any = service.decider.installed("home")
    known = installed.known_visitors.know({"device": "phone"})
    return list(installed._visitors.rates(known.places, None).probabilities)


def test_the_regression_learns_for_whom_and_logs_exact_propensities(tmp_path: Path) -> None:
    service = opened(tmp_path)
    now_us = visit(service, 600, T0)
    assert isinstance(learned_of(service).form, PacedBayesVisitors)
    assert links_for(service, {"device": "phone"}, now_us) <= {"l0", "l1"}
    assert links_for(service, {"device": "desktop"}, now_us) <= {"l6", "l7"}
    pages = [
        service.decider.decide("home", now_us, visitor={"device": ("phone", None)[k % 2]})
        for k in range(2_000)
    ]
    frequencies_are_exact(pages)
    service.close()


@pytest.mark.parametrize("has_few", [True, False])
def test_a_restart_goes_on_in_the_form_that_has_learned(
    has_few: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = PacedBayesVisitors if has_few else PacedBayesWide
    with monkeypatch.context() as before:
        before.setattr(paced_bayes, "has_few_pairs", lambda _: has_few)
        service = opened(tmp_path)
        visit(service, 300, T0)
        page = phone_page(service)
        assert type(learned_of(service).form) is form
        service.flush().result()
        service.close()
    again = Service(SqliteStore(tmp_path / "store.db"), OPTIONS)
    assert isinstance(learned_of(again).form, form)
    np.testing.assert_allclose(phone_page(again), page, atol=1e-6)
    visit(again, 100, T0 + 10**10, seed=2)
    assert again.health().pools[0].failure == ""
    again.close()


def test_a_pool_that_outgrows_the_regression_learns_again_in_the_other_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = opened(tmp_path)
    now_us = visit(service, 200, T0)
    learned = learned_of(service)
    assert isinstance(learned.form, PacedBayesVisitors)
    n_numbers = learned.arrays["information"][0].size
    monkeypatch.setattr(paced_bayes_visitors, "MAX_NUMBERS", n_numbers)
    service.directory.put_links("home", [link("l8")], "test", now_us).result()
    now_us = visit(service, 100, now_us)
    learned = learned_of(service)
    assert isinstance(learned.form, PacedBayesWide)
    assert learned.arrays["rounds"][0] == pytest.approx(300, abs=1)
    assert service.health().pools[0].failure == ""
    service.close()
