"""Posterior samples, drawn only for the links that can matter, with exactly the same distribution.

The outcome of a link at level j, given that it passed level j - 1, has a Beta posterior. Posterior
sampling draws all of them for every page and shows what is best for the draw. Most draws cannot
matter: a link shown 5,000 times whose rate is far below the threshold will not be shown. So every
posterior has a *cap* that a draw exceeds a few times in a hundred, and a page is drawn in steps:

1. Which draws lie above their caps? That is settled first, for all links, by rare events: the
   tail beyond the cap lies under an exponential envelope (a Beta density with b >= 1 and a >= 1
   is log-concave; a < 1 only makes it fall faster), the envelope's mass bounds how often a draw
   can be there, and a candidate beyond the cap is kept with the ratio of the two densities.
2. The links that are best on average are drawn; the page they make sets a threshold.
3. All other draws are at most their caps, so a link whose caps cannot reach the threshold needs
   no draw, and one whose first level was drawn too low needs none of the others.
4. The rest are drawn from their posterior, given that they are not above the cap (by drawing
   again where they are), and compete.

Steps 1 and 4 together draw from the posterior itself, and the threshold only rises as more links
are drawn, so leaving out draws in step 3 never changes the distribution of the page. A posterior
that has no such tail (b < 1, or nearly no views) has the cap 1 and is drawn more often. What is
drawn, and in which order, depends on the counts alone: the same seed gives the same page, also
after saving and loading. Used by `policy` and `pool_prior`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from queue_ts.evidence import Evidence, weighted_counts
from slotwise.compile import hot
from slotwise.policies.policy import Floats, Links
from slotwise.problem import Problem
from slotwise.selection.confidence import log_gamma

CAP_SIGMAS = 1.7
"""Standard deviations from the mean to a cap, before a correction for skewness."""
MOST_ABOVE = 0.07
"""No draw is above its cap more often than this; a cap that would be too low is 1."""

N_CHANGED, N_DRAWN = 0, 1


class Posterior(NamedTuple):
    """Beta posteriors per level and link, their caps, and the draws for the present page.

    `chance_above` is the envelope's mass beyond the cap as a share of `MOST_ABOVE`, `fall` its rate
    of decay. `reach` is the draw for the present page if it is settled, otherwise the cap: the
    first `n_settled` levels of a link are settled, and those marked `is_above`. `candidates` are
    the links drawn at all levels and `compound[level]` their compound outcomes. `changed` are links
    whose counts changed since their posterior was computed.
    """

    prior_hits: Floats
    prior_misses: Floats
    hits: Floats
    misses: Floats
    cap: Floats
    chance_above: Floats
    fall: Floats
    reach: Floats
    is_above: NDArray[np.bool_]
    n_settled: Links
    changed: Links
    is_changed: NDArray[np.bool_]
    candidates: Links
    compound: Floats
    worth: Floats
    sizes: NDArray[np.int64]


def new_posterior(problem: Problem) -> Posterior:
    """Return uniform priors without observations; all links count as changed."""
    n_levels, n_links = problem.n_levels, problem.n_links
    shape = (n_levels, n_links)
    return Posterior(
        prior_hits=np.ones(n_levels),
        prior_misses=np.ones(n_levels),
        hits=np.ones(shape),
        misses=np.ones(shape),
        cap=np.ones(shape),
        chance_above=np.zeros(shape),
        fall=np.zeros(shape),
        reach=np.ones(shape),
        is_above=np.zeros(shape, np.bool_),
        n_settled=np.zeros(n_links, np.int64),
        changed=np.arange(n_links),
        is_changed=np.ones(n_links, np.bool_),
        candidates=np.zeros(n_links, np.int64),
        compound=np.zeros(shape),
        worth=np.zeros(n_links),
        sizes=np.array([n_links, 0]),
    )


@hot
def note_change(posterior: Posterior, link: int) -> None:
    """Mark a link's posterior to be recomputed before the next page."""
    if not posterior.is_changed[link]:
        posterior.is_changed[link] = True
        posterior.changed[posterior.sizes[N_CHANGED]] = link
        posterior.sizes[N_CHANGED] += 1


@hot
def trials_and_hits(evidence: Evidence, level: int, link: int) -> tuple[float, float]:
    """Return the discounted trials and outcomes of a link at a level.

    Trials are the views with an outcome at the level before; if fewer of them are settled at this
    level, as with late revenue, their settled share.
    """
    hits, trials = weighted_counts(evidence, level, link)
    if level > 0:
        before = evidence.views[level - 1, link]
        if before > 0.0:
            trials *= evidence.sums[level - 1, link] / before
    return max(trials, hits), hits


@hot
def set_posterior(posterior: Posterior, level: int, link: int, a: float, b: float) -> None:
    """Set a posterior to Beta(a, b), with its cap and the envelope beyond it."""
    posterior.hits[level, link] = a
    posterior.misses[level, link] = b
    posterior.cap[level, link] = 1.0
    posterior.chance_above[level, link] = 0.0
    if b <= 1.0:
        return
    n = a + b
    mean = a / n
    root = math.sqrt(n + 1.0)
    skewness = 2.0 * (b - a) * root / ((n + 2.0) * math.sqrt(a * b))
    sigmas = CAP_SIGMAS + (CAP_SIGMAS * CAP_SIGMAS - 1.0) * skewness / 6.0
    cap = mean + sigmas * math.sqrt(mean * (1.0 - mean)) / root
    if cap >= 1.0:
        return
    fall = (b - 1.0) / (1.0 - cap) - max(0.0, a - 1.0) / cap
    if fall <= 0.0:
        return
    log_density = (a - 1.0) * math.log(cap) + (b - 1.0) * math.log(1.0 - cap)
    log_density += log_gamma(n) - log_gamma(a) - log_gamma(b)
    above = math.exp(log_density) / fall
    if above <= MOST_ABOVE:
        posterior.cap[level, link] = cap
        posterior.chance_above[level, link] = above / MOST_ABOVE
        posterior.fall[level, link] = fall


@hot
def start_draw(posterior: Posterior, rng: np.random.Generator) -> None:
    """Begin the draw for a new page: settle which draws are above their caps (step 1).

    Candidates are found by geometric jumps, with frequency `MOST_ABOVE`.
    """
    cap, reach, is_above = posterior.cap, posterior.reach, posterior.is_above
    n_levels, n_links = cap.shape
    posterior.sizes[N_DRAWN] = 0
    for link in range(n_links):
        posterior.n_settled[link] = 0
    for level in range(n_levels):
        for link in range(n_links):
            reach[level, link] = cap[level, link]
            is_above[level, link] = False
    log_stay = math.log1p(-MOST_ABOVE)
    place = -1
    while True:
        jump = math.log(1.0 - rng.random()) / log_stay
        if jump >= n_levels * n_links - 1 - place:
            break
        place += 1 + int(jump)
        level, link = place // n_links, place % n_links
        if rng.random() >= posterior.chance_above[level, link]:
            continue
        at, fall = cap[level, link], posterior.fall[level, link]
        beyond = -math.log(1.0 - rng.random()) / fall
        draw = at + beyond
        if draw >= 1.0:
            continue
        log_ratio = (posterior.hits[level, link] - 1.0) * math.log(draw / at)
        log_ratio += (posterior.misses[level, link] - 1.0) * math.log((1.0 - draw) / (1.0 - at))
        if math.log(1.0 - rng.random()) < log_ratio + fall * beyond:
            reach[level, link] = draw
            is_above[level, link] = True


@hot
def _draw_level(posterior: Posterior, link: int, rng: np.random.Generator) -> None:
    """Draw the next level of a link, below its cap unless it is marked above (step 4)."""
    level = posterior.n_settled[link]
    if not posterior.is_above[level, link]:
        a, b = posterior.hits[level, link], posterior.misses[level, link]
        draw = rng.beta(a, b)
        while draw > posterior.cap[level, link]:
            draw = rng.beta(a, b)
        posterior.reach[level, link] = draw
    posterior.n_settled[link] = level + 1


@hot
def _add_drawn(posterior: Posterior, link: int) -> None:
    """Add a link whose levels are all drawn to the candidates."""
    entry = posterior.sizes[N_DRAWN]
    posterior.candidates[entry] = link
    passed = 1.0
    for level in range(len(posterior.cap)):
        passed *= posterior.reach[level, link]
        posterior.compound[level, entry] = passed
    posterior.sizes[N_DRAWN] += 1


@hot
def draw_links(posterior: Posterior, least: float, rng: np.random.Generator) -> int:
    """Draw every link whose `posterior.worth` is at least `least` (step 2); return their number."""
    n_levels = len(posterior.cap)
    for link in range(len(posterior.worth)):
        if posterior.worth[link] >= least:
            for _ in range(n_levels):
                _draw_level(posterior, link, rng)
            _add_drawn(posterior, link)
    return posterior.sizes[N_DRAWN]


@hot
def _most_worth(posterior: Posterior, link: int, level_worth: Floats) -> float:
    worth = 0.0
    for level in range(len(level_worth) - 1, -1, -1):
        worth = max(0.0, level_worth[level] + worth) * posterior.reach[level, link]
    return worth


@hot
def draw_reachable(
    posterior: Posterior, level_worth: Floats, least: float, rng: np.random.Generator
) -> int:
    """Draw every link that may be worth `least`, until that is excluded (step 3).

    A link is worth theta_1 (w_1 + theta_2 (w_2 + ...)) with w = `level_worth`. Returns how many
    links are drawn at all levels.
    """
    worth, n_levels = posterior.worth, len(level_worth)
    for link in range(len(worth)):
        worth[link] = 0.0
    for level in range(n_levels - 1, -1, -1):
        reach, here = posterior.reach[level], level_worth[level]
        for link in range(len(worth)):
            worth[link] = max(0.0, here + worth[link]) * reach[link]
    for link in range(len(worth)):
        if worth[link] >= least and posterior.n_settled[link] < n_levels:
            may_be_worth = worth[link]
            while may_be_worth >= least and posterior.n_settled[link] < n_levels:
                _draw_level(posterior, link, rng)
                may_be_worth = _most_worth(posterior, link, level_worth)
            if posterior.n_settled[link] == n_levels:
                _add_drawn(posterior, link)
    return posterior.sizes[N_DRAWN]


@hot
def mean_worth(posterior: Posterior, level_worth: Floats) -> None:
    """Write the mean value of each link to `posterior.worth`."""
    worth = posterior.worth
    for link in range(len(worth)):
        worth[link] = 0.0
    for level in range(len(level_worth) - 1, -1, -1):
        hits, misses = posterior.hits[level], posterior.misses[level]
        here = level_worth[level]
        for link in range(len(worth)):
            worth[link] = (here + worth[link]) * hits[link] / (hits[link] + misses[link])
