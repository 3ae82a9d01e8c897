"""The floor program under rules as a linear program for HiGHS, and rounding by its definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from tests.reference.rounding import INTEGRAL

Floats = NDArray[np.float64]


class Asked(NamedTuple):
    """A rule: so many slots for these links, at least and at most."""

    links: NDArray[np.int64]
    least: float
    most: float


def _solve(
    value: Floats, rows: list[Floats], most: list[float], n_slots: int
) -> tuple[float, Floats] | None:
    """Return the largest value with `rows . x <= most`, and a page; None where there is none."""
    found = linprog(
        -value,
        A_ub=np.array(rows) if rows else None,
        b_ub=np.array(most) if rows else None,
        A_eq=np.ones((1, len(value))),
        b_eq=[n_slots],
        bounds=(0, 1),
        method="highs",
    )
    return (-found.fun, found.x) if found.status == 0 else None


class Program:
    """Rules settled one after the other, each as far as those before it allow.

    Pins, exclusions, caps, guarantees; of caps, those listed last give way where the page cannot be
    filled. A row says `row . x <= most`.
    """

    def __init__(
        self,
        asked: Sequence[Asked],
        n_links: int,
        n_slots: int,
        pinned: Sequence[int] = (),
        excluded: Sequence[int] = (),
    ) -> None:
        self.n_links, self.n_slots = n_links, n_slots
        self.rows: list[Floats] = []
        self.most: list[float] = []
        self.granted: list[tuple[float, float]] = []
        for link in pinned:
            self._add(np.array([link]), -1.0, -1.0)
        for link in set(excluded) - set(pinned):
            self._add(np.array([link]), 1.0, 0.0)
        caps = []
        for rule in asked:
            fewest = -self._best(rule.links, -1.0)
            caps.append(max(rule.most, fewest))
            self._add(rule.links, 1.0, caps[-1])
        for rule, cap in zip(asked, caps, strict=True):
            least = min(rule.least, self._best(rule.links, 1.0))
            self._add(rule.links, -1.0, -least)
            self.granted.append((least, cap))

    def _row(self, links: NDArray[np.int64]) -> Floats:
        row = np.zeros(self.n_links)
        row[links] = 1.0
        return row

    def _add(self, links: NDArray[np.int64], sign: float, most: float) -> None:
        self.rows.append(sign * self._row(links))
        self.most.append(most + 1e-9)

    def _best(self, links: NDArray[np.int64], sign: float) -> float:
        found = _solve(sign * self._row(links), self.rows, self.most, self.n_slots)
        assert found is not None
        return found[0]

    def best(self, value: Floats, clicks: Floats, floor: float) -> float | None:
        """Return the most value within the rules that keeps the floor; None out of reach."""
        found = _solve(value, [*self.rows, -clicks], [*self.most, -floor], self.n_slots)
        return None if found is None else found[0]


def best_within(
    value: Floats, clicks: Floats, n_slots: int, floor: float, granted: Sequence[Asked]
) -> float | None:
    """Return the most value within rules that can all be kept, as one linear program."""
    rows, most = [-clicks], [-floor]
    for rule in granted:
        row = np.zeros(len(value))
        row[rule.links] = 1.0
        rows += [row, -row]
        most += [rule.most, -rule.least]
    found = _solve(value, rows, most, n_slots)
    return None if found is None else found[0]


def is_within(page: Floats, granted: Sequence[Asked], tolerance: float = 1e-9) -> bool:
    """Say whether a page is a page, and within rules."""
    is_page = bool(((page >= -tolerance) & (page <= 1.0 + tolerance)).all())
    sums = [float(page[rule.links].sum()) for rule in granted]
    return is_page and all(
        rule.least - tolerance <= total <= rule.most + tolerance
        for rule, total in zip(granted, sums, strict=True)
    )


def draw_by_groups(
    probabilities: Floats, groups: Sequence[Sequence[int]], rng: np.random.Generator
) -> list[int]:
    """Return a page: round pairs inside each group, then what is open with that of other groups."""
    x = probabilities.copy()

    def is_open(link: int) -> bool:
        return bool(INTEGRAL < x[link] < 1.0 - INTEGRAL)

    def round_pairs(links: Sequence[int]) -> list[int]:
        held: int | None = None
        for link in links:
            if not is_open(link):
                continue
            if held is None:
                held = link
                continue
            up, down = min(1.0 - x[held], x[link]), min(x[held], 1.0 - x[link])
            change = up if rng.random() * (up + down) < down else -down
            x[held], x[link] = x[held] + change, x[link] - change
            still = [one for one in (held, link) if is_open(one)]
            held = still[0] if still else None
        return [] if held is None else [held]

    carried: list[int] = []
    for group in groups:
        carried = round_pairs([*carried, *round_pairs(group)])
    return [link for link in range(len(x)) if x[link] > 0.5]
