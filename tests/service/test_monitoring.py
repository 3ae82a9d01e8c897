"""The alerting rules and the Grafana dashboard read metrics that the service answers with."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from slotwise.service.http.problems import PROBLEMS
from slotwise.service.observability import METRICS
from slotwise.service.records import OutcomeName
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service.conftest import POOL, http
from tests.system_programs import system_program

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
RULES_FILE = DEPLOY / "prometheus-rules.yml"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds to every metric that it reads."""
SELECTOR = re.compile(r"\b(slotwise_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!=|=)\s*"([^"]*)"')
GROUPING = re.compile(r"\bby \(([^)]*)\)")
NAMED = re.compile(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}")


def dashboard_expressions() -> list[tuple[str, str]]:
    """Return every query of the dashboard with its legend."""
    targets = [target for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [(target["expr"], target["legendFormat"]) for target in targets]


def variable_queries() -> list[tuple[str, str]]:
    """Return the metric and the label of every variable that asks Prometheus."""
    queries = [one["query"]["query"] for one in DASHBOARD["templating"]["list"] if "refresh" in one]
    found = [re.fullmatch(r"label_values\((.*), (\w+)\)", query) for query in queries]
    return [(one[1], one[2]) for one in found if one]


EXPRESSIONS = [
    *((rule["expr"], " ".join(rule["annotations"].values())) for rule in RULES),
    *dashboard_expressions(),
]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    """Return the labels of each metric of a real answer, with their values."""
    store = f"sqlite:///{tmp_path_factory.mktemp('monitored') / 's.db'}"
    with (
        BackgroundServer(Settings(port=0, store=store)) as server,
        http(server.url, server.admin_key) as admin,
        http(server.url, "wrong") as stranger,
    ):
        segments = {"features": {"device": ["phone"]}, "segment_floors": {"device": {"phone": 0.3}}}
        pool = POOL | segments | {"policy": {"name": "paced-bayes"}}
        admin.put("/v1/pools/home", json=pool).raise_for_status()
        links = [{"link_id": f"l{n}", "url": "https://shop.example/"} for n in range(3)]
        admin.post("/v1/pools/home/links:batch", json={"links": links}).raise_for_status()
        page = admin.post("/v1/pools/home/decide").json()
        link = page["links"][0]
        click = {"type": "click", "decision_id": page["decision_id"], "link_id": link["link_id"]}
        admin.post("/v1/events", json=click).raise_for_status()
        admin.get(link["click_url"])
        context = {"context": {"targetingKey": "visitor", "colour": "red"}}
        admin.post("/ofrep/v1/evaluate/flags/home", json=context).raise_for_status()
        stranger.get("/metrics")
        text = admin.get("/metrics").text
    found: dict[str, dict[str, set[str]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = found.setdefault(sample.name, {})
            for name, value in sample.labels.items():
                labels.setdefault(name, set()).add(value)
    return found


def unknown_parts(
    expression: str, text: str, answered: Mapping[str, Mapping[str, set[str]]]
) -> Iterator[str]:
    """Yield the metrics and labels of an expression, or of the text made from it, not answered."""
    known = set(OF_PROMETHEUS)
    for metric, matchers in SELECTOR.findall(expression):
        if metric not in answered:
            yield metric
        known |= set(answered.get(metric, ()))
        for label, relation, value in MATCHER.findall(matchers):
            if label in OF_PROMETHEUS:
                continue
            possible = answered.get(metric, {}).get(label, set()) | possible_values(label)
            if label not in answered.get(metric, ()):
                yield f"{metric}{{{label}}}"
            elif relation == "=" and value not in possible:
                yield f'{metric}{{{label}="{value}"}}'
    listed = [name.strip() for group in GROUPING.findall(expression) for name in group.split(",")]
    yield from sorted({*listed, *NAMED.findall(text)} - known)


def possible_values(label: str) -> set[str]:
    """Return the values of a label that one answer need not contain."""
    return {"problem": set(PROBLEMS), "outcome": set(get_args(OutcomeName))}.get(label, set())


@pytest.mark.parametrize(("expression", "text"), EXPRESSIONS)
def test_every_metric_and_label_is_answered(
    expression: str, text: str, answered: dict[str, dict[str, set[str]]]
) -> None:
    assert SELECTOR.search(expression) or expression.startswith("up{")
    assert not list(unknown_parts(expression, text, answered))


def test_variables_of_the_dashboard_are_answered(
    answered: dict[str, dict[str, set[str]]],
) -> None:
    queries = variable_queries()
    assert len(queries) == 2
    for metric, label in queries:
        assert not list(unknown_parts(f"sum by ({label}) ({metric})", "", answered))


def test_every_metric_is_used() -> None:
    """A metric that no rule and no panel reads is either missing there or of no use."""
    used = {metric for one, _ in EXPRESSIONS for metric, _ in SELECTOR.findall(one)}
    used |= {SELECTOR.findall(query)[0][0] for query, _ in variable_queries()}
    assert set(METRICS) - {name.removesuffix("_bucket") for name in used} == set()


@pytest.mark.parametrize(
    ("expression", "unknown"),
    [
        ("slotwise_redy == 0", "slotwise_redy"),
        ('slotwise_pool_floor{state="met"}', "slotwise_pool_floor{state}"),
        ('slotwise_pool_floor{status="fine"}', 'slotwise_pool_floor{status="fine"}'),
        ("sum by (pol) (slotwise_pool_version)", "pol"),
    ],
)
def test_a_wrong_name_is_noticed(
    expression: str, unknown: str, answered: dict[str, dict[str, set[str]]]
) -> None:
    assert list(unknown_parts(expression, "", answered)) == [unknown]


def promtool(*arguments: str | Path) -> None:
    program = system_program("promtool", package="prometheus")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.system
def test_prometheus_takes_every_expression(tmp_path: Path) -> None:
    promtool("check", "rules", RULES_FILE)
    shown = [expression.replace("$__rate_interval", "5m") for expression, _ in EXPRESSIONS]
    rules = [{"record": f"shown:{number}", "expr": one} for number, one in enumerate(shown)]
    file = tmp_path / "shown.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "shown", "rules": rules}]}))
    promtool("check", "rules", file)


HEALTHY = {
    "up": "1x40",
    "slotwise_ready": "1x40",
    "slotwise_store_available": "1x40",
    "slotwise_lost_decisions_total": "0x40",
    'slotwise_requests_total{status="200"}': "0+600x40",
    'slotwise_requests_total{status="503"}': "0x40",
    'slotwise_request_seconds_bucket{operation="decide", le="0.1"}': "0+600x40",
    'slotwise_request_seconds_bucket{operation="decide", le="0.25"}': "0+600x40",
    'slotwise_request_seconds_bucket{operation="decide", le="+Inf"}': "0+600x40",
    "slotwise_learner": "1x40",
    "slotwise_closed_until_seconds": "0+60x40",
    'slotwise_pool_learned_seconds{pool="home"}': "0+60x40",
    'slotwise_learning_failures_total{pool="home"}': "0x40",
    "slotwise_clock_jump_seconds": "0x40",
    "slotwise_store_ahead_seconds": "0x40",
    'slotwise_pool_floor{pool="home", status="infeasible"}': "0x40",
    'slotwise_pool_segment_floor{pool="home", feature="f", value="v", status="infeasible"}': "0x40",
    'slotwise_pool_fallback{pool="home"}': "0x40",
    'slotwise_refusals_total{problem="unknown-key"}': "0+6x40",
    'slotwise_refusals_total{problem="too-many-connections"}': "0x40",
    "slotwise_clipped_sales_total": "0x40",
    'slotwise_events_total{outcome="quarantined"}': "0x40",
}
"""One value a minute for 40 minutes, of a service without trouble."""
BROKEN = {
    "SlotwiseDown": ("up", "0x40"),
    "SlotwiseNotReady": ("slotwise_ready", "0x40"),
    "SlotwiseStoreUnavailable": ("slotwise_store_available", "0x40"),
    "SlotwiseDecisionsLost": ("slotwise_lost_decisions_total", "0+1x40"),
    "SlotwiseServerErrors": ('slotwise_requests_total{status="503"}', "0+30x40"),
    "SlotwiseDecideSlow": (
        'slotwise_request_seconds_bucket{operation="decide", le="0.1"}',
        "0+580x40",
    ),
    "SlotwiseNoLearner": ("slotwise_learner", "0x40"),
    "SlotwiseWindowsNotClosed": ("slotwise_closed_until_seconds", "0x40"),
    "SlotwisePoolNotLearned": ('slotwise_pool_learned_seconds{pool="home"}', "0x40"),
    "SlotwiseLearningFailed": ('slotwise_learning_failures_total{pool="home"}', "0+1x40"),
    "SlotwiseClockJumped": ("slotwise_clock_jump_seconds", "-5x40"),
    "SlotwiseStoreAhead": ("slotwise_store_ahead_seconds", "3600x40"),
    "SlotwiseFloorInfeasible": ('slotwise_pool_floor{pool="home", status="infeasible"}', "1x40"),
    "SlotwiseSegmentFloorInfeasible": (
        'slotwise_pool_segment_floor{pool="home", feature="f", value="v", status="infeasible"}',
        "1x40",
    ),
    "SlotwiseFallback": ('slotwise_pool_fallback{pool="home"}', "1x40"),
    "SlotwiseUnknownKeys": ('slotwise_refusals_total{problem="unknown-key"}', "0+120x40"),
    "SlotwiseTooManyConnections": (
        'slotwise_refusals_total{problem="too-many-connections"}',
        "0+1x40",
    ),
    "SlotwiseSalesClipped": ("slotwise_clipped_sales_total", "0+1x40"),
    "SlotwiseUnknownDecisions": ('slotwise_events_total{outcome="quarantined"}', "0+1x40"),
}
"""The series that each alert is about, as it is when something is wrong."""


def in_job(series: str) -> str:
    """Return a series with the labels that Prometheus adds."""
    own = 'job="slotwise", instance="a"'
    return series.replace("{", f"{{{own}, ") if "{" in series else f"{series}{{{own}}}"


@pytest.mark.system
def test_each_alert_fires_for_its_trouble_only(tmp_path: Path) -> None:
    assert [rule["alert"] for rule in RULES] == list(BROKEN)
    tests = []
    for broken in ("", *BROKEN):
        series = HEALTHY | ({} if not broken else dict([BROKEN[broken]]))
        count = f'count(ALERTS{{alertstate="firing", alertname="{broken}"}})'
        tests.append(
            {
                "name": broken,
                "interval": "1m",
                "input_series": [
                    {"series": in_job(one), "values": values} for one, values in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": 'count(ALERTS{alertstate="firing"}) or vector(0)',
                        "eval_time": "30m",
                        "exp_samples": [{"labels": "{}", "value": int(bool(broken))}],
                    },
                    {
                        "expr": f"{count} or vector(0)",
                        "eval_time": "30m",
                        "exp_samples": [{"labels": "{}", "value": int(bool(broken))}],
                    },
                ],
            }
        )
    file = tmp_path / "test.yml"
    whole = {"rule_files": [str(RULES_FILE)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(whole, sort_keys=False))
    promtool("test", "rules", file)
