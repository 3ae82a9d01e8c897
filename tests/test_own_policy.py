"""Policies and data sets of other packages: the template project, as a user would install it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slotwise.errors import UnknownName
from slotwise.policies import make_policy
from slotwise.simulation import Results

ROOT = Path(__file__).resolve().parent.parent
ENTRY_POINTS = """
[slotwise.policies]
follow-clicks = own_policy:FollowClicks
broken = own_policy:Missing

[slotwise.datasets]
three-links = own_policy:three_links
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the template, with the metadata that `pip install` would write beside it."""
    folder = tmp_path_factory.mktemp("project") / "own_policy"
    shutil.copytree(ROOT / "examples" / "own_policy", folder)
    info = folder / "own_policy-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-policy\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return folder


def run(project: Path, *command: str) -> str:
    path = os.pathsep.join([str(project), str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, *command],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_template_keeps_the_contract(project: Path) -> None:
    assert " passed" in run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x")


def test_an_experiment_names_it_by_entry_point_and_by_module(project: Path) -> None:
    run(project, "-m", "slotwise", "simulate", "mine.toml", "--rounds", "200")
    results = Results.load(project / "mine.parquet")
    first, second, _ = (results.final(label, "reward").tolist() for label in results.labels)
    assert first == second
    assert results.config["dataset"]["title"] == "Three links"


def test_commands_look_in_the_current_folder_and_beside_the_file(
    project: Path, tmp_path: Path
) -> None:
    mine = '[[policies]]\nname = "own_policy:FollowClicks"\n'
    head = 'title = "Mine"\ndataset = "own_policy:three_links"\nn_rounds = 50\nn_runs = 1\n'
    (project / "by_module.toml").write_text(head + mine)
    slotwise = [sys.executable, "-P", "-m", "slotwise"]  # -P: as the installed program, which
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}  # knows no current folder
    for folder, *command in (
        (tmp_path, "simulate", str(project / "by_module.toml")),
        (project, "policies", "own_policy:FollowClicks"),
    ):
        done = subprocess.run(
            [*slotwise, *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert Results.load(tmp_path / "by_module.parquet").labels == ("follow-clicks",)


PROGRAM = """
import slotwise
from benchmarks.leaderboard.run import pick_entrants
selector = slotwise.Selector(["a", "b"], 1, policy="follow-clicks", seed=1)
selector.update(selector.select(), clicks=[], revenue={})
selector.save("it.sel")
print(slotwise.Selector.load("it.sel").policy)
print(slotwise.Selector(["a", "b"], 1, policy="own_policy:FollowClicks").policy)
print(list(pick_entrants(["follow-clicks", "own_policy:FollowClicks"])))
"""


def test_programs_files_and_leaderboard_find_it(project: Path) -> None:
    lines = run(project, "-c", PROGRAM).splitlines()
    assert lines[:2] == ["FollowClicks()"] * 2
    assert lines[2] == "['paced-bayes', 'follow-clicks', 'own_policy:FollowClicks']"
    assert "half of the page" in run(project, "-m", "slotwise", "policies", "follow-clicks")


SERVICE = """
from slotwise.service.pool import check_pool
from slotwise.service.records import PoolSettings
from slotwise.errors import InvalidInput
for policy in ("follow-clicks", "own_policy:FollowClicks"):
    try:
        check_pool(PoolSettings("home", 2, 0.3, 1_000_000, "EUR", 1, 1, policy), 4)
        print("accepted")
    except InvalidInput as error:
        print(error)
"""


def test_the_service_takes_installed_policies_only(project: Path) -> None:
    accepted, refused = run(project, "-c", SERVICE).splitlines()
    assert accepted == "accepted"
    assert refused.startswith("`policy` must be the name of an installed policy, got 'own_policy:")


def test_what_cannot_be_found_is_said(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(project)
    with pytest.raises(UnknownName, match="no policy is called 'follow-click'; did you mean 'fol"):
        make_policy("follow-click")
    with pytest.raises(UnknownName, match="'broken' cannot be imported: module 'own_policy' has"):
        make_policy("broken")
    with pytest.raises(UnknownName, match="'json:loads' must be a class of policies"):
        make_policy("json:loads")
    with pytest.raises(UnknownName, match="'nowhere:It' cannot be imported: No module named"):
        make_policy("nowhere:It")
    with pytest.raises(UnknownName, match="':' cannot be imported"):
        make_policy(":")
