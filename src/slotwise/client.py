"""A client of the decision service, with retries that count nothing twice.

Used by `cli`, and by programs that call a service.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Literal

from slotwise.errors import InvalidInput, SlotwiseError
from slotwise.exported_rounds import LogCounts, count_links, read_rounds
from slotwise.extras import naming_extra

with naming_extra("`slotwise.client`"):
    import httpx

__all__ = [
    "Client",
    "DecidedLink",
    "EventOutcome",
    "EventRejected",
    "LogCounts",
    "Page",
    "ServiceRefusal",
    "ServiceUnreachable",
    "adjustment_event",
    "click_event",
    "conversion_event",
    "count_links",
    "read_rounds",
]

_RETRIED_STATUSES = frozenset({429, 502, 503, 504})
_MAX_WAIT_S = 10.0


class ServiceRefusal(SlotwiseError):
    """The service refused a call; `type` is the stable slug of its problem answer."""

    def __init__(self, status: int, problem: Mapping[str, Any], n_tries: int = 1) -> None:
        self.status = status
        self.type = str(problem.get("type", "unknown"))
        self.errors = tuple(problem.get("errors", ()))
        self.request_id = str(problem.get("request_id", ""))
        self.retry_after_s = 0.0
        places = [one.get("pointer") or one.get("parameter", "") for one in self.errors]
        at = f" (at {', '.join(places)})" if any(places) else ""
        detail = problem.get("detail") or problem.get("title", "")
        tried = f" (tried {n_tries} times)" if n_tries > 1 else ""
        super().__init__(f"{status} {self.type}: {detail}{at}{tried}")


class ServiceUnreachable(SlotwiseError, ConnectionError):
    """The service did not answer any of the tries; sending the call again is safe."""


@dataclass(frozen=True)
class DecidedLink:
    """One link of a page."""

    link_id: str
    position: int
    url: str
    click_url: str
    propensity: float
    title: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """The links to show, in order, and the state of the click floor."""

    decision_id: str
    pool_id: str
    links: tuple[DecidedLink, ...]
    floor_status: Literal["met", "learning", "infeasible"]
    fallback: bool
    holdout: bool
    policy_version: int
    group: Literal["chosen", "own", "random"]
    """Whether it has chosen links, is the own page, or has random links."""
    answer: Mapping[str, Any] = field(repr=False)
    """The whole answer, decoded."""


@dataclass(frozen=True)
class EventOutcome:
    """What became of an event."""

    outcome: Literal["accepted", "duplicate", "late", "quarantined", "rejected"]
    reason: str = ""
    detail: str = ""
    pointer: str = ""


class EventRejected(SlotwiseError, ValueError):
    """The service rejected events; `outcomes` has what became of each event of the call, in order.

    The other events of the call are stored. A rejected event counts only after it is corrected.
    """

    def __init__(self, outcomes: Sequence[EventOutcome]) -> None:
        self.outcomes = tuple(outcomes)
        bad = [(k, one) for k, one in enumerate(outcomes) if one.outcome == "rejected"]
        place, first = bad[0]
        which = (
            "the event was" if len(outcomes) == 1 else f"{len(bad)} of {len(outcomes)} events were"
        )
        at = "" if len(outcomes) == 1 else f" (first, number {place + 1})"
        super().__init__(f"{which} rejected{at}: {first.reason}: {first.detail}")


def _text_id(decision_id: str) -> str:
    if not isinstance(decision_id, str):
        advice = "write page.decision_id"
        raise InvalidInput.of("decision_id", "the id of a page, a text", decision_id, advice)
    return decision_id


def click_event(decision_id: str, link_id: str) -> dict[str, Any]:
    """Return the event that a link of a page was clicked."""
    return {"type": "click", "decision_id": _text_id(decision_id), "link_id": link_id}


def conversion_event(
    decision_id: str, link_id: str, *, conversion_id: str, revenue_micros: int, currency: str
) -> dict[str, Any]:
    """Return the event that a click earned revenue; choose the id, such as an order number."""
    return {
        "type": "conversion",
        "conversion_id": conversion_id,
        "decision_id": _text_id(decision_id),
        "link_id": link_id,
        "revenue_micros": revenue_micros,
        "currency": currency,
    }


def adjustment_event(
    conversion_id: str, *, adjustment_id: str, refund_micros: int, currency: str
) -> dict[str, Any]:
    """Return the event that revenue of a conversion was taken back."""
    return {
        "type": "adjustment",
        "adjustment_id": adjustment_id,
        "conversion_id": conversion_id,
        "refund_micros": refund_micros,
        "currency": currency,
    }


class Client:
    """Calls a decision service, with retries.

    A call without an answer, or with the answer to try later, is sent again after a growing random
    wait. Nothing is counted twice: every decision gets its id here before the first try, and an
    event is identified by its fields, so the service recognises both. An event that the service
    rejects, such as a sale in another currency, raises `EventRejected`.

        with Client("http://127.0.0.1:8460", key) as client:
            page = client.decide("home")
            client.click(page.decision_id, page.links[0].link_id)
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_s: float = 5.0,
        max_tries: int = 5,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidInput.of(
                "url", "an address with http:// or https://", url, f"write 'http://{url}'"
            )
        if not (isinstance(key, str) and key):
            advice = "`slotwise keys make` prints one"
            got = "an empty text" if key == "" else f"a value of type {type(key).__name__}"
            raise InvalidInput(f"`key` must be a key of the service, got {got}; {advice}", "key")
        self._http = httpx.Client(
            base_url=url,
            # The service ignores views reported by programs that name themselves as crawlers do.
            headers={"authorization": f"Bearer {key}", "user-agent": "slotwise"},
            timeout=timeout_s,
            transport=transport,
        )
        self._max_tries = max_tries
        self._sleep = sleep

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # Pages and feedback

    def decide(
        self,
        pool_id: str,
        *,
        exclude: Sequence[str] = (),
        pin: Mapping[int, str] | None = None,
        slots: int | None = None,
        decision_id: str | None = None,
        visitor: Mapping[str, str | bool | float | None] | None = None,
        visitor_key: str | None = None,
    ) -> Page:
        """Ask for the links of one page view; `pin` maps positions (from 1) to links.

        `visitor` has values of the pool's features. Links that the pool does not have are refused.
        Pages with the same `visitor_key` are of the same group; the service does not store the key.
        """
        body: dict[str, Any] = {"decision_id": decision_id or secrets.token_hex(12)}
        if exclude:
            body["exclude"] = _link_ids("exclude", exclude)
        if pin:
            body["pin"] = [{"position": at, "link_id": link} for at, link in pin.items()]
        if slots is not None:
            body["slots"] = slots
        if visitor:
            body["visitor"] = dict(visitor)
        if visitor_key is not None:
            body["visitor_key"] = visitor_key
        return _page(self._call("POST", f"/v1/pools/{pool_id}/decide", body))

    def propose(
        self,
        pool_id: str,
        *,
        slots: int | None = None,
        visitor: Mapping[str, str | bool | float | None] | None = None,
        visitor_key: str | None = None,
    ) -> Page:
        """Ask for a page that becomes a page view when `seen` is called."""
        query = "" if slots is None else f"?slots={slots}"
        body: dict[str, Any] = {"visitor": dict(visitor or {})}
        if visitor_key is not None:
            body["visitor_key"] = visitor_key
        return _page(self._call("POST", f"/v1/pools/{pool_id}/page{query}", body))

    def seen(self, page: Page, shown: Sequence[str] | None = None) -> None:
        """Report that a proposed page was seen; `shown` has its links as they were displayed."""
        if "view_url" not in page.answer:
            advice = "a page of `decide` counts as a page view already"
            raise InvalidInput.of("page", "one that `propose` returned", page.decision_id, advice)
        path = "/v/" + str(page.answer["view_url"]).rpartition("/v/")[2]
        if shown is not None:
            path = f"{path}?shown={','.join(_link_ids('shown', shown))}"
        self._call("POST", path)

    def click(self, decision_id: str, link_id: str) -> EventOutcome:
        """Report a click."""
        return self._event(click_event(decision_id, link_id))

    def conversion(
        self,
        decision_id: str,
        link_id: str,
        *,
        conversion_id: str,
        revenue_micros: int,
        currency: str,
    ) -> EventOutcome:
        """Report revenue of a click."""
        return self._event(
            conversion_event(
                decision_id,
                link_id,
                conversion_id=conversion_id,
                revenue_micros=revenue_micros,
                currency=currency,
            )
        )

    def adjustment(
        self, conversion_id: str, *, adjustment_id: str, refund_micros: int, currency: str
    ) -> EventOutcome:
        """Report a refund."""
        return self._event(
            adjustment_event(
                conversion_id,
                adjustment_id=adjustment_id,
                refund_micros=refund_micros,
                currency=currency,
            )
        )

    def batch(self, events: Iterable[Mapping[str, object]]) -> list[EventOutcome]:
        """Report many events in one call; one outcome each, in order.

        Raises `EventRejected` if some are rejected; the others are stored.
        """
        answer = self._call("POST", "/v1/events:batch", {"events": list(events)})
        return _accepted([EventOutcome(**outcome) for outcome in answer["outcomes"]])

    # Pools and links

    def put_pool(self, pool_id: str, **settings: object) -> dict[str, Any]:
        """Create or replace a pool; `settings` are the fields of the body."""
        return self._call("PUT", f"/v1/pools/{pool_id}", settings)

    def patch_pool(self, pool_id: str, **settings: object) -> dict[str, Any]:
        """Change some fields of a pool."""
        return self._call("PATCH", f"/v1/pools/{pool_id}", settings)

    def pool(self, pool_id: str) -> dict[str, Any]:
        """Read a pool."""
        return self._call("GET", f"/v1/pools/{pool_id}")

    def archive_pool(self, pool_id: str) -> dict[str, Any]:
        """Archive a pool."""
        return self._call("DELETE", f"/v1/pools/{pool_id}")

    def put_link(  # noqa: PLR0913
        self,
        pool_id: str,
        link_id: str,
        url: str,
        *,
        title: str = "",
        metadata: Mapping[str, str] | None = None,
        group: str = "",
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
        reset: bool = False,
    ) -> dict[str, Any]:
        """Add or replace a link; `reset` forgets its statistics. Dates have a time zone."""
        body: dict[str, Any] = {"url": url, "title": title, "reset_statistics": reset}
        if group:
            body["group"] = group
        for name, date in (("starts_at", starts_at), ("ends_at", ends_at)):
            if date is not None:
                body[name] = date.isoformat()
        if metadata is not None:
            body["metadata"] = dict(metadata)
        return self._call("PUT", f"/v1/pools/{pool_id}/links/{link_id}", body)

    def put_links(self, pool_id: str, urls: Mapping[str, str]) -> list[dict[str, Any]]:
        """Add or replace many links, all or none: addresses by link id."""
        links = [{"link_id": link_id, "url": url} for link_id, url in urls.items()]
        answer = self._call("POST", f"/v1/pools/{pool_id}/links:batch", {"links": links})
        stored: list[dict[str, Any]] = answer["links"]
        return stored

    def import_counts(self, pool_id: str, csv: str, *, discount: float = 1.0) -> dict[str, Any]:
        """Import a table of known counts: link, views, clicks, revenue and features."""
        body = {"csv": csv, "discount": discount}
        return self._call("POST", f"/v1/pools/{pool_id}/known-counts", body)

    def put_rules(self, pool_id: str, rules: Iterable[Mapping[str, object]]) -> dict[str, Any]:
        """Replace the rules of a pool; each is as in the body of the call."""
        body = {"rules": [dict(rule) for rule in rules]}
        return self._call("PUT", f"/v1/pools/{pool_id}/rules", body)

    def rules(self, pool_id: str) -> dict[str, Any]:
        """Read the rules of a pool, with what each delivers and costs."""
        return self._call("GET", f"/v1/pools/{pool_id}/rules")

    def retire_link(self, pool_id: str, link_id: str) -> dict[str, Any]:
        """Retire a link."""
        return self._call("DELETE", f"/v1/pools/{pool_id}/links/{link_id}")

    # Reports

    def stats(self, pool_id: str) -> dict[str, Any]:
        """Read the statistics of a pool."""
        return self._call("GET", f"/v1/pools/{pool_id}/stats")

    def decision(self, decision_id: str) -> dict[str, Any]:
        """Read what became of a decision."""
        return self._call("GET", f"/v1/decisions/{decision_id}")

    def export(
        self,
        pool_id: str,
        *,
        form: Literal["jsonl", "parquet", "log", "csv"] = "jsonl",
        since: str = "",
    ) -> Iterator[bytes]:
        """Go through the bytes of a pool's round log; `since` is an RFC 3339 time.

        The form "log" is what `slotwise evaluate` reads; "csv" has the same rows as text.
        Not retried: begin again at the last round that you have stored.
        """
        self._check_open()
        query = {"format": form} | ({"since": since} if since else {})
        with self._http.stream("GET", f"/v1/pools/{pool_id}/export", params=query) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refusal(answer)
            yield from answer.iter_bytes()

    def evaluate(self, pool_id: str, click_floor: float | None = None) -> dict[str, Any]:
        """Estimate from the log of a pool what the best mix at a floor would have earned."""
        query = "" if click_floor is None else f"?click_floor={click_floor!r}"
        return self._call("GET", f"/v1/pools/{pool_id}/evaluate{query}")

    def _event(self, event: Mapping[str, object]) -> EventOutcome:
        return _accepted([EventOutcome(**self._call("POST", "/v1/events", event))])[0]

    def _check_open(self) -> None:
        if self._http.is_closed:
            raise InvalidInput("the client is closed: make another `Client` for further calls")

    def _call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        self._check_open()
        last: SlotwiseError | None = None
        for tries in range(self._max_tries):
            if tries:
                self._sleep(self._wait_s(tries, last))
            try:
                answer = self._http.request(method, path, json=body)
            except httpx.TransportError as error:
                why = str(error) or type(error).__name__
                tried = f" (tried {tries + 1} times)" if tries else ""
                call = f"{method} {error.request.url}"
                last = ServiceUnreachable(f"{call} got no answer{tried}: {why}")
                continue
            if answer.is_success:
                content: dict[str, Any] = answer.json() if answer.content else {}
                return content
            last = _refusal(answer, tries + 1)
            if answer.status_code not in _RETRIED_STATUSES:
                break
        assert last is not None
        raise last

    @staticmethod
    def _wait_s(tries: int, last: SlotwiseError | None) -> float:
        """Return a random wait that doubles with each try, at least what the service requires."""
        # Full jitter: clients do not retry all at the same time.
        wait_s = random.uniform(0, 0.1 * 2**tries)
        least_s = getattr(last, "retry_after_s", 0.0)
        return float(min(_MAX_WAIT_S, max(wait_s, least_s)))


def _link_ids(name: str, links: Sequence[str]) -> list[str]:
    """Return the ids as a list; one id is not a list of its letters."""
    if isinstance(links, str):
        raise InvalidInput.of(name, "a list of link ids", links, f"write [{links!r}]")
    return list(links)


def _accepted(outcomes: list[EventOutcome]) -> list[EventOutcome]:
    if any(one.outcome == "rejected" for one in outcomes):
        raise EventRejected(outcomes)
    return outcomes


def _page(answer: Mapping[str, Any]) -> Page:
    return Page(
        decision_id=answer["decision_id"],
        pool_id=answer["pool_id"],
        links=tuple(
            DecidedLink(
                **{one.name: link[one.name] for one in fields(DecidedLink) if one.name in link}
            )
            for link in answer["links"]
        ),
        floor_status=answer["floor"]["status"],
        fallback=answer["fallback"],
        holdout=answer["holdout"],
        policy_version=answer["policy_version"],
        group=answer.get("group", "random" if answer["holdout"] else "chosen"),
        answer=answer,
    )


def _refusal(answer: httpx.Response, n_tries: int = 1) -> ServiceRefusal:
    try:
        problem = answer.json()
    except ValueError:
        problem = {"detail": f"not a problem answer: {answer.text[:100]!r}"}
    problem = problem if isinstance(problem, dict) else {}
    refusal = ServiceRefusal(answer.status_code, problem, n_tries)
    wait = answer.headers.get("retry-after", "")
    refusal.retry_after_s = float(wait) if wait.isdigit() else 0.0
    return refusal
