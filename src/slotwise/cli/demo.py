"""`slotwise demo`: a shop, simulated visitors and a service that learns from them.

`demo_visitors` has the visitors, `slotwise.service.demo` the pages of the shop.
"""

from __future__ import annotations

import math
import signal
import tempfile
import threading
import time
import webbrowser
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typer import Option

from slotwise.cli.demo_visitors import FEATURES, TASTES, DemoVisitors
from slotwise.client import Client
from slotwise.errors import InvalidInput, SlotwiseError
from slotwise.service.access.keys import new_key
from slotwise.service.api.context import system_clock_us
from slotwise.service.demo.shop import PRODUCTS, SHOP_POOL, shop_operations
from slotwise.service.logs import start_logs
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings

MAX_REVENUE_MICROS = 50_000_000
CLICK_FLOOR = 0.4
CLICK_WINDOW_S, REVENUE_WINDOW_S = 20, 30
"""Long enough for people, who look before they click, and short enough to watch."""
N_SLOTS = 3
HOLDOUT = 0.2
"""Share of page views with random pages."""
VIEWS_AT_ONCE = 30
"""Page views of a group of visitors; then the demo pauses."""
COMPILE_S = 300.0
"""Timeout for making the pool: its policy is compiled once on a machine."""
PRINTED_EVERY_S = 10.0
"""Seconds between two lines of progress where the output is not a terminal."""
WIDE = 90
"""Columns of a terminal that has room for bars."""
PAUSE_S = 0.2
"""Pause between two groups of visitors, so that the shop also answers people quickly."""


def demo_command(
    seconds: Annotated[
        float | None, Option(help="How long to run; by default until Ctrl-C")
    ] = None,
    seed: Annotated[int, Option(help="Seed of visitors and pages")] = 0,
    port: Annotated[int, Option(min=0, max=65535, help="Port of the shop; 0 takes a free one")] = 0,
    open_shop: Annotated[bool, Option("--open/--no-open", help="Open the demo shop")] = True,
) -> None:
    """Run a small shop with simulated visitors and show how the service learns.

    The store is a temporary file that is removed at the end. Stop the demo with Ctrl-C or SIGTERM.

    Examples:

      slotwise demo

      slotwise demo --seconds 60 --seed 7 --port 8470
    """
    if seconds is not None and not seconds > 0:
        raise InvalidInput.of("--seconds", "a positive number", seconds)
    console = Console()
    start_logs("error")  # without it, warnings of the service are printed among the figures
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    try:
        _run_shop(console, seconds, seed, port, opens_browser=open_shop)
    except KeyboardInterrupt:
        console.print("Stopped. Nothing was stored.")


def _run_shop(
    console: Console, seconds: float | None, seed: int, port: int, opens_browser: bool
) -> None:
    """Start the service with the shop and send visitors until the time is over."""
    with tempfile.TemporaryDirectory(prefix="slotwise-demo-") as folder:
        settings = Settings(
            port=port, store=f"sqlite:///{Path(folder) / 'demo.db'}", fold_every_s=0.5, seed=seed
        )
        page_key = new_key(["page"], label="demo shop", pool_id=SHOP_POOL, now_us=system_clock_us())
        with (
            BackgroundServer(settings, shop_operations(page_key.secret)) as server,
            Client(server.url, server.admin_key, timeout_s=COMPILE_S) as client,
        ):
            service = server.context.service
            service.directory.put_key(page_key.record, "demo", system_clock_us()).result()
            console.print("Starting the shop.")
            make_shop(client, server.url)
            introduce(console, server.url, server.admin_key)
            if opens_browser and console.is_terminal:
                webbrowser.open(f"{server.url}/shop")
            declared = declare_features(server.url, server.admin_key)
            run(client, DemoVisitors(seed), seconds, console, declared)


def introduce(console: Console, url: str, admin_key: str) -> None:
    """Print the addresses and what they show."""
    lines = (
        "",
        f"  the shop       {url}/shop",
        f"  the dashboard  {url}/",
        f"  admin key      {admin_key}  (to pin and retire links)",
        "",
        f"The shop shows {N_SLOTS} of {len(PRODUCTS)} products. Simulated visitors click",
        "and buy at the rates in the columns *true*. The service does not know these rates;",
        "it learns them. Visitors on a phone, on a desktop and returning visitors differ: see",
        f"*Visitors* on the dashboard. The floor is {CLICK_FLOOR} clicks per page view: the",
        "service earns as much as it can while it keeps this floor. You can click and buy,",
        f"too: a click counts within {CLICK_WINDOW_S} seconds, a sale within {REVENUE_WINDOW_S};",
        "later ones are reported as late. Stop with Ctrl-C.",
        "",
    )
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def make_shop(client: Client, url: str) -> None:
    """Make the shop's pool, with windows of seconds, so that its views settle soon."""
    client.put_pool(
        SHOP_POOL,
        slots=N_SLOTS,
        click_floor=CLICK_FLOOR,
        max_revenue={"amount_micros": MAX_REVENUE_MICROS, "currency": "EUR"},
        click_window_s=CLICK_WINDOW_S,
        revenue_window_s=REVENUE_WINDOW_S,
        holdout=HOLDOUT,
        slot_weights="learn",
        allowed_hosts=[url.removeprefix("http://")],
    )
    for name, product in PRODUCTS.items():
        client.put_link(
            SHOP_POOL,
            name,
            url=f"{url}/shop/products/{name}",
            title=product.title,
            metadata={"price": product.price},
        )


def declare_features(url: str, admin_key: str) -> threading.Event:
    """Declare the pool's features in another thread, while the first pages are shown.

    The code for them is compiled once on a machine; the demo does not wait for it. The event is set
    when the features are declared.
    """
    declared = threading.Event()

    def declare() -> None:
        with (
            suppress(SlotwiseError),  # the demo was stopped meanwhile
            Client(url, admin_key, timeout_s=COMPILE_S, max_tries=1) as client,
        ):
            client.patch_pool(SHOP_POOL, features=FEATURES)
            declared.set()

    threading.Thread(target=declare, name="slotwise-demo", daemon=True).start()
    return declared


def run(
    client: Client,
    visitors: DemoVisitors,
    seconds: float | None,
    console: Console,
    declared: threading.Event,
) -> None:
    """Send visitors and redraw the table until the time is over."""
    began = time.monotonic()
    n_views, drawn, printed = 0, -1.0, 0.0
    with (
        Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live
    ):
        while seconds is None or time.monotonic() - began < seconds:
            events = []
            are_known = declared.is_set()
            for _ in range(VIEWS_AT_ONCE):
                visitor = visitors.next()
                page = client.decide(SHOP_POOL, visitor=visitor if are_known else None)
                events += visitors.react(page, visitor)
            if events:
                client.batch(events)
            n_views += VIEWS_AT_ONCE
            elapsed = time.monotonic() - began
            if live is not None and elapsed - drawn >= 1.0:
                drawn = elapsed
                shown = picture(client.stats(SHOP_POOL), n_views, elapsed, console.width)
                live.update(shown, refresh=True)
            if live is None and elapsed - printed >= PRINTED_EVERY_S:
                printed = elapsed
                console.print(f"{n_views:,} page views in {elapsed:.0f} s", highlight=False)
            time.sleep(PAUSE_S)
    if live is None:
        console.print(picture(client.stats(SHOP_POOL), n_views, time.monotonic() - began, 0))


def picture(stats: dict[str, Any], n_views: int, elapsed: float, width: int) -> Group:
    """Return the table of links and the lines below it, for a terminal of `width` or a file (0)."""
    table = Table(
        title=f"{n_views:,} page views in {elapsed:.0f} s",
        box=box.HEAVY_HEAD if width else box.ASCII2,
    )
    for heading in ("product", "clicks per view", "true", "EUR per click", "true", "shown now"):
        table.add_column(heading, justify="left" if heading == "product" else "right")
    for link in stats["links"]:
        clicks, views = link["clicks"], link["click_views"]
        # Sales settle later than clicks, so revenue and clicks are each divided by their own views.
        a_click = _ratio(link["revenue_micros"] / 1e6, link["revenue_views"], _ratio(clicks, views))
        taste, product = TASTES[link["link_id"]], PRODUCTS[link["link_id"]]
        probability = link["probability"]
        table.add_row(
            product.title,
            _figure(_ratio(clicks, views), 3),
            f"{taste.clicks:.2f}",
            _figure(a_click, 2),
            f"{taste.sales * product.price_micros / 1e6:.2f}",
            f"{probability:4.0%}" + (_bar(probability) if width >= WIDE else ""),
        )
    return Group(table, Text(summary(stats)))


def _ratio(total: float, *counts: float | None) -> float | None:
    """Return `total` divided by all counts; None where one of them is 0 or not known."""
    return total / math.prod(known) if all(known := [one or 0.0 for one in counts]) else None


def _figure(value: float | None, n_digits: int) -> str:
    return "?" if value is None else f"{value:.{n_digits}f}"


def _bar(probability: float) -> str:
    n_full = round(10 * probability)
    return " " + "█" * n_full + "░" * (10 - n_full)


def summary(stats: dict[str, Any]) -> str:
    """Summarise the floor and the revenue in a few lines."""
    groups = {group["group"]: group for group in stats["groups"]}
    chosen = groups.get("policy")
    if chosen is None or not chosen["revenue_views"]:
        return (
            f"The first page views settle after {REVENUE_WINDOW_S} seconds; "
            "until then all products are tried."
        )
    per_view = {
        name: group["revenue_per_view_micros"]["mean"] / 1e6 for name, group in groups.items()
    }
    clicks, floor = chosen["clicks_per_view"]["mean"], stats["floor"]["clicks"]
    kept = f"Floor: {clicks:.2f} clicks per view so far; the floor is {floor:.2f}."
    earned = f"Revenue: {per_view['policy']:.2f} EUR per view on chosen pages"
    if "holdout" in per_view:
        earned += f", {per_view['holdout']:.2f} on random ones"
    if lift := stats["lift"]:
        earned += f": {lift['mean']:+.0%} ({lift['low']:+.0%} to {lift['high']:+.0%})"
        earned += "" if lift["low"] > 0 else ", too early to say"
    if not stats["shadow_price_micros"]:
        return f"{kept}\n{earned}"
    price = stats["shadow_price_micros"] / 1e6
    return (
        f"{kept}\n{earned}\nPrice of the floor: one more click per 100 views costs {price:.2f} EUR."
    )
