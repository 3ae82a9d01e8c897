"""Candidates: with what probability each link would have been on the page.

Used by `candidate_track`, `evaluate` and `log_frontier`.
"""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slotwise.arrays import Floats
from slotwise.errors import InvalidInput, MissingData
from slotwise.evaluation.log_reader import Vocabulary
from slotwise.features import NOT_KNOWN
from slotwise.problem import Rule, is_finite_number, whole_number
from slotwise.selection import SlotRule, Solution, solve, solve_kinds, solve_rules

SLOT = "slot"
ROUNDING = 1e-6


@dataclass(frozen=True)
class Known:
    """What a candidate may read: the log before the block for which it is evaluated.

    `sizes` has the number of links on a page of each segment. The rows and columns of `rates` are
    the segments and links of the last fit; more may have been seen since.
    """

    links: Vocabulary
    segments: list[tuple[str, ...]]
    sizes: list[int]
    n_slots: int
    rates: Floats
    views: Floats


class Candidate(ABC):
    """Something that would have chosen the links of the log's pages."""

    features: tuple[str, ...] = ()
    """The features of visitors that it looks at."""
    by_slot = False
    """Whether it gives the slot of each link."""
    n_slots: int | None = None
    """How many links its pages have; None where each has as many as the page of the log."""
    by_size = False
    """Whether its page depends on how many links the page of the log has."""
    fits_on = 0.0
    """The share of the log, from its beginning, that it needs before it is evaluated."""

    @abstractmethod
    def probabilities(self, known: Known) -> Floats:
        """Return an inclusion probability for each segment (or slot) and link."""

    @abstractmethod
    def extended(self, table: Floats, known: Known) -> Floats:
        """Return `table` with room for links and segments that appeared since it was made."""


class LinkMix(Candidate):
    """Fixed inclusion probabilities, the same for everybody or given by segment or slot.

    `probabilities` maps the values of `features` (an empty tuple without features, the slot
    as a number with `by_slot`) to the probability of each link. Links that are left out have 0,
    and a segment that is left out makes the log's pages of that segment an error.

    >>> LinkMix.of({"sale": 1.0, "new": 0.6, "blog": 0.4}).n_slots
    2
    """

    def __init__(
        self,
        probabilities: Mapping[tuple[str, ...], Mapping[str, float]],
        features: Iterable[str] = (),
        by_slot: bool = False,
    ) -> None:
        self.features = tuple(features)
        self.by_slot = by_slot
        self._mixes = {key: dict(mix) for key, mix in probabilities.items()}
        totals = [self._checked_total(key, mix) for key, mix in self._mixes.items()]
        if not totals:
            raise InvalidInput.of("mix", "at least one link with its probability", {})
        if by_slot and any(total != 1 for total in totals):
            raise InvalidInput.of("mix", "probabilities that sum to 1 in every slot", totals)
        if len(set(totals)) > 1:
            raise InvalidInput.of("mix", "of as many slots in every segment", sorted(set(totals)))
        self.n_slots = len(totals) if by_slot else totals[0]

    @classmethod
    def of(cls, probabilities: Mapping[str, float]) -> LinkMix:
        """Return the mix that is the same for everybody."""
        return cls({(): probabilities})

    @staticmethod
    def _checked_total(key: tuple[str, ...], mix: Mapping[str, float]) -> int:
        for link, probability in mix.items():
            if not (is_finite_number(probability) and 0 <= probability <= 1 + ROUNDING):
                raise InvalidInput.of(f"probability of {link}", "from 0 to 1", probability)
        total = sum(mix.values())
        if abs(total - round(total)) > ROUNDING * max(1, len(mix)) or round(total) < 1:
            where = f" of {', '.join(key)}" if key else ""
            rule = f"the number of slots, a whole number such as {max(1, round(total))}"
            raise InvalidInput.of(f"sum of the probabilities{where}", rule, round(total, 6))
        return round(total)

    def probabilities(self, known: Known) -> Floats:
        """Return the given probabilities, by the codes of the log."""
        links = known.links
        for mix in self._mixes.values():
            for link in mix:
                links.code(link)
        keys = (
            [(str(slot),) for slot in range(1, known.n_slots + 1)]
            if self.by_slot
            else known.segments
        )
        table = np.zeros((max(len(keys), 1), len(links)))
        for row, key in enumerate(keys):
            if key not in self._mixes:
                if self.by_slot:
                    continue
                named = ", ".join(
                    f"{name}={value}" for name, value in zip(self.features, key, strict=True)
                )
                raise InvalidInput.of("mix", "given for every segment of the log", named)
            for link, probability in self._mixes[key].items():
                table[row, links.code(link)] = probability
        return table

    def extended(self, table: Floats, known: Known) -> Floats:  # noqa: ARG002 (fixed by the base)
        """Return the given probabilities for all links and segments of now."""
        return self.probabilities(known)


class BestMix(Candidate):
    """The mix with the most revenue that keeps a click floor, by the estimates of the log.

    A mix chosen by looking at a log seems better on that log than it is. So the mix of each part
    of the log is fitted to the pages before that part, and the first quarter only serves to fit.
    Each page has as many links as in the log, or `n_slots`. With `features` each segment of
    visitors gets a mix of its own. The floor holds on average, also over pages of different sizes.
    `rules` say how many slots of a page some links may and must have; a `boost` is ignored.
    """

    fits_on = 0.25

    def __init__(
        self,
        click_floor: float,
        n_slots: int | None = None,
        features: Iterable[str] = (),
        rules: Sequence[Rule] = (),
    ) -> None:
        if not (is_finite_number(click_floor) and click_floor >= 0):
            rule = "a finite number that is at least 0"
            raise InvalidInput.of("click_floor", rule, click_floor)
        self.click_floor = float(click_floor)
        self.n_slots = None if n_slots is None else whole_number("n_slots", n_slots, at_least=1)
        self.by_size = n_slots is None
        self.features = tuple(features)
        self.rules = tuple(rules)
        if self.rules and self.features:
            raise InvalidInput.of("rules", "empty where segments have mixes", len(self.rules))
        self._scores = np.zeros(0)
        """Revenue and priced clicks of each link for an average visitor, at most 1."""
        self.solution: Solution | None = None
        """The last mix that was fitted, with its floor's status."""

    def probabilities(self, known: Known) -> Floats:
        """Solve the floor program for the rates of the log so far."""
        clicks, revenue = known.rates
        sizes = self._sizes(known)[: len(clicks)]
        pages = known.views.sum(axis=1)[: len(clicks)] / known.sizes[: len(clicks)]
        shares = pages / pages.sum()
        for rule in self.rules:
            rule.check_page(max(sizes))
        rules = self._slot_rules(known.links)
        if len(shares) == 1:
            page = (revenue[0], clicks[0], sizes[0], self.click_floor)
            self.solution = Solution(*solve_rules(*page, rules)[:5]) if rules else solve(*page)
            table = self.solution.probabilities[None]
        else:
            floors = [(np.ones(len(shares), bool), self.click_floor)]
            is_slot = np.arange(max(sizes)) < np.array(sizes)[:, None]
            best = solve_kinds(revenue, clicks, shares, is_slot.astype(float), floors, rules)
            price, brought = float(best.shadow_prices[0]), float(best.clicks[0])
            self.solution = Solution(best.probabilities, price, best.status, best.value, brought)
            table = best.probabilities
        price = self.solution.shadow_price
        scores = shares @ (clicks if np.isinf(price) else revenue + price * clicks)
        self._scores = scores / max(1.0, float(scores.max()))
        return self.extended(table, known)

    def _sizes(self, known: Known) -> list[int]:
        """Return the number of links on a page of each segment."""
        n_links = known.rates.shape[-1]
        return [min(self.n_slots or size, n_links) for size in known.sizes]

    def _slot_rules(self, links: Vocabulary) -> list[SlotRule]:
        """Return the rules for the links seen so far."""
        place_of = {link: place for place, link in enumerate(links.values)}
        found = []
        for rule in self.rules:
            seen = [place_of[str(link)] for link in rule.links if str(link) in place_of]
            if not seen:
                raise rule.error("links", "links of the log", list(rule.links))
            most = float(len(seen)) if rule.at_most is None else min(rule.at_most, len(seen))
            found.append(SlotRule(np.array(seen, np.int64), rule.at_least, most))
        return found

    def extended(self, table: Floats, known: Known) -> Floats:
        """Show no new link yet, and a new segment or size the best page at the last price."""
        n_new_links = len(known.links) - table.shape[1]
        new = self._sizes(known)[len(table) :]
        pages = [self._best_page(size, known.links) for size in new]
        grown = np.pad(table, ((0, 0), (0, n_new_links)))
        of_new = np.zeros((len(new), len(known.links)))
        for row, page in enumerate(pages):
            of_new[row, : len(page)] = page
        return np.concatenate([grown, of_new])

    def _best_page(self, n_slots: int, links: Vocabulary) -> Floats:
        """Return the page of `n_slots` links for an average visitor."""
        nothing = np.zeros(len(self._scores))
        if not self.rules:
            return solve(self._scores, nothing, n_slots, 0.0).probabilities
        rules = self._slot_rules(links)
        return solve_rules(self._scores, nothing, n_slots, 0.0, rules).probabilities


def read_mix(path: str | Path) -> LinkMix:
    """Read a mix from a CSV file with the columns link and probability.

    A column `slot` gives the slot of the link with this probability; any other column is a
    feature of visitors, with a mix for each of its values; an empty cell, or "(not known)", is for
    visitors whose value is not known.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingData(f"`mix` must be a CSV file that exists, got {str(path)!r}")
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        rows, columns = list(reader), [name.strip() for name in reader.fieldnames or ()]
    if not {"link", "probability"} <= {*columns}:
        raise MissingData(f"{path.name}: a mix must have the columns link and probability")
    columns = [name for name in columns if name not in ("link", "probability")]
    features = tuple(name.removeprefix("visitor.") for name in columns)
    by_slot = SLOT in features
    if by_slot and len(features) > 1:
        raise InvalidInput.of("mix", "by slot or by features, not by both", list(features))
    mixes: dict[tuple[str, ...], dict[str, float]] = {}
    for number, row in enumerate(rows, start=2):
        cells = {name.strip(): (cell or "").strip() for name, cell in row.items() if name}
        key = tuple("" if cells[name] == NOT_KNOWN else cells[name] for name in columns)
        mix = mixes.setdefault(key, {})
        if cells["link"] in mix:
            raise InvalidInput(
                f"{path.name}: a link must have one probability, got two in row {number}"
            )
        try:
            mix[cells["link"]] = float(cells["probability"])
        except ValueError:
            rule = f"{path.name}: `probability` must be a number"
            raise InvalidInput(f"{rule}, got {cells['probability']!r} in row {number}") from None
    return LinkMix(mixes, () if by_slot else features, by_slot)
