"""A selector under random calls, next to a model that counts what it was told.

Features, rules, slots, floors and limits are drawn at the start; then pages are chosen with pins
and exclusions, feedback comes late, in parts, twice or wrong, links join and leave, floors and
rules change, counts are imported, and the selector is saved and goes on from its file. Some
selectors have an own page, with a promise or without one.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from slotwise import Decision, Rule, Selector
from slotwise.errors import SlotwiseError
from slotwise.player.known_counts import KnownCounts
from slotwise.policies import POLICIES
from slotwise.selector import start_from_counts
from slotwise.selector.floor_advice import FloorUnreachable
from tests.combinations.shop_play import a_visitor
from tests.selector.selectors import registered_policy

MAX_REVENUE = 4.0
CLICKS, REVENUE = 0, 1
SEEDS = st.integers(0, 10_000)


@dataclass
class Page:
    """A page that may still get feedback: None is what is not known."""

    decision: Decision[int]
    clicks: list[int] | None = None
    revenue: dict[int, float] | None = None

    @property
    def is_settled(self) -> bool:
        return self.clicks is not None and self.revenue is not None


@dataclass
class Kind:
    """What a selector of a machine may have; each entry is drawn from."""

    features: list[dict[str, Any]]
    n_links: tuple[int, int] = (1, 12)
    n_slots: tuple[int, int] = (1, 3)
    has_segment_floors: bool = False
    max_open_pages: tuple[int, ...] = (1, 2, 5, 1_000)
    counts_while_forgetting: bool = False
    """Whether counts also come to a selector that forgets open pages."""
    rules_cross: bool = False


@dataclass
class Model:
    """What was counted of each link of the pool: views and outcomes of both levels."""

    counts: dict[int, list[list[float]]] = field(default_factory=dict)

    def add(self, level: int, link: int, views: float, outcome: float) -> None:
        if link in self.counts:
            self.counts[link][level][0] += views
            self.counts[link][level][1] += outcome

    def join(self, link: int) -> None:
        self.counts[link] = [[0.0, 0.0], [0.0, 0.0]]


class SelectorMachine(RuleBasedStateMachine):
    """Calls of one selector; subclasses name the policy and what it may have."""

    policy: ClassVar[str]
    kind: ClassVar[Kind]

    # Start

    @initialize(seed=SEEDS)
    def start(self, seed: int) -> None:
        rng, kind = np.random.default_rng(seed), self.kind
        self.folder = Path(tempfile.mkdtemp())
        n_slots = int(rng.integers(kind.n_slots[0], kind.n_slots[1] + 1))
        n_links = int(rng.integers(max(kind.n_links[0], n_slots), kind.n_links[1] + 1))
        self.features = kind.features[int(rng.integers(len(kind.features)))]
        weights = np.arange(n_slots, 0, -1.0) * 2.0 / (n_slots + 1.0)  # mean 1 to the last digit
        self.options: dict[str, Any] = {
            "slot_weights": [None, "equal", "learn", weights.tolist()][int(rng.integers(4))],
            "click_floor": float(rng.choice([0.0, 0.2, 0.4, 0.99])) * n_slots,
            "features": self.features,
            "max_open_pages": int(rng.choice(kind.max_open_pages)),
            "explore": float(rng.choice([0.0, 0.0, 0.2])),
        }
        if kind.has_segment_floors and self.features:
            name = next(iter(self.features))
            self.options["segment_floors"] = {name: {value_of(self.features[name]): 0.3 * n_slots}}
        links = list(range(n_links))
        self.draw_own_page(rng, links)
        self.selector: Selector[int] = Selector(
            links,
            n_slots,
            policy=registered_policy(self.policy, n_links, n_slots),
            seed=seed,
            max_revenue=MAX_REVENUE,
            rules=self.some_rules(rng, links, n_slots),
            **self.options,
        )
        self.model = Model()
        for link in links:
            self.model.join(link)
        self.next_link = n_links
        self.pages: list[Page] = []

    def draw_own_page(self, rng: np.random.Generator, links: list[int]) -> None:
        """Draw an own page, which may have fewer links than the page."""
        self.own_page: list[int] = []
        self.n_settled = self.n_own = 0
        if rng.random() < 0.5:
            self.own_page = rng.permutation(links)[: int(rng.integers(1, len(links) + 1))].tolist()
            self.options["own_page"] = self.own_page
            self.options["keep"] = [None, 0.5, 0.9][int(rng.integers(3))]
            self.options["holdout"] = float(rng.choice([0.05, 0.5]))

    def some_rules(
        self, rng: np.random.Generator, links: list[int], n_slots: int
    ) -> tuple[Rule, ...]:
        """Return no rules, or a cap and a guarantee that leave room for a page."""
        if rng.random() < 0.4 or len(links) < n_slots + 3:
            return ()
        order = rng.permutation(links).tolist()
        cap = Rule("cap", order[:2], at_most=float(rng.choice([0.5, 1.0])))
        if n_slots == 1 or len(links) < n_slots + 4:
            return (cap,)
        first = 1 if self.kind.rules_cross else 2
        least = float(rng.choice([0.3, 1.0]))
        return (cap, Rule("promise", order[first : first + 2], at_least=least))

    @property
    def may_change_pool(self) -> bool:
        return self.policy != "fixed-mix"

    def visitor(self, rng: np.random.Generator) -> dict[str, Any] | None:
        """Draw a visitor; some features are not known, some words are rare."""
        visitor = a_visitor(self.features, rng) or {}
        known = {name: value for name, value in visitor.items() if rng.random() < 0.8}
        return known or None

    # Deciding

    @rule(seed=SEEDS)
    def decide(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.check_page(self.issue(self.selector, self.visitor(rng)))

    @rule(seed=SEEDS)
    def decide_with_pins_and_exclusions(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        links, n_slots = list(self.selector.links), self.selector.problem.n_slots
        order = rng.permutation(links).tolist()
        pin = order[: int(rng.integers(0, n_slots + 1))]
        spare = len(links) - n_slots
        exclude = order[len(order) - int(rng.integers(0, spare + 1)) :] if spare else []
        page = self.issue(self.selector, self.visitor(rng), pin=pin, exclude=exclude)
        self.check_probabilities(page)
        self.check_own_page(page, pin, exclude)
        assert set(pin) <= set(page.shown)
        assert not set(exclude) & set(page.shown)
        assert all(page.probabilities[link] == 1.0 for link in pin)
        assert all(page.probabilities[link] == 0.0 for link in exclude)

    def issue(self, selector: Selector[int], visitor: Any, **asked: Any) -> Decision[int]:
        key = f"visitor {len(self.pages) % 7}" if len(self.pages) % 2 else None
        page = selector.select(visitor=visitor, visitor_key=key, **asked)
        self.pages.append(Page(page))
        is_open = [one for one in self.pages if not one.is_settled]
        for forgotten in is_open[: len(is_open) - self.options["max_open_pages"]]:
            self.pages.remove(forgotten)
        return page

    def check_probabilities(self, page: Decision[int]) -> None:
        problem = self.selector.problem
        chances = np.array([page.probabilities[link] for link in self.selector.links])
        assert set(page.probabilities) <= set(self.selector.links)
        assert chances.min() >= 0.0
        assert chances.max() <= 1.0
        assert chances.sum() == pytest.approx(problem.n_slots, abs=1e-9)
        assert len(set(page.shown)) == problem.n_slots
        assert all(page.probabilities[link] > 0.0 for link in page.shown)

    def check_own_page(self, page: Decision[int], pin: list[int], exclude: list[int]) -> None:
        """The own page is the pins and the first links of the order that may be shown."""
        assert page.group in (("own", "chosen") if self.own_page else ("chosen",))
        if page.group == "own" and not self.selector.problem.rules:
            out = {*pin, *exclude}
            free = [k for k in self.own_page if k in self.selector.links and k not in out]
            n_left = self.selector.problem.n_slots - len(pin)
            assert {*pin, *free[:n_left]} <= set(page.shown)
            first = [link for link in self.own_page if link in page.shown]
            assert list(page.shown[: len(first)]) == first  # in the order of the team

    def check_page(self, page: Decision[int]) -> None:
        self.check_probabilities(page)
        self.check_own_page(page, [], [])
        drawn_whole: list[set[int]] = []
        for one in self.selector.problem.rules:
            present = {link for link in one.links if link in self.selector.links}
            n_shown = len(present & set(page.shown))
            share = sum(page.probabilities[link] for link in present)
            # a group that crosses one listed before has its number of links on average only
            is_whole = all(
                present.isdisjoint(other) or present <= other or other <= present
                for other in drawn_whole
            )
            drawn_whole += [present] * is_whole
            if one.at_most is not None:
                assert share <= one.at_most + 1e-9
                assert n_shown <= math.ceil(one.at_most) or not is_whole
            if len(present) == len(one.links):
                assert share >= one.at_least - 1e-9
                assert n_shown >= math.floor(one.at_least) or not is_whole

    # Feedback

    def pick(self, k: int) -> Page:
        """Return a page: one of the latest, or an old one."""
        return self.pages[-1 - k % len(self.pages)]

    def told(self, page: Page, clicks: Any, revenue: Any) -> None:
        """Tell the model what the selector was told and accepted."""
        if page.is_settled:
            return
        shown, before = page.decision.shown, set(page.clicks or ())
        if clicks is not None:
            for link in shown:
                first = page.clicks is None
                self.model.add(CLICKS, link, first, link in clicks and link not in before)
            page.clicks = sorted(before | set(clicks))
        if revenue is not None and page.revenue is None:
            for link in shown:
                money = min(revenue.get(link, 0.0) / MAX_REVENUE, 1.0)
                self.model.add(REVENUE, link, 1.0, money)
            page.revenue = dict(revenue)
        if page.is_settled:
            self.n_settled += 1
            self.n_own += page.decision.group == "own"

    @precondition(lambda self: self.pages)
    @rule(seed=SEEDS, k=st.integers(0, 12))
    def click(self, seed: int, k: int) -> None:
        """Report clicks, perhaps further ones, perhaps none."""
        page, rng = self.pick(k), np.random.default_rng(seed)
        clicks = [link for link in page.decision.shown if rng.random() < 0.4]
        if page.clicks is None and page.revenue is not None:
            clicks = sorted({*clicks, *page.revenue})
        self.selector.update(page.decision.id, clicks=clicks)
        self.told(page, clicks, None)

    @precondition(lambda self: self.pages)
    @rule(seed=SEEDS, k=st.integers(0, 12))
    def buy(self, seed: int, k: int) -> None:
        """Report revenue, before or after the clicks."""
        page, rng = self.pick(k), np.random.default_rng(seed)
        if page.revenue is None:
            may_buy = page.decision.shown if page.clicks is None else page.clicks
            revenue = {link: float(rng.uniform(0.1, 4.0)) for link in may_buy if rng.random() < 0.4}
            self.selector.update(page.decision, revenue=revenue)
            self.told(page, None, revenue)

    @precondition(lambda self: self.pages)
    @rule(seed=SEEDS, k=st.integers(0, 3))
    def report_all_at_once(self, seed: int, k: int) -> None:
        page, rng = self.pick(k), np.random.default_rng(seed)
        if page.clicks is None and page.revenue is None:
            clicks = [link for link in page.decision.shown if rng.random() < 0.4]
            revenue = {link: float(rng.uniform(0.1, 4.0)) for link in clicks}
            order = rng.permutation(page.decision.shown).tolist()
            self.selector.update(page.decision, clicks=clicks, revenue=revenue, shown=order)
            self.told(page, clicks, revenue)

    @precondition(lambda self: self.pages)
    @rule(k=st.integers(0, 12))
    def settle(self, k: int) -> None:
        page = self.pick(k)
        self.selector.settle(page.decision)
        self.told(page, () if page.clicks is None else None, {} if page.revenue is None else None)

    @precondition(lambda self: self.pages)
    @rule(k=st.integers(0, 12))
    def repeat(self, k: int) -> None:
        """Send the feedback of a page again: nothing happens."""
        page, before = self.pick(k), self.known()
        self.selector.update(page.decision, clicks=page.clicks, revenue=page.revenue)
        assert self.known() == before

    @precondition(lambda self: self.pages)
    @rule(k=st.integers(0, 12))
    def contradict(self, k: int) -> None:
        """Send feedback that cannot be: it is refused, and nothing changes."""
        page, before = self.pick(k), self.known()
        if not page.is_settled:
            with pytest.raises(SlotwiseError):
                self.selector.update(page.decision, clicks=[-1])
            with pytest.raises(SlotwiseError):
                self.selector.update(page.decision, revenue={page.decision.shown[0]: -1.0})
        with pytest.raises(SlotwiseError):
            self.selector.update("no page", clicks=[])
        assert self.known() == before

    @rule(seed=SEEDS)
    def count_elsewhere(self, seed: int) -> None:
        """Give counts of many views, where the policy takes them."""
        forgets = self.options["max_open_pages"] < 1_000
        if forgets and not self.kind.counts_while_forgetting:
            return
        rng, before = np.random.default_rng(seed), self.known()
        links = rng.permutation(self.selector.links)[:3].tolist()
        views = {link: int(rng.integers(1, 50)) for link in links}
        clicks = {link: int(rng.integers(0, n + 1)) for link, n in views.items()}
        revenue = {link: 0.5 * n for link, n in clicks.items() if n}
        try:
            self.selector.update_batch(views, clicks=clicks, revenue=revenue)
        except SlotwiseError:
            assert self.known() == before
            return
        self.tell_counts(views, clicks, revenue)

    @rule(seed=SEEDS, discount=st.sampled_from([0.1, 1.0]))
    def import_counts(self, seed: int, discount: float) -> None:
        rng, before = np.random.default_rng(seed), self.known()
        link = int(rng.choice(self.selector.links))
        views = int(rng.integers(1, 300))
        clicks = int(rng.integers(0, views + 1))
        visitor = self.visitor(rng) or {}
        known = KnownCounts(link, visitor, views, clicks, 0.5 * clicks)  # type: ignore[arg-type]
        try:
            start_from_counts(self.selector, [known], discount)
        except SlotwiseError:
            assert self.known() == before
            return
        share = discount
        self.tell_counts(
            {link: share * views}, {link: share * clicks}, {link: 0.5 * share * clicks}
        )

    def tell_counts(self, views: Any, clicks: Any, revenue: Any) -> None:
        for link, n in views.items():
            self.model.add(CLICKS, link, n, clicks.get(link, 0))
            self.model.add(REVENUE, link, n, revenue.get(link, 0.0) / MAX_REVENUE)

    # Changes

    @precondition(lambda self: self.may_change_pool)
    @rule()
    def join(self) -> None:
        self.selector.add_links([self.next_link])
        self.model.join(self.next_link)
        self.next_link += 1

    @precondition(lambda self: self.may_change_pool)
    @rule(k=st.integers(0, 20), returns=st.booleans())
    def leave(self, k: int, returns: bool) -> None:
        links = self.selector.links
        if len(links) > self.selector.problem.n_slots + 1:
            link = links[k % len(links)]
            self.selector.retire([link])
            del self.model.counts[link]
            if returns:
                self.selector.add_links([link])
                self.model.join(link)

    @precondition(lambda self: self.policy != "fixed-mix")
    @rule(share=st.sampled_from([0.0, 0.1, 0.4, 0.99]))
    def set_floor(self, share: float) -> None:
        self.selector.set_floor(share * self.selector.problem.n_slots)

    @precondition(lambda self: self.own_page)
    @rule(keep=st.sampled_from([None, 0.5, 0.9, 0.99]))
    def set_promise(self, keep: float | None) -> None:
        """Change what is promised: the evidence stays where the own page does."""
        order = [link for link in self.own_page if link in self.selector.links]
        if order != self.own_page:
            return
        self.selector.set_own_page(order, keep, self.options["holdout"])
        self.options["keep"] = keep

    @rule(seed=SEEDS)
    def set_rules(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        links, n_slots = list(self.selector.links), self.selector.problem.n_slots
        self.selector.set_rules(self.some_rules(rng, links, n_slots))

    # What must hold

    def known(self) -> Any:
        """Return everything that was learned, as plain lists."""
        known = self.selector.knowledge()
        arrays = {name: array.tolist() for name, array in known.arrays.items()}
        return arrays, known.counts.views.tolist(), known.counts.sums.tolist()

    @rule()
    def everything_is_finite_and_counted(self) -> None:
        known = self.selector.knowledge()
        for name, array in known.arrays.items():
            assert np.isfinite(array).all(), name
        links = self.selector.links
        assert set(links) == set(self.model.counts)
        expected = np.array([self.model.counts[link] for link in links])  # link, level, kind
        np.testing.assert_allclose(known.counts.sums.T, expected[:, :, 1], atol=1e-9)
        if self.options["slot_weights"] in (None, "equal"):  # views are weighted otherwise
            np.testing.assert_allclose(known.counts.views.T, expected[:, :, 0], atol=1e-9)

    @precondition(lambda self: self.own_page)
    @rule()
    def settled_pages_are_compared(self) -> None:
        with warnings.catch_warnings():  # the floors are drawn, too
            warnings.simplefilter("ignore", FloorUnreachable)
            found = self.selector.report().comparison
        assert found is not None
        assert (found.n_own, found.n_own + found.n_chosen) == (self.n_own, self.n_settled)
        assert 0.0 <= found.share_chosen <= 1.0 - self.options["holdout"] + 1e-12
        if self.options["keep"]:
            assert found.balance is not None
            assert found.balance.low <= found.balance.estimate + 1e-9

    @rule(seed=SEEDS)
    def save_and_go_on_from_the_file(self, seed: int) -> None:
        """The original and the one from the file choose the same page; go on with the latter."""
        visitor = self.visitor(np.random.default_rng(seed))
        path = self.folder / "machine.sel"
        self.selector.save(path)
        loaded = Selector.load(path)
        key = f"visitor {len(self.pages) % 7}" if len(self.pages) % 2 else None
        page = self.selector.select(visitor=visitor, visitor_key=key)
        again = self.issue(loaded, visitor)
        assert again.shown == page.shown
        assert again.group == page.group
        assert dict(again.probabilities) == dict(page.probabilities)
        self.selector = loaded

    def teardown(self) -> None:
        """Settle all pages: nothing is open then, and a file goes on with the same pages."""
        if not hasattr(self, "pages"):
            return
        for page in self.pages:
            self.selector.settle(page.decision)
            self.told(
                page, () if page.clicks is None else None, {} if page.revenue is None else None
            )
        self.everything_is_finite_and_counted()
        for seed in range(3):
            self.save_and_go_on_from_the_file(seed)


def value_of(declared: Any) -> Any:
    """Return a value that a feature with this declaration can have."""
    if declared is str:
        return "word1"
    return True if declared is bool else declared[0]


def machine_of(policy: str, kind: Kind) -> type[SelectorMachine]:
    """Return the machine of a policy."""
    assert policy in POLICIES
    return type(f"MachineOf{policy}", (SelectorMachine,), {"policy": policy, "kind": kind})
