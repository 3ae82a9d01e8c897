"""What the default knows of visitors in a service has two layouts: a pool goes on in its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slotwise.policies import visitor_rates
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

OPTIONS = ServiceOptions(seed=3, commit_every_ms=0.0)


def opened(path: Path) -> Service:
    """Return a service with a pool of the default policy."""
    service = Service(SqliteStore(path / "store.db"), OPTIONS)
    features = {"device": ["phone", "desktop"], "country": "text"}
    service.directory.put_pool(visitors_pool(features=features), "test", T0).result()
    service.directory.put_links("home", [link(one) for one in LINKS], "test", T0).result()
    return service


def phone_page(service: Service) -> list[float]:
    installed: Any = service.decider.installed("home")
    known = installed.known_visitors.know({"device": "phone"})
    return list(installed._visitors.rates(known.places, None).probabilities)


def has_pairs_of(service: Service) -> bool:
    return bool(learned_of(service).arrays["has_pairs"][0])


@pytest.mark.slow
def test_the_regression_learns_for_whom_and_logs_exact_propensities(tmp_path: Path) -> None:
    service = opened(tmp_path)
    now_us = visit(service, 600, T0)
    assert has_pairs_of(service)
    assert links_for(service, {"device": "phone"}, now_us) <= {"l0", "l1"}
    assert links_for(service, {"device": "desktop"}, now_us) <= {"l6", "l7"}
    pages = [
        service.decider.decide("home", now_us, visitor={"device": ("phone", None)[k % 2]})
        for k in range(2_000)
    ]
    frequencies_are_exact(pages)
    service.close()


@pytest.mark.parametrize("has_pairs", [True, False])
def test_a_restart_goes_on_in_the_layout_that_has_learned(
    has_pairs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(visitor_rates, "MAX_NUMBERS", 10**9 if has_pairs else 0)
        service = opened(tmp_path)
        visit(service, 100, T0)
        page = phone_page(service)
        assert has_pairs_of(service) == has_pairs
        service.flush().result()
        service.close()
    again = Service(SqliteStore(tmp_path / "store.db"), OPTIONS)
    assert has_pairs_of(again) == has_pairs
    np.testing.assert_allclose(phone_page(again), page, atol=1e-6)
    visit(again, 100, T0 + 10**10, seed=2)
    assert again.health().pools[0].failure == ""
    again.close()


def test_a_pool_that_outgrows_pairs_goes_on_with_what_it_has_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = opened(tmp_path)
    now_us = visit(service, 100, T0)
    n_numbers = learned_of(service).arrays["information"][0].size
    monkeypatch.setattr(visitor_rates, "MAX_NUMBERS", n_numbers)
    service.directory.put_links("home", [link("l8")], "test", now_us).result()
    now_us = visit(service, 100, now_us)
    assert has_pairs_of(service)
    assert learned_of(service).arrays["rounds"][0] == pytest.approx(200, abs=1)
    assert service.health().pools[0].failure == ""
    service.close()
