"""The answer to a decision, written straight into JSON.

A page is the one answer the service gives thousands of times a second, and most of it never
changes while one version is published: only the signatures are made anew. The type of the
answer is `DecideAnswer`; a test reads answers back as one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from slotwise.service.records import DecisionRecord, ShownLink
from slotwise.service.runtime import Service
from slotwise.service.tokens import TokenSigner

__all__ = ["PageWriter"]

_MAX_NUMBERS = 100_000
_MAX_PREPARED = 20_000


class _Prepared(NamedTuple):
    """What stays the same about a link on a page while one version is published.

    A click URL is `before`, the head of the page's tokens, `after_head` and the signature of
    `tail`; `end` comes after it.
    """

    before: str
    after_head: str
    tail: bytes
    end: str


class PageWriter:
    """Writes pages with click URLs below one address."""

    def __init__(self, service: Service, signer: TokenSigner, public_base: str) -> None:
        self._service = service
        self._signer = signer
        self._click_url = _text(f"{public_base}/r/")[:-1]
        self._prepared: dict[str, tuple[tuple[int, int], dict[ShownLink, _Prepared]]] = {}
        """By pool, for its present version and settings: by link, position and probability."""
        self._numbers: dict[float, str] = {}
        self._second = -1
        self._second_text = ""

    def write(self, decision: DecisionRecord) -> bytes:
        """Return the answer's JSON."""
        pool_id = decision.pool_id
        page = self._signer.page(pool_id, decision.decision_id, decision.issued_us // 1000)
        head, sign = page.head, page.sign
        prepared = self._of_version(pool_id, decision.policy_version)
        parts = []
        for shown in decision.shown:
            known = prepared.get(shown)
            if known is None:
                if len(prepared) >= _MAX_PREPARED:
                    prepared.clear()
                known = prepared[shown] = self._prepare(pool_id, shown)
            before, after_head, tail, end = known
            parts.append(f"{before}{head}{after_head}{sign(tail)}{end}")
        floor = decision.floor
        number = self._number
        # Ids, policy names and statuses are made of characters that JSON leaves alone.
        return (
            f'{{"decision_id":"{decision.decision_id}","pool_id":"{pool_id}",'
            f'"issued_at":"{self._rfc3339(decision.issued_us)}",'
            f'"policy":"{decision.policy}","policy_version":{decision.policy_version},'
            f'"holdout":{"true" if decision.holdout else "false"},'
            f'"fallback":{"true" if decision.fallback else "false"},'
            f'"fallback_reason":"{decision.fallback}",'
            f'"floor":{{"clicks":{number(floor.clicks)},"expected":{number(floor.expected)},'
            f'"attainable":{number(floor.attainable)},"status":"{floor.status}"}},'
            f'"links":[{",".join(parts)}]}}'
        ).encode()

    def _of_version(self, pool_id: str, version: int) -> dict[ShownLink, _Prepared]:
        """Return what is prepared for a version of a pool that has not been changed since."""
        present = (version, self._service.revision(pool_id))
        known = self._prepared.get(pool_id)
        if known is None or known[0] != present:
            known = self._prepared[pool_id] = (present, {})
        return known[1]

    def _prepare(self, pool_id: str, shown: ShownLink) -> _Prepared:
        link = self._service.link(pool_id, shown.link_id)
        tail = f"{shown.position}~{shown.link_id}"
        return _Prepared(
            f'{{"link_id":"{shown.link_id}","position":{shown.position},'
            f'"url":{_text(link.url)},"click_url":{self._click_url}',
            f"{tail}.",
            tail.encode(),
            f'","propensity":{self._number(shown.propensity)},"title":{_text(link.title)}}}',
        )

    def _number(self, number: float) -> str:
        """Return the shortest text of a number; few differ between two published versions."""
        text = self._numbers.get(number)
        if text is None:
            if len(self._numbers) >= _MAX_NUMBERS:
                self._numbers.clear()
            text = self._numbers[number] = repr(float(number))
        return text

    def _rfc3339(self, us: int) -> str:
        second, fraction = divmod(us, 1_000_000)
        if second != self._second:
            self._second = second
            self._second_text = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
        return f"{self._second_text}.{fraction:06d}Z"


def _text(value: str) -> str:
    return msgspec.json.encode(value).decode()
