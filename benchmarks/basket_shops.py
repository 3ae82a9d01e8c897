"""Shops whose sales differ in size, and the best pages that anybody could show in them.

A shop knows everything: how often each kind of visitor clicks on a link, puts it into the basket
and buys, what a sale brings, and how often the slots of a page are seen. The best mix of pages is a
linear program over the probability that a link is in a slot of the page of a kind of visitor,
solved by HiGHS. `benchmarks.combinations` compares the default policy with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_matrix, vstack

from benchmarks.shops import feature_shop
from slotwise import Rule

Floats = NDArray[np.float64]

N_LINKS, N_SLOTS = 30, 4
SLOT_EFFECTS = (1.5, 1.1, 0.8, 0.6)
"""How often the slots of a page are clicked on, relative to the average slot."""


@dataclass(frozen=True)
class Sizes:
    """What sales bring: the mean of each link, how single sales vary, and the limit given.

    The means of links are `usual * exp(sd * normal)`. A sale is within `spread` of the mean of its
    link, as a share of it. `limit` is `max_revenue` in terms of the largest sale. Where
    `pays_per_click`, every click is a sale. Where `dear_link_joins`, a link that sells for 90 times
    as much as the others joins after a tenth of the pages.
    """

    usual: float = 1.0
    sd: float = 0.0
    spread: float = 0.0
    limit: float = 1.0
    pays_per_click: bool = False
    dear_link_joins: bool = False


SIZES = {
    "equal sales": Sizes(),
    "equal sales, limit 50 times higher": Sizes(limit=50.0),
    "lognormal sales (sd 0.6)": Sizes(20.0, sd=0.6, spread=0.5),
    "lognormal sales (sd 1.2)": Sizes(20.0, sd=1.2, spread=0.5),
    "a dear link joins": Sizes(10.0, spread=0.5, dear_link_joins=True),
    "pay per click": Sizes(0.2, sd=1.0, pays_per_click=True),
}

FEATURES: dict[str, tuple[int, ...]] = {
    "no features": (),
    "one feature": (6,),
    "five features": (2, 2, 2, 3, 3),
    "two open lists of words": (9, 7),
}
"""How many values the features of visitors have."""

DEAR_CLICKS, DEAR_SALES, DEAR_PRICE = 0.10, 0.05, 90.0
"""The rates of the dear link, and its price in those of the others."""


@dataclass(frozen=True)
class Shop:
    """Everything that decides what a page brings.

    `rates[level, kind, link]` is the share of the views of a link in an average slot that reach a
    level before the last, given that they reached the one before. `amounts` are the mean amounts of
    a sale, `shares` the shares of the kinds of visitors. The last link is the one that joins, where
    one does.
    """

    sizes: Sizes
    features: Mapping[str, Any]
    visitors: tuple[Mapping[str, Any], ...]
    shares: Floats
    rates: Floats
    amounts: Floats
    slot_effects: Floats

    @property
    def n_links(self) -> int:
        """How many links there are, with the one that joins."""
        return len(self.amounts)

    @property
    def n_links_at_first(self) -> int:
        """How many links there are before one joins."""
        return self.n_links - self.sizes.dear_link_joins

    @property
    def max_revenue(self) -> float:
        """The `max_revenue` that the shop declares."""
        return float(self.sizes.limit * (1.0 + self.sizes.spread) * self.amounts.max())

    def outcomes(self) -> Floats:
        """Return what a view in an average slot is expected to bring: level, kind, link.

        The last level is money.
        """
        reached = np.cumprod(self.rates, axis=0)
        return np.concatenate([reached[:-1], reached[-1:] * self.amounts])


def make_shop(
    sizes: Sizes, feature_sizes: Sequence[int], slots_differ: bool, has_baskets: bool, seed: int
) -> Shop:
    """Draw a shop; `has_baskets` adds the basket as a level between the click and the sale."""
    rng = np.random.default_rng([seed, 1])
    drawn = feature_shop(N_LINKS, feature_sizes or (1,), 0.7, seed)
    known = drawn.visitor_rates(1)
    clicks = np.minimum(0.6, known.rates[:, 0])
    sales = known.rates[:, 1] / known.rates[:, 0]
    baskets = 1.0 / (1.0 + np.exp(-0.3 - 0.8 * rng.normal(size=N_LINKS)))
    amounts = sizes.usual * np.exp(sizes.sd * rng.normal(size=N_LINKS))
    if sizes.pays_per_click:
        sales = np.ones_like(sales)
    if sizes.dear_link_joins:
        clicks = np.column_stack([clicks, np.full(len(clicks), DEAR_CLICKS)])
        sales = np.column_stack([sales, np.full(len(sales), DEAR_SALES)])
        amounts = np.append(amounts, DEAR_PRICE * sizes.usual)
        baskets = np.append(baskets, 1.0)
    levels = [clicks, np.tile(baskets, (len(clicks), 1)), sales] if has_baskets else [clicks, sales]
    visitors: tuple[Mapping[str, Any], ...] = ({},)
    features: dict[str, Any] = {}
    if feature_sizes:
        names = [f"feature_{f}" for f in range(len(feature_sizes))]
        values = np.array(np.unravel_index(np.arange(len(clicks)), tuple(feature_sizes))).T
        visitors = tuple(
            {name: f"v{v}" for name, v in zip(names, kind, strict=True)} for kind in values
        )
        features = {
            name: tuple(f"v{v}" for v in range(size))
            for name, size in zip(names, feature_sizes, strict=True)
        }
    return Shop(
        sizes=sizes,
        features=features,
        visitors=visitors,
        shares=np.asarray(known.shares),
        rates=np.array(levels),
        amounts=amounts,
        slot_effects=np.array(SLOT_EFFECTS if slots_differ else (1.0,) * N_SLOTS),
    )


def some_rules(shop: Shop) -> tuple[Rule, ...]:
    """Return a cap on links that earn much, and guarantees for links that earn little."""
    earning = np.argsort(-(shop.shares @ shop.outcomes()[-1])[: shop.n_links_at_first]).tolist()
    return (
        Rule("cap", links=earning[:6], at_most=2),
        Rule("guarantee", links=earning[8:16], at_least=1),
        Rule("one link", links=earning[20:21], at_least=0.25),
    )


class Demand(NamedTuple):
    """A floor: at least so much of a level per page view of these kinds of visitors."""

    level: int
    kinds: NDArray[np.bool_]
    least: float


class PageProgram:
    """The linear program of the pages of a shop within rules, with its first `n_links` links.

    Where slots are alike, the variables are the inclusion probabilities; where they differ, the
    probabilities that a link is in a slot. The order of links is part of the optimum then.
    """

    def __init__(self, shop: Shop, n_links: int, rules: Sequence[Rule]) -> None:
        self.shop = shop
        effects = shop.slot_effects
        are_alike = bool((effects == effects[0]).all())
        self._effects = np.ones(1) if are_alike else effects
        self._outcomes = shop.outcomes()[:, :, :n_links]
        shape = (len(shop.shares), n_links, len(self._effects))
        index = np.arange(np.prod(shape)).reshape(shape)
        self._filled = _sums(index.transpose(0, 2, 1).reshape(-1, n_links), index.size)
        self._places = np.full(self._filled.shape[0], N_SLOTS / len(self._effects))
        # Rows that are at most a number: a link is on a page once, and the rules.
        self._rows = [_sums(index.reshape(-1, len(self._effects)), index.size)]
        self._most = [1.0] * (shape[0] * n_links)
        for rule in rules:
            of_rule = _sums(index[:, list(rule.links)].reshape(shape[0], -1), index.size)
            if rule.at_most is not None:
                self._rows.append(of_rule)
                self._most += [rule.at_most] * shape[0]
            if rule.at_least > 0.0:
                self._rows.append(-of_rule)
                self._most += [-rule.at_least] * shape[0]

    def _weights(self, level: int, kinds: NDArray[np.bool_]) -> Floats:
        """Return what each variable adds to a level, per page view of these kinds."""
        shares = np.where(kinds, self.shop.shares, 0.0) / self.shop.shares[kinds].sum()
        of_views = shares[:, None, None] * self._outcomes[level][:, :, None] * self._effects
        return np.asarray(of_views).ravel()

    def everybody(self) -> NDArray[np.bool_]:
        """Return all kinds of visitors."""
        return np.ones(len(self.shop.shares), bool)

    def brings(self, mix: Floats, level: int, kinds: NDArray[np.bool_]) -> float:
        """Return what a mix of pages brings at a level, per page view of these kinds."""
        return float(self._weights(level, kinds) @ mix)

    def best(self, demands: Sequence[Demand] = (), level: int = -1, kinds: Any = None) -> Floats:
        """Return the mix that brings most of a level, money by default, and keeps the demands."""
        floors = [csr_matrix(-self._weights(one.level, one.kinds)) for one in demands]
        found = linprog(
            -self._weights(level, self.everybody() if kinds is None else kinds),
            A_ub=vstack([*self._rows, *floors]),
            b_ub=[*self._most, *(-one.least for one in demands)],
            A_eq=self._filled,
            b_eq=self._places,
            bounds=(0.0, 1.0),
            method="highs",
        )
        if not found.success:
            raise ValueError(f"the best mix of pages was not found: {found.message}")
        return np.asarray(found.x)


def _sums(groups: NDArray[np.int64], n_variables: int) -> Any:
    """Return the matrix whose rows sum the variables of each row of `groups`."""
    rows = np.repeat(np.arange(len(groups)), groups.shape[1])
    return csr_matrix((np.ones(groups.size), (rows, groups.ravel())), (len(groups), n_variables))


def halfway(
    program: PageProgram, level: int, kinds: NDArray[np.bool_], demands: Sequence[Demand] = ()
) -> Demand:
    """Return the floor halfway from what the best mix brings at a level to the most possible."""
    free = program.brings(program.best(demands), level, kinds)
    most = program.brings(program.best(demands, level, kinds), level, kinds)
    return Demand(level, kinds, 0.5 * (free + most))
