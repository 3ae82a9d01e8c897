"""Events over HTTP: one outcome each, answered after the commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.service.conftest import problem_of


@pytest.fixture
def shown(admin: httpx.Client, pool: str) -> dict[str, str]:
    """Return a decision and the first link it shows."""
    page = admin.post(f"/v1/pools/{pool}/decide").json()
    return {"decision_id": page["decision_id"], "link_id": page["links"][0]["link_id"]}


def conversion(shown: dict[str, str], order: str, micros: object = 5_000_000) -> dict[str, Any]:
    return {
        "type": "conversion",
        "conversion_id": order,
        "revenue_micros": micros,
        "currency": "EUR",
        **shown,
    }


def test_a_click_counts_once(admin: httpx.Client, shown: dict[str, str]) -> None:
    click = {"type": "click", **shown}
    assert admin.post("/v1/events", json=click).json() == {"outcome": "accepted"}
    assert admin.post("/v1/events", json=click).json()["outcome"] == "duplicate"
    report = admin.get(f"/v1/decisions/{shown['decision_id']}").json()
    assert report["clicked"] == [shown["link_id"]]


def test_the_whole_story_of_a_sale(admin: httpx.Client, shown: dict[str, str]) -> None:
    order, refund = f"o-{shown['decision_id']}", f"r-{shown['decision_id']}"
    sale = conversion(shown, order)
    back = {
        "type": "adjustment",
        "adjustment_id": refund,
        "conversion_id": order,
        "refund_micros": 2_000_000,
        "currency": "EUR",
    }
    sent = {"events": [sale, {"type": "click", **shown}, back, sale, back]}
    outcomes = admin.post("/v1/events:batch", json=sent).json()["outcomes"]
    assert [one["outcome"] for one in outcomes] == ["accepted"] * 3 + ["duplicate"] * 2
    report = admin.get(f"/v1/decisions/{shown['decision_id']}").json()
    assert report["revenue_micros"] == {shown["link_id"]: 3_000_000}
    assert [one["type"] for one in report["received"]].count("conversion") == 1
    assert report["decision"]["issued_at"].endswith("Z")


def test_the_same_id_with_other_content_is_rejected(
    admin: httpx.Client, shown: dict[str, str]
) -> None:
    order = f"o-{shown['decision_id']}"
    admin.post("/v1/events", json=conversion(shown, order))
    outcome = admin.post("/v1/events", json=conversion(shown, order, 6_000_000)).json()
    assert outcome["outcome"] == "rejected"
    assert outcome["reason"] == "conflict"
    assert outcome["detail"]


def test_a_wrong_item_of_a_batch_is_named_and_the_others_count(
    admin: httpx.Client, shown: dict[str, str]
) -> None:
    order = f"o-{shown['decision_id']}"
    events: list[Any] = [
        {"type": "click", **shown},
        conversion(shown, order) | {"currency": "USD"},
        conversion(shown, order, -1),
        conversion(shown, order, 1.5),
        conversion(shown, order, 10**30),
        {"type": "click", "link_id": "l1"},
        {"type": "clack"},
        7,
        conversion(shown, order),
    ]
    answer = admin.post("/v1/events:batch", json={"events": events})
    outcomes = answer.json()["outcomes"]
    assert [one["outcome"] for one in outcomes] == ["accepted", *["rejected"] * 7, "accepted"]
    assert outcomes[1]["pointer"] == "/events/1/currency"
    assert outcomes[2]["pointer"] == "/events/2/revenue_micros"
    assert outcomes[3]["pointer"] == "/events/3/revenue_micros"
    assert outcomes[3]["detail"] == "`revenue_micros` must be a whole number, got 1.5"
    assert outcomes[4]["pointer"] == "/events/4/revenue_micros"
    assert outcomes[5]["pointer"] == "/events/5/decision_id"
    assert outcomes[6]["pointer"] == "/events/6/type"
    assert outcomes[7]["pointer"] == "/events/7"


def test_a_malformed_single_event_is_a_problem(admin: httpx.Client, shown: dict[str, str]) -> None:
    refused = admin.post("/v1/events", json={"type": "click", "link_id": "l1"})
    assert problem_of(refused)["errors"][0]["pointer"] == "/decision_id"
    sale = conversion(shown, "o1") | {"currency": "eur"}
    [error] = problem_of(admin.post("/v1/events", json=sale))["errors"]
    assert error["detail"].endswith("got 'eur'")


def test_fields_that_nobody_knows_are_ignored(admin: httpx.Client, shown: dict[str, str]) -> None:
    click = {"type": "click", **shown, "campaign": "spring", "invalid": "crawler"}
    assert admin.post("/v1/events", json=click).json() == {"outcome": "accepted"}


def test_a_field_that_looks_misspelt_is_named_and_the_event_counts(
    admin: httpx.Client, shown: dict[str, str]
) -> None:
    click = {"type": "click", **shown, "campaign": "spring", "revnue": 5, "x" * 1000: 1}
    said = "ignored `revnue`; did you mean `revenue_micros` of a conversion?"
    assert admin.post("/v1/events", json=click).json() == {"outcome": "accepted", "detail": said}
    again = admin.post("/v1/events:batch", json={"events": [click]}).json()["outcomes"]
    assert again[0]["outcome"] == "duplicate"
    assert again[0]["detail"].endswith(said)


def test_a_missing_field_under_another_name_is_found(
    admin: httpx.Client, shown: dict[str, str]
) -> None:
    sale = conversion(shown, f"o-{shown['decision_id']}")
    sale["revnue_micros"] = sale.pop("revenue_micros")
    said = "`revenue_micros` is missing; did you mean it by `revnue_micros`?"
    assert problem_of(admin.post("/v1/events", json=sale))["detail"] == said
    [outcome] = admin.post("/v1/events:batch", json={"events": [sale]}).json()["outcomes"]
    assert (outcome["outcome"], outcome["detail"]) == ("rejected", said)
    wrong = {"type": "buy", **shown}
    said = "`type` must be 'click' or 'conversion' or 'adjustment', got 'buy'"
    assert problem_of(admin.post("/v1/events", json=wrong))["detail"] == said


def test_an_event_of_an_unknown_decision_waits(admin: httpx.Client) -> None:
    click = {"type": "click", "decision_id": "not-yet", "link_id": "l1"}
    assert admin.post("/v1/events", json=click).json()["outcome"] == "quarantined"


def test_a_quarantined_click_counts_when_its_decision_turns_up(
    admin: httpx.Client, make_pool: Callable[..., str]
) -> None:
    pool = make_pool(2, slots=2, click_floor=0.0)
    click = {"type": "click", "decision_id": f"early-{pool}", "link_id": "l1"}
    assert admin.post("/v1/events", json=click).json()["outcome"] == "quarantined"
    admin.post(f"/v1/pools/{pool}/decide", json={"decision_id": f"early-{pool}"})
    # A later event of the same decision is answered after a commit, so the page is stored.
    admin.post("/v1/events", json=click | {"link_id": "l2"})
    report = admin.get(f"/v1/decisions/early-{pool}").json()
    assert sorted(report["clicked"]) == ["l1", "l2"]


def test_a_click_on_a_link_that_was_not_shown_is_rejected(admin: httpx.Client, pool: str) -> None:
    page = admin.post(f"/v1/pools/{pool}/decide", json={"exclude": ["l1"]}).json()
    click = {"type": "click", "decision_id": page["decision_id"], "link_id": "l1"}
    assert admin.post("/v1/events", json=click).json()["outcome"] == "rejected"


def test_the_clock_of_the_sender_is_kept_and_not_believed(
    admin: httpx.Client, shown: dict[str, str]
) -> None:
    click = {"type": "click", **shown, "client_time": "1999-12-31T23:59:59Z"}
    assert admin.post("/v1/events", json=click).json() == {"outcome": "accepted"}
    [received] = admin.get(f"/v1/decisions/{shown['decision_id']}").json()["received"]
    assert received["client_time"] == "1999-12-31T23:59:59Z"
    assert received["received_at"] > "2020"


def test_a_batch_needs_items_but_not_too_many(admin: httpx.Client) -> None:
    assert problem_of(admin.post("/v1/events:batch", json={"events": []}))["type"] == "validation"
    many = {"events": [{"type": "click", "decision_id": "d", "link_id": "l"}] * 1001}
    refused = admin.post("/v1/events:batch", json=many)
    problem = problem_of(refused)
    assert problem["type"] == "batch-too-large"
    assert problem["detail"] == "`events` must have at most 1000 items, got 1001"


def test_an_unknown_decision_is_not_found(admin: httpx.Client) -> None:
    assert problem_of(admin.get("/v1/decisions/none"))["type"] == "unknown-decision"
