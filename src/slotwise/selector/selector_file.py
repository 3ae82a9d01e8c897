"""Save a selector to a file and load it. Used by `selector`."""

from __future__ import annotations

import json
import logging
import os
import zipfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.features import Features
from slotwise.player.rules_in_force import RuleCounts
from slotwise.policies import (
    make_policy,
    policy_reference,
    policy_settings,
)
from slotwise.problem import Rule, whole_number
from slotwise.rounds import Link
from slotwise.selection.promise import GROUPS, Group
from slotwise.selector.open_pages import OpenPage, OpenPages
from slotwise.selector.promised_pages import PromisedPages
from slotwise.version import __version__

if TYPE_CHECKING:
    from slotwise.selector.selector import Selector


_log = logging.getLogger(__name__)

FORMAT = 2
"""Version of the file format; format 1 was that of an unreleased development version."""

HEADER = "header"

MAX_BYTES = 4 * 2**30
"""Most bytes that the arrays of a file may take in memory; a larger file is refused."""


def link_to_json(link: Link) -> object:
    """Return a link id as JSON: strings and integers as they are, tuples as tagged lists."""
    if isinstance(link, np.integer):  # equal to the integer, also as a key
        return int(link)
    if isinstance(link, str) or (isinstance(link, int) and not isinstance(link, bool)):
        return link
    if isinstance(link, tuple):
        return {"tuple": [link_to_json(part) for part in link]}
    rule = "strings, integers or tuples of them to be saved"
    raise InvalidInput.of("links", rule, link, "give the selector such ids")


def link_from_json(value: Any) -> Link:
    """Return the link id that `link_to_json` wrote."""
    if isinstance(value, dict):
        return tuple(link_from_json(part) for part in value["tuple"])
    return value  # type: ignore[no-any-return]


def _plain(value: object) -> object:
    """Return a numpy number among a policy's settings as JSON can write it."""
    if isinstance(value, np.generic):
        return value.item()
    raise InvalidInput.of("policy", "settings of plain values to be saved", value)


def write_file(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write header and arrays; the file appears whole or not at all."""
    versions = {"slotwise": FORMAT, "version": __version__}
    text = json.dumps({**versions, **header}, default=_plain).encode()
    temporary = path.with_name(f"{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("wb") as file:
            everything: dict[str, Any] = {HEADER: np.frombuffer(text, np.uint8), **arrays}
            np.savez_compressed(file, **everything)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None  # the file that was given
    finally:
        temporary.unlink(missing_ok=True)


def _check_size(file: BinaryIO) -> None:
    """Refuse a file whose parts would not fit into memory, before any is unpacked."""
    with zipfile.ZipFile(file) as archive:
        n_bytes = sum(part.file_size for part in archive.infolist())
    if n_bytes > MAX_BYTES:
        raise ValueError(f"it would take {n_bytes} bytes of memory, {MAX_BYTES} are allowed")
    file.seek(0)


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a saved selector; refuse what this version cannot read."""
    with path.open("rb") as file:
        try:
            _check_size(file)
            with np.load(file, allow_pickle=False) as stored:
                header = json.loads(stored[HEADER].tobytes())
                version = int(header["slotwise"])
                # another format may hold anything: look no further than its number
                arrays = {name: stored[name] for name in stored.files if version == FORMAT}
        except Exception as error:  # bytes of any origin can make the readers raise anything
            message = f"{path} is not a selector that slotwise saved, or is damaged: {error}"
            raise UnsupportedState(message) from error
    if version != FORMAT:
        advice = "install a newer slotwise" if version > FORMAT else "use the version that saved it"
        raise UnsupportedState(
            f"{path} was saved by slotwise {header.get('version')} in format {version}, this "
            f"slotwise reads format {FORMAT}; {advice}"
        )
    del arrays[HEADER]
    return header, arrays


WHOLE = {"page_number", "page_length", "page_shown", "page_in_random_order", "page_visitor"}
"""Arrays of whole numbers."""


def _pages_to_arrays(pages: OpenPages, places: dict[Link, int]) -> dict[str, NDArray[Any]]:
    """Return the open pages as arrays; `places` grows by links that have left the pool.

    Pages may differ in length, so slots of all pages lie end to end. `page_outcomes` has a row
    for each level, NaN where a page is not settled at it.
    """
    listed = list(pages)
    shown = [places.setdefault(link, len(places)) for page in listed for link in page.shown]
    outcomes = [
        [
            np.nan if page.outcomes[level] is None else page.outcomes[level].get(link, 0.0)  # type: ignore[union-attr]
            for page in listed
            for link in page.shown
        ]
        for level in range(len(pages.level_names))
    ]
    return {
        "page_number": np.array([page.number for page in listed], np.int64),
        "page_length": np.array([len(page.shown) for page in listed], np.int64),
        "page_shown": np.array(shown, np.int64),
        "page_probabilities": np.array([p for page in listed for p in page.probabilities]),
        "page_outcomes": np.array(outcomes, np.float64).reshape(len(pages.level_names), len(shown)),
        "page_in_random_order": np.array([page.is_in_random_order for page in listed], np.int64),
        "page_visitor": np.array([place for page in listed for place in page.visitor], np.int64),
        "page_group": np.array([GROUPS.index(page.group) for page in listed], np.int64),
        "page_share": np.array([page.share for page in listed], np.float64),
    }


def _pages_from_file(
    header: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    links: list[Link],
    level_names: tuple[str, ...],
    features: Features,
) -> OpenPages:
    """Return the open pages of a file after checking its numbers and arrays."""
    n_issued = whole_number("n_issued", header["n_issued"], at_least=0)
    pages = OpenPages(
        whole_number("max_pages", header["max_pages"], at_least=1),
        n_issued,
        whole_number("n_forgotten", header["n_forgotten"], at_least=0),
        earlier={token: range(*ends) for token, ends in header["issued"].items()},
        level_names=level_names,
        counted_from=whole_number("counted_from", header.get("counted_from", 1), at_least=1),
        counted_to=whole_number("counted_to", header.get("counted_to", n_issued), at_least=0),
    )
    for name in WHOLE:
        if arrays[name].dtype != np.int64:
            raise ValueError(f"array {name} must be of whole numbers")
    lengths = arrays["page_length"]
    n_slots = int(lengths.sum())
    shapes: dict[str, tuple[int, ...]] = {
        "page_shown": (n_slots,),
        "page_probabilities": (n_slots,),
        "page_outcomes": (len(level_names), n_slots),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ValueError(f"array {name} is {arrays[name].shape}, not {shape}")
    probabilities, outcomes = arrays["page_probabilities"], arrays["page_outcomes"]
    if not (lengths >= 1).all() or not ((probabilities >= 0) & (probabilities <= 1)).all():
        raise ValueError("pages must have links, with probabilities from 0 to 1")
    if np.isinf(outcomes).any() or (outcomes < 0).any() or (arrays["page_shown"] < 0).any():
        raise ValueError("page outcomes must be finite, at least 0 and of known links")
    is_open = np.isnan(outcomes)
    if (is_open != np.repeat(is_open[:, np.cumsum(lengths) - lengths], lengths, axis=1)).any():
        raise ValueError("a page must be settled for all of its links or for none")
    start = 0
    visitors = _visitors_from_file(arrays, features)
    is_random = arrays["page_in_random_order"].tolist()
    numbers = arrays["page_number"].tolist()
    if len(set(numbers)) < len(numbers) or not all(1 <= one <= pages.n_issued for one in numbers):
        raise ValueError("page_number must be unique and from 1 to the number of issued pages")
    rows = zip(numbers, lengths.tolist(), visitors, is_random, *_groups(arrays), strict=True)
    for number, length, visitor, in_random_order, group, share in rows:
        slots = slice(start, start + length)
        start += length
        shown = tuple(links[place] for place in arrays["page_shown"][slots])
        outcome = tuple(
            None
            if np.isnan(row[0])
            else {link: amount for link, amount in zip(shown, row.tolist(), strict=True) if amount}
            for row in outcomes[:, slots]
        )
        chosen = tuple(probabilities[slots].tolist())
        page = (number, shown, chosen, level_names, outcome)
        pages.put(OpenPage(*page, tuple(visitor), bool(in_random_order), group, share))
    waited = header.get("longest_wait", 0)
    pages.longest_wait = whole_number("longest_wait", waited, at_least=0)
    return pages


def _groups(arrays: dict[str, NDArray[Any]]) -> tuple[list[Group], list[float]]:
    """Return the group of every page and the share it was drawn with."""
    n_pages = len(arrays["page_number"])
    if "page_group" not in arrays:  # saved before there were own pages
        return ["chosen"] * n_pages, [1.0] * n_pages
    groups, shares = arrays["page_group"], arrays["page_share"]
    if groups.shape != (n_pages,) or not np.isin(groups, range(len(GROUPS))).all():
        raise ValueError("array page_group has groups that are not known")
    if shares.shape != (n_pages,) or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError("array page_share must be shares from 0 to 1")
    return [GROUPS[k] for k in groups.tolist()], shares.tolist()


def _visitors_from_file(arrays: dict[str, NDArray[Any]], features: Features) -> list[list[int]]:
    """Return the visitor of every page, after checking that each value belongs to its feature."""
    n_pages = len(arrays["page_number"])
    stored = arrays["page_visitor"].reshape(n_pages, len(features))
    first = np.array(features.offsets, np.int64)
    if not np.all((stored >= first) & (stored < first + np.array(features.sizes, np.int64))):
        raise ValueError("array page_visitor has values that no feature has")
    visitors: list[list[int]] = stored.tolist()
    return visitors


def save_selector(selector: Selector, path: Path) -> None:
    """Write `selector` to `path`."""
    policy, problem, pages = selector.policy, selector.problem, selector._pages
    promised = selector._promised
    places = {link: place for place, link in enumerate(selector.links)}
    page_arrays = _pages_to_arrays(pages, places)
    header = {
        "links": [link_to_json(link) for link in places],
        "n_links": problem.n_links,
        "n_slots": problem.n_slots,
        "click_floor": problem.click_floor,
        "levels": selector._levels,
        "floors": dict(problem.floors),
        "rate_floors": dict(problem.rate_floors),
        "rewards": dict(problem.rewards),
        "horizon": problem.horizon,
        "retired": [link_to_json(link) for link in selector._retired],
        "max_revenue": selector._money.max_revenue,
        "explore": selector._explore,
        "n_clipped": selector._money.n_clipped,
        "features": selector._player.features.plain(),
        "slot_weights": problem.slot_weights,
        "value_floors": problem.segment_floor_places,
        "rules": [
            {**asdict(rule), "links": [link_to_json(link) for link in rule.links]}
            for rule in problem.rules
        ],
        "rule_pages": selector._rule_counts.totals()[0],
        "policy": {"name": policy_reference(policy), "settings": policy_settings(policy)},
        "pages": {
            "max_pages": pages.max_pages,
            "n_issued": pages.n_issued,
            "n_forgotten": pages.n_forgotten,
            "issued": {token: [ids.start, ids.stop] for token, ids in pages.issued.items()},
            "counted_from": pages.counted_from,
            "counted_to": pages.counted_to,
            "longest_wait": pages.longest_wait,
        },
        "rng": selector._rng.bit_generator.state,
        "secret": selector._secret.hex(),
    }
    if promised is not None:
        order = [link_to_json(link) for link in promised.order]
        header["own_page"] = {"order": order, **promised.plain()}
    arrays: dict[str, NDArray[Any]] = {
        **selector._player.save(),
        "delivered": selector._delivered.totals,
        "rule_slots": selector._rule_counts.totals()[1],
        **page_arrays,
    }
    if promised is not None:
        arrays |= {"own_evidence": promised.evidence.sums, "own_clicks": promised.clicks}
    write_file(path, header, arrays)


def _segment_floors(
    value_floors: list[list[float]], features: Features
) -> dict[str, dict[str, float]]:
    """Return the floors of feature values as they were declared."""
    declared: dict[str, dict[str, float]] = {}
    for place, least in value_floors:
        name, label = features.label(int(place))
        declared.setdefault(name, {})[label] = least
    return declared


def _restore_own_page(
    selector: Selector, header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    order = [link_from_json(link) for link in header["order"]]
    sums = arrays["own_evidence"], arrays["own_clicks"]
    selector._promised = promised = PromisedPages.restore(order, header, *sums)
    selector._secret = promised.secret
    for page in selector._pages:
        promised.note_open(page)


def load_selector(kind: type[Selector], path: Path) -> Selector:
    """Return the selector stored at `path`."""
    header, arrays = read_file(path)
    try:
        links = [link_from_json(link) for link in header["links"]]
        features = Features.restore(header["features"])
        selector = kind(
            links[: header["n_links"]],
            header["n_slots"],
            policy=make_policy(header["policy"]["name"], header["policy"]["settings"]),
            click_floor=header["click_floor"],
            levels=header["levels"],
            floors=header["floors"],
            rate_floors=header["rate_floors"],
            rewards=header["rewards"],
            horizon=header["horizon"],
            max_revenue=header["max_revenue"],
            explore=header["explore"],
            features=features,
            slot_weights=header["slot_weights"] or (),
            segment_floors=_segment_floors(header["value_floors"], features),
        )
        rules = [
            Rule(**{**rule, "links": [link_from_json(link) for link in rule["links"]]})
            for rule in header.get("rules", [])
        ]
        if rules:  # a rule may name links that have been retired
            selector._move_to(selector._player.pool, rules=tuple(rules))
            delivered = float(header["rule_pages"]), arrays["rule_slots"]
            selector._rule_counts = RuleCounts(rules, *delivered)
        selector._money.n_clipped = whole_number("n_clipped", header["n_clipped"], at_least=0)
        selector._retired = {link_from_json(link): None for link in header["retired"]}
        names = selector._level_names
        selector._pages = _pages_from_file(header["pages"], arrays, links, names, features)
        selector._delivered.restore(arrays["delivered"], selector.problem.n_slots)
        selector._player.load(arrays)
        if "secret" in header:  # also for an own page that is set later
            selector._secret = bytes.fromhex(header["secret"])
        if "own_page" in header:
            _restore_own_page(selector, header["own_page"], arrays)
        for page in selector._pages:
            if selector._pages.is_counted(page):
                selector._note_open(page, 1.0)
        selector._rng.bit_generator.state = header["rng"]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnsupportedState(f"{path} cannot be restored: {error}") from error
    return selector
