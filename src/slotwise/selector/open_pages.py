"""Pages that wait for feedback: each level of each page is settled once, in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from slotwise.errors import InvalidFeedback, UnknownDecision
from slotwise.rounds import Decision, Link

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
        clicked = frozenset(clicks)
        strangers = clicked.difference(self.shown)
        if strangers:
            raise InvalidFeedback(
                f"`clicks` must be links shown on the page, got {next(iter(strangers))!r}"
            )
        if self.revenue is not None:
            self._check_clicked(self.revenue, clicked)
        if self.clicked is not None and self.clicked != clicked:
            raise InvalidFeedback(
                "`clicks` must be what was said before for this page "
                f"({sorted(map(repr, self.clicked))}), got {sorted(map(repr, clicked))}"
            )
        is_new = self.clicked is None
        self.clicked = clicked
        return is_new

    def settle_revenue(self, revenue: Mapping[Link, float]) -> bool:
        """Take in what the links earned; return False if that was known already."""
        for link, amount in revenue.items():
            if link not in self.shown:
                raise InvalidFeedback(f"`revenue` must be of links shown on the page, got {link!r}")
            if not 0.0 <= amount < float("inf"):
                raise InvalidFeedback(
                    f"`revenue` of {link!r} must be a finite number that is at least 0, "
                    f"got {amount!r}"
                )
        earned = {link: float(amount) for link, amount in revenue.items() if amount > 0}
        if self.clicked is not None:
            self._check_clicked(earned, self.clicked)
        if self.revenue is not None and self.revenue != earned:
            raise InvalidFeedback(
                f"`revenue` must be what was said before for this page ({self.revenue}), "
                f"got {earned}"
            )
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

    def copy(self) -> OpenPage:
        """Return a page that can be settled without touching this one."""
        return OpenPage(self.number, self.shown, self.chances, self.clicked, self.revenue)


@dataclass
class OpenPages:
    """The open pages of one selector, oldest first, never more than `max_pages` of them.

    `token` is in the id of every page, so that pages of another selector are recognised.
    """

    token: str
    max_pages: int
    n_issued: int = 0
    n_forgotten: int = 0
    _pages: dict[int, OpenPage] = field(default_factory=dict)

    def __iter__(self) -> Iterator[OpenPage]:
        return iter(self._pages.values())

    def __len__(self) -> int:
        return len(self._pages)

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
        """Return the open page, or None if it is settled already; refuse strangers."""
        page_id = page if isinstance(page, str) else page.id
        token, _, number = page_id.rpartition("-")
        if token != self.token or not number.isdigit() or not 1 <= int(number) <= self.n_issued:
            raise UnknownDecision(
                f"`page` must be a page of this selector, got {page_id!r}; "
                "use the page that `select` returned, or its id"
            )
        return self._pages.get(int(number))
