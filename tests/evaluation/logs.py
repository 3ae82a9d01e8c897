"""Small logs for tests, written as a user would write them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Columns = dict[str, list[Any]]


def write(path: Path, columns: Mapping[str, list[Any]], **options: Any) -> Path:
    pq.write_table(pa.table(dict(columns)), path, **options)
    return path


def random_log(
    seed: int = 1,
    n_pages: int = 400,
    n_links: int = 6,
    n_slots: int = 2,
    min_probability: bool = True,
) -> Columns:
    """A log of systematic sampling with probabilities that change from page to page."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.1, 0.9, n_links)
    columns: Columns = {
        name: [] for name in ("page_id", "time_us", "slot", "link", "probability", "clicked")
    }
    columns["revenue"] = []
    if min_probability:
        columns["min_probability"] = []
    for page in range(n_pages):
        weights = rng.dirichlet(np.ones(n_links))
        chances = 0.5 * n_slots / n_links + 0.5 * np.minimum(n_slots * weights, 0.9)
        chances *= n_slots / chances.sum()
        chances = np.minimum(chances, 1.0)
        chances[np.argmin(chances)] += n_slots - chances.sum()
        steps = np.cumsum(chances) - rng.random()
        shown = np.flatnonzero(np.diff(np.ceil(np.concatenate([[steps[0] - chances[0]], steps]))))
        for slot, link in enumerate(shown[:n_slots].tolist(), start=1):
            clicked = bool(rng.random() < rates[link])
            columns["page_id"].append(f"page-{page}")
            columns["time_us"].append(1000 * page)
            columns["slot"].append(slot)
            columns["link"].append(f"link-{link}")
            columns["probability"].append(float(chances[link]))
            columns["clicked"].append(clicked)
            columns["revenue"].append(float(rng.random() * (1 - rates[link])) if clicked else 0.0)
            if min_probability:
                columns["min_probability"].append(float(chances.min()))
    return columns


def as_file(columns: Mapping[str, list[Any]]) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), file)
    file.seek(0)
    return file
