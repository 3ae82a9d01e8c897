"""Estimate from a log what candidates would have earned, in one pass.

Used by `log_frontier` and `service`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats
from slotwise.errors import InvalidInput
from slotwise.evaluation.answers import Estimate, Evaluation
from slotwise.evaluation.candidate_track import Track, add_logged
from slotwise.evaluation.candidates import BestMix, Candidate, Known
from slotwise.evaluation.confidence_sequence import Bets, mean_bounds, new_bets
from slotwise.evaluation.estimators import CLICKS, ESTIMATORS, REVENUE
from slotwise.evaluation.link_tallies import Tallies
from slotwise.evaluation.log_files import Source
from slotwise.evaluation.log_reader import LogReader, Pages
from slotwise.problem import is_finite_number

if TYPE_CHECKING:
    pass


FIRST_FIT, FIT_AGAIN = 100, 1.25
"""Pages before the first fit of models and mixes, and the growth of the log before the next."""
N_BLOCKS = 500
MAX_NAMES = 5
"""Most links that a note names."""
SUSPICIOUS = 6.0
"""Standard errors by which the sum of weights may miss its mean before it is reported."""


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """How to evaluate.

    `estimator` makes the value; the intervals hold for the target, whichever is chosen. `clip` is
    the largest weight of the clipped estimator. `max_revenue` is the most that one view of a link
    can earn, for a log in money whose metadata do not have it. `click_floor` is compared with the
    clicks of a mix; the best mix has its own floor.
    """

    estimator: str = "dr"
    confidence: float = 0.95
    clip: float = 100.0
    max_revenue: float | None = None
    click_floor: float | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise InvalidInput.of("estimator", f"one of {', '.join(ESTIMATORS)}", self.estimator)
        if not (is_finite_number(self.confidence) and 0 < self.confidence < 1):
            raise InvalidInput.of("confidence", "between 0 and 1", self.confidence)
        if not (is_finite_number(self.clip) and self.clip > 0):
            raise InvalidInput.of("clip", "a positive finite number", self.clip)
        floor = self.click_floor
        if floor is not None and not (is_finite_number(floor) and floor >= 0):
            raise InvalidInput.of("click_floor", "a finite number that is at least 0", floor)


DEFAULT = EvaluationSettings()


def evaluate(
    log: Source, candidate: Candidate, settings: EvaluationSettings = DEFAULT
) -> Evaluation:
    """Return what `candidate` would have earned on the pages of `log`."""
    return evaluate_all(log, {"candidate": candidate}, settings)["candidate"]


def evaluate_all(
    log: Source, candidates: Mapping[str, Candidate], settings: EvaluationSettings = DEFAULT
) -> dict[str, Evaluation]:
    """Evaluate several candidates in one pass; each answer holds by itself.

    All of them must look at the same features, by segment or by slot.
    """
    chosen = list(candidates.values())
    if not chosen:
        raise InvalidInput.of("candidates", "at least one candidate", {})
    kinds = {(candidate.features, candidate.by_slot) for candidate in chosen}
    if len(kinds) > 1:
        raise InvalidInput.of("candidates", "of the same features and slots", sorted(kinds))
    by_size = any(candidate.by_size for candidate in chosen)
    reader = LogReader(log, chosen[0].features, settings.max_revenue, by_size)
    if chosen[0].by_slot and not reader.has_slot_probabilities:
        rule = "without slots, since the log has no column `slot_probability`"
        raise InvalidInput.of("mix", rule, "a column `slot`")
    passing = _Pass(reader, chosen, settings)
    for pages in reader:
        passing.add_pages(pages)
    passing.close_pool()
    return {
        name: passing.answer(name, track, settings)
        for name, track in zip(candidates, passing.tracks, strict=True)
    }


class _Pass:
    """One pass over a log: splits it where models are fitted again or the pool changes."""

    def __init__(
        self, reader: LogReader, candidates: Sequence[Candidate], settings: EvaluationSettings
    ) -> None:
        self._reader = reader
        self._by_slot = candidates[0].by_slot
        self._candidates = candidates
        self._clip = settings.clip
        self.tracks: list[Track] = []
        self._tallies = Tallies()
        self._n_pages = 0
        self._n_rows = 0
        self._logged = (new_bets(), new_bets())
        self._next_fit = FIRST_FIT
        self._pool_changes = 0
        self._is_seen: NDArray[np.bool_] = np.zeros(0, bool)
        self._rates = np.zeros((2, 1, 0))

    def add_pages(self, pages: Pages) -> None:
        """Let every candidate see the next pages."""
        if not pages.n_pages:
            return
        if not self.tracks:
            approximately = self._reader.n_rows // max(1, self._reader.n_slots)
            size = max(1, approximately // N_BLOCKS)
            self.tracks = [Track(one, self._clip, size) for one in self._candidates]
        begin = 0
        while begin < pages.n_pages:
            refit = self._n_pages >= self._next_fit
            if refit:
                self._next_fit = int(self._next_fit * FIT_AGAIN)
            end = min(pages.n_pages, begin + self._next_fit - self._n_pages)
            changes = pages.pool_changes[begin:end]
            has_changed = int(changes[0]) != self._pool_changes
            self._pool_changes = int(changes[0])
            same = np.flatnonzero(changes != changes[0])
            end = begin + int(same[0]) if len(same) else end
            self._add(pages.part(begin, end), refit, has_changed)
            begin = end

    def _add(self, pages: Pages, refit: bool, has_changed: bool) -> None:
        """Add pages to the candidates and to the tallies, which candidates are fitted on before."""
        reader, tallies = self._reader, self._tallies
        n_rows = reader.n_slots if self._by_slot else max(1, len(reader.segments))
        tallies.make_room(n_rows, len(reader.links))
        if has_changed:
            self.close_pool()
            tallies.recent_views[:] = 0
            self._is_seen = np.zeros(0, bool)
        if refit:
            self._rates = tallies.rates()
            self._is_seen = tallies.recent_views > 0
        seen = reader.links, reader.segments, reader.sizes, reader.n_slots
        known = Known(*seen, self._rates, tallies.views)
        is_fitted = self._rates.shape[-1] > 0
        for track in self.tracks:
            share = track.candidate.fits_on
            if share and (not is_fitted or self._n_rows < share * reader.n_rows):
                track.n_skipped += pages.n_pages
                continue
            track.prepare(known, self._is_seen, refit)
            track.add(pages)
        tallies.make_room(n_rows, len(reader.links))
        tallies.add(pages, self._by_slot)
        add_logged(self._logged, pages)
        self._n_pages += pages.n_pages
        self._n_rows += len(pages.links)

    def close_pool(self) -> None:
        """Note that the pool has changed, or that the log has ended."""
        for track in self.tracks:
            track.close_pool(self._tallies.recent_views > 0)

    def answer(self, name: str, track: Track, settings: EvaluationSettings) -> Evaluation:
        """Return what the log says about one candidate."""
        totals, reader = track.totals, self._reader
        if not totals.n_pages:
            rule = f"of more than {FIRST_FIT} settled pages, to fit the best mix and to evaluate it"
            raise InvalidInput.of("log", rule, f"{reader.n_pages} pages")
        alpha = 1.0 - settings.confidence
        values = totals.estimate(settings.estimator)
        most = totals.most / totals.n_pages
        units = (1.0, reader.max_revenue)
        estimates = [
            _estimate(float(value), bets, alpha, most, unit, track.unknown)
            for value, bets, unit in zip(values, track.bets, units, strict=True)
        ]
        logged = [
            _estimate(bets.mean_value, bets, alpha, float(reader.n_slots), unit)
            for bets, unit in zip(self._logged, units, strict=True)
        ]
        table = track.table
        assert table is not None
        ends = track.blocks.interval(alpha, np.random.default_rng(settings.seed))
        low, high = (ends * np.array(units)[:, None]).T.tolist()
        candidate = track.candidate
        uncovered, notes = self._uncovered(track, table)
        best = candidate.solution if isinstance(candidate, BestMix) else None
        if best is not None and best.status == "infeasible":
            note = f"The floor is out of reach: the most clicked mix has {best.clicks:.4g} clicks."
            notes += (note,)
        notes += self._sizes_and_order(candidate)
        return Evaluation(
            candidate=name,
            estimator=settings.estimator,
            confidence=settings.confidence,
            revenue=estimates[REVENUE],
            clicks=estimates[CLICKS],
            logged_revenue=logged[REVENUE],
            logged_clicks=logged[CLICKS],
            effective_sample_size=totals.effective_sample_size,
            max_weight=totals.largest_weight,
            uncovered=uncovered,
            n_pages=totals.n_pages,
            n_fitted=track.n_skipped,
            n_unsettled=reader.n_unsettled,
            n_clipped=reader.n_clipped,
            currency=reader.currency,
            click_floor=(
                candidate.click_floor if isinstance(candidate, BestMix) else settings.click_floor
            ),
            bootstrap={
                "clicks": (low[CLICKS], high[CLICKS]),
                "revenue": (low[REVENUE], high[REVENUE]),
            },
            mix=self._mix(table),
            notes=notes,
        )

    def _mix(self, table: Floats) -> dict[str, float]:
        """Return the average page, by link."""
        if self._by_slot:
            page = table.sum(axis=0)
        else:
            views = self._tallies.views.sum(axis=1)[: len(table)]
            pages = views / self._reader.sizes[: len(views)]
            page = pages @ table[: len(pages)] / max(pages.sum(), 1.0)
        links = self._reader.links.values
        return {links[place]: float(page[place]) for place in np.flatnonzero(page > 0)}

    def _sizes_and_order(self, candidate: Candidate) -> tuple[str, ...]:
        """Return notes on pages of different sizes, and on the order of links."""
        reader, notes = self._reader, []
        if len(reader.pages_of_size) > 1:
            usual = reader.usual_slots
            share = 100.0 * reader.pages_of_size[usual] / reader.n_pages
            least = min(reader.pages_of_size)
            size = "as many as it has" if candidate.n_slots is None else str(candidate.n_slots)
            notes.append(
                f"The pages of the log have {least} to {reader.n_slots} links, {share:.4g} % of "
                f"them {usual}. Each page is evaluated with {size}."
            )
        if reader.has_own_order and not candidate.by_slot:
            notes.append(
                "Slots differ, and the policy of the log chose the order: each link is judged in "
                "the slots where the log showed it. In other slots its clicks and revenue may lie "
                "outside the intervals."
            )
        return tuple(notes)

    def _uncovered(self, track: Track, table: Floats) -> tuple[float, tuple[str, ...]]:
        """Return the share of the page that the log could not show, and what to note."""
        shown = np.zeros(table.shape[1], bool)
        views = self._tallies.views.sum(axis=0)
        shown[: len(views)] = views > 0
        never = float((table * ~shown).sum() / max(table.sum(), 1e-300))
        absent = [self._reader.links.values[k] for k in np.flatnonzero(table.any(axis=0) & ~shown)]
        more = f" and {len(absent) - MAX_NAMES} more" if len(absent) > MAX_NAMES else ""
        named = f"The log never shows {', '.join(map(repr, absent[:MAX_NAMES]))}{more}."
        notes = (named,) if absent else ()
        covered, error = track.totals.covered
        missing = 1.0 - covered - never
        is_missing = missing > max(3.0 * error, 1e-9)
        if track.is_full_support:
            if abs(missing) > max(SUSPICIOUS * error, 1e-6) and error > 0:
                note = (
                    f"The weights sum to {covered:.3g} of what they should: the probabilities of "
                    "the log are not those that chose its pages, or links left its pool."
                )
                return never, (*notes, note)
            return never, notes
        return min(1.0, max(0.0, never + (missing if is_missing else 0.0))), notes


def _estimate(
    value: float, bets: Bets, alpha: float, most: float, unit: float, unknown: float = 0.0
) -> Estimate:
    """Return a value with its interval, within what a page can bring."""
    low, high = mean_bounds(bets, alpha / 4, unknown)  # two levels, two ends
    value = min(max(value, 0.0), most)
    low, high = min(max(low, 0.0), value), max(min(high, most), value)
    return Estimate(value * unit, low * unit, high * unit)
