"""The notebook as a page of the manual: its cells, and what they print and draw when they run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from manual.markdown import fence

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "docs" / "from-data-to-figure.ipynb"


def read_notebook() -> Any:
    """Return the cells as they are stored, without outputs."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    return notebook


def run_notebook() -> Any:
    """Return the notebook with all outputs; nothing is written outside a temporary folder."""
    notebook = read_notebook()
    with TemporaryDirectory(prefix="slotwise-notebook-") as folder:
        names = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
        places = {name: str(Path(folder) / name.lower()) for name in names}
        with patch.dict(os.environ, {**places, "PYTHONPATH": str(ROOT / "src")}):
            sockets = {"transport": "ipc", "ip": str(Path(folder) / "kernel")}  # no ports
            options: dict[str, Any] = {
                "config": Config(ConnectionFileMixin=sockets),
                "resources": {"metadata": {"path": folder}},
            }
            NotebookClient(notebook, timeout=None, kernel_name="python3", **options).execute()
    return notebook


def notebook_reference() -> str:
    """Return the text, the code and the outputs of all cells."""
    return "\n\n".join(part for cell in run_notebook().cells for part in _parts(cell))


def _parts(cell: Any) -> Iterator[str]:
    if cell.cell_type == "markdown":
        yield cell.source
        return
    yield fence(cell.source, "python")
    for output in cell.outputs:
        if output.output_type == "stream":
            if output.name == "stdout":
                yield fence(output.text, "text")
        elif picture := output.data.get("image/png"):
            encoded = "".join(picture.split())
            yield f"![What the cell above draws](data:image/png;base64,{encoded})"
        else:
            yield fence(output.data["text/plain"], "text")
