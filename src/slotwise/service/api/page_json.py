"""The answer to a decision, put together from parts that are JSON already.

A page is the one answer the service gives thousands of times a second, and most of it never changes
while one version is published: only the page's signature is made anew. Used by `context`, `decide`,
`ofrep` and `proposals`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from slotwise.service.access.tokens import MAX_SIGNED_TOGETHER, TokenSigner
from slotwise.service.records import DecisionRecord, FloorState, PageGroup, ShownLink
from slotwise.service.service import Service

_MAX_PLACED = 20_000
_MAX_HEADS = 5_000
_PROPENSITY = 0.5
"""Stands for the propensity of a link in texts that serve all versions."""
_TOKEN = b"\0"
"""Represents what is signed: no byte of JSON."""
_START = b'{"decision_id":"","pool_id":"","issued_at":"",'
_END = b"]}"
_encode = msgspec.json.Encoder().encode


class PageLink(msgspec.Struct, frozen=True):
    """One link of a page."""

    link_id: str
    position: int
    url: str
    click_url: str
    propensity: float
    title: str
    metadata: dict[str, str]


class DecideAnswer(msgspec.Struct, frozen=True):
    """A page: its links in order."""

    decision_id: str
    pool_id: str
    issued_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    policy: str
    policy_version: int
    holdout: bool
    group: Annotated[PageGroup, Meta(description="Chosen links, the own page, or random links")]
    fallback: bool
    fallback_reason: str
    floor: FloorState
    links: list[PageLink]


class _LinkText(NamedTuple):
    """The JSON of a link at a position, before and after its propensity, and its place.

    It begins with a comma, except that of the first link of a page.
    """

    before: bytes
    """With `_TOKEN` for the head of the link's token."""
    after: bytes
    place: str


class _VersionTexts:
    """The texts of one version of a pool that has not been changed since.

    A page mix shows the same objects again and again, and each computes its hash once.
    """

    def __init__(self, version: int, revision: int, before: _VersionTexts | None) -> None:
        self.version = version
        self.revision = revision
        is_same = before is not None and before.revision == revision
        self.links: dict[tuple[str, int], _LinkText] = before.links if before and is_same else {}
        """By link and position; the same in all versions."""
        self.text_of: dict[ShownLink, bytes] = {}
        self.place_of: dict[ShownLink, str] = {}
        self.heads: dict[tuple[FloorState, bool, bool, str], bytes] = {}
        """What precedes the links, by the floor's state, group and fallback."""


class PageWriter:
    """Writes pages with click URLs below one address."""

    def __init__(self, service: Service, signer: TokenSigner, public_base: str) -> None:
        self._service = service
        self._signer = signer
        self._click_url = f"{public_base}/r/\0"
        self._texts: dict[str, _VersionTexts] = {}
        self._second_us = -1_000_000
        self._second_text = ""

    def write(self, decision: DecisionRecord) -> bytes:
        """Return the JSON of the `DecideAnswer`."""
        pool_id, decision_id, shown = decision.pool_id, decision.decision_id, decision.shown
        texts = self._texts_of(pool_id, decision.policy_version)
        try:
            of_links = [*map(texts.text_of.__getitem__, shown)]
            places = [*map(texts.place_of.__getitem__, shown)]
        except KeyError:
            of_links, places = self._written(texts, decision)
        head = texts.heads.get(
            (decision.floor, decision.holdout, decision.is_own, decision.fallback)
        )
        if head is None:
            head = self._head(texts, decision)
        # Ids are made of characters that JSON leaves alone.
        start = (
            f'{{"decision_id":"{decision_id}","pool_id":"{pool_id}",'
            f'"issued_at":"{self._rfc3339(decision.issued_us)}",'
        ).encode()
        of_page = (pool_id, decision_id, decision.issued_us // 1000)
        if len(shown) <= MAX_SIGNED_TOGETHER:
            token = self._signer.sign_page(*of_page, "-".join(places)).encode()
            return b"".join([start, head, *of_links, _END]).replace(_TOKEN, token)
        signed = []
        for first in range(0, len(shown), MAX_SIGNED_TOGETHER):
            some = slice(first, first + MAX_SIGNED_TOGETHER)
            listed = f"{first}:" * (first > 0) + "-".join(places[some])
            token = self._signer.sign_page(*of_page, listed).encode()
            signed.append(b"".join(of_links[some]).replace(_TOKEN, token))
        return b"".join([start, head, *signed, _END])

    def _head(self, texts: _VersionTexts, decision: DecisionRecord) -> bytes:
        """Write what is between the time and the links; few such texts occur in a version."""
        policy, fallback, floor = decision.policy, decision.fallback, decision.floor
        chosen_by = (policy, decision.policy_version, decision.holdout, decision.group)
        why = (bool(fallback), fallback)
        text = _encode(DecideAnswer("", "", "", *chosen_by, *why, floor, []))[len(_START) : -2]
        if len(texts.heads) < _MAX_HEADS:
            texts.heads[floor, decision.holdout, decision.is_own, fallback] = text
        return text

    def _texts_of(self, pool_id: str, version: int) -> _VersionTexts:
        revision = self._service.directory.revision(pool_id)
        texts = self._texts.get(pool_id)
        if texts is None or texts.version != version or texts.revision != revision:
            texts = self._texts[pool_id] = _VersionTexts(version, revision, texts)
        return texts

    def _written(
        self, texts: _VersionTexts, decision: DecisionRecord
    ) -> tuple[list[bytes], list[str]]:
        """Write the links of a page, and store their texts unless the objects are never reused."""
        of_links, places = [], []
        for shown in decision.shown:
            link = texts.links.get((shown.link_id, shown.position))
            if link is None:
                link = self._link(decision.pool_id, shown)
                if len(texts.links) < _MAX_PLACED:
                    texts.links[shown.link_id, shown.position] = link
            text = b"%b%b%b" % (link.before, _encode(shown.propensity), link.after)
            of_links.append(text)
            places.append(link.place)
            if len(texts.text_of) < _MAX_PLACED and not decision.holdout:
                texts.text_of[shown], texts.place_of[shown] = text, link.place
        return of_links, places

    def _link(self, pool_id: str, shown: ShownLink) -> _LinkText:
        link = self._service.directory.link(pool_id, shown.link_id)
        click_url = f"{self._click_url}~{shown.position}~{link.link_id}"
        where = (link.link_id, shown.position, link.url, click_url)
        text = _encode(PageLink(*where, _PROPENSITY, link.title, link.metadata))
        # The first one is that of `click_url`: an address has none, and a title comes later.
        text = (b"," if shown.position > 1 else b"") + text.replace(b"\\u0000", _TOKEN, 1)
        before, name, after = text.partition(b',"propensity":')
        return _LinkText(before + name, after[len(_encode(_PROPENSITY)) :], str(link.place))

    def _rfc3339(self, us: int) -> str:
        fraction = us - self._second_us
        if not 0 <= fraction < 1_000_000:
            second, fraction = divmod(us, 1_000_000)
            self._second_us = us - fraction
            self._second_text = f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"
        return f"{self._second_text}.{fraction:06d}Z"
