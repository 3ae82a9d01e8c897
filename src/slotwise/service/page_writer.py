"""The answer to a decision, written straight into JSON.

A page is the one answer the service gives thousands of times a second, and most of it never
changes: everything about a link but its place, token and probability is prepared once. The
type of the answer is `DecideAnswer`; a test reads every answer back as one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from slotwise.service.records import DecisionRecord, LinkRecord
from slotwise.service.runtime import Service
from slotwise.service.tokens import TokenSigner

__all__ = ["PageWriter"]

_MAX_PREPARED = 100_000


class _Prepared(NamedTuple):
    """The constant parts of one link's JSON, and the record they were made from."""

    link: LinkRecord
    start: str
    middle: str
    end: str


class PageWriter:
    """Writes pages with click URLs below one address."""

    def __init__(self, service: Service, signer: TokenSigner, public_base: str) -> None:
        self._service = service
        self._signer = signer
        self._click_url = _text(f"{public_base}/r/")[:-1]
        self._prepared: dict[tuple[str, str], _Prepared] = {}
        self._numbers: dict[float, str] = {}
        self._second = -1
        self._second_text = ""

    def write(self, decision: DecisionRecord) -> bytes:
        """Return the answer's JSON."""
        pool_id = decision.pool_id
        link_of = self._service.link
        prepared = self._prepared
        numbers = self._numbers
        shown = decision.shown
        tokens = self._signer.sign_page(
            pool_id,
            decision.decision_id,
            [one.link_id for one in shown],
            decision.issued_us // 1000,
        )
        parts = []
        for one, token in zip(shown, tokens, strict=True):
            link = link_of(pool_id, one.link_id)
            known = prepared.get((pool_id, one.link_id))
            if known is None or known[0] is not link:
                known = self._prepare(link)
            _, start, middle, end = known
            chance = one.propensity
            parts.append(
                f'{start}{one.position}{middle}{token}","propensity":'
                f"{numbers.get(chance) or self._number(chance)}{end}"
            )
        floor = decision.floor
        # Ids, policy names and statuses are made of characters that JSON leaves alone.
        return (
            f'{{"decision_id":"{decision.decision_id}","pool_id":"{pool_id}",'
            f'"issued_at":"{self._rfc3339(decision.issued_us)}",'
            f'"policy":"{decision.policy}","policy_version":{decision.policy_version},'
            f'"holdout":{"true" if decision.holdout else "false"},'
            f'"fallback":{"true" if decision.fallback else "false"},'
            f'"fallback_reason":{_text(decision.fallback) if decision.fallback else _EMPTY},'
            f'"floor":{{"clicks":{self._number(floor.clicks)},'
            f'"expected":{self._number(floor.expected)},'
            f'"attainable":{self._number(floor.attainable)},"status":"{floor.status}"}},'
            f'"links":[{",".join(parts)}]}}'
        ).encode()

    def _prepare(self, link: LinkRecord) -> _Prepared:
        if len(self._prepared) >= _MAX_PREPARED:
            self._prepared.clear()
        made = _Prepared(
            link,
            f'{{"link_id":"{link.link_id}","position":',
            f',"url":{_text(link.url)},"click_url":{self._click_url}',
            f',"title":{_text(link.title)}}}',
        )
        self._prepared[link.pool_id, link.link_id] = made
        return made

    def _number(self, number: float) -> str:
        """Return the shortest text of a number; few differ between two published versions."""
        text = self._numbers.get(number)
        if text is None:
            if len(self._numbers) >= _MAX_PREPARED:
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


_EMPTY = '""'
