"""Every metric of the service, read from where they are declared."""

from __future__ import annotations

from manual.markdown import code, table
from slotwise.service.metrics import METRICS

__all__ = ["metrics_reference"]


def metrics_reference() -> str:
    """Return the table of all metrics."""
    return table(["metric", "meaning"], [[code(name), text] for name, text in METRICS.items()])
