"""A pool with its links, and the policy and the problem that its settings describe.

Used by most of the service.
"""

from __future__ import annotations

import logging
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from slotwise.errors import InvalidInput, SlotwiseError, UnknownName, check_all
from slotwise.features import Features, declared_floors
from slotwise.player.known_counts import parse_known_counts
from slotwise.player.link_pool import LinkPool
from slotwise.player.rules_in_force import RuledPage, RulesInForce
from slotwise.player.slots import PageSlots
from slotwise.policies import Policy, default_policy, make_policy, policy_class
from slotwise.problem import EQUAL, LEARN, Problem, Rule, normal_slot_weights
from slotwise.selection.promise import RANGES
from slotwise.service import limits
from slotwise.service.records import (
    EQUAL_SLOTS,
    ImportedCounts,
    LinkRecord,
    PacedRule,
    PoolRule,
    PoolSettings,
    to_time,
)

_log = logging.getLogger(__name__)

NO_PLACES = np.zeros(0, np.int64)

_WITH_SEGMENT_FLOOR = Problem(
    n_links=2,
    n_slots=1,
    features={"device": ("phone",)},
    segment_floors={"device": {"phone": 0.1}},
)
"""A problem that only policies with floors of segments accept."""


class Pool(NamedTuple):
    """The settings and links of a pool; never changed, only replaced."""

    settings: PoolSettings
    links: dict[str, LinkRecord]
    """By id, including retired ones."""
    active: tuple[str, ...]
    """The links that may be shown, by place."""
    revision: int
    """Increases with every change."""
    known_us: int = 0
    """When counts were last imported."""
    links_changed_us: int = 0
    """When a link was last added or changed."""
    scheduled: tuple[LinkRecord, ...] = ()
    """The links in `active` that have a date."""

    @classmethod
    def of(cls, settings: PoolSettings, links: Iterable[LinkRecord] = ()) -> Pool:
        """Return a pool without changes."""
        return cls(settings, {}, (), 0).with_links(links)._replace(revision=0)

    def with_settings(self, settings: PoolSettings) -> Pool:
        """Return the pool with other settings."""
        return self._replace(settings=settings, revision=self.revision + 1)

    def with_links(self, links: Iterable[LinkRecord]) -> Pool:
        """Return the pool with new or changed links."""
        all_links = {**self.links, **{link.link_id: link for link in links}}
        by_place = sorted(all_links.values(), key=lambda link: link.place)
        active = tuple(link.link_id for link in by_place if not link.retired)
        known_us = max((link.known_us for link in by_place), default=0)
        return self._replace(
            links=all_links,
            active=active,
            revision=self.revision + 1,
            known_us=known_us,
            links_changed_us=max((link.changed_us for link in by_place), default=0),
            scheduled=tuple(
                link for link in by_place if not link.retired and (link.starts_us or link.ends_us)
            ),
        )

    def off_at(self, now_us: int) -> frozenset[str]:
        """Return the links in `active` that are outside their dates."""
        return frozenset(link.link_id for link in self.scheduled if link.is_off(now_us))

    def next_date(self, now_us: int) -> int:
        """Return when a link next starts or ends; 0 if none does."""
        dates = (date for link in self.scheduled for date in (link.starts_us, link.ends_us))
        return min((date for date in dates if date > now_us), default=0)

    def rules(self, paced: Iterable[PacedRule] = ()) -> tuple[Rule, ...]:
        """Return the rules with the links they apply to, including retired ones.

        `paced` are the bounds of rules with a goal or a budget. Caps come before guarantees.
        """
        bounds = {one.name: one for one in paced}
        of_group: dict[str, list[str]] = {}
        for link in self.links.values() if self.settings.rules else ():
            of_group.setdefault(link.group, []).append(link.link_id)
        found = []
        for rule in self.settings.rules:
            # no link has this group any more: use a link that does not exist
            links: Sequence[object] = (
                rule.links or of_group.get(rule.group) or [("group", rule.group)]
            )
            goal, slots = bounds.get(rule.name), float(self.settings.slots)
            least, most = rule.at_least, slots if rule.at_most is None else rule.at_most
            if goal is not None:
                least, most = max(least, goal.at_least), min(most, goal.at_most)
            least = min(least, most)
            is_free = most >= slots and rule.at_most is None and (least or rule.boost)
            found.append(Rule(rule.name, links, least, None if is_free else most, rule.boost))
        return tuple(found)

    def is_restricted(self, now_us: int) -> bool:
        """Return whether rules, or dates of links, restrict pages."""
        return bool(self.settings.rules) or bool(self.off_at(now_us))

    def rules_in_force(
        self, link_ids: Sequence[str], n_slots: int, paced: Iterable[PacedRule] = ()
    ) -> RulesInForce:
        """Return the rules for pages with `n_slots` of these links."""
        return RulesInForce(self.rules(paced), LinkPool(link_ids), n_slots)

    def ruled_page(self, now_us: int, paced: Iterable[PacedRule] = ()) -> RuledPage | None:
        """Return what rules and dates allow on a page; None where nothing is restricted."""
        off = self.off_at(now_us)
        n_slots = min(self.settings.slots, len(self.active) - len(off))
        if n_slots == 0 or not self.is_restricted(now_us):
            return None
        in_force = self.rules_in_force(self.active, n_slots, paced)
        return in_force.for_places(NO_PLACES, LinkPool(self.active).places("links", off), n_slots)

    def rules_key(self, now_us: int, paced: Iterable[PacedRule] = ()) -> int:
        """Return a number that identifies the result of `ruled_page`; 0 where it is None."""
        if not self.is_restricted(now_us):
            return 0
        return zlib.crc32(repr((self.rules(paced), sorted(self.off_at(now_us)))).encode())

    @property
    def reset_times(self) -> dict[str, int]:
        """The links whose statistics were reset, and when."""
        links = self.links.values()
        return {link.link_id: link.counted_from_us for link in links if link.counted_from_us}

    def known_counts(self) -> Iterator[tuple[str, ImportedCounts]]:
        """Yield the imported counts of links that may be shown."""
        for link_id in self.active if self.known_us else ():
            yield from ((link_id, counts) for counts in self.links[link_id].start_counts)

    def problem(self) -> Problem:
        """Return the problem of a page of this pool."""
        problem = pool_problem(self.settings, len(self.active), None)
        assert problem is not None
        return problem

    def policy(self) -> Policy:
        """Return the policy of this pool."""
        n_links = len(self.active) or self.settings.slots
        problem = pool_problem(self.settings, n_links, None)
        assert problem is not None  # it has no floors of segments
        return policy_of(self.settings).for_problem(problem)


def policy_of(pool: PoolSettings) -> Policy:
    """Return the policy named in the settings of a pool."""
    return make_policy(pool.policy, pool.policy_settings)


def with_known_policy(pool: PoolSettings) -> PoolSettings:
    """Return stored settings, with the default policy if theirs does not exist.

    A store may contain a policy of an earlier version, or of a package that is no longer installed.
    The stored name does not change until the pool is changed.
    """
    try:
        policy_class(pool.policy)
    except UnknownName as error:
        default = default_policy().name
        _log.warning("pool %s uses %s: %s", pool.pool_id, default, error)
        return replace(pool, policy=default, policy_settings={})
    return pool


def problem_of(
    n_links: int,
    n_slots: int,
    click_floor: float,
    features: Features | None = None,
    segment_floors: Mapping[str, Mapping[str, float]] | None = None,
) -> Problem:
    """Return the problem of a page; floors that no page can reach are lowered."""
    slots = min(n_slots, n_links)
    most = math.nextafter(slots, 0.0)
    lowered = {
        name: {value: min(least, most) for value, least in of_values.items()}
        for name, of_values in (segment_floors or {}).items()
    }
    return Problem(
        n_links=n_links,
        n_slots=slots,
        click_floor=min(click_floor, most),
        features={} if features is None else features,
        segment_floors=lowered,
    )


def slot_weights_of(pool: PoolSettings) -> tuple[float, ...] | str:
    """Return the slot weights of a pool in the form of a problem."""
    named = LEARN if pool.learn_slot_weights else pool.slot_weights
    return normal_slot_weights(EQUAL if named == EQUAL_SLOTS else named, pool.slots)


def has_slot_weights(pool: PoolSettings) -> bool:
    """Return whether slots differ, or may differ."""
    return slot_weights_of(pool) not in ((), EQUAL)


def slots_of_pool(pool: PoolSettings, clicks: Sequence[float] = ()) -> PageSlots:
    """Return the slots of a pool's pages, given the clicks on pages in random order."""
    weights = slot_weights_of(pool)
    return PageSlots(Problem(n_links=pool.slots, n_slots=pool.slots, slot_weights=weights), clicks)


def pool_problem(pool: PoolSettings, n_links: int, features: Features | None) -> Problem | None:
    """Return the problem of a page of a pool with `n_links` links.

    With `features` it includes the floors of segments; None where an open list has no place for
    one.
    """
    page = (n_links, pool.slots, pool.click_floor)
    if features is None:
        return problem_of(*page, Features.of_json(pool.features))
    try:
        return problem_of(*page, features, pool.segment_floors)
    except InvalidInput:
        return None


LEARNS_FROM_COUNTS = "one that learns from counts"

MAX_SETTING = 1e15
"""The largest number in the settings of a policy; counts above it are not exact."""


def check_pool(
    pool: PoolSettings, n_active_links: int, *, has_known: bool = False, ends_after_us: int = 0
) -> None:
    """Raise `InvalidInput` for the rules that a pool breaks: the first, with the others.

    `has_known`: its links start from imported counts, which the policy must be able to learn. A
    pool that ends must end later than `ends_after_us`.
    """
    share, currency = "a share from 0 to 1", limits.CURRENCY_RULE
    check_all(
        partial(_check_id, "pool_id", pool.pool_id),
        partial(_check_range, "slots", pool.slots, 1, limits.MAX_SLOTS),
        partial(_check_floor, "click_floor", pool.click_floor, pool.slots),
        partial(
            _check_range, "max_revenue_micros", pool.max_revenue_micros, 1, limits.MAX_AMOUNT_MICROS
        ),
        partial(_check, "currency", limits.is_currency(pool.currency), currency, pool.currency),
        partial(_check_range, "click_window_s", pool.click_window_s, 1, limits.MAX_WINDOW_S),
        partial(_check_range, "revenue_window_s", pool.revenue_window_s, 1, limits.MAX_WINDOW_S),
        partial(_check, "holdout", 0 <= pool.holdout <= 1, share, pool.holdout),
        partial(_check_promise, pool),
        partial(_check, "explore", 0 <= pool.explore <= 1, share, pool.explore),
        partial(_check_end, pool.until_us, ends_after_us),
        *(partial(_check_id, "own_page", link_id) for link_id in pool.own_page),
        partial(_check_pins, pool),
        partial(_check_features, pool),
        partial(_check_slot_weights, pool),
        partial(_check_segment_floors, pool),
        *(partial(check_rule, one, pool.slots) for one in pool.rules),
        partial(_check_policy, pool, n_active_links, has_known=has_known),
    )


def _check_promise(pool: PoolSettings) -> None:
    _check("keep", 0 <= pool.keep < 1, "at least 0 and less than 1", pool.keep)
    needs = {"holdout": pool.holdout_shows == "own", "keep": pool.keep > 0}
    for name in [name for name, is_needed in needs.items() if is_needed and not pool.own_page]:
        raise InvalidInput(f"`{name}` needs an own page: set `own_page`", name)
    if not (pool.keep and pool.holdout):
        return
    if pool.holdout_shows == "own":
        rule = f"0 or at least {RANGES[-1]} with a promise"
        _check("holdout", pool.holdout >= RANGES[-1], rule, pool.holdout)
    else:  # random pages may earn nothing: half of what may be lost is left for chosen pages
        most = (1.0 - pool.keep) / 2.0
        rule = f"at most {most:.3g} with random pages and a promise of {pool.keep:g}"
        _check("holdout", pool.holdout <= most + 1e-9, rule, pool.holdout)


def check_link(link: LinkRecord) -> None:
    """Raise `InvalidInput` for the first rule that a link breaks."""
    _check_id("link_id", link.link_id)
    _check("url", bool(link.url), "an address", link.url)
    for name, text in (("title", link.title), ("group", link.group)):
        _check(name, limits.is_text(text), limits.TEXT_RULE, text)
    for name, date_us in (("starts_at", link.starts_us), ("ends_at", link.ends_us)):
        if date_us < 0:
            raise InvalidInput.of(name, "a time after 1970", to_time(date_us).isoformat())
    if 0 < link.ends_us <= link.starts_us:
        rule = f"after starts_at ({to_time(link.starts_us).isoformat()})"
        raise InvalidInput.of("ends_at", rule, to_time(link.ends_us).isoformat())


def check_rules(pool: Pool, rules: Sequence[PoolRule], now_us: int) -> None:
    """Raise `InvalidInput` for the first error in new rules of a pool."""
    most = limits.MAX_RULES
    _check("rules", len(rules) <= most, f"at most {most} rules", len(rules))
    groups, names = {link.group for link in pool.links.values()}, set()
    for rule in rules:
        if not limits.is_text(rule.name):
            raise InvalidInput.of("name", f"{limits.TEXT_RULE}, of every rule", rule.name)
        checked = check_rule(rule, pool.settings.slots)
        if rule.name in names:
            raise checked.error("name", "different from that of other rules", rule.name)
        names.add(rule.name)
        if rule.group and rule.group not in groups:
            raise checked.error("group", "the group of a link of the pool", rule.group)
        for link_id in rule.links:
            if link_id not in pool.links:
                raise checked.error("links", "links of the pool", link_id)
        for name in ("views_until", "clicks_until", "budget"):
            goal = getattr(rule, name)
            is_new = all(getattr(one, name) != goal for one in pool.settings.rules)
            if goal is not None and is_new and goal.until_us <= now_us:
                until = to_time(goal.until_us).isoformat()
                raise checked.error(f"{name}.until", "in the future", until)


def dated_rules(pool: Pool, rules: Sequence[PoolRule], now_us: int) -> tuple[PoolRule, ...]:
    """Return new rules with their start of counting, taken from old rules for the same links."""
    before = {(one.name, one.group, frozenset(one.links)): one for one in pool.settings.rules}
    found = []
    for rule in rules:
        known = before.get((rule.name, rule.group, frozenset(rule.links)))
        found.append(replace(rule, since_us=known.since_us if known else now_us))
    return tuple(found)


def check_rule(rule: PoolRule, slots: int) -> Rule:
    """Return a rule, or raise `InvalidInput` if it cannot hold for any links."""
    most_slots = float(slots) if rule.has_goals and rule.at_most is None else rule.at_most
    named = Rule(rule.name, rule.links or ["group"], rule.at_least, most_slots, rule.boost)
    if bool(rule.group) == bool(rule.links):
        raise named.error("group", "given, or `links`, and not both", rule.group)
    most = min(slots, len(rule.links)) if rule.links else slots
    if rule.at_least > most:
        of = f" and {len(rule.links)} links" if rule.links else ""
        raise named.error("at_least", f"at most {most}, of {slots} slots{of}", rule.at_least)
    if rule.at_most is not None and rule.at_most > slots:
        raise named.error("at_most", f"at most slots ({slots})", rule.at_most)
    return named


def check_known(pool: Pool, known: Mapping[str, Sequence[ImportedCounts]]) -> None:
    """Raise `InvalidInput` for the first rule that imported counts break."""
    for link_id, rows in known.items():
        if len(rows) > limits.MAX_KNOWN_ROWS:
            rule = f"at most {limits.MAX_KNOWN_ROWS} rows for link {link_id}"
            raise InvalidInput.of("counts", rule, len(rows))
        for row in rows:
            _check_range("views", row.views, 0, limits.MAX_KNOWN_VIEWS)
            rule = f"from 0 to the views ({row.views}) of link {link_id}"
            _check("clicks", 0 <= row.clicks <= row.views, rule, row.clicks)
            rule, has_clicks = f"0 without clicks, for link {link_id}", row.clicks > 0
            _check("revenue_micros", has_clicks or not row.revenue_micros, rule, row.revenue_micros)
            _check_range("revenue_micros", row.revenue_micros, 0, limits.MAX_SUM_MICROS)
            _check("discount", 0 < row.discount <= 1, "more than 0 and at most 1", row.discount)
    if any(known.values()) and pool.active:  # counts can be removed with every policy
        policy = pool.policy()
        if "views" not in policy.knowledge(policy.start(pool.problem())):
            raise InvalidInput.of("policy", LEARNS_FROM_COUNTS, pool.settings.policy)


def _check(name: str, holds: bool, rule: str, value: object) -> None:
    if not holds:
        raise InvalidInput.of(name, rule, value)


def _check_floor(name: str, floor: float, slots: int, of: str = "") -> None:
    _check(name, 0 <= floor < slots, f"at least 0 and below slots ({slots}){of}", floor)


def _check_end(until_us: int, after_us: int) -> None:
    if until_us < 0 or 0 < until_us <= after_us:
        rule = "a time after 1970" if until_us < 0 else "in the future"
        raise InvalidInput.of("until", rule, to_time(until_us).isoformat())


def _check_features(pool: PoolSettings) -> None:
    n_values, most = sum(Features.of_json(pool.features).sizes), limits.MAX_ALL_VALUES
    _check("features", n_values <= most, f"of at most {most} values in all", n_values)


def _check_slot_weights(pool: PoolSettings) -> None:
    weights = pool.slot_weights
    if weights and min(weights) > 0 and max(weights) > limits.MAX_WEIGHT_RATIO * min(weights):
        rule = f"numbers at most {limits.MAX_WEIGHT_RATIO} times as large as each other"
        raise InvalidInput.of("slot_weights", rule, weights)
    slot_weights_of(pool)


def _check_segment_floors(pool: PoolSettings) -> None:
    """Refuse floors of undeclared values, and a policy that does not support such floors."""
    floors = declared_floors(pool.segment_floors, pool.features)
    n_floors, most = sum(map(len, floors.values())), limits.MAX_SEGMENT_FLOORS
    _check("segment_floors", n_floors <= most, f"at most {most} floors in all", n_floors)
    for name, of_values in floors.items():
        for value, least in of_values.items():
            _check_floor("segment_floors", least, pool.slots, f" for {name} {value}")


def _check_pins(pool: PoolSettings) -> None:
    positions, link_ids = set(), set()
    for pin in pool.pins:
        _check_id("pins", pin.link_id)
        _check_range("pins", pin.position, 1, pool.slots)
        free, is_new = pin.position not in positions, pin.link_id not in link_ids
        _check("pins", free, "one link for each position", pin.position)
        _check("pins", is_new, "different links", pin.link_id)
        positions.add(pin.position)
        link_ids.add(pin.link_id)


def _check_numbers(settings: object) -> None:
    """Refuse numbers that compiled code cannot represent, anywhere in the settings."""
    match settings:
        case dict():
            settings = list(settings.values())
        case bool():
            return
        case int() | float() if not abs(settings) <= MAX_SETTING:
            rule = f"made of numbers from -{MAX_SETTING:g} to {MAX_SETTING:g}"
            raise InvalidInput.of("policy_settings", rule, settings)
    if isinstance(settings, list | tuple):
        for one in settings:
            _check_numbers(one)


def _check_policy(pool: PoolSettings, n_active_links: int, *, has_known: bool) -> None:
    """Start the policy once, so that missing or wrong settings are refused at once."""
    if ":" in pool.policy:  # a caller over HTTP must not choose what the server imports
        advice = "let its package offer it as an entry point `slotwise.policies`"
        raise InvalidInput.of("policy", "the name of an installed policy", pool.policy, advice)
    _check_numbers(pool.policy_settings)
    # A mix that is given link by link determines the number of links.
    given = pool.policy_settings.get("probabilities", ())
    n_links = n_active_links or (len(given) if isinstance(given, list | tuple) else 0)
    problem = problem_of(max(n_links, 1) if n_links else pool.slots + 1, pool.slots, 0.0)
    try:
        policy = policy_of(pool)
        state = policy.start(problem)  # visitors do not affect its settings
    except SlotwiseError as error:
        argument = "policy" if isinstance(error, UnknownName) else "policy_settings"
        raise InvalidInput(f"policy {pool.policy}: {error}", argument) from error
    except (TypeError, ValueError, ArithmeticError) as error:
        rule = f"settings that {pool.policy} can use ({error})"
        raise InvalidInput.of("policy_settings", rule, pool.policy_settings) from error
    if pool.segment_floors:
        _check_keeps_segment_floors(pool, policy)
    if has_known and "views" not in policy.knowledge(state):
        advice = "its links start from imported counts: import 0 views of them first"
        raise InvalidInput.of("policy", LEARNS_FROM_COUNTS, pool.policy, advice)


def _check_keeps_segment_floors(pool: PoolSettings, policy: Policy) -> None:
    try:
        keeps = policy.for_problem(_WITH_SEGMENT_FLOOR).keeps_floor
    except InvalidInput:
        keeps = False
    if not keeps:
        rule = "one that keeps floors of segments, such as the default"
        raise InvalidInput.of("policy", rule, pool.policy, "or leave `segment_floors` empty")


def _check_id(name: str, value: str) -> None:
    _check(name, limits.is_id(value), limits.ID_RULE, value)


def _check_range(name: str, value: int, lowest: int, highest: int) -> None:
    _check(name, lowest <= value <= highest, f"from {lowest} to {highest}", value)


MICROS = 1_000_000


def read_known_table(
    text: str, pool: PoolSettings, discount: float, name: str = "csv"
) -> dict[str, list[ImportedCounts]]:
    """Return the counts of each link in a CSV text: link, views, clicks, revenue and features.

    Rows without a view are left out; a link with only such rows has an empty list.
    """
    features = Features.of_json(pool.features)
    known: dict[str, list[ImportedCounts]] = {}
    for row in parse_known_counts(text, name):
        try:
            visitor = features.read(row.visitor)
        except InvalidInput as error:
            raise InvalidInput(f"{name}, link {row.link}: {error}", "csv") from None
        if row.revenue > limits.MAX_SUM_MICROS / MICROS:
            rule = f"at most {limits.MAX_SUM_MICROS // MICROS}"
            raise InvalidInput(
                f"{name}, link {row.link}: {InvalidInput.of('revenue', rule, row.revenue)}", "csv"
            )
        counts = ImportedCounts(
            views=row.views,
            clicks=row.clicks,
            revenue_micros=round(row.revenue * MICROS),
            visitor=visitor,
            discount=discount,
        )
        known.setdefault(row.link, []).extend([counts] if row.views or row.clicks else [])
    return known
