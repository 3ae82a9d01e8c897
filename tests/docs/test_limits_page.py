"""The manual's page of limits and of threads has the numbers of the code."""

from __future__ import annotations

import re

import pytest

from slotwise import features
from slotwise.service import limits
from slotwise.service.api import context
from slotwise.service.deciding import decisions_by_id
from tests.docs.pages import read_page

LIMITS = {
    "pools of a service": limits.MAX_POOLS,
    "links of a pool": limits.MAX_POOL_LINKS,
    "slots of a page": limits.MAX_SLOTS,
    "rules of a pool": limits.MAX_RULES,
    "links that a call excludes": limits.MAX_EXCLUDED,
    "features of visitors": features.MAX_FEATURES,
    "values of a feature, or edges of its bins": features.MAX_VALUES,
    "values of all features together": limits.MAX_ALL_VALUES,
    "floors of segments": limits.MAX_SEGMENT_FLOORS,
    "events of a batch": limits.MAX_BATCH_ITEMS,
    "bytes of a body": limits.MAX_BODY_BYTES,
    "days that clicks or sales count": limits.MAX_WINDOW_S // 86_400,
    "one sale, in units of its currency": limits.MAX_AMOUNT_MICROS // 1_000_000,
    "characters of an id": limits.MAX_ID_CHARS,
    "characters of an address": limits.MAX_URL_CHARS,
}


def test_the_page_has_every_limit_of_this_list_and_no_other() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([\d,]+) \|$", read_page("docs/limits.md"), re.MULTILINE)
    assert {name: int(number.replace(",", "")) for name, number in rows} == LIMITS


@pytest.mark.parametrize(
    ("row", "count"),
    [
        (
            "`slotwise-deciding`, `slotwise-ids`, `slotwise-look-up`",
            f"{decisions_by_id.N_THREADS} each",
        ),
        ("`slotwise-change`", str(context.N_CHANGE_THREADS)),
        (
            "`slotwise-export`, `slotwise-evaluate`",
            f"{context.N_EXPORT_THREADS} and {context.N_EVALUATION_THREADS}",
        ),
    ],
)
def test_the_page_of_threads_counts_them(row: str, count: str) -> None:
    [line] = [
        one for one in read_page("docs/threads.md").splitlines() if one.startswith(f"| {row}")
    ]
    assert line.endswith(f"| {count} |")
