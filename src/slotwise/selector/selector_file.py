"""What of a selector goes into its file, and how it comes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotwise.errors import InvalidInput, UnsupportedState
from slotwise.policies import POLICIES, make_policy, policy_settings
from slotwise.policies.contract import Knowledge
from slotwise.policies.counts import Counts, new_counts
from slotwise.rounds import Link
from slotwise.selector.open_pages import OpenPage, OpenPages
from slotwise.selector.saving import link_from_json, link_to_json, read_file, write_file

if TYPE_CHECKING:
    from slotwise.selector.selector import Selector

__all__ = ["load_selector", "save_selector"]


def _pages_to_arrays(pages: OpenPages, places: dict[Link, int]) -> dict[str, NDArray[Any]]:
    """Return the open pages as arrays; `places` grows by links that have left the pool.

    Pages may differ in length, so slots of all pages lie end to end.
    """
    listed = list(pages)
    shown = [places.setdefault(link, len(places)) for page in listed for link in page.shown]
    clicked = [
        -1 if page.clicked is None else int(link in page.clicked)
        for page in listed
        for link in page.shown
    ]
    revenue = [
        np.nan if page.revenue is None else page.revenue.get(link, 0.0)
        for page in listed
        for link in page.shown
    ]
    return {
        "page_number": np.array([page.number for page in listed], np.int64),
        "page_length": np.array([len(page.shown) for page in listed], np.int64),
        "page_shown": np.array(shown, np.int64),
        "page_chances": np.array([c for page in listed for c in page.chances], np.float64),
        "page_clicked": np.array(clicked, np.int8),
        "page_revenue": np.array(revenue, np.float64),
    }


def _pages_from_file(
    header: dict[str, Any], arrays: dict[str, NDArray[Any]], links: list[Link]
) -> OpenPages:
    pages = OpenPages(
        header["max_pages"],
        header["n_issued"],
        header["n_forgotten"],
        earlier={token: range(*ends) for token, ends in header["issued"].items()},
    )
    n_slots = int(arrays["page_length"].sum())
    for name in ("page_shown", "page_chances", "page_clicked", "page_revenue"):
        if arrays[name].shape != (n_slots,):
            raise ValueError(f"array {name} is {arrays[name].shape}, not ({n_slots},)")
    start = 0
    for number, length in zip(arrays["page_number"], arrays["page_length"], strict=True):
        slots = slice(start, start + length)
        start += length
        shown = tuple(links[place] for place in arrays["page_shown"][slots])
        clicked = arrays["page_clicked"][slots]
        revenue = arrays["page_revenue"][slots]
        page = OpenPage(int(number), shown, tuple(arrays["page_chances"][slots].tolist()))
        if clicked[0] >= 0:
            page.clicked = frozenset(link for link, hit in zip(shown, clicked, strict=True) if hit)
        if not np.isnan(revenue[0]):
            page.revenue = {
                link: float(amount)
                for link, amount in zip(shown, revenue, strict=True)
                if amount > 0
            }
        pages.put(page)
    return pages


def save_selector(selector: Selector, path: Path, knowledge: Knowledge) -> None:
    """Write `selector`, whose policy knows `knowledge`, to `path`."""
    policy, problem, pages = selector._policy, selector._problem, selector._pages
    if POLICIES.get(policy.name) is not type(policy):
        advice = "register it, or keep its knowledge yourself"
        raise InvalidInput.of("policy", "a registered policy to be saved", policy.name, advice)
    places = {link: place for place, link in enumerate(selector.links)}
    page_arrays = _pages_to_arrays(pages, places)
    header = {
        "links": [link_to_json(link) for link in places],
        "n_links": problem.n_links,
        "n_slots": problem.n_slots,
        "click_floor": problem.click_floor,
        "max_revenue": selector._max_revenue,
        "explore": selector._explore,
        "n_clipped": selector._n_clipped,
        "policy": {"name": policy.name, "settings": policy_settings(policy)},
        "pages": {
            "max_pages": pages.max_pages,
            "n_issued": pages.n_issued,
            "n_forgotten": pages.n_forgotten,
            "issued": {token: [ids.start, ids.stop] for token, ids in pages.issued.items()},
        },
        "rng": selector._rng.bit_generator.state,
    }
    arrays: dict[str, NDArray[Any]] = {
        "views": selector._own_counts.views,
        "sums": selector._own_counts.sums,
        **page_arrays,
        **{f"knows_{name}": array for name, array in knowledge.items()},
    }
    write_file(path, header, arrays)


def load_selector(kind: type[Selector], path: Path) -> Selector:
    """Return the selector stored at `path`."""
    header, arrays = read_file(path)
    try:
        links = [link_from_json(link) for link in header["links"]]
        selector = kind(
            links[: header["n_links"]],
            header["n_slots"],
            policy=make_policy(header["policy"]["name"], header["policy"]["settings"]),
            click_floor=header["click_floor"],
            max_revenue=header["max_revenue"],
            explore=header.get("explore", 0.0),
        )
        selector._n_clipped = header["n_clipped"]
        selector._pages = _pages_from_file(header["pages"], arrays, links)
        selector._own_counts = Counts(arrays["views"], arrays["sums"])
        selector._state = _state_from_file(selector, arrays)
        selector._rng.bit_generator.state = header["rng"]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnsupportedState(f"{path} cannot be restored: {error}") from error
    return selector


def _state_from_file(selector: Selector, arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the state that the file knows, after checking that its arrays fit the policy.

    Compiled code does not check bounds, so an array of another shape must not reach it.
    """
    policy, problem = selector._policy, selector._problem
    expected = {
        **{f"knows_{name}": array for name, array in policy.knowledge(selector._state).items()},
        "views": new_counts(problem).views,
        "sums": new_counts(problem).sums,
    }
    for name, array in expected.items():
        if arrays[name].shape != array.shape or arrays[name].dtype != array.dtype:
            raise ValueError(f"array {name} is {arrays[name].shape}, not {array.shape}")
    knowledge = {
        name.removeprefix("knows_"): arrays[name] for name in expected if name.startswith("knows_")
    }
    return policy.restore(problem, knowledge)
