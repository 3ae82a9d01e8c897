"""The courses of edX: the rates of one of the paper's data sets, from its table.

`registry` loads it by name.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import polars as pl

from slotwise.environments.datasets.dataset import Dataset, PageSetting
from slotwise.environments.datasets.originals import min_max
from slotwise.environments.datasets.source_files import (
    SourceFile,
    check_cells,
    numbers_of,
    read_columns,
)

EDX_ORIGIN = 'download it from the Kaggle data set "Online Courses from Harvard and MIT"'
PARTICIPANTS = "Participants (Course Content Accessed)"
CERTIFIED = "Certified"
NAME_PARTS = ("Institution", "Course Number", "Launch Date")


@dataclass(frozen=True)
class EdxCourse:
    """Loader of `appendix.csv`.

    A link is a row, and its name ends with the row number: no column is unique, not even `Course
    Number`, which stays the same when a course is repeated. The click rate is the min-max scaled
    number of participants; the revenue per click is the share of participants who earned a
    certificate. The click floor is the paper's 10, although no page of the published file reaches
    it: `look_ahead` returns the largest number of clicks.
    """

    def load(self, directory: Path, page: PageSetting) -> Dataset:
        """Read the file in `directory`."""
        source = SourceFile.find(directory, "edx-course", "appendix.csv", EDX_ORIGIN)
        block = read_columns(source, [*NAME_PARTS, PARTICIPANTS, CERTIFIED])
        participants = numbers_of(source, block, PARTICIPANTS, low=1.0)
        certified = numbers_of(source, block, CERTIFIED)
        at_most = pl.Series(certified <= participants)
        check_cells(source, block, CERTIFIED, at_most, "at most the number of participants")
        return Dataset(
            name="edx-course",
            title="edX-Course",
            click_rate=min_max(PARTICIPANTS, participants),
            revenue_per_click=np.asarray(certified / participants),
            **asdict(page),
            look_alike=False,
            source=f"{source.path.name}: {block.rows.height} courses of HarvardX and MITx",
            notes=("click rate: min-max scaled participants", "revenue: certified / participants"),
            link_names=tuple(
                f"{' '.join(part or '?' for part in parts)} (row {row})"
                for row, parts in enumerate(block.rows.select(NAME_PARTS).rows(), start=1)
            ),
        )
