"""After a start the last version is shown until the next one knows as much."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from slotwise.service.access.keys import new_key
from slotwise.service.learning.pool_player import PoolPlayer, RoundPosition, decode_state
from slotwise.service.pool import Pool
from slotwise.service.records import SECOND_US, ClickEvent
from slotwise.service.service import Service
from tests.service.conftest import OpenService
from tests.service.rows import T0, link, pool

N_VIEWS = 1_400
"""More than one fold reads of open views."""
END_US = T0 + N_VIEWS * SECOND_US // 10
FEATURES = {"device": ["phone", "desktop"]}


def opened(service: Service, features: dict[str, Any]) -> Service:
    """Show pages whose windows are all open; phones and desktops click on different links."""
    made = pool(policy="paced-bayes", policy_settings={}, features=features)
    service.directory.put_pool(made, "test", T0).result()
    links = [link(f"l{k}") for k in range(6)]
    service.directory.put_links("home", links, "test", T0).result()
    chance = random.Random(1)
    for k in range(N_VIEWS):
        now_us = T0 + k * SECOND_US // 10
        device = chance.choice(["phone", "desktop"])
        best = "l1" if features and device == "phone" else "l4"
        page = service.decider.decide(
            "home", now_us, visitor={"device": device} if features else {}
        )
        for shown in page.shown:
            if chance.random() < (0.6 if shown.link_id == best else 0.05):
                service.committer.submit_events(
                    [ClickEvent(page.decision_id, shown.link_id)], now_us + 1
                )
        if k % 100 == 99:
            service.learner.learn(now_us + 2)
    for second in range(10):
        service.learner.learn(END_US + second * SECOND_US)
    service.flush().result()
    return service


def shares(service: Service, features: dict[str, Any]) -> list[float]:
    """Return how likely the best link of each kind of visitor is."""
    installed = service.decider.installed("home")
    best = {"phone": "l1", "desktop": "l4"} if features else {"": "l4"}
    found = []
    for device, link_id in best.items():
        said = {"device": device} if features else {}
        probabilities = installed.probabilities_for(installed.known_visitors.know(said).values)
        found.append(float(probabilities[installed.link_ids.index(link_id)]))
    return found


@pytest.mark.parametrize("features", [{}, FEATURES], ids=["", "features"])
def test_best_links_are_shown_while_open_views_are_read(
    open_service: OpenService, features: dict[str, Any]
) -> None:
    service = opened(open_service(), features)
    before = shares(service, features)
    assert min(before) > 0.9
    service.close()
    service = open_service()
    np.testing.assert_allclose(shares(service, features), before, atol=1e-6)
    now_us = END_US + 11 * SECOND_US
    service.directory.put_links("home", [link("new")], "test", now_us).result()
    assert min(shares(service, features)) > 0.9
    n_behind = 0
    for second in range(20):
        service.learner.learn(now_us + second * SECOND_US)
        n_behind += service.publisher.runs["home"].is_behind
        assert min(shares(service, features)) > 0.6
    assert 0 < n_behind < 20
    assert "new" in service.decider.installed("home").link_ids
    assert service.health().is_learning


def test_a_forgotten_key_leaves_other_pools_as_they_are(open_service: OpenService) -> None:
    service = opened(open_service(), {})
    before, run = shares(service, {}), service.publisher.runs["home"]
    made = pool(pool_id="other", policy="paced-bayes", policy_settings={})
    service.directory.put_pool(made, "test", END_US).result()
    links = [link(f"l{k}", pool_id="other") for k in range(4)]
    service.directory.put_links("other", links, "test", END_US).result()
    service.decider.decide("other", END_US, key_id="k1")
    service.flush().result()
    key = new_key(["decide"], label="misused", now_us=T0).record
    service.directory.put_key(replace(key, key_id="k1"), "test", END_US).result()
    of_other = service.publisher.runs["other"]
    assert service.directory.forget_views("k1", 0, "test", END_US).result() == 1
    service.learner.learn(END_US + 30 * SECOND_US)
    assert service.publisher.runs["other"] is not of_other
    assert service.publisher.runs["home"] is run
    np.testing.assert_allclose(shares(service, {}), before, atol=0.05)


@pytest.mark.parametrize(("before", "after"), [(0.0, 0.5), (0.5, 0.0), (0.3, 0.5)])
@pytest.mark.parametrize("features", [{}, FEATURES])
def test_a_floor_changed_after_the_state_was_stored_moves_the_policy(
    features: dict[str, Any], before: float, after: float
) -> None:
    """As it does while the service runs: the other floor starts with nothing owed."""
    links = [link(f"l{k}") for k in range(4)]
    old, new = (
        Pool.of(
            pool(policy="paced-bayes", policy_settings={}, features=features, click_floor=one),
            links,
        )
        for one in (before, after)
    )
    learned = PoolPlayer.start(old)
    learned.player.state.evidence.views[:] = 7.0
    learned.player.state.floors.owed[:] = 3.0
    stored = decode_state(learned.save(old, RoundPosition()))
    restored, _ = PoolPlayer.restore(stored, new)
    moved = learned.move(new, dict.fromkeys(old.links, 0))
    for name, array in moved.player.knowledge().arrays.items():
        assert np.array_equal(array, restored.player.knowledge().arrays[name]), name
