"""What a newcomer gets wrong is answered in one sentence that says what to do."""

from __future__ import annotations

import warnings
from typing import Any

import pandas as pd
import polars as pl
import pytest

from slotwise import BernoulliLinks, Selector, simulate
from slotwise.errors import InvalidFeedback, InvalidInput
from slotwise.selector.accounting import UnknownWord
from slotwise.selector.floor_advice import FloorUnreachable


@pytest.mark.parametrize(("wrong", "right"), [("floor", "click_floor"), ("slots", "n_slots")])
def test_the_argument_that_is_meant_is_named(wrong: str, right: str) -> None:
    arguments: Any = {"n_slots": 2, wrong: 1} if wrong != "slots" else {wrong: 1}
    with pytest.raises(TypeError, match=f"no argument `{wrong}`; did you mean `{right}`"):
        Selector(["a", "b", "c"], **arguments)


def test_a_method_given_as_an_argument_is_named() -> None:
    message = "no argument `log_to`; it is a method: make the Selector and call its `log_to`"
    arguments: Any = {"log_to": "shop-log"}
    with pytest.raises(TypeError, match=message):
        Selector(["a", "b", "c"], n_slots=2, **arguments)


def test_the_number_of_slots_is_asked_for() -> None:
    with pytest.raises(TypeError, match="needs `n_slots`"):
        Selector(["a", "b", "c"])


@pytest.mark.parametrize("frame", [pd.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [1, 2]})])
def test_a_data_frame_is_no_list_of_links(frame: Any) -> None:
    with pytest.raises(InvalidInput, match=r"`links` must be .* data frame.*give one column"):
        Selector(frame, 1)
    assert Selector(frame["a"], 1).links == (1, 2)


@pytest.mark.parametrize("kind", [pd.Series, pl.Series])
def test_a_series_is_no_revenue(kind: Any) -> None:
    selector = Selector(["a", "b"], 2)
    with pytest.raises(InvalidFeedback, match=r"got a Series; write dict\(\.\.\.\)$"):
        selector.update(selector.select(), clicks=["a"], revenue=kind([1.0, 2.0]))
    with pytest.raises(
        InvalidFeedback, match=r"^`views` must be .*got a Series; write dict\(\.\.\.\)$"
    ):
        selector.update_batch(kind([10, 20]), {}, {})


def test_an_unknown_word_is_counted_and_warned_about_once() -> None:
    selector = Selector(["a", "b"], 1, features={"device": ("phone", "desktop"), "new": bool})
    with pytest.warns(UnknownWord, match=r"'Phone' is not a value of .*'device' \(phone, desktop"):
        selector.select(visitor={"device": "Phone", "new": True})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selector.select(visitor={"device": "Desktop"})
        for known in ("phone", "", None, "(not known)"):
            selector.select(visitor={"device": known, "new": False})
        assert selector.report().n_unknown_words == 2


def test_a_floor_that_no_page_keeps_is_warned_about_once() -> None:
    selector = Selector(["a", "b", "c"], 1, click_floor=0.9, seed=1)
    for _ in range(300):
        selector.update(selector.select(), clicks=[], revenue={})
    with pytest.warns(FloorUnreachable, match=r"keeps click_floor=0\.9: .*`set_floor`"):
        assert selector.report().page.status == "infeasible"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selector.report()


def test_the_links_of_a_report_are_a_data_frame() -> None:
    selector = Selector(["a", "b"], 1, seed=1)
    page = selector.select()
    selector.update(page, clicks=list(page.shown), revenue={page.shown[0]: 0.5})
    frame = selector.report().to_pandas().set_index("link")
    assert frame.loc[page.shown[0], ["clicks", "revenue"]].tolist() == [1, 0.5]
    assert (frame["click_rate_low"] <= frame["click_rate_high"]).all()


def test_experiments_take_policies_by_name_and_print_a_table() -> None:
    links = BernoulliLinks([0.3, 0.2], [0.1, 0.5])
    results = simulate(links, ["cucb", "uniform"], 1, n_rounds=20, n_runs=2)
    first, head, *rows = str(results).splitlines()
    assert first == "after 20 rounds, mean of 2 runs ± 95 % interval"
    assert head.split() == ["policy", "regret", "violation", "reward", "shortfall", "clicks"]
    assert [row.split()[0] for row in rows] == ["cucb", "uniform"]
    with pytest.raises(InvalidInput, match=r"`policies` must be policies or their names"):
        simulate(links, [3], 1)  # type: ignore[list-item]
