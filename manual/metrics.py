"""Reference of all metrics of the service, generated from their declarations."""

from __future__ import annotations

import yaml

from manual.markdown import code, table
from manual.project_files import ROOT
from slotwise.service.observability import METRICS


def metrics_reference() -> str:
    """Return the table of all metrics."""
    return table(["metric", "meaning"], [[code(name), text] for name, text in METRICS.items()])


def alerting_rules_reference() -> str:
    """Return the table of the shipped alerting rules."""
    groups = yaml.safe_load((ROOT / "deploy" / "prometheus-rules.yml").read_text())["groups"]
    return table(
        ["alert", "when", "for", "why"],
        [
            [
                code(rule["alert"]),
                code(rule["expr"]),
                rule.get("for", ""),
                rule["annotations"]["description"],
            ]
            for group in groups
            for rule in group["rules"]
        ],
    )
