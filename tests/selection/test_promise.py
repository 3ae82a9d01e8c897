"""Laws of the promise: sums that add up, bounds that hold at all times, shares that keep it."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from slotwise.selection.promise import (
    GROUPS,
    LEAST_OWN,
    Group,
    OpenCounts,
    PageRevenue,
    PromiseEvidence,
    Shares,
    Terms,
    balance,
    certify,
    compare,
    expected_ramp,
    least_gain,
    least_ratio,
    most_gain,
    next_share,
)

View = tuple[Group, float, float, float]

a_share = st.floats(0.0, 0.9)
a_view = st.tuples(st.sampled_from(GROUPS), a_share, st.floats(0.0, 0.08), st.floats(0.0, 3.0))


def evidence_of(views: list[View]) -> PromiseEvidence:
    evidence = PromiseEvidence()
    for group, chosen, random, revenue in views:
        evidence.note(group, Shares.of(chosen, random), revenue)
    return evidence


@given(st.floats(0.0, 3.0), st.floats(0.01, 3.0), st.sampled_from([0.05, 0.5, 0.95]))
@settings(max_examples=30, deadline=None)
def test_ends_of_the_lift_are_the_ratios_at_which_the_bounds_are_zero(
    chosen: float, own: float, share: float
) -> None:
    evidence, shares = PromiseEvidence(), Shares.of(share)
    rates: dict[Group, float] = {"chosen": chosen, "own": own}
    for group, rate in rates.items():
        evidence.note_many(group, shares, 5_000, (5_000 * rate * 0.1, 15_000 * rate * 0.1))
    found = compare(evidence, 3.0).lift
    assert found is not None
    for ratio in np.linspace(0.0, 12.0, 40):
        assert found.low + 1.0 <= 0.0 or (ratio < (found.low + 1.0) * (1 - 1e-3)) <= (
            least_gain(evidence, 3.0)(ratio) > 0.0
        )
        assert (ratio > (found.high + 1.0) * (1 + 1e-3)) <= (
            most_gain(evidence, 3.0)(ratio) <= 1e-9
        )


@given(st.lists(a_view, max_size=30), st.lists(a_view, max_size=30))
@settings(max_examples=60, deadline=None)
def test_evidence_of_two_parts_is_their_sum_in_any_order(
    first: list[View], second: list[View]
) -> None:
    together = evidence_of([*second, *first])
    added = evidence_of(first) + evidence_of(second)
    np.testing.assert_allclose(added.sums, together.sums, rtol=1e-12)
    assert PromiseEvidence.restore(added.plain()) == added


@given(st.sampled_from(GROUPS), a_share, st.lists(st.floats(0.0, 3.0), max_size=20))
@settings(max_examples=60, deadline=None)
def test_many_views_count_as_one_after_the_other(
    group: Group, chosen: float, revenue: list[float]
) -> None:
    shares = Shares.of(chosen, 0.05)
    one_by_one, at_once = PromiseEvidence(), PromiseEvidence()
    for amount in revenue:
        one_by_one.note(group, shares, amount)
    at_once.note_many(group, shares, len(revenue), (sum(revenue), sum(x * x for x in revenue)))
    np.testing.assert_allclose(one_by_one.sums, at_once.sums, rtol=1e-9, atol=1e-12)


@given(st.lists(a_view, min_size=1, max_size=40), st.floats(0.5, 0.99))
@settings(max_examples=60, deadline=None)
def test_the_balance_is_that_of_the_definition(views: list[View], keep: float) -> None:
    slow = 0.0
    for group, chosen, random, revenue in views:
        own = Shares.of(chosen, random).own
        slow += revenue - (keep * revenue / own if group == "own" else 0.0)
    found = balance(evidence_of(views), Terms(keep, 3.0))
    assert found.low <= found.high
    assert found.estimate == pytest.approx(np.clip(slow, found.low, found.high), abs=1e-9)


@given(st.floats(0.0, 0.5), st.floats(0.0, 0.45), st.floats(0.0, 0.1), st.floats(0.0, 0.999))
def test_a_growing_share_moves_a_visitor_from_own_to_chosen_once(
    less: float, more: float, random: float, number: float
) -> None:
    before, after = (
        Shares.of(less, random).group(number),
        Shares.of(less + more, random).group(number),
    )
    assert before == after or (before, after) == ("own", "chosen")


def test_groups_have_their_shares() -> None:
    shares = Shares.of(0.3, 0.1)
    groups = [shares.group((k + 0.5) / 1_000) for k in range(1_000)]
    assert [groups.count(group) for group in GROUPS] == [300, 600, 100]


def test_without_evidence_pages_that_earn_nothing_would_keep_the_promise() -> None:
    terms = Terms(keep=0.9, most=3.0)
    for n_views in range(0, 200, 7):
        for n_other in range(n_views + 1):
            share = next_share(
                PromiseEvidence(), OpenCounts(n_views - n_other, n_other), terms, rho=0.0
            )
            is_safe = n_other + 1 <= 0.1 * (n_views + 1) + 1e-9
            assert (share.chosen > 0.0) <= is_safe
            assert 0.0 <= share.chosen <= 0.09


def test_certainly_better_pages_get_all_views_but_those_for_comparison() -> None:
    evidence = PromiseEvidence()
    evidence.note_many("own", Shares.of(0.5), 40_000, (800.0, 800.0))
    evidence.note_many("chosen", Shares.of(0.5), 40_000, (1_600.0, 1_600.0))
    share = next_share(evidence, OpenCounts(), Terms(0.95, 1.0))
    assert share.reason == "all"
    assert share.chosen == pytest.approx(1.0 - LEAST_OWN)


def test_a_share_that_was_reached_stays_while_the_balance_can_pay_for_it() -> None:
    evidence = PromiseEvidence()
    evidence.note_many("own", Shares.of(0.5), 80_000, (1_600.0, 1_600.0))
    evidence.note_many("chosen", Shares.of(0.5), 80_000, (1_600.0, 1_600.0))
    terms = Terms(0.9, 1.0)
    plain = next_share(evidence, OpenCounts(), terms).chosen
    held = next_share(evidence, OpenCounts(), terms, previous=0.7).chosen
    assert plain < held <= 0.7
    worse = PromiseEvidence()
    worse.note_many("own", Shares.of(0.5), 80_000, (1_600.0, 1_600.0))
    worse.note_many("chosen", Shares.of(0.5), 80_000, (1_000.0, 1_000.0))
    assert next_share(worse, OpenCounts(), terms, previous=0.7).chosen == 0.0


@pytest.mark.parametrize("n_open", [0.0, 48_000.0])
def test_the_expected_share_never_falls_where_chosen_pages_are_better(n_open: float) -> None:
    own, chosen = PageRevenue(0.02, 0.02), PageRevenue(0.03, 0.03)
    ramp = expected_ramp(Terms(0.95, 1.0), own, chosen, 1e6, n_open=n_open)
    assert np.diff(ramp.shares).min() >= 0.0


a_count = st.integers(0, 50_000)


@given(
    st.lists(st.tuples(a_share, a_count, a_count), min_size=1, max_size=4),
    st.tuples(st.floats(0.0, 0.3), st.floats(0.0, 0.3)),
    st.tuples(a_count, a_count),
    st.sampled_from([None, 10.0, 2_000.0]),
)
@settings(max_examples=80, deadline=None)
def test_the_share_stays_where_nothing_has_changed(
    parts: list[tuple[float, int, int]],
    rates: tuple[float, float],
    n_open: tuple[int, int],
    n_ahead: float | None,
) -> None:
    evidence, terms = PromiseEvidence(), Terms(0.9, 1.0)
    groups: tuple[Group, Group] = ("own", "chosen")
    for chosen, *counts in parts:
        for group, n_views, rate in zip(groups, counts, rates, strict=True):
            evidence.note_many(group, Shares.of(chosen), n_views, (n_views * rate,) * 2)
    decided = [0.0]
    for _ in range(3):
        previous = decided[-1]
        share = next_share(evidence, OpenCounts(*n_open), terms, n_ahead=n_ahead, previous=previous)
        decided.append(share.chosen)
    assert decided[1] == decided[2] == decided[3]
    reached = next_share(evidence, OpenCounts(*n_open), terms, n_ahead=n_ahead, previous=0.9)
    assert reached.chosen >= decided[1]


def test_ranges_together_know_more_than_each_alone() -> None:
    """Half of the views in another range of p hardly widen the interval."""
    rates: dict[Group, float] = {"own": 0.02, "chosen": 0.03}

    def width(*shares: float) -> float:
        evidence = PromiseEvidence()
        for share in shares:
            for group in rates:
                part = share if group == "chosen" else 1.0 - share
                n_views = 100_000 * part / len(shares)
                total = n_views * rates[group]
                evidence.note_many(group, Shares.of(share), n_views, (total, total))
        lift = compare(evidence, 1.0).lift
        assert lift is not None
        return lift.high - lift.low

    assert width(0.39, 0.41) < 1.03 * width(0.4)


def test_certainly_worse_pages_stop() -> None:
    evidence = PromiseEvidence()
    evidence.note_many("own", Shares.of(0.5), 20_000, (800.0, 800.0))
    evidence.note_many("chosen", Shares.of(0.5), 20_000, (300.0, 300.0))
    assert compare(evidence, 1.0).is_worse
    assert next_share(evidence, OpenCounts(), Terms(0.95, 1.0)).reason == "stopped"


def test_open_views_of_other_pages_count_as_if_they_earned_nothing() -> None:
    evidence = PromiseEvidence()
    evidence.note_many("own", Shares.of(0.3), 70_000, (1_400.0, 1_400.0))
    evidence.note_many("chosen", Shares.of(0.3), 30_000, (900.0, 900.0))
    terms = Terms(0.95, 1.0)
    settled = certify(evidence, OpenCounts(), terms).spare_views
    waiting = certify(evidence, OpenCounts(other=1_000), terms).spare_views
    assert settled > 0.0
    assert settled - waiting == pytest.approx(950.0)


def test_a_share_for_many_views_leaves_room_for_chance() -> None:
    terms = Terms(0.95, 1.0)
    share = next_share(PromiseEvidence(), OpenCounts(own=1_000), terms, n_ahead=10_000)
    expected = 10_000 * share.chosen
    assert 0.0 < expected + 4.0 * np.sqrt(expected) <= share.max_other + 1e-6


def test_evidence_that_is_damaged_is_refused() -> None:
    nan, negative = np.full((6, 15), np.nan), -np.ones((6, 15))
    damages: list[object] = [{"format": 2}, [[1.0]], nan, negative]
    for damaged in damages:
        with pytest.raises(ValueError, match="evidence"):
            PromiseEvidence.restore(damaged)


def play(seed: int, own_rate: float, ratio: float) -> tuple[bool, bool]:
    """Return whether the bounds ever missed: those of the balance and those of the lift."""
    rng, keep, n_views = np.random.default_rng(seed), 0.9, 500
    evidence, terms = PromiseEvidence(), Terms(keep, 1.0)
    true_balance, missed_balance, missed_lift = 0.0, False, False
    for step in range(60):
        shares = Shares.of((0.05, 0.3, 0.7, 0.9, 0.5)[step % 5])
        rate = own_rate * (1.0 + 0.5 * np.sin(step / 9))  # drifts, and with it the share
        n_chosen = rng.binomial(n_views, shares.chosen)
        sold = rng.binomial(n_chosen, rate * ratio), rng.binomial(n_views - n_chosen, rate)
        evidence.note_many("chosen", shares, n_chosen, (sold[0],) * 2)
        evidence.note_many("own", shares, n_views - n_chosen, (sold[1],) * 2)
        true_balance += (
            n_chosen * rate * ratio + (n_views - n_chosen) * rate - keep * n_views * rate
        )
        found = balance(evidence, terms)
        missed_balance |= not found.low <= true_balance <= found.high
        if step % 6 == 5:
            lift = compare(evidence, 1.0).lift
            missed_lift |= lift is not None and not lift.low <= ratio - 1.0 <= lift.high
    return missed_balance, missed_lift


@pytest.mark.parametrize(("own_rate", "ratio"), [(0.02, 0.6), (0.2, 1.5)])
def test_bounds_hold_at_all_times(own_rate: float, ratio: float) -> None:
    # a run misses with a probability of at most 5 %, more than 7 of 15 with less than 1e-6
    missed = np.array([play(seed, own_rate, ratio) for seed in range(15)])
    assert (missed.sum(axis=0) <= 7).all()


def test_a_ramp_is_faster_where_less_is_promised_or_more_is_gained() -> None:
    own = PageRevenue(0.02, 0.02)

    def views_until_all(keep: float, ratio: float, n_open: float = 0.0) -> float:
        chosen = PageRevenue(0.02 * ratio, 0.02 * ratio)
        ramp = expected_ramp(Terms(keep, 1.0), own, chosen, 1e7, n_open=n_open)
        assert ramp.half is not None
        assert ramp.all is not None
        assert ramp.half <= ramp.all
        return ramp.all

    assert views_until_all(0.90, 1.5) < views_until_all(0.95, 1.5) < views_until_all(0.95, 1.2)
    assert views_until_all(0.95, 1.5) < views_until_all(0.95, 1.5, n_open=40_000.0)
    worse = expected_ramp(Terms(0.95, 1.0), own, PageRevenue(0.01, 0.01), 1e6)
    assert worse.half is None
    assert worse.shares.max() <= 0.1


def test_the_share_grows_past_an_own_page_that_never_earns() -> None:
    evidence, terms, share, reasons = PromiseEvidence(), Terms(0.95, 1.0), 0.0, []
    for _ in range(100):
        found = next_share(evidence, OpenCounts(), terms, n_ahead=500, previous=share)
        share, shares = found.chosen, Shares.of(found.chosen)
        reasons.append(found.reason)
        n_chosen = 500 * share
        evidence.note_many("chosen", shares, n_chosen, (0.05 * n_chosen, 0.05 * n_chosen))
        evidence.note_many("own", shares, 500 - n_chosen, (0.0, 0.0))
    assert compare(evidence, 1.0).lift is None
    assert compare(evidence, 1.0).rho > 1.0
    assert share == terms.largest_share
    assert [reason for reason in dict.fromkeys(reasons) if reason != "stopped"] == [
        *("start", "evidence", "all")
    ]


@pytest.mark.parametrize(("share", "n_views"), [(0.045, 2_000), (0.5, 1_000), (0.95, 2_000)])
def test_without_sales_of_the_own_page_the_bound_is_above_0_at_every_lower_ratio(
    share: float, n_views: int
) -> None:
    """A ratio below the end would be refused by mistake if its own bound were not above 0."""
    shares, sold = Shares.of(share), 200 if share > 0.9 else 20
    evidence = PromiseEvidence()
    evidence.note_many("own", shares, n_views * shares.own, (0.0, 0.0))
    evidence.note_many("chosen", shares, n_views * share, (sold, sold))
    rho = least_ratio(evidence, 1.0)
    assert rho > 0.03
    bound = least_gain(evidence, 1.0)
    assert all(bound(part * rho) > 0.0 for part in np.linspace(0.0, 0.999, 300))
