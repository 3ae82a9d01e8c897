"""Measure the dashboard in a real Chromium: `python -m benchmarks.service.dashboard`.

Opens a pool of 10,000 links a few times and prints, from the browser's own clock, when the
figures and the table stand, when the charts in sight are drawn, how long the browser computed,
and how long sorting, filtering and paging take. Medians over the openings; the first opening
finds nothing in the browser's cache, the others find the chart library.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from playwright.sync_api import BrowserContext, sync_playwright

from benchmarks.service.measures import running_target
from slotwise.policies import default_policy
from slotwise.service.api.context import system_clock_us
from slotwise.service.opening import open_service
from slotwise.service.records import (
    DAY_US,
    ClickEvent,
    ConversionEvent,
    Event,
    LinkRecord,
    PoolSettings,
)
from slotwise.service.settings import Settings

POOL = "10000-links"
N_LINKS = 10_000
SETTLE_S = 3.0
"""The service folds what has closed since the store was filled."""
GOALS_MS = {"figures": 1000.0, "charts": 2000.0, "sort": 100.0, "find": 100.0, "turn page": 100.0}
# Notes the first frame that has rows, and the first whose charts in sight are all drawn.
WATCH = """
const seen = (globalThis.seenMs = {});
const inSight = (element) => element.getBoundingClientRect().top < innerHeight;
function look() {
  const rows = document.querySelectorAll("#links tbody tr[data-link]").length;
  if (rows && !seen.figures) seen.figures = performance.now();
  const charts = [...document.querySelectorAll(".chart")].filter((one) => !one.hidden);
  const wanted = charts.filter(inSight);
  const drawn = wanted.length && wanted.every((one) => one.querySelector(".main-svg"));
  if (rows && drawn) seen.charts = performance.now();
  else requestAnimationFrame(look);
}
requestAnimationFrame(look);
"""
# Acts, and resolves with the milliseconds until the table has other rows and is painted.
TIMED = """
(act) => new Promise((done) => {
  const body = document.querySelector("#links tbody");
  const names = () => [...body.querySelectorAll("tr")].map((row) => row.dataset.link).join();
  const before = names();
  const start = performance.now();
  new Function(act)();
  (function look() {
    if (names() !== before) requestAnimationFrame(() => done(performance.now() - start));
    else setTimeout(look, 1);
  })();
})
"""
ACTS = {
    "sort": "document.querySelector('#links th[data-column=name] button').click()",
    "find": """const find = document.querySelector('#find');
        find.value = 'link-99';
        find.dispatchEvent(new Event('input', { bubbles: true }));""",
    "turn page": "document.querySelector('#next').click()",
}


def fill(folder: Path, n_views: int) -> None:
    """Make a pool that has had a day of visitors until now, in the store of the target."""
    service = open_service(Settings(store=f"sqlite:///{folder / 'bench.db'}", seed=5))
    rng = np.random.default_rng(5)
    now_us = system_clock_us() - DAY_US
    pool = PoolSettings(
        pool_id=POOL,
        slots=10,
        click_floor=0.8,
        max_revenue_micros=50_000_000,
        currency="EUR",
        click_window_s=1800,
        revenue_window_s=3600,
        policy=default_policy().name,
        holdout=0.1,
        allowed_hosts=("shop.example",),
    )
    service.directory.put_pool(pool, "bench", now_us).result()
    links = [
        LinkRecord(pool_id=POOL, link_id=f"link-{n}", url=f"https://shop.example/articles/{n}")
        for n in range(N_LINKS)
    ]
    service.directory.put_links(POOL, links, "bench", now_us).result()
    click_rates, worth = rng.beta(1, 9, N_LINKS), rng.beta(1, 4, N_LINKS)
    for view in range(n_views):
        now_us += DAY_US // n_views
        decision = service.decider.decide(POOL, now_us)
        events: list[Event] = []
        for shown in decision.shown:
            link = int(shown.link_id.removeprefix("link-"))
            if rng.random() >= click_rates[link]:
                continue
            named = {"decision_id": decision.decision_id, "link_id": shown.link_id}
            events.append(ClickEvent(**named))
            if rng.random() < worth[link]:
                sale = {"conversion_id": f"sale-{view}-{link}", "currency": "EUR"}
                events.append(ConversionEvent(**named, **sale, revenue_micros=9_000_000))
        service.committer.submit_events(events, now_us)
        if view % (n_views // 24) == 0:
            service.learner.learn(now_us)
    service.close()


@contextmanager
def chromium() -> Iterator[BrowserContext]:
    """Start Debian's Chromium; one context, so that openings after the first have a cache."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        sys.exit("this needs Chromium; install it (as root: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
        browser.close()


def open_once(context: BrowserContext, address: str) -> dict[str, float]:
    """Open the page and return milliseconds by what was waited for."""
    page = context.new_page()
    page.add_init_script(WATCH)
    session = context.new_cdp_session(page)
    session.send("Performance.enable")
    page.goto(address)
    page.wait_for_function("globalThis.seenMs.charts", timeout=60_000)
    took = dict(page.evaluate("globalThis.seenMs"))
    counted = session.send("Performance.getMetrics")["metrics"]
    seconds = {one["name"]: one["value"] for one in counted}
    took["page's CPU"] = 1000 * seconds["TaskDuration"]
    took["of it scripts"] = 1000 * seconds["ScriptDuration"]
    page.wait_for_load_state("networkidle")
    page.locator("#tab-links").click()
    for name, act in ACTS.items():
        took[name] = page.evaluate(TIMED, act)
        if name == "find":
            page.locator("#find").fill("")
            page.wait_for_timeout(500)
    page.close()
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--openings", type=int, default=5)
    parser.add_argument("--views", type=int, default=20_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slotwise-bench-") as folder:
        fill(Path(folder), arguments.views)
        with running_target(Path(folder)) as target, chromium() as context:
            time.sleep(SETTLE_S)
            address = f"{target.address}/?pool={POOL}"
            opened = [open_once(context, address) for _ in range(arguments.openings)]
    first, later = opened[0], opened[1:] or opened
    medians = {name: statistics.median(one[name] for one in later) for name in first}
    print(f"{'10,000 links, ms':<16} {'first':>8} {'later':>8} {'goal':>8}")
    for name, value in first.items():
        goal = f"{GOALS_MS[name]:8.0f}" if name in GOALS_MS else ""
        print(f"{name:<16} {value:>8.0f} {medians[name]:>8.0f} {goal}")
    print(json.dumps({"first": first, "later": medians}))
    worst = {name: max(first[name], medians[name]) for name in GOALS_MS}
    return 0 if all(worst[name] <= goal for name, goal in GOALS_MS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
