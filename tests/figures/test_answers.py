"""Figures of answers from a log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from slotwise.cli.main import main
from slotwise.errors import InvalidInput
from slotwise.evaluation import BestMix, LinkMix, evaluate, evaluate_all, frontier_of_log
from slotwise.figures import draw_answers
from tests.evaluation.logs import as_file, random_log, write


def texts(figure: Figure) -> list[str]:
    said = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        said += [text.get_text() for text in (*axes.texts, *axes.get_yticklabels())]
    return said


def test_an_answer_draws_itself_beside_the_log() -> None:
    answer = evaluate([as_file(random_log())], BestMix(0.5))
    figure = answer.plot("Mine $costs$")
    said = texts(figure)
    assert {"Mine $costs$", "candidate", "the log itself", "Revenue", "Clicks"} <= set(said)
    assert " floor 0.5" in said
    clicks = figure.axes[1]
    ends = [np.asarray(line.get_xdata()).tolist() for line in clicks.lines]
    assert [answer.clicks.low, answer.clicks.high] in ends
    assert list(answer.bootstrap["clicks"]) in ends


def test_several_answers_share_a_figure_and_say_what_cannot_be_told() -> None:
    mixes = {"a": LinkMix.of({"link-0": 1.0, "link-1": 1.0}), "b": LinkMix.of({"x": 1.0, "y": 1.0})}
    answers = evaluate_all([as_file(random_log())], mixes)
    assert {"a", "b"} <= set(texts(draw_answers(answers)))
    assert any("cannot tell" in said for said in texts(answers["b"].plot()))
    with pytest.raises(InvalidInput, match="`answers` must be at least one"):
        draw_answers({})


def test_the_command_draws_every_kind_of_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("log.parquet"), random_log())
    for question in (["--floor", "0.5"], ["--frontier"]):
        assert main(["evaluate", "log.parquet", *question, "--out", "figures"]) == 0
    printed = capsys.readouterr().out
    for name in ("answer-log-best-mix", "frontier-log"):
        assert f"figures/{name}.svg" in printed
        assert Path(f"figures/{name}.png").stat().st_size > 1000
    curve = frontier_of_log("log.parquet", floors=[0.2, 0.4])
    assert "The price of the floor" in texts(curve.plot())
