"""The answer to a decision, written straight into JSON.

A page is the one answer the service gives thousands of times a second, and most of it never
changes while one version is published: only the page's signature is made anew. The type of the
answer is `DecideAnswer`; a test reads answers back as one.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import repeat
from typing import NamedTuple

import msgspec

from slotwise.service.access.tokens import MAX_SIGNED_TOGETHER, ClickToken, TokenSigner
from slotwise.service.records import DecisionRecord, FloorState, LinkRecord, ShownLink
from slotwise.service.service import Service

_MAX_NUMBERS = 100_000
_MAX_PLACED = 20_000
_MAX_HEADS = 5_000
_TOKEN = b"\0"
"""Stands for what is signed: no byte of JSON."""


class _LinkText(NamedTuple):
    """The JSON of a link apart from its position: before it, after it, and at the end."""

    start: str
    middle: str
    end: str
    place: str


class _VersionTexts:
    """The texts of one version of a pool that has not been changed since."""

    def __init__(self, version: int, revision: int) -> None:
        self.version = version
        self.revision = revision
        self.links: dict[str, _LinkText] = {}
        self.placed: dict[ShownLink, tuple[bytes, str]] = {}
        """The JSON of a link at a position of the page, with `_TOKEN` for the head of its token,
        and its place in the pool."""
        self.heads: dict[tuple[FloorState, bool, str], str] = {}
        """What precedes the links, by the floor's state, holdout and fallback."""


class PageWriter:
    """Writes pages with click URLs below one address."""

    def __init__(self, service: Service, signer: TokenSigner, public_base: str) -> None:
        self._service = service
        self._signer = signer
        self._click_url = _json(f"{public_base}/r/")[:-1]
        self._texts: dict[str, _VersionTexts] = {}
        self._numbers: dict[float, str] = {}
        self._second_us = -1_000_000
        self._second_text = ""

    def write(self, decision: DecisionRecord) -> bytes:
        """Return the answer's JSON."""
        pool_id, decision_id, shown = decision.pool_id, decision.decision_id, decision.shown
        texts = self._texts_of(pool_id, decision.policy_version)
        try:
            written = [*map(texts.placed.__getitem__, shown)]
        except KeyError:
            written = [self._placed(texts, pool_id, link) for link in shown]
        head = texts.heads.get((decision.floor, decision.holdout, decision.fallback))
        if head is None:
            head = self._head(texts, decision)
        # Ids are made of characters that JSON leaves alone.
        start = (
            f'{{"decision_id":"{decision_id}","pool_id":"{pool_id}",'
            f'"issued_at":"{self._rfc3339(decision.issued_us)}",{head}'
        ).encode()
        if not shown:
            return start + b"]}"
        of_links, places = zip(*written, strict=True)
        if len(shown) <= MAX_SIGNED_TOGETHER:
            issued_ms = decision.issued_us // 1000
            token = self._signer.sign_page(pool_id, decision_id, issued_ms, "-".join(places))
            on_page = b",".join(of_links).replace(_TOKEN, token.encode())
        else:
            on_page = b",".join(map(self._signed_alone, repeat(decision), shown, of_links))
        return b"%b%b]}" % (start, on_page)

    def _head(self, texts: _VersionTexts, decision: DecisionRecord) -> str:
        """Write what is between the time and the links; few such texts occur in a version."""
        floor, number = decision.floor, self._number
        # Policy names and statuses are made of characters that JSON leaves alone.
        text = (
            f'"policy":"{decision.policy}","policy_version":{decision.policy_version},'
            f'"holdout":{"true" if decision.holdout else "false"},'
            f'"fallback":{"true" if decision.fallback else "false"},'
            f'"fallback_reason":"{decision.fallback}",'
            f'"floor":{{"clicks":{number(floor.clicks)},"expected":{number(floor.expected)},'
            f'"attainable":{number(floor.attainable)},"status":"{floor.status}"}},"links":['
        )
        if len(texts.heads) < _MAX_HEADS:
            texts.heads[floor, decision.holdout, decision.fallback] = text
        return text

    def _signed_alone(self, decision: DecisionRecord, link: ShownLink, text: bytes) -> bytes:
        issued_ms = decision.issued_us // 1000
        where = (decision.pool_id, decision.decision_id, issued_ms, link.position, link.link_id)
        token = self._signer.token(ClickToken(*where))
        return text.replace(_TOKEN + _end_of_token(link), token.encode())

    def _texts_of(self, pool_id: str, version: int) -> _VersionTexts:
        revision = self._service.directory.revision(pool_id)
        texts = self._texts.get(pool_id)
        if texts is None or texts.version != version or texts.revision != revision:
            texts = self._texts[pool_id] = _VersionTexts(version, revision)
        return texts

    def _placed(self, texts: _VersionTexts, pool_id: str, shown: ShownLink) -> tuple[bytes, str]:
        """Return the text and the place of a link at its position; few are written twice."""
        known = texts.placed.get(shown)
        if known is not None:
            return known
        link = texts.links.get(shown.link_id)
        if link is None:
            described = self._describe(self._service.directory.link(pool_id, shown.link_id))
            link = texts.links[shown.link_id] = described
        before = f"{link.start}{shown.position}{link.middle}".encode()
        after = f'","propensity":{self._number(shown.propensity)}{link.end}'.encode()
        placed = before + _TOKEN + _end_of_token(shown) + after, link.place
        if len(texts.placed) < _MAX_PLACED:
            texts.placed[shown] = placed
        return placed

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
        fraction = us - self._second_us
        if not 0 <= fraction < 1_000_000:
            second, fraction = divmod(us, 1_000_000)
            self._second_us = us - fraction
            self._second_text = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
        return f"{self._second_text}.{fraction:06d}Z"


def _end_of_token(link: ShownLink) -> bytes:
    """Return what chooses one link of a page that is signed as a whole."""
    return f"~{link.position}~{link.link_id}".encode()


def _json(value: str | dict[str, str]) -> str:
    return msgspec.json.encode(value).decode()
