"""Intervals for the mean of page values that hold at every length of the log at once.

The bounded quantity is m = sum of mu_t, where mu_t is the expected outcome of the candidate on page
t, given everything before page t. The rates may drift, the logging policy may learn and the
candidate may change from page to page, as long as it is fixed before the page. With a fixed bet b
and a centre c_t that is known before page t,

    E[1 + b (Z_t - c_t)] = 1 + b (mu_t - c_t) <= exp(b (mu_t - c_t))     for any Z_t of mean mu_t
    so   product of (1 + b (Z_t - c_t)) exp(b c_t)   over exp(b m)

is a supermartingale that starts at 1 wherever the factors cannot be negative. By Ville's inequality
it stays below 1/alpha for ever with probability 1 - alpha: a lower bound for m. Bets b < 0 give
the upper bound. Bets from 1 to 2^-19 are averaged, so that none has to be chosen in advance; most
weight is on those that suit logs of 10^3 to 10^7 pages.

Three variables with the right mean are in use; each page and bet takes the first one that is
allowed, judged by what is known before the page:

- doubly robust, Z = sum w r - (sum w g - its mean): needs the smallest probability of the page
- plain, Z = sum w r >= 0: lower bounds always; upper bounds need the smallest probability
- complement, Y = sum w (1 - r) >= 0 with mean at most L - mu_t: upper bounds always, also where
  the candidate shows links that the log could not have shown

References: Waudby-Smith and Ramdas 2024 (betting), Waudby-Smith et al. 2022 (arXiv 2210.10768,
off-policy, time-varying values), Karampatziakis et al. 2021 (the complement). Used by
`candidate_track` and `evaluate`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.compile import compiled, compiled_first
from slotwise.selection.mean_interval import largest_total

N_BETS = 20
BETS: Floats = 0.5 ** np.arange(N_BETS, dtype=np.float64)
_SHAPE = 1.0 / (1.0 + ((np.arange(N_BETS) - 7.0) / 4.0) ** 2)
LOG_WEIGHTS = np.log(_SHAPE / _SHAPE.sum())
MOST_LOST = 0.75
"""The share of its capital that a bet may lose on one page."""
PAGES_A_LOGARITHM = 16
MOST_VALUE = 1e15
"""Larger sums count as this, which errs on the safe side and keeps products finite."""

LOWER, UPPER = 0, 1
N_PAGES, VALUE, COMPLEMENT = range(3)


class Bets(NamedTuple):
    """The state of one confidence sequence.

    `evidence[LOWER, k]` is the log of the product above for bet k, `evidence[UPPER, k]` the same
    for the bet against; `sums` are those of the pages so far, which make the centres.
    """

    evidence: Floats
    sums: Floats

    @property
    def mean_value(self) -> float:
        """The mean of the values so far."""
        return float(self.sums[VALUE] / self.sums[N_PAGES])


class PageValues(NamedTuple):
    """What is known of a few pages, one entry for each, all about one level of feedback.

    `most` is the candidate's page, the sum of its probabilities: no page brings more. `peak` and
    `predicted_peak` bound sum w r and sum w g; they are infinite where the smallest probability is
    not known.
    """

    plain: Floats
    corrections: Floats
    complements: Floats
    expected: Floats
    most: Floats
    peak: Floats
    predicted_peak: Floats


def new_bets() -> Bets:
    """Return a confidence sequence that has seen no page."""
    return Bets(np.zeros((2, N_BETS)), np.zeros(3))


@compiled
def _add(values: PageValues, bets: Floats, evidence: Floats, sums: Floats) -> None:
    """Add the logarithms of the factors of some pages to the evidence of every bet."""
    plain, corrections, complements, expected, most, peak, predicted_peak = values
    n_bets = len(bets)
    low, high = np.ones(n_bets), np.ones(n_bets)
    for page in range(len(plain)):
        n_before = sums[N_PAGES]
        centre = max(0.0, min(most[page], (sums[VALUE] + expected[page]) / (n_before + 1.0)))
        other = max(0.0, (sums[COMPLEMENT] + most[page]) / (n_before + 1.0))
        robust = plain[page] - corrections[page]
        for k in range(n_bets):
            bet = bets[k]
            least = MOST_LOST / bet
            if predicted_peak[page] - expected[page] + centre <= least:
                low[k] *= 1.0 + bet * (robust - centre)
                evidence[LOWER, k] += bet * centre
            else:
                near = min(centre, least)
                low[k] *= 1.0 + bet * (plain[page] - near)
                evidence[LOWER, k] += bet * near
            if peak[page] + expected[page] - centre <= least:
                high[k] *= 1.0 - bet * (robust - centre)
                evidence[UPPER, k] -= bet * centre
            else:
                near = min(other, least)
                high[k] *= 1.0 + bet * (complements[page] - near)
                evidence[UPPER, k] -= bet * (most[page] - near)
        sums[N_PAGES] += 1.0
        sums[VALUE] += robust
        sums[COMPLEMENT] += complements[page]
        if (page + 1) % PAGES_A_LOGARITHM == 0 or page == len(plain) - 1:
            for k in range(n_bets):
                # not math.log, which raises in Python where outcomes without a bound lose all
                evidence[LOWER, k] += np.log(low[k])
                evidence[UPPER, k] += np.log(high[k])
                low[k] = 1.0
                high[k] = 1.0


def add_pages(bets: Bets, values: PageValues) -> None:
    """Record the next pages, in the order of time."""
    plain, complements = (
        np.where(column < MOST_VALUE, column, MOST_VALUE)
        for column in (values.plain, values.complements)
    )
    compiled_first(_add)(values._replace(plain=plain, complements=complements), BETS, *bets)


def mean_bounds(bets: Bets, alpha: float, unknown: float = 0.0) -> tuple[float, float]:
    """Return bounds for the mean of mu_t; each misses with a probability of at most `alpha`.

    `unknown` is an upper bound for the total outcome of links that the pages could not show,
    although their smallest probability says that they could.
    """
    n_pages = bets.sums[N_PAGES]
    low = largest_total(bets.evidence[LOWER] + LOG_WEIGHTS, BETS, alpha)
    high = -largest_total(bets.evidence[UPPER] + LOG_WEIGHTS - BETS * unknown, BETS, alpha)
    return float(low / n_pages), float(high / n_pages)
