"""The order of a page whose slots differ: the link worth most goes to the best slot.

    P(click on link i in slot l) = weight_l * rate_i,   weights with mean 1

Unknown weights are learned from pages in random order. There every link is equally likely in every
slot, regardless of link and visitor, so that clicks by slot depend on the weights alone:

    raw_l    = n_slots (C_l + 1) / (C + n_slots),   C_l the clicks in slot l, C those of all slots
    noise    = (n_slots - 1) / (C + n_slots),       the variance of raw_l where all slots are alike
    weight_l = 1 + s (raw_l - 1),   s = V / (V + noise),   V = [mean of (raw_l - 1)^2 - noise]+

Slots that are alike get weights of almost 1 by the shrinkage s. All pages are in random order until
`FIRST_CLICKS` clicks a slot were seen, then a share of them that falls with the number of clicks.
Used by `player`, `policies` and `simulation`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats, Links
from slotwise.compile import hot
from slotwise.problem import EQUAL, LEARN, Problem
from slotwise.selection.uniforms import next_uniform

FIRST_CLICKS = 10.0
"""Clicks per slot on pages in random order before the first page is ordered."""
LEAST_SHARE = 0.01
"""Share of pages that stay in random order."""
SHARE = 0.25
"""That share is `SHARE` over the root of the clicks per slot, if this is larger."""


class PageOrder(NamedTuple):
    """Slot weights and the slots from best to worst; both are empty if pages have no order.

    Where slots are equal all weights are 1, and every page `is_shuffled`. `clicks` are those on
    pages in random order, by slot. `worth`, `held` and `held_probabilities` are buffers for one
    page; a caller writes the score of each link of the page to `worth`.
    """

    weights: Floats
    best_first: Links
    clicks: Floats
    is_learned: bool
    is_shuffled: bool
    worth: Floats
    held: Links
    held_probabilities: Floats


def new_page_order(problem: Problem) -> PageOrder:
    """Return the order of a problem's pages: known weights, or weights to be learned.

    >>> new_page_order(Problem(n_links=5, n_slots=2, slot_weights=(0.5, 1.5))).best_first.tolist()
    [1, 0]
    """
    n_slots = problem.n_slots if problem.slot_weights else 0
    is_named = isinstance(problem.slot_weights, str)
    weights = np.ones(n_slots) if is_named else np.array(problem.slot_weights, np.float64)
    return PageOrder(
        weights=weights,
        best_first=np.argsort(-weights, kind="stable"),
        clicks=np.zeros(n_slots),
        is_learned=problem.slot_weights == LEARN,
        is_shuffled=problem.slot_weights == EQUAL,
        worth=np.zeros(problem.n_slots),
        held=np.zeros(problem.n_slots, np.int64),
        held_probabilities=np.zeros(problem.n_slots),
    )


def weights_of(problem: Problem) -> Floats:
    """Return the known weights of a problem's slots, or those to be learned; none if alike."""
    return np.zeros(0) if problem.slot_weights == EQUAL else new_page_order(problem).weights


def with_slot_weights(state: Any, order: PageOrder) -> Any:
    """Return a policy's state that shares the weights of an order, as they are learned."""
    if order.is_shuffled or not len(order.weights) or not hasattr(state, "slot_weights"):
        return state
    return state._replace(slot_weights=order.weights)


@hot
def share_in_random_order(order: PageOrder) -> float:
    """Return the share of pages that are in random order now."""
    if not order.is_learned:
        return 1.0 if order.is_shuffled else 0.0
    total = 0.0
    for slot in range(len(order.clicks)):
        total += order.clicks[slot]
    per_slot = total / len(order.clicks)
    if per_slot < FIRST_CLICKS:
        return 1.0
    return max(LEAST_SHARE, SHARE / math.sqrt(per_slot))


@hot
def order_page(
    order: PageOrder, rng: np.random.Generator, shown: Links, probabilities: Floats
) -> bool:
    """Put the links of a page into slot order by `order.worth`; return whether the order is random.

    Links with equal scores are in random order.
    """
    worth, held, kept = order.worth, order.held, order.held_probabilities
    n_slots = len(shown)
    for k in range(n_slots - 1, 0, -1):
        other = int(next_uniform(rng) * (k + 1))
        shown[k], shown[other] = shown[other], shown[k]
        worth[k], worth[other] = worth[other], worth[k]
        probabilities[k], probabilities[other] = probabilities[other], probabilities[k]
    share = share_in_random_order(order)
    if share > 0.0 and next_uniform(rng) < share:
        return True
    for k in range(n_slots):
        link, probability, value = shown[k], probabilities[k], worth[k]
        place = k
        while place > 0 and worth[place - 1] < value:
            worth[place] = worth[place - 1]
            held[place] = held[place - 1]
            kept[place] = kept[place - 1]
            place -= 1
        worth[place], held[place], kept[place] = value, link, probability
    for k in range(n_slots):
        shown[order.best_first[k]] = held[k]
        probabilities[order.best_first[k]] = kept[k]
    return False


@hot
def learn_slot_weights(order: PageOrder, clicks: Floats) -> None:
    """Record the clicks of a page in random order, one number per slot."""
    if not order.is_learned:
        return
    n_slots = len(order.clicks)
    total = float(n_slots)
    for slot in range(n_slots):
        order.clicks[slot] += clicks[slot]
        total += order.clicks[slot]
    set_weights(order, total)


@hot
def set_weights(order: PageOrder, total: float) -> None:
    """Compute the weights from the clicks; `total` includes one pseudo-click per slot."""
    weights, n_slots = order.weights, len(order.clicks)
    spread = 0.0
    for slot in range(n_slots):
        weights[slot] = n_slots * (order.clicks[slot] + 1.0) / total
        spread += (weights[slot] - 1.0) * (weights[slot] - 1.0) / n_slots
    noise = (n_slots - 1.0) / total
    beyond = max(0.0, spread - noise)
    kept = beyond / (beyond + noise) if beyond > 0.0 else 0.0
    for slot in range(n_slots):
        weights[slot] = 1.0 + kept * (weights[slot] - 1.0)
    for k in range(n_slots):  # from the first slot on: ties are in the order of the page
        slot, place = k, k
        while place > 0 and weights[order.best_first[place - 1]] < weights[slot]:
            order.best_first[place] = order.best_first[place - 1]
            place -= 1
        order.best_first[place] = slot


@hot
def expose(order: PageOrder, slots: Links, views: Floats, exposure: Floats) -> None:
    """Write views weighted by their slots: a view in a slot of weight 1.5 counts as 1.5."""
    for k in range(len(views)):
        weight = order.weights[slots[k]] if len(order.weights) > 0 and len(slots) > 0 else 1.0
        exposure[k] = weight * views[k]
