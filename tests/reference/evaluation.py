"""Slow, obvious twins of evaluation from logs: rows are dictionaries, pages are lists of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Page = Sequence[Row]


def pages_of(rows: Sequence[Row]) -> list[list[Row]]:
    pages: dict[str, list[Row]] = {}
    for row in rows:
        pages.setdefault(row["page_id"], []).append(row)
    return list(pages.values())


def weight(mix: Mapping[str, float], row: Row) -> float:
    return mix.get(row["link"], 0.0) / float(row["probability"])


def ips(pages: Sequence[Page], mix: Mapping[str, float], level: str) -> float:
    value = 0.0
    for page in pages:
        for row in page:
            value += weight(mix, row) * row[level]
    return value / len(pages)


def self_normalised(pages: Sequence[Page], mix: Mapping[str, float], level: str) -> float:
    total = sum(weight(mix, row) for page in pages for row in page)
    return sum(mix.values()) * ips(pages, mix, level) * len(pages) / total


def clipped(pages: Sequence[Page], mix: Mapping[str, float], level: str, clip: float) -> float:
    value = 0.0
    for page in pages:
        for row in page:
            value += min(weight(mix, row), clip) * row[level]
    return value / len(pages)


def doubly_robust(
    pages: Sequence[Page],
    mix: Mapping[str, float],
    level: str,
    model: Callable[[int], Mapping[str, float]],
) -> float:
    """`model(t)` predicts for page t from the pages before it."""
    value = 0.0
    for number, page in enumerate(pages):
        predicted = model(number)
        value += sum(share * predicted.get(link, 0.0) for link, share in mix.items())
        for row in page:
            value += weight(mix, row) * (row[level] - predicted.get(row["link"], 0.0))
    return value / len(pages)


def effective_sample_size(pages: Sequence[Page], mix: Mapping[str, float]) -> float:
    weights = [weight(mix, row) for page in pages for row in page]
    return sum(weights) ** 2 / sum(w * w for w in weights) / sum(mix.values())


def lower_total(
    values: Sequence[float],
    centres: Sequence[float],
    bets: Sequence[float],
    weights: Sequence[float],
    alpha: float,
) -> float:
    """The smallest total of means that the bets allow, by halving; values are at least 0."""

    def capital(total: float) -> float:
        logs = []
        for bet, share in zip(bets, weights, strict=True):
            log = math.log(share) - bet * total
            for value, centre in zip(values, centres, strict=True):
                near = min(centre, 0.75 / bet)
                log += math.log(1.0 + bet * (value - near)) + bet * near
            logs.append(log)
        top = max(logs)
        return top + math.log(sum(math.exp(log - top) for log in logs))

    low, high = -1e6, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if capital(middle) > -math.log(alpha) else (low, middle)
    return (low + high) / 2
