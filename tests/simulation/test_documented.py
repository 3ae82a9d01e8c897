"""The files that docs/experiments.md shows load; its Python runs in tests/docs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from slotwise.simulation import ExperimentFile, load_experiment, shipped_experiments

PAGE = Path(__file__).resolve().parents[2] / "docs" / "experiments.md"


def test_the_files_of_the_page_have_every_key_and_load(tmp_path: Path) -> None:
    texts = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    keys = {key for text in texts for key in tomllib.loads(text)}
    assert set(ExperimentFile.model_fields) - keys == {"n_slots", "failure_probability", "data"}
    assert '# data = "links.csv"' in texts[0]
    path = tmp_path / "documented.toml"
    labels = []
    for text in texts:
        path.write_text(text)
        labels.append(list(load_experiment(path).experiment().policies))
    assert labels == [
        ["con-ucb/72", "oracle"],
        ["con-ucb/720", "oracle"],
        ["paced-bayes", "oracle"],
        ["paced-bayes", "no promise"],
    ]


def test_every_shipped_experiment_is_on_the_page() -> None:
    for name in shipped_experiments():
        assert f"`{name}`" in PAGE.read_text()
