"""`slotwise warm-up`: compile ahead of time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from typer import Argument

from slotwise.cli.progress import progress_bar
from slotwise.compile.cache import cache_folder
from slotwise.errors import SlotwiseError
from slotwise.policies import POLICIES, Policy, make_policy, policy_class, setting_names
from slotwise.selector import Selector

if TYPE_CHECKING:
    from slotwise.service.records import PoolSettings

LINKS, N_SLOTS = tuple("abcd"), 2
STAND_INS: dict[str, Any] = {"probabilities": [N_SLOTS / len(LINKS)] * len(LINKS), "horizon": 1000}
"""Values of the settings without which some policies do not start."""
FEATURES: dict[str, Any] = {"device": ("phone", "desktop"), "country": str, "new": bool}
VARIANTS: tuple[dict[str, Any], ...] = (
    {"click_floor": 0.3},
    {"click_floor": 0.3, "features": FEATURES},
    {"click_floor": 0.3, "slot_weights": "learn"},
    {"click_floor": 0.3, "features": FEATURES, "slot_weights": "learn"},
    {"levels": ("click", "cart", "sale"), "floors": {"click": 0.3, "cart": 0.1}},
)
"""Kinds of selectors for which a policy may have code of its own."""
SERVICE_FEATURES: tuple[dict[str, Any], ...] = (
    {},
    {"device": ["phone", "desktop"], "country": "text", "new": "bool"},
)


def play_policy(name: str) -> Iterator[float]:
    """Call what selectors, the service and experiments call with this policy.

    Yields the share that is done. A kind of selector that the policy refuses is left out, and so is
    the service or the engine where its packages are missing.
    """
    known = setting_names(policy_class(name))
    settings = {key: value for key, value in STAND_INS.items() if key in known}
    policy = make_policy(name, settings)
    steps = [partial(_select, policy, variant) for variant in VARIANTS]
    steps += [
        partial(_serve, name, settings, *kind) for kind in product(SERVICE_FEATURES, (False, True))
    ]
    steps.append(partial(_simulate, policy))
    for number, step in enumerate(steps):
        yield number / len(steps)
        step()


def _select(policy: Policy, variant: dict[str, Any]) -> None:
    with suppress(SlotwiseError):
        made = Selector(LINKS, N_SLOTS, policy=policy, horizon=1000, seed=1, **variant)
        _play(made, {"device": "phone"} if "features" in variant else {})


def _play(selector: Selector, visitor: dict[str, str]) -> None:
    has_own_levels = selector.problem.n_levels > 2
    *reached, last = selector.problem.levels if has_own_levels else ("clicks", "revenue")
    for _ in range(2):
        page = selector.select(visitor=visitor)
        link = page.shown[0]
        feedback: dict[str, Any] = {name: [link] for name in reached} | {last: {link: 0.5}}
        selector.update(page, **feedback)
    selector.select(exclude=["a"])
    selector.report()
    selector.frontier()


def _serve(
    name: str, settings: dict[str, object], features: dict[str, object], learns_slots: bool
) -> None:
    try:
        from slotwise.service.records import PoolSettings
    except ModuleNotFoundError:
        return
    pool = PoolSettings("toy", N_SLOTS, 0.3, 1_000_000, "EUR", 1, 1, name, settings)
    serve_pool(pool, features, learns_slots)


def serve_pool(pool: PoolSettings, features: dict[str, object], learns_slots: bool) -> None:
    """Compile what a service needs: make a small pool, decide, learn and report."""
    from msgspec.structs import replace

    from slotwise.service.deciding.page_request import NO_CONSTRAINTS
    from slotwise.service.records import SECOND_US, ClickEvent, LinkRecord
    from slotwise.service.service import Service
    from slotwise.service.settings import ServiceOptions
    from slotwise.service.storage.sqlite import SqliteStore

    pool_id, caller, now_us = pool.pool_id, "slotwise warm-up", SECOND_US
    pool = replace(pool, features=features, learn_slot_weights=learns_slots)
    links = [LinkRecord(pool_id=pool_id, link_id=link, url="/", place=0) for link in LINKS]
    with TemporaryDirectory() as folder:
        service = Service(SqliteStore(Path(folder) / "toy.db"), ServiceOptions(seed=1))
        with closing(service):
            service.directory.put_pool(pool, caller, now_us).result()
            service.directory.put_links(pool_id, links, caller, now_us).result()
            for _ in range(2):
                page = service.decider.decide(pool_id, now_us)
                service.decider.decide(pool_id, now_us, exclude=[LINKS[0]])
                click = ClickEvent(decision_id=page.decision_id, link_id=page.shown[0].link_id)
                service.committer.submit_events([click], now_us).result()
                now_us += 2 * SECOND_US
                service.learner.learn(now_us)
            installed = service.decider.installed(pool_id)
            installed.holdout_page(NO_CONSTRAINTS).draw(np.random.default_rng(0))
            service.reporter.stats(pool_id)
            service.reporter.explain(pool_id)
            service.reporter.frontier(pool_id)


def _simulate(policy: Policy) -> None:
    try:
        from slotwise.environments import BernoulliLinks, SegmentLinks
        from slotwise.simulation import simulate
    except ModuleNotFoundError:
        return
    rates = [0.5] * len(LINKS)
    segments = SegmentLinks([rates] * 2, [rates] * 2, [0.5, 0.5])
    for links, weights in ((BernoulliLinks(rates, rates), None), (segments, "learn")):
        policies = {"policy": policy}
        simulate(links, policies, N_SLOTS, 0.3, n_rounds=2, n_runs=1, slot_weights=weights)


def warm_up_command(
    policies: Annotated[
        list[str] | None, Argument(metavar="[POLICY]...", help="Policies by name.")
    ] = None,
) -> None:
    """Compile policies to machine code and store it on disk, so that first pages are compiled.

    Use it for container images and continuous integration. Without names, every policy is compiled,
    which takes some minutes. The machine code is for this version of slotwise, of Python and for
    this kind of processor; set NUMBA_CACHE_DIR to choose the folder, and NUMBA_CPU_NAME=generic if
    the code will run on other processors.

    Examples:

      slotwise warm-up

      slotwise warm-up paced-bayes con-ucb
    """
    names = list(dict.fromkeys(policies or POLICIES))
    for name in names:
        policy_class(name)  # refuses an unknown one before any is compiled
    os.environ["SLOTWISE_COMPILE"] = "first"
    started = time.perf_counter()
    with progress_bar("compiling") as tell:
        for number, name in enumerate(names):
            for share in play_policy(name):
                tell((number + share) / len(names), name)
    seconds = time.perf_counter() - started
    ready = "1 policy" if len(names) == 1 else f"{len(names)} policies"
    typer.echo(f"{ready} compiled in {seconds:.0f} s; stored in {cache_folder()}")
