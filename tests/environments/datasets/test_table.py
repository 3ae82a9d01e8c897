from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slotwise.environments.datasets import Dataset, load_dataset
from slotwise.errors import InvalidInput, MissingData, SlotwiseError

LINKS = pl.DataFrame(
    {
        "page": ["home", "news", "help"],
        "shows": [1000, 400, 50],
        "hits": [100, 0, 25],
        "euros": [50.0, 0.0, 100.0],
    }
)
COLUMNS = {"views": "shows", "clicks": "hits", "revenue": "euros"}
PAGE = {"n_slots": 2, "click_floor": 0.3}


def load(path: Path, **options: object) -> Dataset:
    return load_dataset("table", path, **{**PAGE, **COLUMNS, **options})


@pytest.fixture
def links_csv(tmp_path: Path) -> Path:
    LINKS.write_csv(tmp_path / "links.csv")
    return tmp_path / "links.csv"


def test_columns_become_rates(links_csv: Path) -> None:
    dataset = load(links_csv, link="page", max_revenue=10)
    np.testing.assert_allclose(dataset.click_rate, [0.1, 0, 0.5])
    np.testing.assert_allclose(dataset.revenue_per_click, [0.05, 0, 0.4])
    assert dataset.link_names == ("home", "news", "help")
    assert (dataset.n_slots, dataset.click_floor) == (2, 0.3)
    assert dataset.title == "links.csv"


def test_without_max_revenue_the_largest_of_the_table_is_taken(links_csv: Path) -> None:
    dataset = load(links_csv)
    np.testing.assert_allclose(dataset.revenue_per_click, [0.125, 0, 1])
    assert "revenue: euros / hits / 4 (the largest in the table)" in dataset.notes
    assert dataset.link_names is None


def test_every_kind_of_file_says_the_same(links_csv: Path, tmp_path: Path) -> None:
    LINKS.write_parquet(tmp_path / "links.parquet")
    LINKS.write_csv(tmp_path / "links.tsv", separator="\t")
    expected = load(links_csv, link="page")
    for name in ("links.parquet", "links.tsv", "links.csv"):
        found = load(tmp_path, file=name, link="page")
        assert np.array_equal(found.click_rate, expected.click_rate)
        assert np.array_equal(found.revenue_per_click, expected.revenue_per_click)
        assert found.link_names == expected.link_names


def test_a_pool_that_brought_nothing_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("shows,hits,euros\n10,1,0\n10,0,0\n")
    assert load(tmp_path / "links.csv", n_slots=1).revenue_per_click.tolist() == [0, 0]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("place", "column", "value", "message"),
    [
        (1, "shows", 0, r"`shows` must be above 0, got '?0'?; see row 2 of links"),
        (1, "shows", None, r"`shows` must be a number from 0 up, got None; see row 2 of links"),
        (2, "hits", 51, r"`hits` must be at most `shows`, got '?51'?; see row 3 of links"),
        (0, "hits", -1, r"`hits` must be a number from 0 up, got '?-1'?; see row 1 of links"),
        (0, "euros", 1001.0, r"`euros` must be at most 10 per click .*got '?1001.0'?; see row 1"),
        (1, "euros", 1.0, r"`euros` must be 0 without clicks, got '?1.0'?; see row 2"),
        (
            2,
            "euros",
            float("nan"),
            r"`euros` must be a number from 0 up, got '?[nN]a[nN]'?; .*row 3",
        ),
        (2, "page", "home", r"`page` must be a name that occurs once, got 'home'; see row 3"),
    ],
)
def test_a_bad_cell_is_named_with_its_row(
    place: int, column: str, value: object, message: str, suffix: str, tmp_path: Path
) -> None:
    cells = LINKS[column].to_list()
    cells[place] = value
    spoiled = LINKS.with_columns(pl.Series(column, cells, dtype=LINKS[column].dtype))
    path = tmp_path / f"links.{suffix}"
    if suffix == "csv":
        spoiled.write_csv(path)
    else:
        spoiled.write_parquet(path)
    with pytest.raises(InvalidInput, match=message):
        load(path, link="page", max_revenue=10)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_missing_column_is_named(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"links.{suffix}"
    if suffix == "csv":
        LINKS.write_csv(path)
    else:
        LINKS.write_parquet(path)
    with pytest.raises(MissingData, match=r"`clicks` must be a column of links.*page, shows, hits"):
        load(path, clicks="clicks")


def test_a_file_must_be_named_and_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"`file` must be given: .* has 0 tables"):
        load(tmp_path)
    with pytest.raises(MissingData, match=r"`links.csv` must be in the directory"):
        load(tmp_path, file="links.csv")


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "links.xlsx").write_text("")
    with pytest.raises(
        InvalidInput, match=r"`file` must be named .csv, .tsv, .parquet, got 'links"
    ):
        load(tmp_path / "links.xlsx")


def test_max_revenue_must_be_a_price(links_csv: Path) -> None:
    with pytest.raises(InvalidInput, match=r"`max_revenue` must be above 0 and finite, got 0"):
        load(links_csv, max_revenue=0)


FUNNEL = "views,clicks,cart,purchase\n100,50,10,5\n100,20,0,0\n"


def load_funnel(folder: Path, text: str = FUNNEL, levels: str = "cart, purchase") -> Dataset:
    (folder / "funnel.csv").write_text(text)
    return load_dataset("table", folder / "funnel.csv", n_slots=1, click_floor=0.1, levels=levels)


def test_further_columns_become_levels(tmp_path: Path) -> None:
    dataset = load_funnel(tmp_path)
    assert dataset.levels == ("click", "cart", "purchase")
    assert dataset.rates_given_last.tolist() == [[0.5, 0.2], [0.2, 0.0], [0.5, 0.0]]
    assert dataset.notes[1:] == ("cart: cart / clicks", "purchase: purchase / cart")


@pytest.mark.parametrize(
    ("text", "levels", "message"),
    [
        (FUNNEL.replace("10,5", "10,11"), "cart,purchase", "`purchase` must be at most `cart`"),
        (FUNNEL, "cart,,purchase", "`levels` must be different columns, .* got 'cart,,purchase'"),
        (FUNNEL, "cart,cart", "`levels` must be different columns"),
        (FUNNEL, "click", "none of them called click"),
        (FUNNEL, "", "`levels` must be different columns"),
    ],
)
def test_wrong_levels_are_named(text: str, levels: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_funnel(tmp_path, text, levels)


def test_a_level_without_its_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="`sale` must be a column of funnel"):
        load_funnel(tmp_path, levels="cart,sale")


def test_the_only_table_of_a_folder_needs_no_name(tmp_path: Path) -> None:
    LINKS.write_csv(tmp_path / "links.csv")
    (tmp_path / "notes.txt").write_text("")
    assert load(tmp_path).title == "links.csv"
    LINKS.write_csv(tmp_path / "more.csv")
    with pytest.raises(InvalidInput, match=r"`file` must be given: .* has 2 tables"):
        load(tmp_path)


def rates(tmp_path: Path, text: str, **options: object) -> Dataset:
    path = tmp_path / "rates.csv"
    path.write_text(text)
    return load_dataset("rates", path, n_slots=1, click_floor=0.1, **options)


def test_a_table_of_rates_is_read_as_it_is(tmp_path: Path) -> None:
    text = "page,ctr,value\nhome,0.5,0.1\nnews,0.25,1\n"
    named = {"click_rate": "ctr", "revenue_per_click": "value", "link": "page"}
    data = rates(tmp_path, text, **named)
    assert data.click_rate.tolist() == [0.5, 0.25]
    assert data.revenue_per_click.tolist() == [0.1, 1.0]
    assert data.link_names == ("home", "news")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("click_rate,revenue_per_click\n0.5,1.5\n", r"`revenue_per_click` must be a number from 0"),
        (
            "click_rate,revenue_per_click\nmany,0.5\n",
            r"`click_rate` must be .* got 'many'; see row",
        ),
        ("clicks,views\n1,2\n", r"`click_rate` must be a column .* the options `click_rate`, "),
    ],
)
def test_what_is_no_rate_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SlotwiseError, match=message):
        rates(tmp_path, text)
