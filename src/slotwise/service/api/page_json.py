"""The answer to a decision, written straight into JSON.

A page is the one answer the service gives thousands of times a second, and most of it never
changes while one version is published: only the page's signature is made anew. The type of the
answer is `DecideAnswer`; a test reads answers back as one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from slotwise.service.access.tokens import MAX_SIGNED_TOGETHER, ClickToken, TokenSigner
from slotwise.service.records import DecisionRecord, LinkRecord, ShownLink
from slotwise.service.service import Service

__all__ = ["PageWriter"]

_MAX_NUMBERS = 100_000
_MAX_PLACED = 20_000


class _LinkText(NamedTuple):
    """The JSON of a link apart from its position: before it, after it, and at the end."""

    start: str
    middle: str
    end: str
    place: str


class _PlacedText(msgspec.Struct, frozen=True, gc=False):
    """The JSON of a link at a position of the page: before and after the head of its token."""

    before: str
    after: str
    place: str
    """Of the link in its pool."""
    shown: ShownLink
    """Referenced here so that its `id` is not reused."""


class _VersionTexts:
    """The texts of one version of a pool that has not been changed since."""

    def __init__(self, version: int, revision: int) -> None:
        self.made_for = (version, revision)
        self.links: dict[str, _LinkText] = {}
        self.placed: dict[int, _PlacedText] = {}
        """By `id` of the shown link: the pages of a version share theirs."""


class PageWriter:
    """Writes pages with click URLs below one address."""

    def __init__(self, service: Service, signer: TokenSigner, public_base: str) -> None:
        self._service = service
        self._signer = signer
        self._click_url = _json(f"{public_base}/r/")[:-1]
        self._texts: dict[str, _VersionTexts] = {}
        self._numbers: dict[float, str] = {}
        self._second = -1
        self._second_text = ""

    def write(self, decision: DecisionRecord) -> bytes:
        """Return the answer's JSON."""
        pool_id, shown = decision.pool_id, decision.shown
        texts = self._texts_of(pool_id, decision.policy_version)
        placed = texts.placed.get
        links = [placed(id(link)) or self._place(texts, pool_id, link) for link in shown]
        if len(links) <= MAX_SIGNED_TOGETHER:
            places = "-".join([link.place for link in links])
            head = self._signer.sign_page(
                pool_id, decision.decision_id, decision.issued_us // 1000, places
            )
            parts = [f"{link.before}{head}{link.after}" for link in links]
        else:
            parts = [self._signed_alone(decision, link) for link in links]
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

    def _signed_alone(self, decision: DecisionRecord, link: _PlacedText) -> str:
        shown, issued_ms = link.shown, decision.issued_us // 1000
        where = (decision.pool_id, decision.decision_id, issued_ms, shown.position, shown.link_id)
        after = link.after.removeprefix(f"~{shown.position}~{shown.link_id}")
        return f"{link.before}{self._signer.token(ClickToken(*where))}{after}"

    def _texts_of(self, pool_id: str, version: int) -> _VersionTexts:
        revision = self._service.revision(pool_id)
        texts = self._texts.get(pool_id)
        if texts is None or texts.made_for != (version, revision):
            texts = self._texts[pool_id] = _VersionTexts(version, revision)
        return texts

    def _place(self, texts: _VersionTexts, pool_id: str, shown: ShownLink) -> _PlacedText:
        """Write a link at its position; cache the text up to a maximum number."""
        link_id, position = shown.link_id, shown.position
        link = texts.links.get(link_id)
        if link is None:
            link = texts.links[link_id] = self._describe(self._service.link(pool_id, link_id))
        text = _PlacedText(
            f"{link.start}{position}{link.middle}",
            f'~{position}~{link_id}","propensity":{self._number(shown.propensity)}{link.end}',
            link.place,
            shown,
        )
        if len(texts.placed) < _MAX_PLACED:
            texts.placed[id(shown)] = text
        return text

    def _describe(self, link: LinkRecord) -> _LinkText:
        return _LinkText(
            f'{{"link_id":"{link.link_id}","position":',
            f',"url":{_json(link.url)},"click_url":{self._click_url}',
            f',"title":{_json(link.title)},"metadata":{_json(link.metadata)}}}',
            str(link.place),
        )

    def _number(self, number: float) -> str:
        """Return the shortest text of a number, cached: few numbers occur."""
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


def _json(value: str | dict[str, str]) -> str:
    return msgspec.json.encode(value).decode()
