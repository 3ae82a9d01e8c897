"""Pages whose feedback is not complete: each level of each page is settled once, in any order.

Used by `page_journal`, `promised_pages`, `selector` and `selector_file`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from slotwise.arrays import Floats
from slotwise.errors import InvalidFeedback, InvalidInput, UnknownDecision
from slotwise.player.link_pool import listed_links
from slotwise.player.pages import DrawnPage
from slotwise.problem import is_finite_number
from slotwise.rounds import Decision, Link
from slotwise.selection.promise import Group

CLICKS_AND_REVENUE = ("clicks", "revenue")
"""What the levels are called in feedback where a selector names no levels of its own."""

MIN_WAIT = 10_000
"""Pages chosen after an open page before it can count as lost."""
NEVER = 2**62
"""No page has a number as large as this one."""

Outcome = dict[Link, float]
"""The outcome of a level by link: an amount at the last level, 1 at the others."""


@dataclass(slots=True)
class OpenPage:
    """A page and its feedback by level: None where a level is not settled."""

    number: int
    shown: tuple[Link, ...]
    probabilities: tuple[float, ...]
    level_names: tuple[str, ...] = CLICKS_AND_REVENUE
    outcomes: tuple[Outcome | None, ...] = ()
    visitor: tuple[int, ...] = ()
    is_in_random_order: bool = False
    group: Group = "chosen"
    share: float = 1.0
    """The share of chosen pages when the page was chosen."""

    def __post_init__(self) -> None:
        if not self.outcomes:
            self.outcomes = (None,) * len(self.level_names)

    @property
    def is_settled(self) -> bool:
        """Whether every level is settled."""
        return None not in self.outcomes

    @property
    def open_levels(self) -> list[int]:
        """The levels that are not settled."""
        return [level for level, outcome in enumerate(self.outcomes) if outcome is None]

    def displayed(self, shown: Any) -> OpenPage:
        """Return the page in the order in which a caller displayed it."""
        if isinstance(shown, Mapping | Set):
            rule = "a list of links in the order of display"
            raise InvalidInput.of("shown", rule, shown, "slot order is lost in a mapping or a set")
        order = tuple(listed_links("shown", shown))
        if order == self.shown:
            return self
        if len(order) != len(self.shown) or {*order} != {*self.shown}:
            raise InvalidFeedback(
                f"`shown` must be the links of the page {self.shown}, got {order}"
            )
        if self.outcomes.count(None) < len(self.outcomes):
            rule = f"given with the first feedback of the page, which had {self.shown}"
            raise InvalidFeedback(f"`shown` must be {rule}, got {order}")
        chances = dict(zip(self.shown, self.probabilities, strict=True))
        chosen = tuple(chances[link] for link in order)
        return replace(self, shown=order, probabilities=chosen, is_in_random_order=False)

    def with_feedback(self, given: Mapping[int, object]) -> OpenPage:
        """Return the page with feedback for some levels, or itself if nothing is new."""
        outcomes = list(self.outcomes)
        is_new = False
        for level, feedback in given.items():
            outcome = self._added(level, feedback)
            if outcome != outcomes[level]:
                outcomes[level] = outcome
                is_new = True
        if not is_new:
            return self
        self._check_nested(outcomes)
        page = (self.number, self.shown, self.probabilities, self.level_names)
        own = self.group, self.share
        return OpenPage(*page, tuple(outcomes), self.visitor, self.is_in_random_order, *own)

    def _added(self, level: int, feedback: object) -> Outcome:
        """Return what is known of a level with this feedback.

        Links that reached a level add up while the page is open. Revenue is recorded once: another
        one is refused, so that no sale is lost in silence.
        """
        name, known = self.level_names[level], self.outcomes[level]
        if level < len(self.outcomes) - 1:
            reached = self._links(name, feedback)
            return reached if known is None else known | reached
        earned = self._money(name, feedback)
        if known is not None and known != earned:
            before = f"`{name}` of this page was already recorded as {known}"
            advice = "add up all sales of a page and record them once"
            raise InvalidFeedback(f"{before}, got {earned}; {advice}")
        return earned

    def ended(self) -> OpenPage:
        """Return the page with every open level settled as empty."""
        outcomes = tuple({} if known is None else known for known in self.outcomes)
        return replace(self, outcomes=outcomes)

    def news_since(self, before: OpenPage) -> Iterator[tuple[int, Outcome, int]]:
        """Yield each level with new feedback, what is new, and 1 if the level was open, else 0."""
        for level, (known, outcome) in enumerate(zip(before.outcomes, self.outcomes, strict=True)):
            if outcome is None or outcome is known:
                continue
            if known is None:
                yield level, outcome, 1
            elif len(outcome) > len(known):
                yield level, {link: one for link, one in outcome.items() if link not in known}, 0

    def _links(self, name: str, given: Any) -> Outcome:
        """Return the links that reached a level."""
        if isinstance(given, Mapping):
            raise InvalidFeedback(f"`{name}` must be a collection of links, got a mapping: {given}")
        reached = dict.fromkeys(listed_links(name, given), 1.0)
        shown = {*self.shown}  # ids of several kinds may not compare
        for link in reached:
            if link not in shown:
                raise InvalidFeedback(f"`{name}` must be links shown on the page, got {link!r}")
        return reached

    def _money(self, name: str, given: object) -> Outcome:
        """Return what each link earned, without those that earned nothing."""
        if not isinstance(given, Mapping):
            raise _no_mapping(name, "money", given)
        shown = {*self.shown}
        for link, amount in given.items():
            if link not in shown:
                raise InvalidFeedback(f"`{name}` must be of links shown on the page, got {link!r}")
            if not (is_finite_number(amount) and amount >= 0):
                rule = "a finite number that is at least 0"
                raise InvalidFeedback(f"`{name}` of {link!r} must be {rule}, got {amount!r}")
        return {link: float(amount) for link, amount in given.items() if amount > 0}

    def _check_nested(self, outcomes: Sequence[Outcome | None]) -> None:
        """Refuse a link that reached a level but not one before it."""
        before = ""
        reached: Outcome | None = None
        for name, outcome in zip(self.level_names, outcomes, strict=True):
            if outcome is None:
                continue
            for link in outcome if reached is not None else ():
                if link not in reached:  # type: ignore[operator]
                    is_plain = self.level_names == CLICKS_AND_REVENUE
                    rule = "that were clicked" if is_plain else f"that reached `{before}`"
                    advice = f"report its {'click' if is_plain else f'`{before}`'} as well"
                    raise InvalidFeedback(
                        f"`{name}` must be of links {rule}, got {link!r}; {advice}"
                    )
            before, reached = name, outcome


def new_token() -> str:
    """Return a random token for the ids of the pages of one selector."""
    return os.urandom(8).hex()


@dataclass
class OpenPages:
    """The open pages of one selector, oldest first, at most `max_pages` of them.

    The id of a page is a token and the page's number. A loaded selector gets a new token, so that a
    page that was chosen after saving is not mistaken for the page with the same number after
    loading. `earlier` are the tokens before that, each with the numbers issued with it.

    The policy counts the open pages `counted_from` to `counted_to`: each page from the choice of
    the next page on. A page that has waited twice as long as any settled page, and for at least
    `MIN_WAIT` pages, is no longer counted: it may never get any feedback.
    """

    max_pages: int
    n_issued: int = 0
    n_forgotten: int = 0
    earlier: dict[str, range] = field(default_factory=dict)
    token: str = field(default_factory=new_token)
    level_names: tuple[str, ...] = CLICKS_AND_REVENUE
    counted_from: int = 1
    counted_to: int = 0
    longest_wait: int = 0

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

    def issue(
        self,
        page: DrawnPage,
        visitor: tuple[int, ...] = (),
        group: Group = "chosen",
        share: float = 1.0,
    ) -> str:
        """Open a page and return its id."""
        self.n_issued += 1
        opened = (self.n_issued, page.shown, page.drawn_with, self.level_names)
        own = (page.is_in_random_order, group, share)
        self._pages[self.n_issued] = OpenPage(*opened, (), visitor, *own)
        return f"{self.token}-{self.n_issued}"

    def forget_oldest(self) -> OpenPage | None:
        """Forget the oldest page where `max_pages` are open, and return it."""
        if len(self._pages) < self.max_pages:
            return None
        self.n_forgotten += 1
        return self._pages.pop(next(iter(self._pages)))

    def is_counted(self, page: OpenPage) -> bool:
        """Return whether the policy counts the open levels of a page."""
        return self.counted_from <= page.number <= self.counted_to

    def last_uncounted(self) -> OpenPage | None:
        """Return the last page if it is open and not counted yet."""
        page = self._pages.get(self.n_issued)
        is_due = max(self.counted_from, self.counted_to + 1) <= self.n_issued
        return page if is_due else None

    def waited_too_long(self) -> Iterator[OpenPage]:
        """Yield pages that were counted and no longer are."""
        if self.longest_wait:
            first = self.n_issued - max(MIN_WAIT, 2 * self.longest_wait)
            while self.counted_from < first:
                page = self._pages.get(self.counted_from)
                self.counted_from += 1
                if page is not None:
                    yield page

    def stop_counting(self) -> list[OpenPage]:
        """Stop counting open pages; return those that were counted."""
        counted = [page for page in self if self.is_counted(page)]
        self.counted_from = NEVER
        return counted

    def put(self, page: OpenPage) -> None:
        """Store a page while a level is open; remove it when all are settled."""
        self.longest_wait = max(self.longest_wait, self.n_issued - page.number + 1)
        if page.is_settled:
            self._pages.pop(page.number, None)
        else:
            self._pages[page.number] = page

    def find(self, page: Decision | str) -> OpenPage | None:
        """Return the open page, or None if it is settled or forgotten; refuse an unknown id."""
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


class Batch(NamedTuple):
    """Totals of each link by level, None where a level is not settled; revenue is not scaled."""

    links: list[Link]
    views: Floats
    outcomes: list[Floats | None]

    def most_before(self, level: int) -> Floats:
        """Return the totals of the last settled level before this one: an upper limit."""
        settled = [totals for totals in self.outcomes[:level] if totals is not None]
        return settled[-1] if settled else self.views


def read_batch(views: Mapping[Any, int], given: Mapping[int, Any], names: tuple[str, ...]) -> Batch:
    """Return the totals as arrays; refuse totals that are impossible.

    `given` has the totals of each settled level, `names` the names of the levels.
    """
    last = len(names) - 1
    outcomes: list[Floats | None] = [None] * len(names)
    shown = _totals("views", views, views, is_money=False)
    batch = Batch(list(views), shown, outcomes)
    before = "views"
    for level, name in enumerate(names):
        if given.get(level) is None:
            continue
        totals = _totals(name, given[level], views, is_money=level == last)
        for link, total, most in zip(batch.links, totals, batch.most_before(level), strict=True):
            if level < last and total > most:
                rule = f"at most its {before} ({most:g})"
                raise InvalidFeedback(f"`{name}` of {link!r} must be {rule}, got {total:g}")
            if level == last and total > 0 and most == 0:
                is_plain = names == CLICKS_AND_REVENUE
                rule = "that were clicked" if is_plain else f"with `{before}`"
                raise InvalidFeedback(f"`{name}` must be of links {rule}, got {link!r}")
        outcomes[level] = totals
        before = name
    return batch


def _no_mapping(name: str, of: str, given: object) -> InvalidFeedback:
    kind = type(given).__name__
    got = f"a {kind}; write dict(...)" if hasattr(given, "to_list") else repr(given)
    return InvalidFeedback(f"`{name}` must be a mapping of links to {of}, got {got}")


def _totals(
    name: str, totals: Mapping[Any, float], views: Mapping[Any, int], is_money: bool
) -> Floats:
    """Return the total of each link that has `views`, 0 where `totals` has no entry."""
    if not isinstance(totals, Mapping):
        raise _no_mapping(name, "totals", totals)
    for link, total in totals.items():
        if link not in views:
            raise InvalidFeedback(f"`{name}` must be of links with `views`, got {link!r}")
        if not (is_finite_number(total) and total >= 0 and (is_money or total == int(total))):
            rule = f"a {'finite' if is_money else 'whole'} number that is at least 0"
            raise InvalidFeedback(f"`{name}` of {link!r} must be {rule}, got {total!r}")
    return np.array([totals.get(link, 0) for link in views], dtype=np.float64)
