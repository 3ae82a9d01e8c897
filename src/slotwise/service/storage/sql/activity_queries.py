"""The queries behind the dashboard's charts, in the SQL that the engines share.

`{shown}` stands for the links of a page as rows, `{link_id}` for the id of one of them.
"""

from __future__ import annotations

from slotwise.service.storage.activity import MICROS

__all__ = ["ACTIVITY_QUERIES"]

_SHOWN = """
    FROM decisions AS d
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
"""
# A window closes after its page is shown, so the index on the closing time limits the search.
_VIEWS = f"SELECT d.issued_us / :span_us, d.holdout, COUNT(*) {_SHOWN} GROUP BY 1, 2"
_CLICKED = """
    FROM decisions AS d JOIN clicks AS c ON c.decision_id = d.decision_id
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
"""
_IN_TIME = "AND c.invalid = '' AND c.received_us <= d.click_closes_us"
_CLICKS = f"""
    SELECT span, holdout, CAST(SUM(n) AS BIGINT), CAST(SUM(n * n) AS BIGINT) FROM (
        SELECT d.issued_us / :span_us AS span, d.holdout AS holdout, COUNT(*) AS n
        {_CLICKED} {_IN_TIME} GROUP BY d.seq
    ) AS pages GROUP BY 1, 2
"""
_LINK_CLICKS = f"""
    SELECT c.link_id, d.issued_us / :span_us, COUNT(*) {_CLICKED} {_IN_TIME} GROUP BY 1, 2
"""
_LINK_VIEWS = """
    SELECT {link_id}, d.issued_us / :span_us, COUNT(*) * :every
    FROM decisions AS d, {shown}
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
      AND d.seq % :every = 0
    GROUP BY 1, 2
"""
_REFUSED = """
    SELECT COUNT(*) FROM decisions AS d JOIN refusals AS r ON r.decision_id = d.decision_id
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
"""
_ODD_CLICKS = f"""
    SELECT COUNT(*) FILTER (WHERE c.invalid <> ''),
           COUNT(*) FILTER (WHERE c.invalid = '' AND c.received_us > d.click_closes_us) {_CLICKED}
"""
_CLICK_DELAYS = f"""
    SELECT c.received_us - d.issued_us {_CLICKED} AND c.invalid = ''
    ORDER BY c.received_us DESC LIMIT :n_rows
"""


def _exact_sum(amount: str) -> str:
    """Sum millionths in two columns, units and the rest: one sum might exceed 64 bits."""
    units = f"({amount} / {MICROS})"
    return f"CAST(SUM({units}) AS BIGINT), CAST(SUM({amount} - {units} * {MICROS}) AS BIGINT)"


_SOLD = """
    FROM decisions AS d JOIN conversions AS s ON s.decision_id = d.decision_id
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
      AND s.currency = d.currency
"""
_SALES = f"""
    SELECT d.issued_us / :span_us, d.holdout, COUNT(*), {_exact_sum("s.revenue_micros")}
    {_SOLD} AND s.received_us <= d.revenue_until_us GROUP BY 1, 2
"""
_REFUNDS = f"""
    SELECT d.issued_us / :span_us, d.holdout, {_exact_sum("a.refund_micros")}
    FROM decisions AS d
    JOIN conversions AS s ON s.decision_id = d.decision_id
    JOIN adjustments AS a ON a.conversion_id = s.conversion_id
    WHERE d.pool_id = :pool_id AND d.click_closes_us >= :since_us AND d.issued_us >= :since_us
      AND a.currency = d.currency AND a.received_us <= d.revenue_until_us
      AND s.currency = d.currency AND s.received_us <= d.revenue_until_us
    GROUP BY 1, 2
"""
_LATE_SALES = f"SELECT COUNT(*) {_SOLD} AND s.received_us > d.revenue_until_us"
_SALE_DELAYS = f"""
    SELECT s.received_us - d.issued_us {_SOLD} ORDER BY s.received_us DESC LIMIT :n_rows
"""
_N_OPEN = """
    SELECT COUNT(*) FROM decisions AS d
    WHERE d.pool_id = :pool_id AND d.click_closes_us > :closed_until_us
"""
_PENDING = """
    SELECT {link_id}, COUNT(*) * :every_open
    FROM decisions AS d, {shown}
    WHERE d.pool_id = :pool_id AND d.click_closes_us > :closed_until_us
      AND d.seq % :every_open = 0
    GROUP BY 1
"""

_SHOWN_SINCE = """
    SELECT {link_id}, COUNT(*) FROM decisions AS d, {shown}
    WHERE d.pool_id = :pool_id AND d.seq > :after AND d.seq <= :until
    GROUP BY 1
"""

ACTIVITY_QUERIES = {
    "shown_since": _SHOWN_SINCE,
    "views": _VIEWS,
    "clicks": _CLICKS,
    "link_clicks": _LINK_CLICKS,
    "link_views": _LINK_VIEWS,
    "refused": _REFUSED,
    "odd_clicks": _ODD_CLICKS,
    "click_delays": _CLICK_DELAYS,
    "sales": _SALES,
    "refunds": _REFUNDS,
    "late_sales": _LATE_SALES,
    "sale_delays": _SALE_DELAYS,
    "n_open": _N_OPEN,
    "pending": _PENDING,
}
