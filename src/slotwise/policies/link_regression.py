"""The posterior of one link's logit: an intercept plus one effect for each feature value.

    logit of link i for visitor x = b_i + sum over features f of e_fi(x_f) = x . g_i
    prior       g_i ~ N(center, diag(variance))
    posterior   precision P = J + diag(1 / variance),   mean = P^-1 (tilt + center / variance)

J sums trials * p (1 - p) * x x^T over the views of the link. A visitor has one value of each
feature, so most of J is zero: values of one feature never occur together. The stored entries are
those of the link, of the values, and of pairs of values of two features.

The values of the largest feature are eliminated first, since their block is diagonal. The rest is a
matrix of the link and the other values: one number where there is one feature.

If that would be too large, a layout without pairs stores only the diagonal (`add_independent`):
after every view the covariances of the parameters of a link are dropped. Used by `visitor_learning`
and `visitor_rates`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slotwise.compile import inner, int64
from slotwise.policies.policy import Floats, Links, Visitor


class PosteriorLayout(NamedTuple):
    """The positions of the entries of J: of the link, of each value, of pairs of two features.

    Value v of feature f and value w of a later feature g share the entry `pair_at[f, g] + (v -
    first[f]) * size_g + w - first[g]`. `large` is the feature with the most values, and `rest`
    lists the values of all others; `row_of` is the row of a value in the part of a solution to
    which it belongs.
    """

    feature_of: Links
    first: Links
    pair_at: NDArray[np.int64]
    rest: Links
    row_of: Links
    large: int
    n_entries: int
    has_pairs: bool


class LinkEvidence(NamedTuple):
    """The likelihood of one link's views at one level, and the prior of its parameters.

    `information` are the entries of J and `tilt` the tilt of each parameter. `center` has the prior
    mean of every parameter, `variance` that of the link, then of the effects of each feature.
    """

    layout: PosteriorLayout
    information: Floats
    tilt: Floats
    center: Floats
    variance: Floats


class PosteriorSolution(NamedTuple):
    """Buffers for one link: mean and variance of each parameter, and intermediate results.

    `small` is the covariance of the link and the values in `rest`, and `mixed` has a row for each
    value of the large feature: its entries of J with those, then its covariances with them.
    """

    mean: Floats
    variance: Floats
    small: Floats
    mixed: Floats
    tilt: Floats
    scale: Floats


def entries_of(sizes: Sequence[int]) -> int:
    """Return how many entries of J a link has if features have `sizes` values.

    >>> entries_of([]), entries_of([24]), entries_of([2, 3, 4])
    (1, 25, 36)
    """
    pairs = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    return 1 + sum(sizes) + pairs


def new_layout(sizes: Sequence[int], has_pairs: bool = True) -> PosteriorLayout:
    """Return the positions of all entries for features with `sizes` values."""
    if not has_pairs:
        return _layout_without_pairs(sizes)
    n_features = len(sizes)
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    feature_of = np.repeat(np.arange(n_features), sizes)
    pair_at = np.zeros((n_features, n_features), np.int64)
    place = 1 + sum(sizes)
    for f in range(n_features):
        for g in range(f + 1, n_features):
            pair_at[f, g] = place
            place += sizes[f] * sizes[g]
    large = int(np.argmax(sizes)) if n_features else -1
    rest = np.flatnonzero(feature_of != large)
    row_of = np.zeros(len(feature_of), np.int64)
    row_of[rest] = 1 + np.arange(len(rest))
    row_of[feature_of == large] = np.arange(len(feature_of) - len(rest))
    return PosteriorLayout(feature_of, first, pair_at, rest, row_of, large, place, True)


def _layout_without_pairs(sizes: Sequence[int]) -> PosteriorLayout:
    """Return the positions of the link and of each value; there is no joint solution."""
    first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return PosteriorLayout(
        feature_of=np.repeat(np.arange(len(sizes)), sizes),
        first=first,
        pair_at=np.zeros((0, 0), np.int64),
        rest=np.zeros(0, np.int64),
        row_of=np.zeros(sum(sizes), np.int64),
        large=-1,
        n_entries=1 + sum(sizes),
        has_pairs=False,
    )


def new_solution(layout: PosteriorLayout) -> PosteriorSolution:
    """Return buffers for one link."""
    n_rest = 1 + len(layout.rest)
    n_large = len(layout.feature_of) - len(layout.rest) if layout.has_pairs else 0
    n_parameters = 1 + len(layout.feature_of)
    return PosteriorSolution(
        mean=np.zeros(n_parameters),
        variance=np.zeros(n_parameters),
        small=np.zeros((n_rest, n_rest)),
        mixed=np.zeros((n_large, n_rest)),
        tilt=np.zeros(n_parameters),
        scale=np.zeros(max(1, n_large)),
    )


@inner
def pair(layout: PosteriorLayout, value: int, other: int) -> int:
    """Return the entry of a pair of values of two different features, in either order."""
    f, g = layout.feature_of[value], layout.feature_of[other]
    if f > g:
        value, other, f, g = other, value, g, f
    size = layout.first[g + 1] - layout.first[g]
    return layout.pair_at[f, g] + (value - layout.first[f]) * size + other - layout.first[g]


@inner
def step_of_pairs(layout: PosteriorLayout, other: int) -> int:
    """Return how far entries of a value are apart from one value of the large feature to the next.

    Loops over that feature add it up: they compute an entry for every pair of values.
    """
    feature = layout.feature_of[other]
    if feature < layout.large:
        return int64(1)
    return layout.first[feature + 1] - layout.first[feature]


@inner
def add_trials(
    layout: PosteriorLayout, visitor: Visitor, weight: float, information: Floats
) -> None:
    """Add views of a link by one visitor to its J."""
    information[0] += weight
    for k in range(len(visitor)):
        information[1 + visitor[k]] += weight
        for j in range(k):
            information[pair(layout, visitor[k], visitor[j])] += weight


@inner
def parameter(link: LinkEvidence, place: int) -> tuple[float, float]:
    """Return mean and variance of one parameter of a link in a layout without pairs."""
    own = prior_variance(link, place)
    spread = own / (1.0 + own * link.information[place])
    return spread * (link.tilt[place] + link.center[place] / own), spread


@inner
def prior_variance(link: LinkEvidence, place: int) -> float:
    """Return the prior variance of one parameter of a link."""
    return link.variance[0 if place == 0 else 1 + link.layout.feature_of[place - 1]]


@inner
def logit_of(link: LinkEvidence, visitor: Visitor) -> tuple[float, float]:
    """Return mean and variance of a link's logit for a visitor in a layout without pairs."""
    mean, variance = parameter(link, 0)
    for k in range(len(visitor)):
        effect, its_variance = parameter(link, 1 + visitor[k])
        mean += effect
        variance += its_variance
    return mean, variance


@inner
def add_independent(link: LinkEvidence, visitor: Visitor, weight: float, shift: float) -> None:
    """Add views of a link by one visitor, with parameters assumed to be independent.

    The likelihood of the logit has precision `weight` and precision times mean `shift`. If the
    other parameters of the logit have mean m and variance v in total, the likelihood of a parameter
    has

        precision        weight / (1 + weight v)
        precision * mean (shift - weight m) / (1 + weight v)

    So uncertainty of the others weakens what is learned, and a surprising outcome is divided among
    all in proportion to their variances.
    """
    all_mean, all_spread = logit_of(link, visitor)
    for k in range(-1, len(visitor)):
        place = 0 if k < 0 else 1 + visitor[k]
        mean, spread = parameter(link, place)
        scale = 1.0 / (1.0 + weight * max(0.0, all_spread - spread))
        link.information[place] += scale * weight
        link.tilt[place] += scale * (shift - weight * (all_mean - mean))


@inner
def add_outcome(link: LinkEvidence, visitor: Visitor, outcome: float) -> None:
    """Add outcomes of views that `add_independent` has added before.

    They are weakened as one such view is at the present estimate: at full strength they would
    outweigh their views.
    """
    logit, all_spread = logit_of(link, visitor)
    rate = 1.0 / (1.0 + math.exp(-logit))
    weight = rate * (1.0 - rate)
    for k in range(-1, len(visitor)):
        place = 0 if k < 0 else 1 + visitor[k]
        _, spread = parameter(link, place)
        link.tilt[place] += outcome / (1.0 + weight * max(0.0, all_spread - spread))


@inner
def _invert(matrix: Floats) -> None:
    """Invert a symmetric positive definite matrix in place, by Gauss and Jordan."""
    size = len(matrix)
    for k in range(size):
        pivot = 1.0 / matrix[k, k]
        matrix[k, k] = 1.0
        for j in range(size):
            matrix[k, j] *= pivot
        for i in range(size):
            if i != k:
                factor = matrix[i, k]
                if factor != 0.0:
                    matrix[i, k] = 0.0
                    for j in range(size):
                        matrix[i, j] -= factor * matrix[k, j]


@inner
def _fill_rest(layout: PosteriorLayout, information: Floats, solution: PosteriorSolution) -> None:
    """Write the block of J of the link and the values of all features but the largest."""
    small, rest = solution.small, layout.rest
    small[0, 0] = information[0]
    for i in range(len(rest)):
        entry = information[1 + rest[i]]
        small[0, 1 + i] = entry
        small[1 + i, 0] = entry
        for j in range(i):
            meets = layout.feature_of[rest[i]] != layout.feature_of[rest[j]]
            entry_of_both = 0.0
            if meets:
                entry_of_both = information[pair(layout, rest[i], rest[j])]
            small[1 + i, 1 + j] = entry_of_both
            small[1 + j, 1 + i] = entry_of_both
        small[1 + i, 1 + i] = entry


@inner
def _eliminate(
    layout: PosteriorLayout, information: Floats, prior: float, solution: PosteriorSolution
) -> None:
    """Eliminate the values of the largest feature from the equations of all others."""
    small, mixed, tilt, rest = solution.small, solution.mixed, solution.tilt, layout.rest
    n_rest = len(small)
    start = layout.first[layout.large]
    for j in range(n_rest - 1):
        place, step = pair(layout, start, rest[j]), step_of_pairs(layout, rest[j])
        for k in range(len(mixed)):
            mixed[k, 1 + j] = information[place]
            place += step
    for k in range(len(mixed)):
        value = start + k
        entry = information[1 + value]
        row = mixed[k]
        row[0] = entry
        solution.scale[k] = 1.0 / (entry + prior)
        if entry > 0.0:
            scale = solution.scale[k]
            for i in range(n_rest):
                if row[i] != 0.0:
                    part = scale * row[i]
                    place = 0 if i == 0 else 1 + rest[i - 1]
                    tilt[place] -= part * tilt[1 + value]
                    for j in range(n_rest):
                        small[i, j] -= part * row[j]


@inner
def _put_back(layout: PosteriorLayout, solution: PosteriorSolution) -> None:
    """Write mean, variance and covariances of the values of the largest feature."""
    small, mixed, rest = solution.small, solution.mixed, layout.rest
    n_rest = len(small)
    start = layout.first[layout.large]
    for k in range(len(mixed)):
        value, row, scale = start + k, mixed[k], solution.scale[k]
        mean = solution.tilt[1 + value]
        if row[0] == 0.0:  # never seen, so all of its row is 0
            solution.mean[1 + value] = scale * mean
            solution.variance[1 + value] = scale
            continue
        for j in range(n_rest):
            mean -= row[j] * solution.mean[0 if j == 0 else 1 + rest[j - 1]]
        solution.mean[1 + value] = scale * mean
        explained = 0.0
        buffer = solution.tilt  # no longer needed, except for the following values
        for i in range(n_rest):
            covariance = 0.0
            for j in range(n_rest):
                covariance += small[i, j] * row[j]
            buffer[0 if i == 0 else 1 + rest[i - 1]] = covariance
            explained += covariance * row[i]
        for i in range(n_rest):
            row[i] = -scale * buffer[0 if i == 0 else 1 + rest[i - 1]]
        solution.variance[1 + value] = scale + scale * scale * explained


@inner
def _set_up(link: LinkEvidence, solution: PosteriorSolution) -> None:
    """Write the equations of the link and the values in `rest`, without the largest feature."""
    layout, small, rest = link.layout, solution.small, link.layout.rest
    for k in range(len(link.center)):
        solution.tilt[k] = link.tilt[k] + link.center[k] / prior_variance(link, k)
    _fill_rest(layout, link.information, solution)
    small[0, 0] += 1.0 / link.variance[0]
    for i in range(len(rest)):
        small[1 + i, 1 + i] += 1.0 / prior_variance(link, 1 + rest[i])
    if layout.large >= 0:
        _eliminate(layout, link.information, 1.0 / link.variance[1 + layout.large], solution)


@inner
def solve_link(link: LinkEvidence, solution: PosteriorSolution) -> None:
    """Write the posterior of a link.

    Covariances of values of the large feature end up in `mixed`, all others in `small`.
    """
    layout = link.layout
    if not layout.has_pairs:
        for place in range(len(link.center)):
            solution.mean[place], solution.variance[place] = parameter(link, place)
        return
    _set_up(link, solution)
    small, rest = solution.small, layout.rest
    _invert(small)
    for i in range(len(small)):
        mean = 0.0
        for j in range(len(small)):
            mean += small[i, j] * solution.tilt[0 if j == 0 else 1 + rest[j - 1]]
        place = 0 if i == 0 else 1 + rest[i - 1]
        solution.mean[place] = mean
        solution.variance[place] = small[i, i]
    if layout.large >= 0:
        _put_back(layout, solution)


@inner
def mean_logit(link: LinkEvidence, visitor: Visitor, solution: PosteriorSolution) -> float:
    """Return the posterior mean of a link's logit for a visitor, without any covariances."""
    layout = link.layout
    if not layout.has_pairs:
        logit, _ = logit_of(link, visitor)
        return logit
    _set_up(link, solution)
    small, rest, mean = solution.small, layout.rest, solution.mean
    size = len(small)
    for k in range(size):  # elimination, then substitution
        place = 0 if k == 0 else 1 + rest[k - 1]
        for i in range(k + 1, size):
            factor = small[i, k] / small[k, k]
            if factor != 0.0:
                solution.tilt[1 + rest[i - 1]] -= factor * solution.tilt[place]
                for j in range(k + 1, size):
                    small[i, j] -= factor * small[k, j]
    for k in range(size - 1, -1, -1):
        place = 0 if k == 0 else 1 + rest[k - 1]
        total = solution.tilt[place]
        for j in range(k + 1, size):
            total -= small[k, j] * mean[1 + rest[j - 1]]
        mean[place] = total / small[k, k]
    logit = mean[0]
    for k in range(len(visitor)):
        value = visitor[k]
        if layout.feature_of[value] == layout.large:
            row = value - layout.first[layout.large]
            total = solution.tilt[1 + value]
            for j in range(size):
                total -= solution.mixed[row, j] * mean[0 if j == 0 else 1 + rest[j - 1]]
            logit += solution.scale[row] * total
        else:
            logit += mean[1 + value]
    return logit


@inner
def _covariance(
    layout: PosteriorLayout, solution: PosteriorSolution, value: int, other: int
) -> float:
    """Return the covariance of values of two different features."""
    if layout.feature_of[other] == layout.large:
        value, other = other, value
    row = layout.row_of[value]
    if layout.feature_of[value] == layout.large:
        return solution.mixed[row, layout.row_of[other]]
    return solution.small[row, layout.row_of[other]]


@inner
def logit_for(
    layout: PosteriorLayout, solution: PosteriorSolution, visitor: Visitor
) -> tuple[float, float]:
    """Return the posterior mean and variance of the solved link's logit for a visitor."""
    mean, variance = solution.mean[0], solution.variance[0]
    for k in range(len(visitor)):
        value = visitor[k]
        row = layout.row_of[value]
        if not layout.has_pairs:
            mean += solution.mean[1 + value]
            variance += solution.variance[1 + value]
            continue
        if layout.feature_of[value] == layout.large:
            with_link = solution.mixed[row, 0]
        else:
            with_link = solution.small[0, row]
        mean += solution.mean[1 + value]
        variance += solution.variance[1 + value] + 2.0 * with_link
        for j in range(k):
            variance += 2.0 * _covariance(layout, solution, value, visitor[j])
    return mean, variance
