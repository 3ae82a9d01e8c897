"""The notebook of the manual runs from top to bottom and ends in a figure."""

from __future__ import annotations

import base64
import io

import pytest
from PIL import Image

from manual.notebook import read_notebook, run_notebook
from slotwise.compile.notice import NOTICE


def test_the_notebook_is_kept_without_outputs() -> None:
    code = [cell for cell in read_notebook().cells if cell.cell_type == "code"]
    assert code
    assert not any(cell.outputs or cell.execution_count for cell in code)


@pytest.mark.compiled
def test_the_notebook_runs_from_data_to_figure() -> None:
    notebook = run_notebook()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    printed = [output for output in outputs if output.output_type == "stream"]
    errors = "".join(output.text for output in printed if output.name == "stderr")
    assert set(errors.splitlines()) <= {NOTICE}

    shown = [output.data for output in outputs if output.output_type != "stream"]
    [table] = [data["text/plain"] for data in shown if data["text/plain"].split()[0] == "regret"]
    regret = final_regret(table)
    assert regret["default"] < regret["con-ucb/72"] / 2  # seeded: the same numbers every time

    [figure] = [data["image/png"] for data in shown if "image/png" in data]
    with Image.open(io.BytesIO(base64.b64decode(figure))) as picture:
        assert picture.width > 400
        assert len(picture.convert("RGB").getcolors(1 << 24) or ()) > 10  # not an empty page


def final_regret(table: str) -> dict[str, float]:
    """Return the mean regret by policy, from the table as the notebook prints it."""
    rows = [line.split() for line in table.splitlines()]
    return {row[0]: float(row[1]) for row in rows if len(row) == 4}
