"""`slotwise demo`: watch the service learn from simulated visitors."""

from __future__ import annotations

import tempfile
import time
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from slotwise.client import Client, Page, click_event, conversion_event
from slotwise.service.context import system_clock_us
from slotwise.service.keys import new_key
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from slotwise.service.snippet.demo_shop import PRODUCTS, SHOP_POOL, shop_operations

__all__ = ["Visitors", "register"]

HELP = """Start the service with a pool of links and simulated visitors, and watch it learn.

Nothing is kept: the store is a temporary file. Stop it with Ctrl-C.

Examples:

  slotwise demo

  slotwise demo --seconds 20 --seed 7
"""
POOL = "demo"
MAX_REVENUE_MICROS = 20_000_000
CLICK_FLOOR = 0.5
N_SLOTS = 3
VIEWS_AT_ONCE = 40
# Three kinds of links: much clicked and poor, rarely clicked and rich, and neither.
CLICK_RATES = (0.30, 0.26, 0.22, 0.12, 0.10, 0.08, 0.06, 0.05, 0.04, 0.02)
REVENUE_PER_CLICK = (0.02, 0.05, 0.10, 0.55, 0.15, 0.80, 0.10, 0.60, 0.05, 0.30)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("demo", help=HELP)(demo)


class Visitors:
    """Visitors who click and buy at fixed rates."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._n_orders = 0

    def react(self, page: Page) -> list[dict[str, Any]]:
        """Return what a visitor of the page does."""
        events: list[dict[str, Any]] = []
        for shown in page.links:
            link = int(shown.link_id.removeprefix("link-"))
            if self._rng.random() >= CLICK_RATES[link]:
                continue
            events.append(click_event(page.decision_id, shown.link_id))
            if self._rng.random() < REVENUE_PER_CLICK[link]:
                self._n_orders += 1
                events.append(
                    conversion_event(
                        page.decision_id,
                        shown.link_id,
                        conversion_id=f"order-{self._n_orders}",
                        revenue_micros=MAX_REVENUE_MICROS,
                        currency="EUR",
                    )
                )
        return events


def demo(
    seconds: Annotated[float, typer.Option(help="How long to run")] = 60.0,
    seed: Annotated[int, typer.Option(help="Seed of visitors and pages")] = 0,
    open_shop: Annotated[bool, typer.Option("--open/--no-open", help="Open the demo shop")] = True,
) -> None:
    """Watch the service learn."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="slotwise-demo-") as folder:
        settings = Settings(
            port=0, store=f"sqlite:///{Path(folder) / 'demo.db'}", fold_every_s=0.25, seed=seed
        )
        decide_key = new_key(["decide"], label="demo shop", now_us=system_clock_us())
        with (
            BackgroundServer(settings, shop_operations(decide_key.secret)) as server,
            Client(server.url, server.admin_key) as client,
        ):
            service = server.context.service
            service.put_key(decide_key.record, "demo", system_clock_us()).result()
            console.print(f"The service runs at {server.url}; stop with Ctrl-C.")
            console.print(f"A shop that uses it: {server.url}/shop, how it does: {server.url}/")
            try:
                console.print("Compiling the policy: up to a minute, once on a machine.")
                make_pool(client)
                make_shop(client, server.url)
                if open_shop and console.is_terminal:
                    webbrowser.open(f"{server.url}/shop")
                run(client, Visitors(seed), seconds, console)
            except KeyboardInterrupt:
                console.print("stopped")


def make_pool(client: Client) -> None:
    """Make the pool with windows of seconds, so that it learns while somebody looks."""
    client.put_pool(
        POOL,
        slots=N_SLOTS,
        click_floor=CLICK_FLOOR,
        max_revenue={"amount_micros": MAX_REVENUE_MICROS, "currency": "EUR"},
        click_window_s=1,
        revenue_window_s=1,
        holdout=0.1,
        allowed_hosts=["shop.example"],
    )
    links = range(len(CLICK_RATES))
    client.put_links(POOL, {f"link-{link}": f"https://shop.example/{link}" for link in links})


def make_shop(client: Client, url: str) -> None:
    """Make the pool of the demo shop: its visitors take their time, so do its windows."""
    client.put_pool(
        SHOP_POOL,
        slots=N_SLOTS,
        click_floor=0.3,
        max_revenue={"amount_micros": 50_000_000, "currency": "EUR"},
        click_window_s=30,
        revenue_window_s=60,
        allowed_hosts=[url.removeprefix("http://")],
    )
    for product, (title, _) in PRODUCTS.items():
        client.put_link(SHOP_POOL, product, url=f"{url}/shop/products/{product}", title=title)


def run(client: Client, visitors: Visitors, seconds: float, console: Console) -> None:
    """Send visitors and redraw the table until the time is over."""
    began = time.monotonic()
    n_views, drawn = 0, 0.0
    with Live(console=console, auto_refresh=False) as live:
        while (elapsed := time.monotonic() - began) < seconds:
            events = []
            for _ in range(VIEWS_AT_ONCE):
                events += visitors.react(client.decide(POOL))
            if events:
                client.batch(events)
            n_views += VIEWS_AT_ONCE
            if elapsed - drawn >= 0.5:
                drawn = elapsed
                live.update(picture(client.stats(POOL), n_views, elapsed), refresh=True)


def picture(stats: dict[str, Any], n_views: int, elapsed: float) -> Group:
    """Return the table of links and the line below it."""
    table = Table(title=f"{n_views:,} page views in {elapsed:.0f} s")
    for heading in ("link", "clicks a view", "true", "revenue a click", "true", "on the page"):
        table.add_column(heading, justify="left" if heading == "link" else "right")
    for place, link in enumerate(stats["links"]):
        clicks, views = link["clicks"], link["click_views"]
        rate = clicks / views if views else 0.0
        revenue = link["revenue_micros"] / clicks / 1e6 if clicks else 0.0
        chance = link["probability"]
        table.add_row(
            link["link_id"],
            f"{rate:.3f}",
            f"{CLICK_RATES[place]:.2f}",
            f"{revenue:.2f}",
            f"{REVENUE_PER_CLICK[place] * MAX_REVENUE_MICROS / 1e6:.2f}",
            f"{chance:4.0%} " + "█" * round(10 * chance) + "░" * (10 - round(10 * chance)),
        )
    return Group(table, Text(summary(stats)))


def summary(stats: dict[str, Any]) -> str:
    """Say in two lines how the floor and the revenue stand."""
    floor, lift = stats["floor"], stats["lift"]
    groups = {group["group"]: group for group in stats["groups"]}
    earned = [
        f"{name} {groups[name]['revenue_per_view_micros']['mean'] / 1e6:.2f} EUR a view"
        for name in ("policy", "holdout")
        if name in groups and groups[name]["revenue_views"]
    ]
    gain = f", {lift['mean']:+.0%} over random pages" if lift else ""
    return (
        f"floor {floor['clicks']:.2f} clicks a view: {floor['status']}, "
        f"{floor['expected']:.2f} expected; one more click costs "
        f"{stats['shadow_price_micros'] / 1e6:.2f} EUR\n{'; '.join(earned)}{gain}"
    )
