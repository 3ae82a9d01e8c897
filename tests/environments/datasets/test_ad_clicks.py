from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slotwise.environments.datasets import load_dataset, look_ahead
from slotwise.errors import InvalidInput

SMALL_PAGE = {"n_slots": 2, "click_floor": 0.1}


def write(directory: Path, text: str) -> Path:
    (directory / "x-ad-click.csv").write_text(text)
    return directory


def test_the_two_columns_are_the_rates(tmp_path: Path) -> None:
    dataset = load_dataset("ad-clicks", write(tmp_path, "0.5,0.25\n0.1,1\n0,0"), **SMALL_PAGE)
    assert dataset.click_rate.tolist() == [0.5, 0.1, 0.0]
    assert dataset.revenue_per_click.tolist() == [0.25, 1.0, 0.0]
    assert dataset.failure_probability == 0.02


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "0.5,0.2\n1.5,0.2\n",
            r"`click rate` must be a number from 0 to 1, got '1.5'; see row 2 of",
        ),
        (
            "0.5,0.2\n0.5,x\n",
            r"`phone requests per click` must be a number from 0 to 1, got 'x'; .*2",
        ),
        ("0.5,0.2\n0.5\n", r"`phone requests per click` must be a number .* got None; see row 2"),
        ("0.5\n0.4\n", r"`x-ad-click.csv` must be a readable table, got"),
        ("", r"`x-ad-click.csv` must be a readable table, got"),
    ],
)
def test_a_bad_cell_is_named_with_its_row(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_dataset("ad-clicks", write(tmp_path, text))


def test_the_published_file_gives_the_known_optimum(original_files: Path) -> None:
    dataset = load_dataset("ad-clicks", original_files)
    assert dataset.n_links == 225
    papers = look_ahead(dataset)
    assert papers.floor == "slack"
    assert papers.clicks == pytest.approx(10.206, abs=5e-4)
    assert papers.revenue == pytest.approx(4.0965, abs=5e-5)
    binding = look_ahead(dataset.with_floor(12.0))
    assert binding.floor == "binding"
    assert binding.revenue == pytest.approx(4.0340, abs=5e-5)
    assert binding.shadow_price == pytest.approx(0.0746, abs=5e-5)
    assert binding.most_clicks == pytest.approx(16.58, abs=5e-3)
    assert np.all(dataset.revenue_rate <= dataset.click_rate)
