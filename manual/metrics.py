"""Reference of all metrics of the service, generated from their declarations."""

from __future__ import annotations

from manual.markdown import code, table
from slotwise.service.observability import METRICS


def metrics_reference() -> str:
    """Return the table of all metrics."""
    return table(["metric", "meaning"], [[code(name), text] for name, text in METRICS.items()])
