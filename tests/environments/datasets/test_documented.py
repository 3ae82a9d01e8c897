"""Every data set and every option has its place in docs/data.md, and what it shows is true."""

from __future__ import annotations

import doctest
import importlib
from dataclasses import fields
from pathlib import Path

import pytest

from slotwise.environments.datasets import DATASETS, Loader, load_dataset, look_ahead

PAGE = Path(__file__).resolve().parents[3] / "docs" / "data.md"
TEXT = PAGE.read_text(encoding="utf-8")
LOADERS = [entry for entry in DATASETS.values() if isinstance(entry, Loader)]


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_is_in_the_table(name: str) -> None:
    assert f"\n| `{name}` | " in TEXT


@pytest.mark.parametrize("entry", LOADERS, ids=lambda entry: entry.name)
def test_every_option_is_named(entry: Loader) -> None:
    module, _, class_name = entry.settings.partition(":")
    settings = getattr(
        importlib.import_module(f"slotwise.environments.datasets.{module}"), class_name
    )
    for field in fields(settings):
        assert f"`{field.name}`" in TEXT


def test_the_examples_run() -> None:
    outcome = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_the_figures_of_ads_like_are_those_shown() -> None:
    outlook = look_ahead(load_dataset("ads-like-binding"))
    row = (
        f"| `ads-like` | {outlook.revenue_without_floor:.3f} | {outlook.clicks_without_floor:.2f} "
        f"| {outlook.revenue:.3f} | {outlook.shadow_price:.3f} | {outlook.most_clicks:.2f} |"
    )
    assert row in TEXT


def test_the_table_example_loads(tmp_path: Path) -> None:
    start = TEXT.index("page,shows,hits,euros")
    (tmp_path / "links.csv").write_text(TEXT[start : TEXT.index("```", start)])
    dataset = load_dataset(
        "table",
        tmp_path / "links.csv",
        views="shows",
        clicks="hits",
        revenue="euros",
        link="page",
        max_revenue=10.0,
        n_slots=2,
        click_floor=0.3,
    )
    assert dataset.link_names == ("home", "news", "help")
