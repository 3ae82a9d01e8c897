"""Page order and slot weights as their module describes them, slow and obvious."""

from __future__ import annotations

from collections.abc import Sequence


def best_order(worth: Sequence[float], weights: Sequence[float]) -> list[int]:
    """Return for each slot which entry stands there: the k-th best in the k-th best slot."""
    entries = sorted(range(len(worth)), key=lambda entry: -worth[entry])
    slots = sorted(range(len(weights)), key=lambda slot: -weights[slot])
    page = [0] * len(worth)
    for entry, slot in zip(entries, slots, strict=True):
        page[slot] = entry
    return page


def learned_weights(clicks: Sequence[float]) -> list[float]:
    """Return the weights that clicks on pages in random order show."""
    n_slots = len(clicks)
    total = sum(clicks) + n_slots
    raw = [n_slots * (count + 1) / total for count in clicks]
    noise = (n_slots - 1) / total
    beyond = max(0.0, sum((weight - 1) ** 2 for weight in raw) / n_slots - noise)
    kept = beyond / (beyond + noise) if beyond else 0.0
    return [1 + kept * (weight - 1) for weight in raw]
