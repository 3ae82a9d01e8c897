"""Counts of the past as the start of a selector."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotwise import Selector
from slotwise.cli.main import main
from slotwise.errors import SlotwiseError
from slotwise.policies import POLICIES
from slotwise.selector import read_known_counts, start_from_counts
from tests.selector.selectors import knowledge, new_selector

CSV = "link,views,clicks,revenue\na,1000,300,30\nb,1000,100,200\nc,1000,50,0\n"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clicks.csv").write_text(CSV)
    return tmp_path / "clicks.csv"


@pytest.mark.filterwarnings("ignore::slotwise.selector.floor_advice.FloorUnreachable")
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "fixed-mix"])
def test_rates_are_known_and_nothing_is_owed(policy: str, table: Path) -> None:
    selector = new_selector(policy, links=list("abc"), click_floor=1.0, max_revenue=10.0)
    fresh = knowledge(selector)
    if policy in ("lexp", "exp3-m"):
        with pytest.raises(SlotwiseError, match="`policy` must be a policy that learns from count"):
            start_from_counts(selector, read_known_counts(table))
        return
    start_from_counts(selector, read_known_counts(table), discount=0.1)
    known = knowledge(selector)
    for owed in {"queue", "owed", "deficit"} & known.keys():
        assert known[owed] == fresh[owed]
    report = selector.report()
    assert report.delivered.page_views == 0
    assert [row.views for row in report.links] == [100, 100, 100]
    assert [row.click_rate.estimate for row in report.links] == pytest.approx([0.3, 0.1, 0.05])
    assert [row.revenue for row in report.links] == pytest.approx([3.0, 20.0, 0.0])
    selector.update(selector.select(), clicks=[], revenue={})


def test_the_command_makes_a_selector_to_load(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["import", "clicks.csv", "--slots", "1", "--max-revenue", "10", "--floor", "0.1"]
    assert main(asked) == 0
    assert capsys.readouterr().out == "3 links, 3,000 views known\nclicks.sel\n"
    selector = Selector.load("clicks.sel")
    assert [row.clicks for row in selector.report().links] == [300, 100, 50]
    assert selector.select().shown == ("b",)


@pytest.mark.filterwarnings("ignore::slotwise.selector.floor_advice.FloorUnreachable")
def test_segments_teach_what_differs(table: Path) -> None:
    table.write_text(
        "device,link,views,clicks\nphone,a,5000,2500\nphone,b,5000,50\n"
        "desktop,a,5000,50\ndesktop,b,5000,2500\n"
    )
    assert main(["import", "clicks.csv", "--slots", "1", "--floor", "0.4"]) == 0
    selector = Selector.load("clicks.sel")
    assert [feature.name for feature in selector._player.features.features] == ["device"]
    assert [row.views for row in selector.report().links] == [10_000, 10_000]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("link,views\na,1\n", "counts must have the columns link, views, clicks"),
        ("link,views,clicks\n", "counts must have a row for each link, got none"),
        ("link,views,clicks\na,x,0\n", "row 2: `views` must be a whole number of at least 0"),
        ("link,views,clicks\na,10,nan\n", "row 2: `clicks` must be a whole number of at least 0"),
        ("link,views,clicks\na,10,11\n", "`clicks` of 'a' must be at most its views (10), got 11"),
        ("link,views,clicks,revenue\na,9,0,1\n", "`revenue` must be of links that were clicked"),
        ("link;views;clicks\na;10,000;1\n", "row 2: `views` must be a whole number of at least 0"),
        ("link;views;clicks\na;90;1.000\n", "digits alone, such as 10000, got '1.000'"),
        ("link\tviews\tclicks\na\t10.0\t1\n", "digits alone, such as 10000, got '10.0'"),
        ("link,views,clicks\na,1_000,1\n", "digits alone, such as 10000, got '1_000'"),
        (f"link,views,clicks\na,{'9' * 5000},1\n", "row 2: `views` must be a whole number"),
        ("link,views,clicks\na,9,1\nb,,0\n", "row 3: `views` must be a whole number"),
        ("link,views,clicks\na,9,\n", "row 2: `clicks` must be a whole number"),
        ("link,views,clicks\na,10,000,1\n", "row 2: counts must have 3 cells"),
        ("link,views,clicks,revenue\na,9,1\n", "one for each column, got 3"),
        ("link,views,clicks,link\na,9,1,b\n", "must have each column once, got 'link' again"),
        ("link,views,clicks,os,os\na,9,1,x,y\n", "must have each column once, got 'os' again"),
        ("link;views;clicks;revenue\na;9;1;1.000,50\n", "row 2: `revenue` must be a number"),
        ("link,views,clicks,revenue\na,9,1,.\n", "row 2: `revenue` must be a number"),
        (f"link,views,clicks\n{'a' * 131_073},9,1\n", "row 2: not CSV: field larger than"),
        ('link,views,clicks,os\na,9,1,"x\nb,9,1,y\n', "row 3: not CSV: unexpected end of data"),
    ],
)
def test_counts_that_cannot_be_are_refused(
    text: str, said: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.write_text(text)
    assert main(["import", "clicks.csv", "--slots", "1"]) == 2
    assert said in capsys.readouterr().err
    assert not table.with_suffix(".sel").exists()
    with pytest.raises(SlotwiseError, match="that exists"):
        read_known_counts("nowhere.csv")


def test_a_decimal_sign_stands_in_revenue_alone(table: Path) -> None:
    for sign in ".,":
        table.write_text(f"link;views;clicks;revenue\n\na;10;1;9{sign}5\nb;10;1;\nc;9;1;1e+16\n")
        rows = read_known_counts(table)
        assert [(row.views, row.revenue) for row in rows] == [(10, 9.5), (10, 0.0), (9, 1e16)]
