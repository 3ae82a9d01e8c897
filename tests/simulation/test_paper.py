"""The plan of the paper: which experiments, how large, into which files."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotwise.errors import InvalidConfig
from slotwise.policies import default_policy
from slotwise.simulation.series import FIGURES, QUICK, SWEEPS, notes_of, plan_paper

pytestmark = pytest.mark.compiled


def test_figures_come_first_and_every_experiment_has_its_file(tmp_path: Path) -> None:
    plan = plan_paper(tmp_path)
    assert [planned.path.stem for planned in plan] == [*FIGURES, *SWEEPS]
    assert {planned.path.parent for planned in plan} == {tmp_path / "results"}
    assert [planned.experiment.n_runs for planned in plan] == [200] * 4 + [40] * 4
    assert {planned.experiment.n_rounds for planned in plan} == {50_000}


def test_the_default_policy_runs_in_every_figure_beside_the_papers(tmp_path: Path) -> None:
    plan = plan_paper(tmp_path, n_runs=1, n_rounds=9)
    for planned in plan[: len(FIGURES)]:
        policies = planned.experiment.policies
        assert list(policies)[-2:] == [default_policy().name, "oracle"]
        assert policies[default_policy().name] == default_policy()


def test_a_sweep_has_at_most_the_runs_of_its_file(tmp_path: Path) -> None:
    many, few = (plan_paper(tmp_path, n_runs=n_runs, n_rounds=9) for n_runs in (60, 5))
    assert [planned.experiment.n_runs for planned in many] == [60] * 4 + [40] * 4
    assert {planned.experiment.n_runs for planned in few} == {5}


def test_numbers_given_go_before_those_of_a_quick_look(tmp_path: Path) -> None:
    plan = plan_paper(tmp_path, n_runs=2, is_quick=True)
    assert {planned.experiment.n_runs for planned in plan} == {2}
    assert {planned.experiment.n_rounds for planned in plan} == {QUICK["n_rounds"]}


def test_a_size_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match="`n_runs`"):
        plan_paper(tmp_path, n_runs=0)


def test_a_note_that_several_experiments_share_is_said_once(tmp_path: Path) -> None:
    notes = notes_of(plan_paper(tmp_path, tmp_path, n_runs=1, n_rounds=1))
    assert len(notes) == len(set(notes)) == 3
    assert all("look-alike used instead of" in note for note in notes)


def test_a_floor_that_no_page_reaches_is_run_with_one_that_can_be_kept(tmp_path: Path) -> None:
    header = (
        "Institution,Course Number,Launch Date,Participants (Course Content Accessed),Certified"
    )
    audiences = [100_000, 60_000, *range(100, 200)]
    rows = [f"MITx,{number},1/1/13,{audience},5" for number, audience in enumerate(audiences)]
    (tmp_path / "appendix.csv").write_text("\n".join([header, *rows]) + "\n")
    plan = plan_paper(tmp_path, tmp_path / "appendix.csv", n_runs=1, n_rounds=9)
    floors = {
        planned.path.stem: planned.experiment.problem.click_floor
        for planned in plan
        if "edx" in planned.path.stem
    }
    assert floors == {
        "figure-3-edx": 10.0,
        "figure-3-edx-floor-1": 1.0,
        "gamma-sweep-edx": 10.0,
        "gamma-sweep-edx-floor-1": 1.0,
    }
    lower = next(one.experiment for one in plan if one.path.stem == "figure-3-edx-floor-1")
    assert lower.optimum().status != "infeasible"
    assert lower.dataset["instead_of_floor"] == 10.0
    assert "no page of edX-Course reaches the floor of 10: the most clicked one has 1." in "".join(
        notes_of(plan)
    )
