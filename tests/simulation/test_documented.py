"""What docs/experiments.md shows is what happens."""

from __future__ import annotations

import doctest
import re
import tomllib
from pathlib import Path

from slotwise.simulation import ExperimentFile, load_experiment, shipped_experiments

PAGE = Path(__file__).resolve().parents[2] / "docs" / "experiments.md"


def test_the_python_of_the_page_runs() -> None:
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 0
    assert failed == 0


def test_the_file_of_the_page_has_every_key_and_loads(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    keys = set(tomllib.loads(found[1]))
    assert set(ExperimentFile.model_fields) - keys == {"n_slots", "failure_probability"}
    path = tmp_path / "documented.toml"
    path.write_text(found[1])
    assert list(load_experiment(path).experiment().policies) == ["con-ucb/72", "oracle"]


def test_every_shipped_experiment_is_on_the_page() -> None:
    for name in shipped_experiments():
        assert f"`{name}`" in PAGE.read_text()
