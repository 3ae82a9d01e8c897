"""Laws of revenue through the Selector: currencies, pay that doubles, sales of different sizes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from slotwise import Selector
from slotwise.policies import POLICIES
from tests.combinations.shop_play import FEATURES, SLOTS, Shop, a_visitor
from tests.selector.selectors import registered_policy

pytestmark = pytest.mark.compiled  # with and without features, as `test_slots` compiles it

N_LINKS, N_SLOTS = 8, 3

STEADY = [
    name
    for name, kind in POLICIES.items()
    if not kind.samples and name not in ("fixed-mix", "uniform")
]
"""Policies whose probabilities follow from what they know."""


def new_selector(kind: str, slots: str, **options: Any) -> Selector[int]:
    features = FEATURES[kind]
    return Selector(
        range(N_LINKS), N_SLOTS, seed=1, features=features, slot_weights=SLOTS[slots], **options
    )


def sell_every_link(selector: Selector[int], kind: str, n_pages: int) -> None:
    """Show pinned pages on which every click is a sale of 1, until each link has sold often."""
    rng = np.random.default_rng(6)
    for number in range(n_pages):
        shown = [(number + k) % N_LINKS for k in range(N_SLOTS)]
        page = selector.select(pin=shown, visitor=a_visitor(FEATURES[kind], rng))
        selector.update(page, clicks=shown[:1], revenue={shown[0]: 1.0}, shown=shown)


@pytest.mark.parametrize(
    ("slots", "floor"), [*((one, True) for one in SLOTS), ("slots learned", False)]
)
@pytest.mark.parametrize("kind", FEATURES)
def test_another_limit_gives_the_same_pages_once_every_link_has_sold(
    kind: str, slots: str, floor: bool
) -> None:
    """`max_revenue` says only what a link that has not sold yet may sell for.

    The factor is a power of two, so that no digit differs.
    """
    shop = Shop.drawn(N_LINKS, FEATURES[kind], seed=3)
    asked = {"click_floor": shop.floor_halfway(N_SLOTS)} if floor else {}
    pages = []
    for most in (1.0, 64.0):
        selector = new_selector(kind, slots, max_revenue=most, **asked)
        sell_every_link(selector, kind, 3 * N_LINKS)
        pages.append(shop.play(selector, 25))
    assert pages[0] == pages[1]


@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("kind", ["no features", "one feature"])
@pytest.mark.parametrize("policy", ["paced-bayes", "cucb", "con-ucb"])
def test_another_currency_gives_the_same_pages(policy: str, kind: str, slots: str) -> None:
    """Amounts and limit in a currency of which one buys 128."""
    shop = Shop.drawn(N_LINKS, FEATURES[kind], seed=4)
    pages = []
    for unit in (1.0, 128.0):
        selector = new_selector(
            kind, slots, policy=registered_policy(policy, N_LINKS, N_SLOTS), max_revenue=unit
        )
        priced = Shop(shop.click_rate, shop.sale_rate, unit * shop.amount, shop.features, 4)
        pages.append(priced.play(selector, 40))
    assert pages[0] == pages[1]


def history(selector: Selector[int], pay: np.ndarray, kind: str, seed: int) -> float:
    """Show the same pages in every call, pay for each click, and return the chance of link 0.

    Pins fill the pages and `shown` fixes their order, so that they do not depend on what is paid.
    """
    rng = np.random.default_rng(seed)
    visitor = None
    for _ in range(25):
        visitor = a_visitor(FEATURES[kind], rng)
        shown = rng.permutation(N_LINKS)[:N_SLOTS].tolist()
        clicks = [link for link in shown if rng.random() < 0.4]
        page = selector.select(pin=shown, visitor=visitor)
        money = {link: float(pay[link]) for link in clicks}
        selector.update(page, clicks=clicks, revenue=money, shown=shown)
    return float(selector.select(visitor=visitor).probabilities[0])


HISTORIES = {
    "slots equal": ["no features", "one feature"],
    "slots known": ["no features", "three features"],
    "slots learned": ["one feature", "three features"],
}
"""The features that the default has with each kind of slots; other policies have none."""


@pytest.mark.parametrize("floor", [0.0, 1.1], ids=["no floor", "floor"])
@pytest.mark.parametrize("slots", SLOTS)
@pytest.mark.parametrize("policy", STEADY)
def test_doubling_the_pay_of_a_link_never_makes_it_rarer(
    policy: str, slots: str, floor: float
) -> None:
    kinds = HISTORIES[slots] if policy == "paced-bayes" else ["no features"] * 2
    for seed, kind in enumerate(kinds):
        pay = np.random.default_rng([seed, 2]).uniform(0.05, 0.4, N_LINKS)
        dearer = np.where(np.arange(N_LINKS) == 0, 2.0 * pay, pay)
        asked = {"policy": registered_policy(policy, N_LINKS, N_SLOTS), "click_floor": floor}
        before, after = (
            history(new_selector(kind, slots, **asked), paid, kind, seed) for paid in (pay, dearer)
        )
        assert after >= before - 1e-9, (kind, seed)


def play_with_a_dear_link(kind: str, slots: str) -> float:
    """Return the share of pages with a dear link among the last pages after it has joined.

    Five links pay 0.02 to 0.03 for each of three clicks in ten, the dear one pays 1 for one click
    in ten: it earns more than ten times as much per view.
    """
    features = FEATURES[kind]
    shop = Shop(
        click_rate=np.array([0.3] * 5 + [0.1]),
        sale_rate=np.ones(6),
        amount=np.array([0.02, 0.0225, 0.025, 0.0275, 0.03, 1.0]),
        features=features,
        seed=5,
    )
    weights = "equal" if slots == "slots equal" else "learn"
    selector: Selector[int] = Selector(range(5), 2, seed=1, features=features, slot_weights=weights)
    shop.play(selector, 200)
    selector.add_links([5])
    pages = shop.play(selector, 600, first=200)
    return float(np.mean([5 in page for page in pages[400:]]))


@pytest.mark.parametrize(
    ("kind", "slots"),
    list(itertools.product(["no features", "one feature"], ["slots equal", "slots learned"])),
)
def test_a_dear_link_that_joins_is_found(kind: str, slots: str) -> None:
    """Seeded; it is shown on nearly all pages where revenue per click is not capped."""
    assert play_with_a_dear_link(kind, slots) > 0.9
