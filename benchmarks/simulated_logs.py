"""Small simulated logs of six kinds, each with a candidate whose true value is known."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from slotwise import Selector
from slotwise.evaluation import LinkMix
from slotwise.rounds import Decision
from slotwise.selection import dependent_rounding

Floats = NDArray[np.float64]
N_LINKS, N_SLOTS = 8, 2
EXPLORE = 0.2
LINKS = [f"link-{i}" for i in range(N_LINKS)]
DELAY = 100


class SimulatedLog(NamedTuple):
    """A log, a candidate, and what the candidate is worth: clicks and revenue a page view."""

    log: list[io.BytesIO]
    candidate: LinkMix
    truth: tuple[float, float]


class World(NamedTuple):
    """Click rates and revenue per click of the links."""

    clicks: Floats
    per_click: Floats


def new_world(rng: np.random.Generator) -> World:
    return World(rng.uniform(0.02, 0.3, N_LINKS), rng.uniform(0.1, 1.0, N_LINKS))


def new_mix(rng: np.random.Generator) -> Floats:
    """Return probabilities that sum to the slots, none of them above 1."""
    weights = rng.dirichlet(np.ones(N_LINKS)) * N_SLOTS
    while weights.max() > 1.0:
        over = weights > 1.0
        spare = (weights[over] - 1.0).sum()
        weights[over] = 1.0
        weights[~over] += spare / (~over).sum()
    return weights


def as_mix(chances: Floats) -> LinkMix:
    return LinkMix.of(dict(zip(LINKS, chances.tolist(), strict=True)))


def as_log(
    shown: NDArray[np.int64], clicked: Floats, revenue: Floats, **more: object
) -> list[io.BytesIO]:
    """Return pages, one a row, as a log; further columns have an entry for each link shown."""
    n_pages, n_slots = shown.shape
    columns = {
        "page_id": np.repeat(np.arange(n_pages), n_slots),
        "time_us": np.repeat(np.arange(n_pages), n_slots),
        "slot": np.tile(np.arange(1, n_slots + 1), n_pages),
        "link": pa.array(np.array(LINKS)[shown.ravel()]),
        "clicked": clicked.ravel().astype(bool),
        "revenue": revenue.ravel(),
        **more,
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    file.seek(0)
    return [file]


def feedback(
    shown: NDArray[np.int64], rates: Floats, per_click: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    clicked = (rng.random(shown.shape) < rates).astype(float)
    return clicked, clicked * (rng.random(shown.shape) < per_click[shown])


def fixed_mix(rng: np.random.Generator, n_pages: int) -> SimulatedLog:
    world, candidate = new_world(rng), new_mix(rng)
    chances = (1 - EXPLORE) * new_mix(rng) + EXPLORE * N_SLOTS / N_LINKS
    shown = np.array([dependent_rounding(chances, rng) for _ in range(n_pages)])
    clicked, revenue = feedback(shown, world.clicks[shown], world.per_click, rng)
    log = as_log(
        shown,
        clicked,
        revenue,
        probability=chances[shown].ravel(),
        min_probability=np.full(shown.size, chances.min()),
    )
    worth = candidate @ world.clicks, candidate @ (world.clicks * world.per_click)
    return SimulatedLog(log, as_mix(candidate), (float(worth[0]), float(worth[1])))


def learned(
    rng: np.random.Generator,
    n_pages: int,
    rates: Callable[[int], Floats],
    delay: int,
) -> SimulatedLog:
    """The default policy learns while it logs; `rates` are the click rates of a page view."""
    world, candidate = new_world(rng), new_mix(rng)
    selector = Selector(
        LINKS, N_SLOTS, click_floor=0.2, explore=EXPLORE, seed=int(rng.integers(1 << 31))
    )
    waiting: deque[tuple[Decision[str], list[str], dict[str, float]]] = deque()
    shown = np.zeros((n_pages, N_SLOTS), np.int64)
    chances, least = np.zeros((n_pages, N_SLOTS)), np.zeros(n_pages)
    clicked, revenue = np.zeros((n_pages, N_SLOTS)), np.zeros((n_pages, N_SLOTS))
    worth = np.zeros(2)
    for t in range(n_pages):
        page = selector.select()
        places = [LINKS.index(link) for link in page.shown]
        now = world.clicks * rates(t)
        shown[t] = places
        chances[t] = [page.probabilities[link] for link in page.shown]
        least[t] = min(page.probabilities[link] for link in LINKS)
        clicked[t] = rng.random(N_SLOTS) < now[places]
        revenue[t] = clicked[t] * (rng.random(N_SLOTS) < world.per_click[places])
        worth += candidate @ now, candidate @ (now * world.per_click)
        hits = [link for link, hit in zip(page.shown, clicked[t], strict=True) if hit]
        money = {link: 1.0 for link, amount in zip(page.shown, revenue[t], strict=True) if amount}
        waiting.append((page, hits, money))
        if len(waiting) > delay:
            selector.update(*waiting.popleft())
    log = as_log(
        shown,
        clicked,
        revenue,
        probability=chances.ravel(),
        min_probability=np.repeat(least, N_SLOTS),
    )
    truth = worth / n_pages
    return SimulatedLog(log, as_mix(candidate), (float(truth[0]), float(truth[1])))


def default_policy(rng: np.random.Generator, n_pages: int) -> SimulatedLog:
    return learned(rng, n_pages, lambda _: np.ones(N_LINKS), 0)


def drifting_rates(rng: np.random.Generator, n_pages: int) -> SimulatedLog:
    begin, end = rng.uniform(0.2, 1.5, N_LINKS), rng.uniform(0.2, 1.5, N_LINKS)
    return learned(rng, n_pages, lambda t: begin + (end - begin) * t / n_pages, 0)


def delayed_feedback(rng: np.random.Generator, n_pages: int) -> SimulatedLog:
    return learned(rng, n_pages, lambda _: np.ones(N_LINKS), DELAY)


def segments(rng: np.random.Generator, n_pages: int) -> SimulatedLog:
    """Three kinds of visitors with rates, a logging mix and a candidate's mix of their own."""
    worlds = [new_world(rng) for _ in range(3)]
    logging = [(1 - EXPLORE) * new_mix(rng) + EXPLORE * N_SLOTS / N_LINKS for _ in range(3)]
    wanted = [new_mix(rng) for _ in range(3)]
    kinds = rng.choice(3, n_pages, p=[0.5, 0.3, 0.2])
    shown = np.array([dependent_rounding(logging[kind], rng) for kind in kinds])
    of_kind = np.array([world.clicks for world in worlds])[kinds]
    per_click = np.array([world.per_click for world in worlds])[kinds]
    rows = np.arange(n_pages)[:, None]
    clicked = (rng.random(shown.shape) < of_kind[rows, shown]).astype(float)
    revenue = clicked * (rng.random(shown.shape) < per_click[rows, shown])
    log = as_log(
        shown,
        clicked,
        revenue,
        probability=np.array(logging)[kinds][rows, shown].ravel(),
        min_probability=np.repeat(np.array(logging).min(axis=1)[kinds], N_SLOTS),
        **{"visitor.kind": np.repeat(kinds, N_SLOTS).astype(str)},
    )
    mix = LinkMix(
        {(str(k),): dict(zip(LINKS, wanted[k].tolist(), strict=True)) for k in range(3)}, ["kind"]
    )
    candidate = np.array(wanted)[kinds]
    worth = (candidate * of_kind).sum(axis=1), (candidate * of_kind * per_click).sum(axis=1)
    return SimulatedLog(log, mix, (float(worth[0].mean()), float(worth[1].mean())))


def ordered_slots(rng: np.random.Generator, n_pages: int) -> SimulatedLog:
    """The first slot is clicked twice as often; the candidate says what stands in which slot."""
    world, slot_weights = new_world(rng), np.array([4 / 3, 2 / 3])
    chances = (1 - EXPLORE) * new_mix(rng) + EXPLORE * N_SLOTS / N_LINKS
    shown = np.array([rng.permutation(dependent_rounding(chances, rng)) for _ in range(n_pages)])
    clicked, revenue = feedback(shown, world.clicks[shown] * slot_weights, world.per_click, rng)
    log = as_log(
        shown,
        clicked,
        revenue,
        probability=chances[shown].ravel(),
        slot_probability=chances[shown].ravel() / N_SLOTS,
    )
    wanted = [rng.dirichlet(np.ones(N_LINKS)) for _ in range(N_SLOTS)]
    mix = LinkMix(
        {(str(k + 1),): dict(zip(LINKS, wanted[k].tolist(), strict=True)) for k in range(N_SLOTS)},
        by_slot=True,
    )
    placed = (slot_weights[:, None] * np.array(wanted)).sum(axis=0)
    worth = placed @ world.clicks, placed @ (world.clicks * world.per_click)
    return SimulatedLog(log, mix, (float(worth[0]), float(worth[1])))


KINDS: Mapping[str, Callable[[np.random.Generator, int], SimulatedLog]] = {
    "fixed mix": fixed_mix,
    "default policy learning": default_policy,
    "drifting rates": drifting_rates,
    "segments": segments,
    "ordered slots": ordered_slots,
    "delayed feedback": delayed_feedback,
}
