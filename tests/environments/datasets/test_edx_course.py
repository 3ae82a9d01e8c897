from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from slotwise.environments.datasets import load_dataset, look_ahead
from slotwise.errors import InvalidInput, MissingData

HEADER = (
    "Institution,Course Number,Launch Date,Instructors,"
    "Participants (Course Content Accessed),Certified,% Played Video"
)
ROWS = (
    'MITx,6.002x,9/5/2012,"Afridi, Sussman",1000,100,83.2',
    "MITx,6.002x,3/3/2013,,500,10,---",
    "HarvardX,PH207x,10/15/2012,Cook,100,0,50",
)


def write(directory: Path, *rows: str, header: str = HEADER) -> Path:
    (directory / "appendix.csv").write_text("\n".join([header, *rows]) + "\n")
    return directory


def test_rates_come_from_participants_and_certificates(tmp_path: Path) -> None:
    dataset = load_dataset("edx-course", write(tmp_path, *ROWS), n_slots=2, click_floor=1)
    np.testing.assert_allclose(dataset.click_rate, [1, 400 / 900, 0])
    np.testing.assert_allclose(dataset.revenue_per_click, [0.1, 0.02, 0])
    assert dataset.link_names == (
        "MITx 6.002x 9/5/2012 (row 1)",
        "MITx 6.002x 3/3/2013 (row 2)",
        "HarvardX PH207x 10/15/2012 (row 3)",
    )
    assert not dataset.look_alike


def test_the_file_may_stand_in_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "edx-course").mkdir()
    write(tmp_path / "edx-course", *ROWS)
    assert load_dataset("edx-course", tmp_path, n_slots=2, click_floor=1).n_links == 3


def test_the_file_itself_may_be_named(tmp_path: Path) -> None:
    file = write(tmp_path, *ROWS) / "appendix.csv"
    assert load_dataset("edx-course", file, n_slots=2, click_floor=1).n_links == 3


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    write(tmp_path, *ROWS, header=HEADER.replace("Certified", "Passed"))
    with pytest.raises(
        MissingData, match=r"`Certified` must be a column of appendix.csv in .*Pass"
    ):
        load_dataset("edx-course", tmp_path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("M,1,2,,---,5,1", r"`Participants .*` must be a number from 1 up, got '---'; see row 4"),
        (
            "M,1,2,,0,0,1",
            r"`Participants .*` must be a number from 1 up, got '0'; see row 4 of app",
        ),
        ("M,1,2,,5,,1", r"`Certified` must be a number from 0 up, got None; see row 4"),
        ("M,1,2,,5,6,1", r"`Certified` must be at most the number of part.*got '6'; see row 4"),
    ],
)
def test_a_bad_cell_is_named_with_its_row(row: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=message):
        load_dataset("edx-course", write(tmp_path, *ROWS, row))


def test_courses_of_one_size_cannot_be_scaled(tmp_path: Path) -> None:
    write(tmp_path, "M,1,2,,5,1,1", "M,1,3,,5,1,1")
    with pytest.raises(InvalidInput, match=r"must be different for at least two links, got \[5"):
        load_dataset("edx-course", tmp_path)


def test_the_published_file_gives_the_known_optimum(original_files: Path) -> None:
    dataset = load_dataset("edx-course", original_files)
    assert dataset.n_links == 290
    outlook = look_ahead(dataset)
    assert outlook.floor == "infeasible"
    assert outlook.most_clicks == pytest.approx(9.284, abs=5e-4)
    assert outlook.clicks == pytest.approx(outlook.most_clicks)
    assert outlook.revenue_without_floor == pytest.approx(0.5173, abs=5e-5)
    assert outlook.clicks_without_floor == pytest.approx(6.74, abs=5e-3)
    assert look_ahead(dataset.with_floor(9)).revenue == pytest.approx(0.5012, abs=5e-5)
    assert look_ahead(dataset.with_floor(9)).floor == "binding"
