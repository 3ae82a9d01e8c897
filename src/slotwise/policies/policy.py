"""The contract of policies: settings that start a state, and two compiled functions on it.

Used by most of the package.
"""

from __future__ import annotations

import dis
import inspect
import itertools
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from slotwise.arrays import Floats as Floats, Links as Links
from slotwise.compile import hot, is_dispatcher, support_numba, switching
from slotwise.errors import InvalidInput
from slotwise.problem import Problem, whole_number
from slotwise.selection.mix import Mix, dense_probabilities, is_lawful
from slotwise.selection.page_rules import PageRules

Knowledge = dict[str, Floats]
Visitor = NDArray[np.int64]

NOBODY: Visitor = np.zeros(0, np.int64)
"""A visitor without known features, where no features are declared."""
NO_SLOTS: Links = np.zeros(0, np.int64)
"""The slots of links whose slots are not known, for example in counts."""

OWED = frozenset({"queue", "owed", "reserve", "floor_rounds", "deficit"})
"""Names of knowledge about outcomes that are owed to the floors: imported counts do not change an
array of such a name, whichever policy has it."""
NEVER_NEGATIVE = frozenset(
    {"views", "sums", "settled", "rounds", "clock", "sales", "squares", "floor_rounds"}
    | {"seen", "value_views", "turns", "recent", "pool", "amounts"}
)
"""Names of knowledge that is counted or fitted to counts: a saved array of such a name with a
negative number is refused."""


class OtherLinks(InvalidInput):
    """The policy has pages for certain links only, and these are others."""


class Feedback(Enum):
    """The feedback that a policy needs."""

    COUNTS = "counts"
    """Totals per link, without their pages, in any order."""
    COUNTS_IN_ORDER = "counts in order"
    """Totals per link in the order in which pages settle; best page by page, since a batch is
    learned as one step."""
    PAGES = "pages"
    """Every page with the probabilities of its links, in any order."""
    PAGES_IN_ORDER = "pages in order"
    """Every page with the probabilities of its links, in the order in which pages settle."""

    @property
    def takes_counts(self) -> bool:
        """Whether totals per link are enough, without pages and their probabilities."""
        return self in (Feedback.COUNTS, Feedback.COUNTS_IN_ORDER)


class Debt(Enum):
    """How pages depend on what previous pages owe to the floors."""

    NONE = "none"
    """They do not."""
    QUEUE = "queue"
    """The price of clicks moves every round with what is owed, and a surplus is forgotten. By the
    outcomes of a few open views such a policy would always seem to owe clicks: in the service it
    learns when windows close."""
    BALANCE = "balance"
    """The price moves every round, and a surplus offsets a later debt."""

    @property
    def moves_each_round(self) -> bool:
        """Whether many views need the average over rounds ahead instead of one page."""
        return self is not Debt.NONE


class LinkFeedback(NamedTuple):
    """Feedback of one level on some links: an entry each.

    `slots` and `probabilities` are those with which a link was shown; `slots` is empty where they
    are not known. `views` are the settled page views, and `outcomes` the sum of the level's outcome
    over them.
    """

    links: Links
    slots: Links
    probabilities: Floats
    views: Floats
    outcomes: Floats


class AtPrices(NamedTuple):
    """Pages at given prices of the floors, of a policy whose state has `floors.prices`.

    `page(state, visitor, prices, links, n_slots, probabilities)` writes the average page of some
    links over rows of prices; `page_within` does so within rules.
    """

    page: Any
    page_within: Any


def _nobody_seen(_state: object) -> NDArray[np.int64]:
    return NOBODY[None]


class ReadsVisitors(NamedTuple):
    """What a policy that reads visitors can do beyond `choose` and `learn`.

    `seen(state)` returns visitors like those the state has seen, a row each.
    `merge_value(knowledge, problem, value, into)` returns the knowledge as if visitors with one
    feature value had had another one: both are places of values of one feature, and `value` is then
    free for other visitors. Without it, words of open lists keep their places.
    """

    seen: Callable[[Any], NDArray[np.int64]] = _nobody_seen
    merge_value: Callable[[Knowledge, Problem, int, int], Knowledge] | None = None


PARAMETERS = {
    "choose": ("state", "visitor", "rng"),
    "learn": ("state", "visitor", "level", "feedback"),
    "rank": ("state", "links", "worth"),
    "note_open": ("state", "visitor", "level", "links", "n_views"),
}
"""The parameters of `choose`, `learn`, `rank` and `note_open`."""


@hot
def rank_alike(state: object, links: Links, worth: Floats) -> None:
    """Write equal scores for all links of the page: their order is random."""
    for k in range(len(links)):
        worth[k] = 0.0


@hot
def ignore_open(state: object, visitor: Visitor, level: int, links: Links, n_views: float) -> None:
    """Ignore page views whose feedback is open."""


class Choose(Protocol):
    """The type of `choose`; here and below only the policy knows the type of its state."""

    def __call__(self, state: Any, visitor: Visitor, rng: np.random.Generator, /) -> None:
        """Write the probabilities for a visitor into `state.mix`."""


class Learn(Protocol):
    """The type of `learn`."""

    def __call__(self, state: Any, visitor: Visitor, level: int, news: LinkFeedback, /) -> None:
        """Learn the feedback of one level."""


class Rank(Protocol):
    """The type of `rank`."""

    def __call__(self, state: Any, links: Links, worth: Floats, /) -> None:
        """Write the scores of links."""


class NoteOpen(Protocol):
    """The type of `note_open`."""

    def __call__(
        self, state: Any, visitor: Visitor, level: int, links: Links, n_views: float, /
    ) -> None:
        """Add page views to the open ones, or remove them with `-n_views`."""


class ChooseWithin(Protocol):
    """The type of `choose_within`."""

    def __call__(
        self, state: Any, visitor: Visitor, rng: np.random.Generator, rules: PageRules, /
    ) -> None:
        """Write a page within the rules to their `probabilities`."""


def _parameters(function: Any) -> list[str] | None:
    """Return the names of a function's parameters; None if their number is variable."""
    function = getattr(function, "__func__", function)
    if function is None:
        return None
    parameters = inspect.signature(getattr(function, "py_func", function)).parameters
    is_open = any(one.kind is one.VAR_POSITIONAL for one in parameters.values())
    return None if is_open else list(parameters)


def _draws(choose: Any) -> bool:
    """Return whether `choose` calls its generator, its third parameter."""
    function = getattr(choose, "__func__", choose)
    function = getattr(function, "py_func", function)
    names = _parameters(function) or []
    if not hasattr(function, "__code__") or len(names) != len(PARAMETERS["choose"]):
        return False
    steps = list(dis.get_instructions(function))
    return any(
        one.opname.startswith("LOAD_FAST") and names[2] in (one.argval, one.argval[-1:])
        for one, then in itertools.pairwise(steps)
        if then.opname in ("LOAD_ATTR", "LOAD_METHOD")
    )


def _lacks(kind: type, name: str) -> str:
    return f"the policy {kind.__name__} has no `{name}`; docs/write-a-policy.md shows a whole one"


class State(Protocol):
    """What a policy has learned: a NamedTuple of plain arrays, scalars and such tuples."""

    @property
    def mix(self) -> Mix:
        """The probabilities that `choose` wrote last."""
        ...


class Estimates(NamedTuple):
    """A policy's estimates of each link in the floor program; read-only arrays.

    `demands` has one row for each floor of the problem where there are several.
    """

    value: Floats
    clicks: Floats
    demands: Floats | None = None

    @classmethod
    def of(cls, *arrays: Floats) -> Estimates:
        """Return views of these arrays that cannot be written to."""
        views = [array.view() for array in arrays]
        for array in views:
            array.flags.writeable = False
        return cls(*views)


class Policy:
    """Settings of a policy: a frozen dataclass with two functions on the state it starts.

    A policy answers one question: with what probability should each link be on the page?
    `choose(state, visitor, rng)` writes the answer for one visitor into `state.mix`; the one shared
    rounding (`slotwise.selection.draw_page`) turns it into exactly `n_slots` links. `learn(state,
    visitor, level, feedback)` learns the `LinkFeedback` of one level: how many page views of this
    visitor with each link are settled at this level, and the sum of the level's outcome over them
    (level 0: clicks; the last level: revenue in [0, 1] per view). Outcomes with 0 views belong to
    views that were counted before.

    `visitor` has one whole number per feature: its value's place in the list of all values
    (`slotwise.features`). It is empty where the problem has no features, and a policy that does not
    use it ignores it. Where slots differ, `views` are weighted by the slot: a view in a slot of
    weight 1.5 counts as 1.5 views.

    Where slots differ, `rank(state, links, worth)` writes the score of each of some links for the
    visitor of the last `choose`, in any unit; the page is ordered by it
    (`slotwise.selection.page_order`). Policies without `rank` show their links in random order.

    Where feedback is late, `note_open(state, visitor, level, links, n_views)` records page views
    with these links whose feedback at a level is open, and removes them with `-n_views` just before
    `learn`. The counts are those of the ledger `state.open` (`slotwise.policies.open_views`), whose
    arrays the player shares with every state of the policy. Policies without `note_open` ignore
    open page views.

    All are plain functions in the subset of Python that numba compiles, decorated with
    `slotwise.policies.compiled`, and are class attributes. A function that cannot be compiled
    works, too, but is slower.

    What a state has learned, without the arrays that only serve speed, is its `knowledge`: named
    arrays that are saved, moved to a changed pool and restored. Arrays whose last axis has one
    entry per link are named in `per_link`. Names in `OWED` and `NEVER_NEGATIVE` have the meaning
    described there.

    Laws, tested for every registered policy by `slotwise.testing.PolicyContract`:

    - probabilities are in [0, 1] and sum to `n_slots`; exactly `n_slots` different links are shown
    - `choose` changes nothing that `learn` depends on; the same seed gives the same pages
    - `learn` reads only the links given and takes visitor and probabilities from the round
      itself, so feedback may arrive late, in batches, level by level and out of order
    - what is learned about one visitor depends only on the visitors given to the policy
    - outcomes may exceed views, since a view in a bad slot counts as a fraction of a view
    - a policy that `keeps_floor` shows pages with the floor's clicks once rates are known, and
      keeps or refuses every further floor
    - pages depend on visitors, on chance and on what is owed to the floors as declared
    - `estimates` are the inputs of the program that the page solves, and `at_prices` has the page
      that `choose` has at the same prices
    - a state survives save and load, and moves to a changed pool without changing what is
      known of the links that stay
    - `n_slots == n_links`, one link, equal values everywhere, a floor out of reach all work
    - ties are broken at random, and only among the links that tie at the boundary
    """

    name: ClassVar[str]
    choose: ClassVar[Choose]
    learn: ClassVar[Learn]
    rank: ClassVar[Rank] = staticmethod(rank_alike)
    note_open: ClassVar[NoteOpen] = staticmethod(ignore_open)
    choose_within: ClassVar[ChooseWithin | None] = None
    """`choose_within(state, visitor, rng, rules)`, for a policy that solves a program of its own:
    it writes a page within the `PageRules` to their `probabilities`. A policy that takes the links
    with the highest scores of `rank` uses `within_rules.by_scores`. Without it,
    `slotwise.policies.within_rules` enforces the rules."""
    at_prices: ClassVar[AtPrices | None] = None
    """For a policy whose pages depend on prices of the floors: its pages at given prices, so that a
    version can store prices instead of a page for every visitor."""
    needs: ClassVar[Feedback] = Feedback.COUNTS
    """The `Feedback` it needs."""
    per_link: ClassVar[frozenset[str]] = frozenset()
    """Names of the knowledge whose last axis has one entry per link."""
    for_visitors: ClassVar[ReadsVisitors | None] = None
    """Set, for example to `ReadsVisitors()`, where `choose` or `learn` reads the visitor: then it
    is given every visitor's features where the problem has some. Without it a policy may get an
    empty visitor."""
    keeps_floor: ClassVar[bool] = True
    """Whether the policy tries to keep the click floor at all."""
    debt: ClassVar[Debt] = Debt.NONE
    """How its pages depend on what previous pages owe to the floors."""
    samples: ClassVar[bool] = False
    """Whether `choose` draws its page with its generator, for example from a posterior; the page is
    certain given the draw. Without it `choose` gets None, because unpacking a generator takes
    longer than choosing a page."""

    def __init_subclass__(cls, **options: object) -> None:
        """Refuse methods with other parameters than the contract's."""
        super().__init_subclass__(**options)
        if any(is_dispatcher(getattr(cls, name, None)) for name in PARAMETERS):
            support_numba()
        for name, wanted in PARAMETERS.items():
            given = _parameters(cls.__dict__.get(name))
            if given is not None and len(given) != len(wanted):
                raise TypeError(
                    f"`{name}` of {cls.__name__} must take ({', '.join(wanted)}), "
                    f"got ({', '.join(given)})"
                )
        if not cls.samples and _draws(getattr(cls, "choose", None)):
            raise TypeError(
                f"`choose` of {cls.__name__} uses its generator: declare "
                "`samples: ClassVar[bool] = True`"
            )

    def __new__(cls, *_: object, **__: object) -> Self:
        """Refuse a policy that lacks a part of the contract."""
        for name in ("name", "start", "choose", "learn"):
            if getattr(cls, name, None) is getattr(Policy, name, None):
                raise TypeError(_lacks(cls, name))
        return super().__new__(cls)

    def for_problem(self, problem: Problem) -> Policy:
        """Return the policy to start on `problem`: this one, or its form for several floors.

        Refuses floors that the policy does not support. Policies that keep no floor at all play any
        problem, for comparison.
        """
        if problem.segment_floors and self.keeps_floor:
            rule = "paced-bayes, the default, where segments have floors"
            raise InvalidInput.of("policy", rule, self.name)
        return self

    def start(self, problem: Problem) -> State:
        """Return the state of a policy that has seen nothing."""
        raise NotImplementedError(_lacks(type(self), "start"))

    def plan_for(self, state: Any, n_rounds: float) -> Policy:  # noqa: ARG002 - overridden by some
        """Return the policy with a horizon `n_rounds` ahead, if it uses one.

        States that it restores or moves then plan for it; `state` is the present state.
        """
        return self

    def knowledge(self, state: Any) -> Knowledge:
        """Return copies of the arrays with everything the state has learned."""
        raise NotImplementedError(_lacks(type(self), "knowledge"))

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> State:
        """Return the state that has learned exactly `knowledge`.

        Knowledge that an earlier version of the policy saved is converted.
        """
        raise NotImplementedError(_lacks(type(self), "restore"))

    def move(self, state: Any, problem: Problem, kept: Links) -> State:
        """Return a state for a changed pool, where `kept[i]` is the old place of link i or -1.

        Links that join start with zeros in all that is known by link. A policy that has pages for
        certain links only raises `OtherLinks`; with pins and exclusions its page is then scaled.
        """
        return self.restore(problem, moved_links(self, state, kept))

    def estimates(self, state: Any) -> Estimates | None:  # noqa: ARG002 - overridden by some
        """Return the inputs of the floor program, or None for policies that do not solve it."""
        return None


def rng_of_choice(policy: type[Policy] | Policy, rng: np.random.Generator) -> Any:
    """Return the generator argument of `choose`."""
    return rng if policy.samples else None


def visitors_seen(policy: Policy, state: object) -> NDArray[np.int64]:
    """Return visitors like those a state has seen, a row each.

    One without known features for policies that do not distinguish visitors.
    """
    return NOBODY[None] if policy.for_visitors is None else policy.for_visitors.seen(state)


def moved_links(policy: Policy, state: object, kept: Links) -> Knowledge:
    """Return the knowledge for other links; `kept[i]` is the old place of link i or -1.

    Links that join start with zeros.
    """
    knowledge = policy.knowledge(state)
    stays = kept >= 0
    for name in policy.per_link & knowledge.keys():
        moved = np.zeros((*knowledge[name].shape[:-1], len(kept)))
        moved[..., stays] = knowledge[name][..., kept[stays]]
        knowledge[name] = moved
    return knowledge


KEEP_RATES = "con-ucb keeps floors on conditional rates"
WEIGH_LEVELS = "con-ucb, lexp and paced-bayes weigh levels"


def is_own(function: object) -> bool:
    """Return whether a function of a policy is slotwise's own, not another package's."""
    module: str = getattr(function, "py_func", function).__module__
    return module.partition(".")[0] == "slotwise"


def check_page(policy: Policy, mix: Mix, n_slots: int) -> None:
    """Refuse probabilities that no page can have, such as NaN, or a link that is listed twice."""
    if switching(is_lawful)(mix, n_slots):
        return
    name = f"probabilities` of the policy `{policy.name}"
    rule = f"in [0, 1] and sum to n_slots ({n_slots}), with each link listed once"
    try:
        chosen = dense_probabilities(mix)
    except (IndexError, ValueError):
        chosen = mix.sizes.astype(np.float64)
    advice = f"these sum to {chosen.sum():.6g}; test the policy with PolicyContract"
    raise InvalidInput.of(name, rule, chosen.round(6).tolist(), advice)


def check_horizon(value: int | None) -> None:
    """Refuse a horizon that is neither None nor a number of rounds."""
    if value is not None:
        whole_number("horizon", value, at_least=1)


def check_positive(name: str, value: float) -> None:
    """Refuse a setting that is not a positive number."""
    if not 0 < value < float("inf"):
        raise InvalidInput.of(name, "a positive number", value)


def require_horizon(policy_name: str, horizon: int | None, problem: Problem) -> int:
    """Return the horizon of the policy or else of the problem; refuse if neither has one."""
    found = horizon if horizon is not None else problem.horizon
    if found is None:
        advice = f"{policy_name} plans for a number of rounds: say how many page views to expect"
        raise InvalidInput.of("horizon", "a whole number of rounds", None, advice)
    if found < 1:
        raise InvalidInput.of("horizon", "at least 1", found)
    return found


def require_no_rate_floors(policy_name: str, problem: Problem) -> None:
    """Refuse a problem with floors on conditional rates."""
    if any(floor.rate > 0.0 for floor in problem.active_floors):
        rule = f"empty for {policy_name}"
        raise InvalidInput.of("rate_floors", rule, dict(problem.rate_floors), KEEP_RATES)


def require_last_level_reward(policy_name: str, problem: Problem) -> None:
    """Refuse a problem with rewards on other levels than the last."""
    if not problem.rewards_last_level_only:
        rule = f"on {problem.levels[-1]!r} only, with weight 1, for {policy_name}"
        raise InvalidInput.of("rewards", rule, dict(problem.rewards), WEIGH_LEVELS)


class Counts(NamedTuple):
    """Settled views and sums of outcomes, each of shape (n_levels, n_links)."""

    views: Floats
    sums: Floats


def new_counts(problem: Problem) -> Counts:
    """Return counts of nothing."""
    shape = (problem.n_levels, problem.n_links)
    return Counts(views=np.zeros(shape), sums=np.zeros(shape))


@hot
def add_counts(counts: Counts, level: int, links: Links, views: Floats, outcomes: Floats) -> None:
    """Count views and outcomes of links at one level."""
    for k in range(len(links)):
        counts.views[level, links[k]] += views[k]
        counts.sums[level, links[k]] += outcomes[k]


def moved_counts(counts: Counts, problem: Problem, kept: NDArray[np.int64]) -> Counts:
    """Return the counts of the links of another pool; `kept` has their old places, -1 for new."""
    moved = new_counts(problem)
    stays = kept >= 0
    moved.views[:, stays] = counts.views[:, kept[stays]]
    moved.sums[:, stays] = counts.sums[:, kept[stays]]
    return moved


class CountingPolicy(Policy):
    """A policy whose knowledge is its counts; they are restored as one large batch."""

    per_link: ClassVar[frozenset[str]] = frozenset({"views", "sums"})

    def knowledge(self, state: Any) -> Knowledge:
        """Return the counts of the state."""
        return {"views": state.counts.views.copy(), "sums": state.counts.sums.copy()}

    def restore(self, problem: Problem, knowledge: Mapping[str, Floats]) -> State:
        """Return a state that has seen exactly these counts."""
        state = self.start(problem)
        links = np.arange(problem.n_links)
        certain = np.ones(problem.n_links)
        for level in range(problem.n_levels):
            views = np.ascontiguousarray(knowledge["views"][level])
            sums = np.ascontiguousarray(knowledge["sums"][level])
            feedback = LinkFeedback(links, NO_SLOTS, certain, views, sums)
            switching(type(self).learn)(state, NOBODY, level, feedback)
        return state
