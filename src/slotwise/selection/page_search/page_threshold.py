"""The score of a page's last link, found by counting.

One pass in vectors counts the scores above a bound and finds the scores on both sides of it. Each
pass narrows the interval in which the threshold lies: first by the density of scores near the
expected threshold, then by interpolation, until one score is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from slotwise.selection.compiled import inner, int64
from slotwise.selection.vectors.score_passes import LANES, neighbours

__all__ = ["find_threshold"]


@inner
def find_threshold(
    scores: NDArray[np.float64],
    n_listed: int,
    n_slots: int,
    below: float,
    above: float,
    n_above: int,
    first_gap: float,
) -> tuple[float, float]:
    """Return the score of the page's last link: `n_slots` scores reach it, fewer exceed it.

    `below`, `above` and `n_above` are the `neighbours` of where it is expected. `first_gap` is how
    far apart scores are near it, as far as is known; what is returned beside the threshold is the
    better guess for the next one. Both guesses change the work, not the answer.
    """
    n_blocks = (n_listed + LANES - 1) // LANES
    # it lies in [least, most]: `n_reaching` scores reach `least`, `n_exceeding` exceed `most`
    least, n_reaching, is_least_known = -np.inf, n_listed, False
    most, n_exceeding, is_most_known = np.inf, int64(0), False
    gap, attempt = first_gap, 0
    while True:
        if n_above >= n_slots:
            least, n_reaching, is_least_known = above, n_above, True
        else:
            most, n_exceeding, is_most_known = below, n_above, True
        if least >= most or (is_most_known and n_exceeding == n_slots - 1):
            return most, first_gap
        if is_least_known and n_reaching == n_slots:
            return least, first_gap
        n_below, n_beyond = n_reaching - n_slots, n_slots - 1 - n_exceeding
        if is_least_known and (n_below == 1 or not is_most_known):
            bound = least
            if n_below > 1:
                bound += (n_below + 0.5) * gap
                gap *= 2.0
        elif n_beyond == 1 or not is_least_known:
            bound = most - 1.2e-16 * abs(most) - 1e-320
            if n_beyond > 1:
                bound = min(bound, most - (n_beyond + 0.5) * gap)
                gap *= 2.0
        elif attempt % 4 == 3 and least > 0.0:
            # scores of very different size: interpolation would step from one to the next
            bound = np.sqrt(least) * np.sqrt(most)
        else:
            share = 0.5 if attempt % 4 == 3 else n_below / (n_below + n_beyond)
            bound = least + share * (most - least)
        if not least <= bound < most:
            bound = least
        was_above = n_above >= n_slots
        below, above, n_above = neighbours(scores, n_blocks, bound)
        if attempt == 0:
            went_too_far = (n_above >= n_slots) != was_above
            first_gap = min(1.0, max(1e-15, (0.8 if went_too_far else 1.2) * first_gap))
        attempt += 1
