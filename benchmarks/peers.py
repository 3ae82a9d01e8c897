"""slotwise next to other packages: `python -m benchmarks.peers [--runs 3] [--views 8000]`.

Five simulated shops in which visitors differ. All players see the same visitors, and a visitor
clicks and buys the same whoever shows a link. There is no floor, because no peer has one. Feedback
is immediate. Reported are, with intervals of two standard errors over the runs:

    share of the gain   from the best page for all visitors (0 %) to the best page of each (100 %),
                        over the whole run, learning included
    revenue             against that of the best page of each visitor
    time                processor time of choosing and learning, a page view

The settings of every peer are those of its grid below that earned most on the two shops of
`tuning_shops`, which are not among those reported (`--tune --runs 1 --views 5000`; the first two of
Vowpal Wabbit were close and had three runs more). slotwise has its defaults. `--update FILE` writes
the numbers, from which the manual draws its figure.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.shops import feature_shop, segment_shop
from slotwise import SegmentLinks, Selector

Floats = NDArray[np.float64]
Settings = Mapping[str, Any]

SEED = 1
FEATURES = (2, 3, 4, 4, 5)


@dataclass(frozen=True)
class Shop:
    """Links, slots, and the visitors with their features."""

    name: str
    links: SegmentLinks
    n_slots: int

    @property
    def n_links(self) -> int:
        return self.links.n_links

    def visitors(self) -> list[dict[str, str]]:
        """Return the features of every kind of visitor."""
        return [self.links.features.describe(row) for row in self.links.visitor_rates(1).places]

    def one_hot(self) -> Floats:
        """Return the features of every kind as zeros and ones, after a constant."""
        places = self.links.visitor_rates(1).places
        rows = np.zeros((len(places), 1 + int(places.max()) + 1))
        rows[:, 0] = 1.0
        np.put_along_axis(rows, places + 1, 1.0, axis=1)
        return rows


def reported_shops() -> list[Shop]:
    """Return the shops of the report."""
    return [
        Shop("20 links, 4 segments", segment_shop(20, 4), 3),
        Shop("40 links, 6 segments", segment_shop(40, 6), 4),
        Shop("40 links, 12 segments", segment_shop(40, 12, seed=5), 4),
        Shop("40 links, 5 features", feature_shop(40, FEATURES, 1.0), 4),
        Shop("40 links, no effect", feature_shop(40, FEATURES, 0.0), 4),
    ]


def tuning_shops() -> list[Shop]:
    """Return other draws, on which the settings of the peers were chosen."""
    return [
        Shop("30 links, 5 segments", segment_shop(30, 5, seed=11), 4),
        Shop("30 links, 3 features", feature_shop(30, (3, 3, 4), 0.8, seed=12), 4),
    ]


class Player(Protocol):
    """What plays: it shows links to a kind of visitor and learns what they earned."""

    def show(self, kind: int) -> Sequence[int]:
        """Return the links of a page."""

    def learn(self, kind: int, shown: Sequence[int], clicks: Floats, revenue: Floats) -> None:
        """Learn from clicks and revenue of the links shown."""


class Slotwise:
    """The default policy of `slotwise.Selector`, with or without features."""

    def __init__(self, shop: Shop, seed: int, *, uses_features: bool = True) -> None:
        features = shop.links.features if uses_features else None
        self.visitors = shop.visitors() if uses_features else [None] * len(shop.visitors())
        self.selector = Selector(range(shop.n_links), shop.n_slots, features=features, seed=seed)

    def show(self, kind: int) -> Sequence[int]:
        self.page = self.selector.select(visitor=self.visitors[kind])
        return self.page.shown

    def learn(self, kind: int, shown: Sequence[int], clicks: Floats, revenue: Floats) -> None:
        clicked = [link for link, click in zip(shown, clicks, strict=True) if click]
        earned = {link: one for link, one in zip(shown, revenue, strict=True) if one}
        self.selector.update(self.page, clicks=clicked, revenue=earned)


class VowpalWabbit:
    """Conditional contextual bandit: an action for every slot, the cost is minus the revenue.

    Every feature of the visitor interacts with the id of the link; costs fit a linear model.
    """

    def __init__(self, shop: Shop, seed: int, *, explore: str, rate: float) -> None:
        import vowpalwabbit

        options = f"--ccb_explore_adf --cb_type mtr -q UA -l {rate} --power_t 0 {explore}"
        self.workspace = vowpalwabbit.Workspace(f"{options} --random_seed {seed + 1} --quiet")
        self.heads = [
            "ccb shared |U " + " ".join(f"{name.replace(' ', '_')}={v}" for name, v in who.items())
            for who in shop.visitors()
        ]
        self.actions = [f"ccb action |A id={link}" for link in range(shop.n_links)]
        self.slots = ["ccb slot |"] * shop.n_slots

    def show(self, kind: int) -> Sequence[int]:
        ranked = self.workspace.predict([self.heads[kind], *self.actions, *self.slots])
        self.drawn = [slot[0] for slot in ranked]  # the first of a slot is the one that was drawn
        return [link for link, _ in self.drawn]

    def learn(self, kind: int, shown: Sequence[int], clicks: Floats, revenue: Floats) -> None:
        labels = [
            f"ccb slot {link}:{-one}:{probability} |"
            for (link, probability), one in zip(self.drawn, revenue, strict=True)
        ]
        self.workspace.learn([self.heads[kind], *self.actions, *labels])


class MABWiser:
    """A linear policy for each link on one-hot features; the page has the highest expectations.

    `partial_fit` takes 5 ms however few rows it has, so it gets 20 page views at a time.
    """

    n_views = 20

    def __init__(self, shop: Shop, seed: int, *, policy: str, alpha: float) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        self.contexts, self.n_slots = shop.one_hot(), shop.n_slots
        arms = list(range(shop.n_links))
        self.mab = MAB(arms, getattr(LearningPolicy, policy)(alpha), seed=seed)
        self.mab.fit(arms, [0.0] * len(arms), np.zeros((len(arms), self.contexts.shape[1])))
        self.rows: list[tuple[int, float, int]] = []

    def show(self, kind: int) -> Sequence[int]:
        expected = self.mab.predict_expectations(self.contexts[kind : kind + 1])
        return sorted(expected, key=expected.get, reverse=True)[: self.n_slots]

    def learn(self, kind: int, shown: Sequence[int], clicks: Floats, revenue: Floats) -> None:
        self.rows += [(link, one, kind) for link, one in zip(shown, revenue, strict=True)]
        if len(self.rows) >= self.n_views * self.n_slots:
            links, rewards, kinds = zip(*self.rows, strict=True)
            self.mab.partial_fit(list(links), list(rewards), self.contexts[list(kinds)])
            self.rows = []


class River:
    """LinUCB: a Bayesian linear regression for each link, ranked by mean + width deviations.

    `river.bandit.LinUCBDisjoint` is made of the same regressions and returns one link; five pulls
    for five slots would compute every bound five times.
    """

    def __init__(self, shop: Shop, seed: int, *, width: float, noise: float) -> None:
        from river import linear_model

        self.width, self.n_slots = width, shop.n_slots
        self.visitors = [
            {"constant": 1.0} | {f"{name}={value}": 1.0 for name, value in who.items()}
            for who in shop.visitors()
        ]
        self.models = [
            linear_model.BayesianLinearRegression(beta=1.0 / noise) for _ in range(shop.n_links)
        ]
        self.rng = np.random.default_rng(seed)

    def show(self, kind: int) -> Sequence[int]:
        believed = [model.predict_one(self.visitors[kind], with_dist=True) for model in self.models]
        bounds = np.array([one.mu + self.width * one.sigma for one in believed])
        ties = self.rng.random(len(bounds))
        shown: list[int] = np.lexsort((ties, -bounds))[: self.n_slots].tolist()
        return shown

    def learn(self, kind: int, shown: Sequence[int], clicks: Floats, revenue: Floats) -> None:
        for link, one in zip(shown, revenue, strict=True):
            self.models[link].learn_one(self.visitors[kind], one)


class LogisticThompson:
    """Thompson sampling with two logistic models: a click, and a sale given a click.

    A logit is the sum of effects of the pool, of the link, of each value of a feature, and of each
    value on the link. Each effect has a normal posterior of its own, updated by one step of an
    extended Kalman filter; `pair_sd` is the prior deviation of a value's effect on a link.
    """

    def __init__(self, shop: Shop, seed: int, *, pair_sd: float, width: float) -> None:
        contexts = shop.one_hot()
        self.active = [np.flatnonzero(row) for row in contexts]
        n_values, n_links = contexts.shape[1], shop.n_links
        shared, own = np.full(n_values, 0.5), np.full((n_values, n_links), pair_sd)
        shared[0], own[0] = 1.0, 1.0  # the constant: the effects of the pool and of a link
        self.variance = [[shared**2, own**2] for _ in range(2)]
        self.mean = [[np.zeros(n_values), np.zeros((n_values, n_links))] for _ in range(2)]
        self.mean[0][0][0], self.mean[1][0][0] = -2.5, -1.5
        self.width, self.n_slots, self.rng = width, shop.n_slots, np.random.default_rng(seed)

    def show(self, kind: int) -> Sequence[int]:
        worth: Any = 1.0
        for (shared, own), (shared_var, own_var) in zip(self.mean, self.variance, strict=True):
            rows = self.active[kind]
            mean = shared[rows].sum() + own[rows].sum(axis=0)
            deviation = np.sqrt(shared_var[rows].sum() + own_var[rows].sum(axis=0))
            logit = mean + self.width * deviation * self.rng.normal(size=len(mean))
            worth = worth / (1.0 + np.exp(-logit))
        shown: list[int] = np.argsort(-worth)[: self.n_slots].tolist()
        return shown

    def learn(self, kind: int, shown: Sequence[int], clicks: Floats, revenue: Floats) -> None:
        rows = self.active[kind]
        for place, link in enumerate(shown):
            self._step(0, rows, link, clicks[place])
            if clicks[place]:
                self._step(1, rows, link, revenue[place])

    def _step(self, level: int, rows: NDArray[np.int64], link: int, outcome: float) -> None:
        (shared, own), (shared_var, own_var) = self.mean[level], self.variance[level]
        rate = 1.0 / (1.0 + math.exp(-(shared[rows].sum() + own[rows, link].sum())))
        slope = rate * (1.0 - rate)
        total = 1.0 + slope * (shared_var[rows].sum() + own_var[rows, link].sum())
        for mean, variance, at in ((shared, shared_var, rows), (own, own_var, (rows, link))):
            mean[at] += variance[at] * (outcome - rate) / total
            variance[at] -= variance[at] ** 2 * slope / total


@dataclass(frozen=True)
class Peer:
    """A player, its settings, and those among which they were chosen."""

    name: str
    package: str
    make: Callable[..., Player]
    settings: Settings
    grid: Sequence[Settings] = ()

    def is_installed(self) -> bool:
        """Whether its package can be imported."""
        try:
            importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return False
        return True


EXPLORING = ("--epsilon 0.05", *(f"--squarecb --gamma_scale {scale}" for scale in (10, 100, 1000)))
PEERS = (
    Peer("slotwise", "slotwise", Slotwise, {}),
    Peer("slotwise, no features", "slotwise", Slotwise, {"uses_features": False}),
    Peer(
        "logistic Thompson sampling",
        "numpy",
        LogisticThompson,
        {"pair_sd": 1.0, "width": 0.35},
        [{"pair_sd": sd, "width": w} for sd in (0.5, 1.0, 2.0) for w in (0.35, 0.5, 0.7)],
    ),
    Peer(
        "Vowpal Wabbit, CCB",
        "vowpalwabbit",
        VowpalWabbit,
        {"explore": "--squarecb --gamma_scale 100", "rate": 0.5},
        [{"explore": one, "rate": r} for one in EXPLORING for r in (0.1, 0.5, 2.0)],
    ),
    Peer(
        "MABWiser",
        "mabwiser",
        MABWiser,
        {"policy": "LinTS", "alpha": 0.15},
        [{"policy": p, "alpha": a} for p in ("LinUCB", "LinTS") for a in (0.05, 0.15, 0.5)],
    ),
    Peer(
        "river",
        "river",
        River,
        {"width": 1.0, "noise": 0.2},
        [{"width": w, "noise": n} for w in (0.5, 1.0, 2.0) for n in (0.02, 0.2)],
    ),
)


@dataclass(frozen=True)
class Played:
    """What a player earned in one run."""

    share: float
    revenue: float
    blind: float
    """What the best page for all visitors earns, against the best page of each."""
    micros: float


def play(peer: Peer, settings: Settings, shop: Shop, n_views: int, run: int) -> Played:
    """Play one run; visitors and their outcomes depend on shop and run only."""
    known = shop.links.visitor_rates(1)
    revenue = known.rates[:, 1]
    per_click = revenue / known.rates[:, 0]
    rng = np.random.default_rng(np.random.SeedSequence(SEED, spawn_key=(run,)))
    kinds = rng.choice(len(known.shares), n_views, p=known.shares)
    luck = rng.random((n_views, 2, shop.n_links), dtype=np.float32)
    player = peer.make(shop, seed=run, **settings)
    earned, spent = 0.0, 0.0
    for view, kind in enumerate(kinds):
        began = time.process_time()
        shown = player.show(int(kind))
        spent += time.process_time() - began
        links = np.array(shown)
        clicks = (luck[view, 0, links] < known.rates[kind, 0, links]).astype(float)
        sales = clicks * (luck[view, 1, links] < per_click[kind, links])
        began = time.process_time()
        player.learn(int(kind), shown, clicks, sales)
        spent += time.process_time() - began
        earned += float(revenue[kind, links].sum())
    best = float(known.shares @ np.sort(revenue, axis=1)[:, -shop.n_slots :].sum(axis=1))
    page = np.argsort(known.shares @ revenue)[-shop.n_slots :]
    # Of the visitors that came, not of the shares: luck with visitors is nobody's merit.
    blind_earned = float(revenue[kinds][:, page].sum())
    best_earned = float(np.sort(revenue, axis=1)[kinds, -shop.n_slots :].sum())
    has_gain = best > 1.001 * float((known.shares @ revenue)[page].sum())
    gain = (earned - blind_earned) / (best_earned - blind_earned) if has_gain else math.nan
    return Played(gain, earned / best_earned, blind_earned / best_earned, 1e6 * spent / n_views)


def interval(numbers: Sequence[float]) -> list[float]:
    """Return the mean and two standard errors."""
    spread = 2.0 * np.std(numbers, ddof=1) / math.sqrt(len(numbers)) if len(numbers) > 1 else 0.0
    return [float(np.mean(numbers)), float(spread)]


def report(n_runs: int, n_views: int, shops: Sequence[Shop], peers: Sequence[Peer]) -> Any:
    """Play all peers in all shops; return what the JSON file has."""
    rows = []
    for peer in peers:
        play(peer, peer.settings, shops[0], 50, 0)  # loads and compiles what is needed
        for shop in shops:
            runs = [play(peer, peer.settings, shop, n_views, run) for run in range(n_runs)]
            row: dict[str, Any] = {"peer": peer.name, "shop": shop.name}
            row |= {
                name: interval([getattr(one, name) for one in runs])
                for name in ("share", "revenue", "micros")
            }
            row["blind"] = runs[0].blind
            if math.isnan(row["share"][0]):
                row["share"] = None
            print(as_line(row), flush=True)
            rows.append(row)
    return {
        "command": f"python -m benchmarks.peers --runs {n_runs} --views {n_views}",
        "runs": n_runs,
        "views": n_views,
        "seed": SEED,
        "versions": {peer.package: importlib.metadata.version(peer.package) for peer in peers},
        "settings": {peer.name: dict(peer.settings) for peer in peers},
        "rows": rows,
    }


def as_line(row: Mapping[str, Any]) -> str:
    """Return what one player earned in one shop."""
    return f"{row['shop']}, {row['peer']}: {_earned(row)}, {row['micros'][0]:,.0f} µs a page view"


def _earned(row: Mapping[str, Any]) -> str:
    revenue = "{:.1f} ± {:.1f}".format(*(100 * one for one in row["revenue"]))
    if row["share"] is None:
        return revenue
    share, error = (100 * one for one in row["share"])
    return f"{share:.0f} ± {error:.0f} % ({revenue})"


def as_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table with a row for each player and a column for each shop."""
    shops = list(dict.fromkeys(row["shop"] for row in rows))
    lines = ["| | " + " | ".join([*shops, "µs a page view"]) + " |"]
    lines.append("| --- |" + " ---: |" * (len(shops) + 1))
    for name in dict.fromkeys(row["peer"] for row in rows):
        own = [row for row in rows if row["peer"] == name]
        least, most = (end(row["micros"][0] for row in own) for end in (min, max))
        cells = [name, *(_earned(row) for row in own), f"{least:,.0f} to {most:,.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def tune(peers: Sequence[Peer], n_runs: int, n_views: int) -> None:
    """Print the mean revenue of every setting of the grids on the tuning shops, the best first."""
    for peer in peers:
        found = []
        for settings in peer.grid:
            played = [
                play(peer, settings, shop, n_views, run).revenue
                for shop in tuning_shops()
                for run in range(n_runs)
            ]
            found.append((float(np.mean(played)), settings))
        for revenue, settings in sorted(found, key=lambda one: -one[0]):
            print(f"{peer.name}: {100 * revenue:.2f} % {dict(settings)}", flush=True)


def main() -> None:
    """Play what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--views", type=int, default=8_000)
    parser.add_argument("--peers", help="parts of names, separated by commas")
    parser.add_argument("--tune", action="store_true", help="play the grids on the tuning shops")
    parser.add_argument("--update", type=Path, metavar="FILE", help="write the numbers as JSON")
    asked = parser.parse_args()
    os.environ.setdefault("SLOTWISE_COMPILE", "first")
    names = (asked.peers or "").split(",")
    peers = [peer for peer in PEERS if any(name in peer.name for name in names)]
    for peer in peers:
        if not peer.is_installed():
            print(f"{peer.name}: skipped; pip install 'slotwise[compare]'")
    peers = [peer for peer in peers if peer.is_installed()]
    if asked.tune:
        tune(peers, asked.runs, asked.views)
        return
    found = report(asked.runs, asked.views, reported_shops(), peers)
    print(as_table(found["rows"]))
    print(", ".join(f"{name} {version}" for name, version in found["versions"].items()))
    if asked.update is not None:
        asked.update.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
