"""The score of a page's last link, found by counting.

Counting how many scores lie above a number takes one pass in vectors. From where the threshold is
expected, jumps by the density of scores lead near it, and steps from score to score find it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import inner, int64
from slotwise.selection.score_passes import LANES, least_above, most_below

__all__ = ["find_threshold"]

FEW = 8
"""Halving ends so many links from the threshold."""

MANY = 256
"""Among more listed links than this, those that tie at the end of the page are looked for first."""

FAR, NEAR = 60, 2
"""Links from the threshold on which it is sought by halving, and by steps from score to score."""

MAX_JUMPS = 8
"""More jumps than most thresholds need, unless many links tie."""


@inner
def _halve_to_threshold(scores: NDArray[np.float64], n_listed: int, n_slots: int) -> float:
    """Return a score that `n_slots` listed links reach and few more, unless more tie there."""
    if n_listed > MANY:
        # most of so many tie as a rule: one of them is likely at the end of the page
        middle = scores[n_listed // 2]
        n_higher = n_equal = int64(0)
        for k in range(n_listed):
            n_higher += scores[k] > middle
            n_equal += scores[k] == middle
        if n_higher < n_slots <= n_higher + n_equal:
            return middle
    low = most = scores[0]
    for k in range(n_listed):
        low = min(low, scores[k])
        most = max(most, scores[k])
    high, n_low = np.inf, n_listed
    for step in range(60):
        if n_low - n_slots <= FEW:
            break
        middle = 0.5 * (low + min(high, most))
        if step % 4 == 3:
            # halving does not part links that tie: try the best score below the upper one
            middle = low
            for k in range(n_listed):
                middle = max(middle, scores[k] if scores[k] < high else low)
        count = int64(0)
        for k in range(n_listed):
            count += scores[k] >= middle
        if count >= n_slots:
            low, n_low = middle, count
            if step % 4 == 3:
                break
        else:
            high = middle
    return low


@inner
def find_threshold(
    scores: NDArray[np.float64],
    n_listed: int,
    n_slots: int,
    expected: float,
    beyond: float,
    n_above: int,
    first_gap: float,
) -> tuple[float, float]:
    """Return the score of the page's last link: `n_slots` scores reach it, fewer exceed it.

    `beyond` and `n_above` are what `least_above` says of `expected`. `first_gap` is how far apart
    scores are near it, as far as is known; what is returned beside the threshold is the better
    guess for the next one. Both guesses change the work, not the answer.
    """
    n_blocks = (n_listed + LANES - 1) // LANES
    score, gap = expected, first_gap
    if abs(n_above - n_slots) > FAR:
        score = _halve_to_threshold(scores, n_listed, n_slots)
        beyond, n_above = least_above(scores, n_blocks, score)
    low, high = -np.inf, np.inf
    for jump in range(MAX_JUMPS):
        off = n_above - n_slots
        if abs(off) <= NEAR:
            break
        if off > 0:
            low = score
        else:
            high = score
        before, n_before = score, n_above
        score += off * gap
        if not low < score < high:
            if low == -np.inf or high == np.inf:
                break
            score = 0.5 * (low + high)
        beyond, n_above = least_above(scores, n_blocks, score)
        if jump == 0:
            went_too_far = (n_above > n_slots) != (off > 0)
            first_gap = min(1.0, max(1e-15, (0.8 if went_too_far else 1.2) * first_gap))
        if abs(n_before - n_above) > NEAR:
            gap = (score - before) / (n_before - n_above)
        else:
            gap *= 4.0
    if n_above >= n_slots:
        while n_above > n_slots:
            score = beyond
            beyond, n_above = least_above(scores, n_blocks, score)
        # where exactly the page is above, its last link is the next one
        return (beyond if n_above == n_slots else score), first_gap
    below, n_reaching = most_below(scores, n_blocks, score)
    while n_reaching < n_slots:
        score = below
        if n_reaching == n_slots - 1:
            break
        below, n_reaching = most_below(scores, n_blocks, score)
    return score, first_gap
