"""Progress: honest from the first second, and readable in a pipe."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from slotwise.cli import progress
from slotwise.cli.progress import Stages, progress_bar


def test_in_a_pipe_each_experiment_has_one_line_when_it_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress_bar("All") as tell:
        for told in ((0.0, "First [1]"), (0.2, "First [1]"), (0.5, "Second"), (0.9, "Second")):
            tell(*told)
    assert capsys.readouterr().err.splitlines() == [
        "  0% First [1]: compiling",
        " 50% Second: compiling",
    ]
    with progress_bar("All") as tell:
        tell(1.0, "Finished")
    assert capsys.readouterr().err == "100% Finished\n"


def test_on_a_terminal_the_bar_says_that_it_compiles_before_anything_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(
        progress,
        "Console",
        lambda **_: Console(file=screen, force_terminal=True, width=100),
    )
    with progress_bar("The paper [again]") as tell:
        pass
    assert "The paper [again]: compiling" in screen.getvalue()
    screen.truncate(0)
    with progress_bar("The paper") as tell:
        tell(0.0, "Figure 1")
        tell(0.25, "Figure 1")
    shown = screen.getvalue()
    assert "Figure 1" in shown
    assert " 25%" in shown


def test_compiling_ends_with_the_first_finished_run_of_each_experiment() -> None:
    stages = Stages()
    assert stages.describe(0.4, "resumed") == "resumed: compiling"
    assert stages.describe(0.4, "resumed") == "resumed: compiling"
    assert stages.describe(0.41, "resumed") == "resumed"
    assert stages.describe(0.41, "next") == "next: compiling"
