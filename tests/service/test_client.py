"""The client: its retries cannot count twice, and its errors say what was wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from slotwise import client as client_module
from slotwise.client import (
    Client,
    EventRejected,
    ServiceRefusal,
    ServiceUnreachable,
    adjustment_event,
    click_event,
    conversion_event,
)
from slotwise.errors import InvalidInput
from slotwise.service.server import BackgroundServer
from tests.service.conftest import POOL

PAGE = {
    "decision_id": "d1",
    "pool_id": "home",
    "policy_version": 1,
    "holdout": False,
    "fallback": False,
    "floor": {"status": "met"},
    "links": [],
}


class Service:
    """Answers in turn what the test says, and keeps what was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []
        self.waits: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, max_tries: int = 5) -> Client:
        return Client(
            "http://service.example",
            "sw_dk_secret",
            transport=httpx.MockTransport(self),
            sleep=self.waits.append,
            max_tries=max_tries,
        )


def away(retry_after: int = 3) -> httpx.Response:
    problem = {"type": "store-away", "title": "away", "status": 503, "detail": "later"}
    return httpx.Response(503, json=problem, headers={"retry-after": str(retry_after)})


def test_a_decision_asked_again_has_the_same_id() -> None:
    service = Service(httpx.ReadTimeout("lost"), away(), httpx.Response(200, json=PAGE))
    with service.client() as client:
        assert client.decide("home").decision_id == "d1"
    bodies = [json.loads(request.content) for request in service.asked]
    assert len(bodies) == 3
    assert len({body["decision_id"] for body in bodies}) == 1
    assert len(bodies[0]["decision_id"]) == 24


def test_an_event_asked_again_is_the_same_event() -> None:
    done = httpx.Response(200, json={"outcome": "duplicate"})
    service = Service(httpx.ConnectError("refused"), done)
    with service.client() as client:
        outcome = client.conversion(
            "d1", "l1", conversion_id="o1", revenue_micros=5, currency="EUR"
        )
    assert outcome.outcome == "duplicate"
    assert service.asked[0].content == service.asked[1].content


def test_waits_grow_and_keep_what_the_service_asks() -> None:
    tries: list[httpx.Response | Exception] = [away(7), httpx.ReadTimeout("lost")] * 2
    service = Service(*tries)
    with service.client(max_tries=4) as client, pytest.raises(ServiceUnreachable):
        client.click("d1", "l1")
    assert service.waits[0] == 7.0
    assert 0 <= service.waits[1] <= 0.4
    assert service.waits[2] == 7.0
    assert len(service.asked) == 4


def test_a_refusal_is_not_asked_again_and_says_where() -> None:
    problem = {
        "type": "validation",
        "title": "The call breaks a rule",
        "status": 422,
        "detail": "Expected `int`",
        "request_id": "r1",
        "errors": [{"detail": "Expected `int`", "pointer": "/slots"}],
    }
    service = Service(httpx.Response(422, json=problem))
    with (
        service.client() as client,
        pytest.raises(
            ServiceRefusal, match=r"422 validation: Expected `int` \(at /slots\)"
        ) as raised,
    ):
        client.put_pool("home", slots="x")
    assert (raised.value.status, raised.value.type, raised.value.request_id) == (
        422,
        "validation",
        "r1",
    )
    assert service.waits == []


def test_the_last_refusal_is_raised_when_the_service_stays_away() -> None:
    service = Service(away(), away())
    with (
        service.client(max_tries=2) as client,
        pytest.raises(ServiceRefusal, match=r"503 store-away: later \(tried 2 times\)"),
    ):
        client.click("d1", "l1")


def test_an_answer_that_is_no_problem_is_quoted() -> None:
    service = Service(httpx.Response(404, text="<html>proxy</html>"))
    with service.client() as client, pytest.raises(ServiceRefusal, match="not a problem answer"):
        client.stats("home")


def test_nobody_there_is_unreachable() -> None:
    service = Service(httpx.ConnectError("[Errno 111] Connection refused"))
    message = r"GET http://service.example/v1/pools/home got no answer: .* Connection refused"
    with service.client(max_tries=1) as client, pytest.raises(ServiceUnreachable, match=message):
        client.pool("home")


def test_the_error_says_how_often_a_call_was_tried() -> None:
    service = Service(httpx.ConnectError("refused"), httpx.ConnectError("refused"))
    message = r"got no answer \(tried 2 times\): refused"
    with service.client(max_tries=2) as client, pytest.raises(ServiceUnreachable, match=message):
        client.pool("home")


def test_a_page_that_decide_returned_cannot_be_seen_again() -> None:
    service = Service(httpx.Response(200, json=PAGE))
    with service.client() as client:
        page = client.decide("home")
        with pytest.raises(InvalidInput, match=r"`page` must be one that `propose` returned"):
            client.seen(page)


def test_a_page_in_place_of_its_id_is_refused() -> None:
    service = Service(httpx.Response(200, json=PAGE))
    with service.client() as client:
        page = client.decide("home")
        with pytest.raises(InvalidInput, match=r"`decision_id` must .*; write page\.decision_id"):
            client.click(page, "l1")  # type: ignore[arg-type]


def test_a_closed_client_says_so() -> None:
    client = Service().client()
    client.close()
    with pytest.raises(InvalidInput, match=r"the client is closed: make another `Client`"):
        client.pool("home")
    with pytest.raises(InvalidInput, match="the client is closed"):
        next(client.export("home"))


@pytest.mark.parametrize(("key", "got"), [(None, "type NoneType"), ("", "an empty text")])
def test_a_client_needs_a_key(key: str, got: str) -> None:
    with pytest.raises(InvalidInput, match=f"`key` must be a key of the service, got .*{got}"):
        Client("http://service.example", key)


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"write 'http://127\.0\.0\.1:8460'"):
        Client("127.0.0.1:8460", "sw_dk_secret")


def test_one_link_is_not_a_list_of_letters() -> None:
    service = Service()
    with service.client() as client:
        with pytest.raises(InvalidInput, match=r"`exclude` must be a list .*write \['blog'\]"):
            client.decide("home", exclude="blog")
        page = client_module._page(PAGE | {"view_url": "http://service.example/v/token"})
        with pytest.raises(InvalidInput, match=r"`shown` must be a list .*write \['blog'\]"):
            client.seen(page, shown="blog")
    assert not service.asked


def test_a_rejected_event_is_an_error() -> None:
    rejected = {"outcome": "rejected", "reason": "wrong-currency", "detail": "must be EUR, got GBP"}
    accepted = {"outcome": "accepted"}
    service = Service(
        httpx.Response(200, json=rejected),
        httpx.Response(200, json={"outcomes": [accepted, rejected, rejected]}),
        httpx.Response(200, json={"outcomes": [accepted, {"outcome": "late"}]}),
    )
    with service.client() as client:
        with pytest.raises(EventRejected, match="the event was rejected: wrong-currency: must be"):
            client.click("d1", "l1")
        events = [click_event("d1", link) for link in ("l1", "l2", "l3")]
        message = r"2 of 3 events were rejected \(first, number 2\): wrong-currency"
        with pytest.raises(EventRejected, match=message) as raised:
            client.batch(events)
        became = [one.outcome for one in raised.value.outcomes]
        assert became == ["accepted", "rejected", "rejected"]
        assert [one.outcome for one in client.batch(events[:2])] == ["accepted", "late"]


def test_the_key_is_in_the_header_only() -> None:
    service = Service(httpx.Response(200, json={}))
    with service.client() as client:
        client.pool("home")
    assert service.asked[0].headers["authorization"] == "Bearer sw_dk_secret"
    assert "secret" not in str(service.asked[0].url)


@pytest.fixture
def client(server: BackgroundServer) -> Iterator[Client]:
    with Client(server.url, server.admin_key, timeout_s=600) as client:  # a policy may compile
        yield client


def test_a_whole_journey(client: Client) -> None:
    client.put_pool("journey", **POOL)
    client.put_links("journey", {f"l{n}": f"https://shop.example/{n}" for n in range(4)})
    extra = {"teaser": "Only today"}
    client.put_link("journey", "l9", "https://shop.example/9", title="Nine", metadata=extra)
    client.patch_pool("journey", click_floor=0.0)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    stored = client.put_link(
        "journey", "l8", "https://shop.example/8", group="Acme", starts_at=start
    )
    assert (stored["group"], stored["starts_at"]) == ("Acme", "2026-01-01T00:00:00Z")
    client.put_rules("journey", [{"name": "none", "group": "Acme", "at_most": 0}])
    assert client.rules("journey")["rules"][0]["n_links"] == 1
    client.retire_link("journey", "l0")
    page = client.decide("journey", exclude=["l1"], pin={1: "l9"}, slots=2)
    assert page.links[0].link_id == "l9"
    assert page.links[0].title == "Nine"
    assert page.links[0].metadata == extra
    assert {link.link_id for link in page.links} <= {"l2", "l3", "l9"}
    assert client.click(page.decision_id, "l9").outcome == "accepted"
    sale = conversion_event(
        page.decision_id, "l9", conversion_id="journey-1", revenue_micros=5, currency="EUR"
    )
    back = adjustment_event("journey-1", adjustment_id="journey-2", refund_micros=2, currency="EUR")
    outcomes = client.batch([click_event(page.decision_id, "l9"), sale, back])
    assert [one.outcome for one in outcomes] == ["duplicate", "accepted", "accepted"]
    assert client.decision(page.decision_id)["revenue_micros"] == {"l9": 3}
    again = client.adjustment(
        "journey-1", adjustment_id="journey-2", refund_micros=2, currency="EUR"
    )
    assert again.outcome == "duplicate"
    exported = b"".join(client.export("journey"))
    [line] = exported.splitlines()
    assert json.loads(line)["decision_id"] == page.decision_id
    assert client.stats("journey")["pool_id"] == "journey"
    assert client.archive_pool("journey")["archived"] is True
    with pytest.raises(ServiceRefusal, match="404 unknown-pool"):
        client.decide("journey")
    with pytest.raises(ServiceRefusal, match="404 unknown-pool"):
        list(client.export("none"))


def test_a_proposed_page_is_seen_as_it_was_displayed(
    client: Client, server: BackgroundServer, make_pool: Callable[..., str]
) -> None:
    page = client.propose(make_pool(4), slots=2)
    displayed = [link.link_id for link in page.links][::-1]
    client.seen(page, shown=displayed)
    server.context.service.flush().result()
    links = client.decision(page.decision_id)["decision"]["shown"]
    assert [link["link_id"] for link in links] == displayed


def test_a_lost_answer_counts_once(server: BackgroundServer, make_pool: Callable[..., str]) -> None:
    """The service does the work and the answer is lost on the way, every time but the last."""
    pool = make_pool()

    class Lossy(httpx.BaseTransport):
        def __init__(self) -> None:
            self.inner = httpx.HTTPTransport()
            self.n_calls = 0

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = self.inner.handle_request(request)
            answer.read()
            self.n_calls += 1
            if self.n_calls % 3:
                raise httpx.ReadError("lost on the way")
            return answer

        def close(self) -> None:
            self.inner.close()

    waits: list[float] = []
    with Client(server.url, server.admin_key, transport=Lossy(), sleep=waits.append) as client:
        page = client.decide(pool)
        link = page.links[0].link_id
        client.click(page.decision_id, link)
        sale: dict[str, Any] = {"revenue_micros": 7, "currency": "EUR"}
        client.conversion(page.decision_id, link, conversion_id=f"{pool}-lost", **sale)
        report = client.decision(page.decision_id)
        rounds = client.stats(pool)
    assert report["clicked"] == [link]
    assert report["revenue_micros"] == {link: 7}
    assert rounds["pool_id"] == pool
    assert len(waits) == 10
