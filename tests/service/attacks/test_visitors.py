"""Visitors who say anything: floods of values, long values, values that mean something else."""

from __future__ import annotations

import random
import shutil
import string
from pathlib import Path
from typing import Any

import httpx
import pytest

from slotwise.service.deciding.installed_version import MAX_CACHED_VISITORS
from slotwise.service.deciding.page_mix import MAX_CACHED
from slotwise.service.records import SECOND_US, ClickEvent
from slotwise.service.server import BackgroundServer
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.conftest import POOL, http, problem_of
from tests.service.rows import T0, arrays_of, learned_of, link, pool
from tests.stores.store_rows import reads

FEATURES: dict[str, Any] = {"country": "text", "campaign": "text", "days": [1, 7]}
HOSTILE = (
    "'; DROP TABLE decisions; --",
    "<script>alert(1)</script>",
    "\x00",
    "a\nb",
    "%s%n",
    "\u202egnirts",
    "(rare)",
    "(not known)",
    "🏴" * 50,
    " ",
)


def flooded(service: Service, n_views: int) -> None:
    """Send visitors each of whom is somebody else."""
    chance = random.Random(3)
    for k in range(n_views):
        word = "".join(chance.choices(string.ascii_letters, k=chance.choice([3, 90, 1_000])))
        said = {"country": word, "campaign": f"{k}", "days": chance.uniform(-1e9, 1e9)}
        service.decider.decide("home", T0 + k, visitor=said)


def test_a_flood_of_values_leaves_a_bounded_trace(service: Service) -> None:
    settings = {"policy": "paced-bayes", "policy_settings": {}, "click_window_s": 60}
    service.directory.put_pool(pool(features=FEATURES, **settings), "test", T0).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(6)], "test", T0).result()
    flooded(service, MAX_CACHED + 250)
    service.learner.learn(T0 + 100 * SECOND_US)
    installed = service.decider.installed("home")
    assert len(installed.known_visitors._cache) <= MAX_CACHED
    assert len(installed._pages) <= MAX_CACHED_VISITORS + 1
    assert all(len(words) <= 30 for words in installed.stored.words.values())
    counted = reads(service.store).counters("home").visitors
    assert {value for _, feature, value in counted if feature != "days"} == {"(rare)"}
    learned = reads(service.store).learned("home")
    assert learned is not None
    assert len(learned.state) < 150_000
    assert len(learned.published) < 5_000


N_JUNK = 30 * 50
"""Page views that give 30 words a place each."""


def occupied(service: Service, policy: str) -> int:
    """Take all places of an open list with words that nobody has; return when they have settled."""
    settings = {"policy": policy, "policy_settings": {}, "click_window_s": 60}
    features = {"country": "text", "new": "bool"}
    service.directory.put_pool(pool(features=features, **settings), "test", T0).result()
    service.directory.put_links("home", [link(f"l{k}") for k in range(6)], "test", T0).result()
    for k in range(N_JUNK):
        service.decider.decide(
            "home", T0 + k, visitor={"country": f"junk {k % 30}", "new": k % 3 == 0}
        )
    return T0 + 100 * SECOND_US


def real_views(service: Service, now_us: int, n_views: int) -> None:
    """Send visitors from four countries; those from DE click."""
    for k in range(n_views):
        country = ("DE", "FR", "IT", "ES")[k % 4]
        page = service.decider.decide(
            "home", now_us + k, visitor={"country": country, "new": k % 3 == 0}
        )
        if country == "DE":
            clicked = ClickEvent(page.decision_id, page.shown[0].link_id)
            service.committer.submit_events([clicked], now_us + k).result()


@pytest.mark.parametrize("policy", ["paced-bayes"])
def test_places_taken_by_an_attacker_go_to_real_words(service: Service, policy: str) -> None:
    now_us = occupied(service, policy)
    service.learner.learn(now_us)
    junk = set(learned_of(service).words["country"])
    assert len(junk) == 30
    real_views(service, now_us, 1_200)
    service.learner.learn(now_us + 100 * SECOND_US)
    words = learned_of(service).words["country"]
    assert {"DE", "FR", "IT", "ES"} <= set(words)
    assert len(words) == 30
    assert len(junk & set(words)) == 26
    assert service.decider.installed("home").stored.words["country"] == words
    page = service.decider.decide("home", now_us + 101 * SECOND_US, visitor={"country": "DE"})
    assert page.segment["country"] == "DE"
    # No view is lost: those of words without a place count as those of rare words.
    seen = learned_of(service).arrays["seen"].reshape(-1, 32 + 3)[0]
    assert seen[:32].sum() == N_JUNK + 1_200
    assert seen[2 + words.index("DE")] > 150
    assert verify(service.store).mismatches == ()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["paced-bayes"])
def test_replaced_words_are_the_same_however_often_one_learns(tmp_path: Path, policy: str) -> None:
    """Rounds in many batches, in one batch, and with restarts between them."""
    rows = tmp_path / "rows.db"
    service = opened_on(rows)
    now_us = occupied(service, policy)
    real_views(service, now_us, 1_200)
    service.close()
    learned = []
    for n_batches, is_restarted in ((1, False), (12, False), (5, True)):
        copied = Path(shutil.copy(rows, tmp_path / f"{n_batches}.db"))
        service = opened_on(copied)
        for batch in range(1, n_batches + 1):
            service.learner.learn(now_us + 60 * SECOND_US + 1_200 * batch // n_batches)
            if is_restarted:
                service.close()
                service = opened_on(copied)
        service.learner.learn(now_us + 200 * SECOND_US)
        words = learned_of(service).words["country"]
        assert "DE" in words
        learned.append((words, arrays_of(service)))
        service.close()
    assert learned[1] == learned[0]
    assert learned[2] == learned[0]


def opened_on(path: Path) -> Service:
    return Service(SqliteStore(path), ServiceOptions(seed=1, commit_every_ms=0.0))


def test_a_flood_over_http_leaves_a_bounded_trace(server: BackgroundServer) -> None:
    with http(server.url, server.admin_key) as admin:
        body = POOL | {"policy": {"name": "paced-bayes"}, "features": FEATURES, "slots": 2}
        admin.put("/v1/pools/flood", json=body).raise_for_status()
        links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(6)]
        admin.post("/v1/pools/flood/links:batch", json={"links": links}).raise_for_status()
        for k in range(MAX_CACHED + 150):
            said = {"country": f"c{k}" * (1 + k % 40), "campaign": f"{k:x}", "days": k / 7}
            answer = admin.post("/v1/pools/flood/decide", json={"visitor": said})
            assert answer.status_code == 200
    installed = server.context.service.decider.installed("flood")
    assert len(installed.known_visitors._cache) <= MAX_CACHED
    # Words that nobody knows are one visitor to the policy: few pages, and few texts of them.
    assert len(installed._pages) <= 8
    texts = server.context.page_writer._texts["flood"]
    assert len(texts.text_of) <= 8 * len(links) * 2


@pytest.mark.parametrize("word", HOSTILE)
def test_a_word_is_only_a_word(admin: httpx.Client, word: str) -> None:
    body = POOL | {"policy": {"name": "paced-bayes"}, "features": {"country": "text"}}
    admin.put("/v1/pools/words", json=body).raise_for_status()
    link = {"url": "https://shop.example/1"}
    admin.put("/v1/pools/words/links/l1", json=link).raise_for_status()
    answer = admin.post("/v1/pools/words/decide", json={"visitor": {"country": word}})
    assert answer.status_code == 200
    stored = admin.get(f"/v1/decisions/{answer.json()['decision_id']}").json()["decision"]
    expected = {"(not known)": None, "\x00": "(rare)", "a\nb": "(rare)", "\u202egnirts": "(rare)"}
    assert stored["visitor"].get("country") == expected.get(word, word)


def test_the_largest_visitor_is_refused_in_few_words(admin: httpx.Client) -> None:
    body = POOL | {"features": {"country": "text"}}
    admin.put("/v1/pools/large", json=body).raise_for_status()
    many = {f"f{k}": "x" * 900 for k in range(60)}
    refused = admin.post("/v1/pools/large/decide", json={"visitor": many})
    assert refused.status_code == 422
    assert "declared features only (country)" in problem_of(refused)["detail"]
    assert len(refused.content) < 2_000
    nested = f'{{"visitor": {{"country": {"[" * 1_000}{"]" * 1_000}}}}}'
    headers = {"content-type": "application/json"}
    refused = admin.post("/v1/pools/large/decide", content=nested, headers=headers)
    assert 400 <= refused.status_code < 500
    assert len(refused.content) < 2_000
