"""Selectors saved by an earlier form of the default policy go on with what they have learned."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from slotwise import PacedBayes, Problem, Selector
from tests.golden.write_default import N_PAGES, SELECTORS, new_selector, show_pages, visitor_of

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture(params=SELECTORS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def loaded(kind: str, tmp_path: Path) -> Selector[int]:
    path = tmp_path / "older.sel"
    path.write_bytes(gzip.decompress((GOLDEN / f"default-1-{kind}.sel.gz").read_bytes()))
    return Selector.load(path)


@pytest.fixture
def replayed(kind: str) -> Selector[int]:
    """Return a selector that has seen the same pages in the present form."""
    selector = new_selector(kind)
    show_pages(selector, kind)
    return selector


def test_counts_and_report_are_those_of_the_same_pages(
    loaded: Selector[int], replayed: Selector[int]
) -> None:
    one, other = loaded.knowledge().arrays, replayed.knowledge().arrays
    assert one.keys() == other.keys()
    assert {name: array.shape for name, array in one.items()} == {
        name: array.shape for name, array in other.items()
    }
    same = ("views", "sums", "rounds", "sales", "squares", "floor_rounds")
    for name in same + (("value_views", "seen", "has_pairs") if "seen" in one else ()):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9, err_msg=name)
    assert one["rounds"].tolist() == [N_PAGES, N_PAGES]
    assert loaded.report().links == replayed.report().links


def test_what_is_owed_is_kept(loaded: Selector[int], replayed: Selector[int]) -> None:
    """Not exactly for a segment, whose queue was limited in another way before."""
    one, other = loaded.knowledge().arrays["owed"], replayed.knowledge().arrays["owed"]
    np.testing.assert_allclose(one[0], other[0], atol=1e-9)
    assert (np.sign(one) == np.sign(other)).all()


def test_rates_of_links_are_nearly_those_of_the_same_pages(
    loaded: Selector[int], replayed: Selector[int], kind: str
) -> None:
    for number in range(6):
        visitor = visitor_of(kind, number) or None
        means = []
        for selector in (loaded, replayed):
            selector.select(visitor=visitor)
            means.append(selector._player.state.posterior.mean.copy())
        np.testing.assert_allclose(means[0], means[1], rtol=0.25)


def test_it_learns_on_and_is_saved_in_the_present_form(
    loaded: Selector[int], kind: str, tmp_path: Path
) -> None:
    show_pages(loaded, kind)
    loaded.save(tmp_path / "present.sel")
    again = Selector.load(tmp_path / "present.sel")
    for name, array in loaded.knowledge().arrays.items():
        np.testing.assert_array_equal(again.knowledge().arrays[name], array, err_msg=name)
        assert np.isfinite(array).all(), name
    assert again.knowledge().arrays["rounds"].tolist() == [2 * N_PAGES] * 2


def test_no_more_is_discarded_than_was_counted() -> None:
    """A state of before the present form that was tampered with."""
    problem, policy = Problem(n_links=3, n_slots=1, click_floor=0.2), PacedBayes()
    counts = np.full((2, 3), 10.0)
    older = {
        "views": counts,
        "sums": 0.3 * counts,
        "rounds": np.array([30.0, 30.0]),
        "forgotten_views": 1e9 + counts,
        "forgotten_sums": 1e9 + counts,
        "sales": np.array([0.5, 0.0, 0.0]),
        "pool": np.array([0.3, 0.1]),
        "clock": np.array([31.0, 31.0]),
        "queue": np.zeros(1),
    }
    state = policy.restore(problem, older)
    assert not state.evidence.views.any()
    assert not state.evidence.sums.any()
    policy.choose(state, np.zeros(0, np.int64), np.random.default_rng(1))
    assert np.isfinite(state.score).all()
