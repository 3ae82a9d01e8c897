"""Every setting of the service, read from the class that checks them."""

from __future__ import annotations

import msgspec

from manual.markdown import code, table
from slotwise.features import MAX_FEATURES
from slotwise.frequent_words import MAX_LENGTH, MAX_WORDS
from slotwise.service import limits
from slotwise.service.settings import ENVIRONMENT_PREFIX, Settings, setting_notes

OPEN, LONGEST = MAX_WORDS + 2, MAX_LENGTH
LIMITS: dict[str, int] = {
    "pools (setting `max_pools`)": limits.MAX_POOLS,
    "links of a pool, retired ones included (setting `max_pool_links`)": limits.MAX_POOL_LINKS,
    "links on a page": limits.MAX_SLOTS,
    "pools that one bulk evaluation answers (OpenFeature)": limits.MAX_BULK_POOLS,
    "attributes of an evaluation context (OpenFeature)": limits.MAX_ATTRIBUTES,
    "links that one `decide` call excludes": limits.MAX_EXCLUDED,
    "allowed hosts of a pool": limits.MAX_HOSTS,
    "features of a pool": MAX_FEATURES,
    "words or bin edges of a feature": limits.MAX_FEATURE_VALUES,
    f"values of all features, {OPEN} for an open list, one for not known": limits.MAX_ALL_VALUES,
    "floors of segments (`segment_floors`)": limits.MAX_SEGMENT_FLOORS,
    "rules of a pool": limits.MAX_RULES,
    "a slot's weight over that of another": limits.MAX_WEIGHT_RATIO,
    f"characters of a feature's value (of a word that is kept: {LONGEST})": limits.MAX_VALUE_CHARS,
    "seconds of a click or revenue window": limits.MAX_WINDOW_S,
    "amount of money, in millionths of the currency": limits.MAX_AMOUNT_MICROS,
    "sum of the revenue of a link or a pool, in millionths": limits.MAX_SUM_MICROS,
    "characters of an id": limits.MAX_ID_CHARS,
    "characters of a link's address": limits.MAX_URL_CHARS,
    "characters of a link's title": limits.MAX_TITLE_CHARS,
    "characters of a link's group and of a rule's name": limits.MAX_GROUP_CHARS,
    "metadata of a link": limits.MAX_METADATA,
    "characters of one metadata text": limits.MAX_METADATA_CHARS,
    "characters of a key's label": limits.MAX_LABEL_CHARS,
    "characters of a note": limits.MAX_NOTE_CHARS,
    "characters of `client_time`": limits.MAX_CLIENT_TIME_CHARS,
    "imported rows of a link": limits.MAX_KNOWN_ROWS,
    "views of an imported row": limits.MAX_KNOWN_VIEWS,
    "page views of a simulated case of a plan": limits.MAX_PLAN_VIEWS,
    "simulated cases of a plan": limits.MAX_PLAN_CASES,
    "items of a batch (setting `max_batch`)": limits.MAX_BATCH_ITEMS,
    "bytes of a body (setting `max_body_bytes`)": limits.MAX_BODY_BYTES,
    "bytes of a body when a browser or OpenFeature asks for a page": limits.MAX_PAGE_BODY_BYTES,
    "bytes of a body when somebody signs in": limits.MAX_SIGN_IN_BODY_BYTES,
    "nesting of JSON (setting `max_depth`)": limits.MAX_DEPTH,
    "bytes of a request before its body": limits.MAX_HEAD_BYTES,
    "headers of a request": limits.MAX_HEADERS,
    "unanswered requests of a connection, beyond which it is not read": limits.MAX_PIPELINED,
}
"""Each limit that a caller can meet, with its number."""


def settings_reference() -> str:
    """Return the table of all settings: name, variable, default, meaning."""
    defaults = msgspec.to_builtins(Settings())
    rows = [
        [
            code(name),
            code(f"{ENVIRONMENT_PREFIX}{name.upper()}"),
            _shown(defaults[name]),
            note,
        ]
        for name, note in setting_notes().items()
    ]
    return table(["setting", "variable", "default", "meaning"], rows)


def limits_reference() -> str:
    """Return the table of what callers may send at most."""
    return table(["at most", "of"], [[f"{number:,}", what] for what, number in LIMITS.items()])


def _shown(default: object) -> str:
    return {None: "none", "": "empty"}.get(default) or code(str(default))  # type: ignore[call-overload]
