"""Measure what the service writes by hand against the library that would replace it.

    python -m benchmarks.service.by_hand starlette    # routing: needs `pip install starlette`
    python -m benchmarks.service.by_hand writes       # answers sent together
    python -m benchmarks.service.by_hand page-json    # the JSON of a page
    python -m benchmarks.service.by_hand hmac         # the signature of its click links

The first two run two servers that answer the same three busy operations (decide, one event, one
click link), alternate the rounds, and compare the server's computing time for an answer. With
Starlette, it routes, tries the busy routes first, has its exception and cross-origin middleware,
and hands over to the same checks and handlers as raw ASGI endpoints: the least that it can cost.
The last two time functions.
"""

from __future__ import annotations

import argparse
import hmac
import json
import statistics
import sys
import tempfile
import timeit
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from benchmarks.service import target as measured_server
from benchmarks.service.measures import Target, running_target
from slotwise.policies import default_policy
from slotwise.service import server
from slotwise.service.access.tokens import TokenSigner
from slotwise.service.api.app import App
from slotwise.service.api.context import Operation, ServiceContext
from slotwise.service.api.page_json import DecideAnswer, PageLink, PageWriter
from slotwise.service.records import DecisionRecord, LinkRecord, PoolSettings, to_time
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from tests.stores.memory_store import MemoryStore

ROUNDS = 7
SECONDS = 1.5
POOL = "100-links"
N_PAGES = 300
MODULE = "benchmarks.service.by_hand"
BUSY = ("decide", "record_event", "follow_click")


class _Found:
    """A router that returns what Starlette has found."""

    def __init__(self) -> None:
        self.found: tuple[Operation, Mapping[str, str]]

    def find(self, method: str, path: str) -> tuple[Operation, Mapping[str, str]]:
        return self.found


class StarletteApp:
    """The service's application with Starlette's routing in front."""

    def __init__(self, context: ServiceContext, operations: Iterable[Operation] = ()) -> None:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.cors import CORSMiddleware
        from starlette.routing import Route

        app = App(context, operations)
        found = _Found()
        app._router = found  # type: ignore[assignment]

        def raw(operation: Operation) -> Any:
            class Endpoint:
                async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
                    found.found = operation, scope["path_params"]
                    await app(scope, receive, send)

            return Endpoint()

        def tried_first(operation: Operation) -> tuple[bool, int]:
            return operation.name not in BUSY, operation.path.count("{")

        routes = [
            Route(one.path, raw(one), methods=[one.method])
            for one in sorted(app.operations, key=tried_first)
        ]
        cors = Middleware(CORSMiddleware, allow_origins=["https://shop.example"])
        self.app = Starlette(routes=routes, middleware=[cors])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


def _serve(replaced: str) -> None:
    """Be a server to measure, with one part replaced by the library's."""
    if replaced == "starlette":
        server.App = StarletteApp  # type: ignore[assignment, attr-defined]
    elif replaced == "writes":
        server.protocol_with = lambda *_: HttpToolsProtocol  # type: ignore[assignment, attr-defined]
    measured_server.main()


def _prepare(target: Target) -> dict[str, list[str]]:
    """Make a pool and return the requests of each kind."""
    target.make_pool(POOL, 100, default_policy().name)
    pages = [target.client.post(f"/v1/pools/{POOL}/decide").json() for _ in range(N_PAGES)]
    events, clicks = [], []
    for page in pages:
        for link in page["links"]:
            event = {"type": "click", "decision_id": page["decision_id"]}
            body = json.dumps(event | {"link_id": link["link_id"]})
            events.append(target.request("/v1/events", body))
            path = link["click_url"].removeprefix(str(target.address).rstrip("/"))
            head = f"GET {path} HTTP/1.1\r\nHost: {target.address.host}\r\n"
            clicks.append(f"{head}User-Agent: Mozilla/5.0 Firefox/140\r\n\r\n")
    decide = [target.request(f"/v1/pools/{POOL}/decide")]
    return {"decide": decide, "events": events, "redirects": clicks}


def compare_servers(replaced: str) -> dict[str, tuple[float, float, float]]:
    """Return the computing time of an answer by hand and by the library, and their ratio."""
    with tempfile.TemporaryDirectory(prefix="slotwise-bench-") as folder, ExitStack() as opened:
        targets = []
        for part in ("none", replaced):
            place = Path(folder, part)
            place.mkdir()
            targets.append(opened.enter_context(running_target(place, (MODULE, part))))
        requests = [_prepare(target) for target in targets]
        measured = {}
        for kind in requests[0]:
            costs: list[list[float]] = [[], []]
            for number in range(ROUNDS):
                for side in (0, 1) if number % 2 else (1, 0):
                    _, cost_us = targets[side].costly_load(requests[side][kind], SECONDS)
                    costs[side].append(cost_us)
            ratios = [library / own for own, library in zip(*costs, strict=True)]
            measured[kind] = (*map(statistics.median, costs), statistics.median(ratios))
    return measured


def _page() -> tuple[Service, TokenSigner, DecisionRecord]:
    """Return a page of ten links."""
    service = Service(MemoryStore(), ServiceOptions(seed=1))
    pool = PoolSettings(
        pool_id=POOL,
        slots=10,
        click_floor=0.2,
        max_revenue_micros=50_000_000,
        currency="EUR",
        click_window_s=1800,
        revenue_window_s=3600,
        policy="uniform",
        allowed_hosts=("shop.example",),
    )
    service.directory.put_pool(pool, "bench", 1).result()
    links = [
        LinkRecord(pool_id=POOL, link_id=f"link-{n}", url=f"https://shop.example/articles/{n}")
        for n in range(100)
    ]
    service.directory.put_links(POOL, links, "bench", 1).result()
    return (
        service,
        TokenSigner({"k1": b"0" * 32}),
        service.decider.decide(POOL, 1_700_000_000_000_000),
    )


def _timed(own: Callable[[], object], library: Callable[[], object]) -> tuple[float, float, float]:
    """Return microseconds a call of both, and their ratio: medians over alternating rounds."""
    n_calls = 2_000
    rounds = [
        [1e6 * timeit.timeit(f, number=n_calls) / n_calls for f in (own, library)]
        for _ in range(2 * ROUNDS)
    ]
    ratio = statistics.median(library_us / own_us for own_us, library_us in rounds)
    own_us, library_us = (statistics.median(side) for side in zip(*rounds, strict=True))
    return own_us, library_us, ratio


def compare_page_json() -> dict[str, tuple[float, float, float]]:
    """Compare the page written from kept texts with a record that msgspec encodes."""
    service, signer, decision = _page()
    base = "https://links.example"
    writer = PageWriter(service, signer, base)
    encode = msgspec.json.Encoder().encode

    def library() -> bytes:
        issued_ms = decision.issued_us // 1000
        links = []
        for shown in decision.shown:
            link = service.directory.link(POOL, shown.link_id)
            token = signer.sign_page(POOL, decision.decision_id, issued_ms, str(link.place))
            click_url = f"{base}/r/{token}~1~{shown.link_id}"
            where = (shown.link_id, shown.position, link.url, click_url)
            links.append(PageLink(*where, shown.propensity, link.title, link.metadata))
        return encode(
            DecideAnswer(
                decision.decision_id,
                POOL,
                to_time(decision.issued_us).isoformat(),
                decision.policy,
                decision.policy_version,
                decision.holdout,
                decision.group,
                bool(decision.fallback),
                decision.fallback,
                decision.floor,
                links,
            )
        )

    try:
        return {"a page of 10 links": _timed(lambda: writer.write(decision), library)}
    finally:
        service.close()


def compare_hmac() -> dict[str, tuple[float, float, float]]:
    """Compare the signature of a page with `hmac.digest`, and with ten, one for each link."""
    secret = b"0" * 32
    signer = TokenSigner({"k1": secret})
    places = "-".join(map(str, range(10, 20)))
    page = (POOL, "4rV0tQ9dR2m1", 1_700_000_000_000)
    signed = signer.sign_page(*page, places).rpartition("~")[0]

    def own() -> str:
        return signer.sign_page(*page, places)

    def each_link() -> list[str]:
        return [signer.sign_page(*page, str(place)) for place in range(10, 20)]

    def library() -> str:
        return f"{signed}~{hmac.digest(secret, signed.encode(), 'sha256').hex()}"

    assert own() == library()
    return {"one signature": _timed(own, library), "ten signatures": _timed(own, each_link)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["starlette", "writes", "page-json", "hmac", "none"])
    parser.add_argument("settings", nargs="?", help="as the server: its settings as JSON")
    arguments = parser.parse_args()
    if arguments.settings:
        sys.argv = [sys.argv[0], arguments.settings]
        _serve(arguments.part)
        return 0
    if arguments.part == "page-json":
        measured = compare_page_json()
    elif arguments.part == "hmac":
        measured = compare_hmac()
    else:
        measured = compare_servers(arguments.part)
    print(f"{'µs of computing':<20} {'by hand':>9} {'library':>9} {'ratio':>6}")
    for kind, (own_us, library_us, ratio) in measured.items():
        print(f"{kind:<20} {own_us:>9.1f} {library_us:>9.1f} {ratio:>6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
