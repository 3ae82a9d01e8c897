"""Visitors who say anything: floods of values, long values, values that mean something else."""

from __future__ import annotations

import random
import string
from typing import Any

import httpx
import pytest

from slotwise.service.deciding.page_mix import MAX_KEPT
from slotwise.service.deciding.snapshot import MAX_KEPT_VISITORS
from slotwise.service.records import SECOND_US
from slotwise.service.server import BackgroundServer
from slotwise.service.service import Service
from tests.service.conftest import POOL, http, problem_of
from tests.service.rows import T0, link, pool
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
        service.decide("home", T0 + k, visitor=said)


def test_a_flood_of_values_leaves_a_bounded_trace(service: Service) -> None:
    settings = {"policy": "paced-kl", "policy_settings": {}, "click_window_s": 60}
    service.put_pool(pool(features=FEATURES, **settings), "test", T0).result()
    service.put_links("home", [link(f"l{k}") for k in range(6)], "test", T0).result()
    flooded(service, 3_000)
    service.learn(T0 + 100 * SECOND_US)
    snapshot = service._decider.snapshot("home")
    assert len(snapshot.guests._kept) <= MAX_KEPT
    assert len(snapshot._pages) <= MAX_KEPT_VISITORS + 1
    assert all(len(words) <= 30 for words in snapshot.published.words.values())
    counted = reads(service._store).counters("home").visitors
    assert {value for _, feature, value in counted if feature != "days"} == {"(rare)"}
    learned = reads(service._store).learned("home")
    assert learned is not None
    assert len(learned.state) < 150_000
    assert len(learned.published) < 5_000


def test_a_flood_over_http_leaves_a_bounded_trace(server: BackgroundServer) -> None:
    with http(server.url, server.admin_key) as admin:
        body = POOL | {"policy": {"name": "paced-kl"}, "features": FEATURES, "slots": 2}
        admin.put("/v1/pools/flood", json=body).raise_for_status()
        links = [{"link_id": f"l{n}", "url": f"https://shop.example/{n}"} for n in range(6)]
        admin.post("/v1/pools/flood/links:batch", json={"links": links}).raise_for_status()
        for k in range(MAX_KEPT + 150):
            said = {"country": f"c{k}" * (1 + k % 40), "campaign": f"{k:x}", "days": k / 7}
            answer = admin.post("/v1/pools/flood/decide", json={"visitor": said})
            assert answer.status_code == 200
    snapshot = server.context.service._decider.snapshot("flood")
    assert len(snapshot.guests._kept) <= MAX_KEPT
    # Words that nobody knows are one visitor to the policy: few pages, and few texts of them.
    assert len(snapshot._pages) <= 8
    texts = server.context.page_writer._texts["flood"]
    assert len(texts.placed) <= 8 * len(links) * 2
    assert len(texts.kept) <= len(texts.placed) + len(texts.heads)


@pytest.mark.parametrize("word", HOSTILE)
def test_a_word_is_only_a_word(admin: httpx.Client, word: str) -> None:
    body = POOL | {"policy": {"name": "paced-kl"}, "features": {"country": "text"}}
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
