"""Pages that wait for feedback: each level of each page is settled once, in any order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slotwise.errors import InvalidFeedback, UnknownDecision
from slotwise.problem import is_finite_number
from slotwise.rounds import Decision, Link
from slotwise.selector.pool import listed_links

__all__ = ["OpenPage", "OpenPages"]


@dataclass(slots=True)
class OpenPage:
    """A page whose feedback is not complete: None where a level is not settled."""

    number: int
    shown: tuple[Link, ...]
    chances: tuple[float, ...]
    clicked: frozenset[Link] | None = None
    revenue: dict[Link, float] | None = None

    def settle_clicks(self, clicks: Iterable[Link]) -> bool:
        """Take in which links were clicked; return False if that was known already."""
        clicked = frozenset(listed_links("clicks", clicks))
        strangers = clicked.difference(self.shown)
        if strangers:
            raise InvalidFeedback(
                f"`clicks` must be links shown on the page, got {next(iter(strangers))!r}"
            )
        if self.clicked is not None and self.clicked != clicked:
            raise InvalidFeedback(
                "`clicks` must be what was said before for this page "
                f"({self._in_order(self.clicked)}), got {self._in_order(clicked)}"
            )
        if self.revenue is not None:
            self._check_clicked(self.revenue, clicked)
        is_new = self.clicked is None
        self.clicked = clicked
        return is_new

    def settle_revenue(self, revenue: Mapping[Any, float]) -> bool:
        """Take in what the links earned; return False if that was known already."""
        if not isinstance(revenue, Mapping):
            raise InvalidFeedback(f"`revenue` must be a mapping of links to money, got {revenue!r}")
        for link, amount in revenue.items():
            if link not in self.shown:
                raise InvalidFeedback(f"`revenue` must be of links shown on the page, got {link!r}")
            if not (is_finite_number(amount) and amount >= 0):
                raise InvalidFeedback(
                    f"`revenue` of {link!r} must be a finite number that is at least 0, "
                    f"got {amount!r}"
                )
        earned = {link: float(amount) for link, amount in revenue.items() if amount > 0}
        if self.revenue is not None and self.revenue != earned:
            raise InvalidFeedback(
                f"`revenue` must be what was said before for this page ({self.revenue}), "
                f"got {earned}"
            )
        if self.clicked is not None:
            self._check_clicked(earned, self.clicked)
        is_new = self.revenue is None
        self.revenue = earned
        return is_new

    def _check_clicked(self, revenue: Mapping[Link, float], clicked: frozenset[Link]) -> None:
        for link in revenue:
            if link not in clicked:
                raise InvalidFeedback(
                    f"`revenue` must be of links that were clicked, got {link!r}; "
                    "report its click as well"
                )

    def _in_order(self, links: frozenset[Link]) -> list[Link]:
        return [link for link in self.shown if link in links]

    def copy(self) -> OpenPage:
        """Return a page that can be settled without touching this one."""
        return OpenPage(self.number, self.shown, self.chances, self.clicked, self.revenue)


def new_token() -> str:
    """Return a word that no other selector has, for the ids of pages."""
    return os.urandom(8).hex()


@dataclass
class OpenPages:
    """The open pages of one selector, oldest first, never more than `max_pages` of them.

    The id of a page is a token and the page's number. Every selector has a token of its own and
    a loaded one gets a new token, so that a page which was chosen after the selector was saved
    is never taken for the page that bears its number after loading. `earlier` are the tokens
    before that, each with the numbers that were issued under it.
    """

    max_pages: int
    n_issued: int = 0
    n_forgotten: int = 0
    earlier: dict[str, range] = field(default_factory=dict)
    token: str = field(default_factory=new_token)

    def __post_init__(self) -> None:
        self._first = self.n_issued + 1
        self._pages: dict[int, OpenPage] = {}

    def __iter__(self) -> Iterator[OpenPage]:
        return iter(self._pages.values())

    def __len__(self) -> int:
        return len(self._pages)

    @property
    def issued(self) -> dict[str, range]:
        """The numbers issued under each token, the present one last."""
        return {**self.earlier, self.token: range(self._first, self.n_issued + 1)}

    def issue(self, shown: tuple[Link, ...], chances: tuple[float, ...]) -> str:
        """Open a page and return its id; the oldest makes room when there are too many."""
        self.n_issued += 1
        if len(self._pages) >= self.max_pages:
            del self._pages[next(iter(self._pages))]
            self.n_forgotten += 1
        self._pages[self.n_issued] = OpenPage(self.n_issued, shown, chances)
        return f"{self.token}-{self.n_issued}"

    def put(self, page: OpenPage) -> None:
        """Keep a page while a level is open; forget it once both are settled."""
        if page.clicked is not None and page.revenue is not None:
            self._pages.pop(page.number, None)
        else:
            self._pages[page.number] = page

    def find(self, page: Decision | str) -> OpenPage | None:
        """Return the open page, or None if it is settled or forgotten; refuse strangers."""
        page_id = page.id if isinstance(page, Decision) else page
        if isinstance(page_id, str):
            token, _, digits = page_id.rpartition("-")
            is_number = digits.isdecimal() and len(digits) < 19
            number = int(digits) if is_number else 0
            if token == self.token:
                is_ours = self._first <= number <= self.n_issued
            else:
                is_ours = number in self.earlier.get(token, ())
            if is_ours and str(number) == digits:
                return self._pages.get(number)
        raise UnknownDecision(
            f"`page` must be a page of this selector, got {page_id!r}; "
            "use the page that `select` returned, or its id"
        )
