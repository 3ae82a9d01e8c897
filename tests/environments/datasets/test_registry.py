from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slotwise.environments.datasets import DATASETS, load_dataset
from slotwise.errors import InvalidInput, MissingData, SlotwiseError, UnknownName

LOADERS = ["coupon-purchase", "ad-clicks", "edx-course"]


def test_an_unknown_name_is_answered_with_the_closest() -> None:
    with pytest.raises(UnknownName, match=r"called 'ads-lik'; did you mean 'ads-like'"):
        load_dataset("ads-lik")


def test_a_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(UnknownName) as raised:
        load_dataset("zzz")
    assert all(name in str(raised.value) for name in DATASETS)
    assert "did you mean" not in str(raised.value)


@pytest.mark.parametrize("name", LOADERS)
def test_a_loader_without_directory_says_where_users_get_the_files(name: str) -> None:
    with pytest.raises(MissingData, match=f"files of `{name}` are, got None; Kaggle"):
        load_dataset(name)


@pytest.mark.parametrize("name", LOADERS)
def test_a_missing_file_is_named_with_the_directory_and_the_source(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(MissingData) as raised:
        load_dataset(name, tmp_path)
    assert str(tmp_path) in str(raised.value)
    assert "Kaggle" in str(raised.value)
    assert ".csv`" in str(raised.value)


def test_a_look_alike_takes_no_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="`directory` must be left out for the built-in"):
        load_dataset("coupon-like", tmp_path)


def test_the_page_of_any_data_set_can_be_changed() -> None:
    dataset = load_dataset("edx-like", n_slots=30, click_floor=6, failure_probability=0.1)
    assert (dataset.n_slots, dataset.click_floor, dataset.failure_probability) == (30, 6, 0.1)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("coupon-like", {"n_links": 5}, r"`n_links` must be an option of .* \(n_slots, .*got 5"),
        ("ad-clicks", {"clicks": "x"}, r"`clicks` must be an option of .* n_links\), got 'x'"),
        ("ad-clicks", {"n_links": "many"}, r"`n_links` must be of type int, got 'many'"),
        ("ad-clicks", {"n_links": True}, r"`n_links` must be of type int, got True"),
        ("ad-clicks", {"n_links": 0}, r"`n_links` must be at least 1, got 0"),
        (
            "table",
            {"click_floor": 1},
            r"`n_slots` must be given for the data set `table`, got None",
        ),
        (
            "table",
            {"n_slots": 2, "click_floor": 1, "link": 3},
            r"`link` must be of type str, got 3",
        ),
    ],
)
def test_options_are_checked_before_files_are_read(
    name: str, options: dict[str, object], message: str, tmp_path: Path
) -> None:
    directory = None if name.endswith("-like") else tmp_path
    with pytest.raises(InvalidInput, match=message):
        load_dataset(name, directory, **options)


def test_without_polars_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in list(sys.modules):
        if module.startswith("slotwise.environments.datasets."):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(
        SlotwiseError, match=r"`edx-course` needs .* polars.*slotwise\[experiments\]"
    ):
        load_dataset("edx-course", tmp_path)
