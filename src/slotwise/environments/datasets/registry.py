"""The list of all data sets, and the function that loads one by name.

Commands and experiments use it through `slotwise.environments.datasets`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, get_args, get_type_hints

from slotwise.environments.datasets.dataset import Dataset, PageSetting
from slotwise.environments.datasets.look_alikes import (
    ads_like_binding,
    ads_recipe,
    coupon_mild_recipe,
    coupon_recipe,
    edx_recipe,
    shop_recipe,
    tiny_rates_recipe,
)
from slotwise.errors import InvalidInput, MissingData, UnknownName, did_you_mean
from slotwise.extras import missing_package
from slotwise.plugins import entry_point_names, find_outside

ENTRY_POINTS = "slotwise.datasets"
"""The entry point group for data sets of other packages."""

PAGE_OPTIONS = MappingProxyType(
    {"n_slots": int, "click_floor": float, "failure_probability": float}
)
"""Options that every data set takes."""


@dataclass(frozen=True)
class LookAlike:
    """A data set that is drawn from a recipe and needs no file."""

    name: str
    build: Callable[[], Dataset]


@dataclass(frozen=True)
class Loader:
    """A data set that is read from files in a directory the user names.

    `settings` is the class of its options, as "module:class" (of this folder, or of a package with
    a dot in its name), so that polars is imported only when files are read. `n_links` and `page`
    are the paper's; None if the user decides.
    """

    name: str
    title: str
    settings: str
    origin: str
    n_links: int | None = None
    page: PageSetting | None = None


class _Settings(Protocol):
    """Options of a loader: a frozen dataclass."""

    def load(self, directory: Path, page: PageSetting) -> Dataset: ...


_ENTRIES: tuple[LookAlike | Loader, ...] = (
    LookAlike("coupon-like", partial(coupon_recipe, seed=0)),
    LookAlike("coupon-mild", partial(coupon_mild_recipe, seed=0)),
    LookAlike("ads-like", partial(ads_recipe, seed=0)),
    LookAlike("ads-like-binding", ads_like_binding),
    LookAlike("edx-like", partial(edx_recipe, seed=0)),
    LookAlike("tiny-rates", partial(tiny_rates_recipe, seed=0)),
    LookAlike("shop-like", partial(shop_recipe, seed=0)),
    Loader(
        name="coupon-purchase",
        title="Coupon-Purchase",
        settings="coupon_purchase:CouponPurchase",
        origin='Kaggle competition "Coupon Purchase Prediction"',
        n_links=271,
        page=PageSetting(n_slots=15, click_floor=4.0, failure_probability=0.01),
    ),
    Loader(
        name="ad-clicks",
        title="Ad-Clicks",
        settings="ad_clicks:AdClicks",
        origin='Kaggle competition "Avito Context Ad Clicks"',
        n_links=225,
        page=PageSetting(n_slots=20, click_floor=10.0, failure_probability=0.02),
    ),
    Loader(
        name="edx-course",
        title="edX-Course",
        settings="edx_courses:EdxCourse",
        origin='Kaggle data set "Online Courses from Harvard and MIT"',
        n_links=290,
        page=PageSetting(n_slots=60, click_floor=10.0, failure_probability=0.05),
    ),
    Loader(
        name="table",
        title="A table of your own",
        settings="source_files:Table",
        origin="your own CSV, TSV or Parquet file with clicks, views and revenue of each link",
    ),
    Loader(
        name="rates",
        title="A table of your own rates",
        settings="source_files:RatesTable",
        origin="your own CSV, TSV or Parquet file with the rates of each link",
    ),
)

DATASETS: Mapping[str, LookAlike | Loader] = MappingProxyType({one.name: one for one in _ENTRIES})
"""Every data set by its name: those drawn from a recipe, and loaders of files."""


def load_dataset(name: str, directory: str | Path | None = None, **options: object) -> Dataset:
    """Return the data set `name`; loaders read it from files in `directory`.

    A data set of another package is named by its entry point `slotwise.datasets`, or as
    "module:function" where the function returns a `Dataset`.

    `directory` may be a file, too. `n_slots`, `click_floor` and `failure_probability` may be given
    for every data set (for `table` and `rates` the first two must be); further options are the
    fields of the loader's settings (`CouponPurchase`, `AdClicks`, `Table`, `RatesTable`).

    >>> coupons = load_dataset("coupon-like")
    >>> coupons.n_links, coupons.n_slots, coupons.click_floor
    (271, 15, 4.0)
    >>> load_dataset("coupon-like", click_floor=5).click_floor
    5
    >>> load_dataset("coupon-lik")
    Traceback (most recent call last):
    slotwise.errors.UnknownName: no data set is called 'coupon-lik'; did you mean 'coupon-like'?
    """
    entry = _entry(name)
    if isinstance(entry, LookAlike):
        if directory is not None:
            rule = f"left out for the built-in `{name}`"
            raise InvalidInput.of("directory", rule, str(directory), "it reads no files")
        return replace(entry.build(), **_checked(name, options, PAGE_OPTIONS))
    if directory is None:
        raise MissingData(
            f"`directory` must be where the files of `{name}` are, got None; {entry.origin}"
        )
    settings = _settings_class(entry)
    own_options = get_type_hints(settings)
    checked = _checked(name, options, {**PAGE_OPTIONS, **own_options})
    page = _page(entry, {key: checked[key] for key in checked if key in PAGE_OPTIONS})
    own = settings(**{key: checked[key] for key in checked if key in own_options})
    return own.load(Path(directory), page)


def find_dataset(name: str) -> LookAlike | Loader | None:
    """Return the entry of a data set, of slotwise or of another package; None if there is none."""
    if name in DATASETS:
        return DATASETS[name]
    found = find_outside(ENTRY_POINTS, name)
    if found is None or isinstance(found, LookAlike | Loader):
        return found
    if not callable(found):
        raise UnknownName(f"{name!r} must be a function that returns a Dataset, got {found!r}")
    return LookAlike(name, found)


def _entry(name: str) -> LookAlike | Loader:
    entry = find_dataset(name)
    if entry is not None:
        return entry
    advice = did_you_mean(name, [*DATASETS, *entry_point_names(ENTRY_POINTS)], "'")
    raise UnknownName(f"no data set is called {name!r}; {advice}")


def _settings_class(entry: Loader) -> Callable[..., _Settings]:
    """Import the class of a loader's settings."""
    module, _, class_name = entry.settings.partition(":")
    try:
        inside = f"slotwise.environments.datasets.{module}"
        loaded = importlib.import_module(module if "." in module else inside)
    except ModuleNotFoundError as error:
        raise missing_package(f"the data set `{entry.name}`", error) from error
    settings: Callable[..., _Settings] = getattr(loaded, class_name)
    return settings


def _page(entry: Loader, options: dict[str, Any]) -> PageSetting:
    """Return the loader's page with `options` in place of its own."""
    if entry.page is not None:
        return replace(entry.page, **options)
    for field in fields(PageSetting):
        if field.default is MISSING and field.name not in options:
            rule = f"given for the data set `{entry.name}`"
            raise InvalidInput.of(field.name, rule, None)
    return PageSetting(**options)


def _checked(
    dataset: str, options: dict[str, object], known: Mapping[str, object]
) -> dict[str, Any]:
    """Return `options` after checking that each is known and of its type."""
    for option, value in options.items():
        if option not in known:
            rule = f"an option of the data set `{dataset}` ({', '.join(known)})"
            raise InvalidInput.of(option, rule, value)
        types = get_args(known[option]) or (known[option],)
        accepted = (*types, int) if float in types else types
        if not isinstance(value, accepted) or isinstance(value, bool):
            names = " or ".join(one.__name__ for one in types if one is not type(None))
            raise InvalidInput.of(option, f"of type {names}", value)
    return options
