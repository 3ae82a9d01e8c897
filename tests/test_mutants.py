"""Planted faults change one thing each, and a copy of the tree notices what tests notice."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import mutants
from tests.mutants import NEAR, ROOT, Copy, chosen, mutant_at, places_in

SOURCE = '''"""A docstring with 1 number."""

def share(views: int, clicks: int = 0) -> float:
    """Return clicks a view."""
    return clicks / views if views > 0 else 0.0
'''


def test_every_fault_changes_one_expression() -> None:
    found = [mutant_at("share.py", SOURCE, place) for place in places_in(SOURCE)]
    assert {(one.before, one.after) for one in found} == {
        ("0", "1"),
        ("clicks / views if views > 0 else 0.0", "0.0 if views > 0 else clicks / views"),
        ("clicks / views", "clicks * views"),
        ("views > 0", "views >= 0"),
        ("0.0", "1.0"),
    }
    assert len(found) == 6  # one 0 is a default, the other is compared
    assert len({one.text for one in found}) == 6
    for one in found:
        ast.parse(one.text)


def test_a_fault_leaves_everything_else_as_it_is() -> None:
    source = '"""É."""\nA, B = 1, (2\n    * 3)  # a comment\n'
    assert {mutant_at("x.py", source, place).text for place in places_in(source)} == {
        source.replace("2\n    * 3", "(2 / 3)"),
        source.replace("= 1,", "= (2),"),
        source.replace("(2", "((3)"),
        source.replace("3)", "(4))"),
    }


def test_the_same_seed_plants_the_same_faults_in_every_place() -> None:
    one, other = (chosen(list(NEAR), 2 * len(NEAR), seed=3) for _ in range(2))
    assert one == other
    assert {place for place in NEAR if any(m.file.startswith(place) for m in one)} == set(NEAR)
    assert all((ROOT / mutant.file).exists() for mutant in one)


@pytest.mark.parametrize(("test", "is_noticed"), [("share(2, 1) == 0.5", True), ("True", False)])
def test_a_fault_is_noticed_if_a_test_fails(
    test: str, is_noticed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "share.py").write_text(SOURCE)
    (root / "test_share.py").write_text(
        f"from share import share\n\ndef test_share():\n    assert {test}\n"
    )
    (root / "pyproject.toml").write_text(
        '[tool.pytest.ini_options]\nmarkers = ["slow", "system", "compiled"]\n'
    )
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer than the test
    monkeypatch.setattr(mutants, "ROOT", root)
    monkeypatch.setattr(mutants, "COPIED", ("src",))
    monkeypatch.setattr(mutants, "FILES", ("pyproject.toml", "test_share.py"))
    tree = Copy(tmp_path / "copy")
    assert tree.passes(["test_share.py"])
    places = places_in(SOURCE)
    [divided] = [
        one
        for one in (mutant_at("src/share.py", SOURCE, place) for place in places)
        if one.after == "clicks * views"
    ]
    assert tree.is_noticed(divided, ["test_share.py"]) is is_noticed
    assert (tmp_path / "copy" / "src" / "share.py").read_text() == SOURCE
