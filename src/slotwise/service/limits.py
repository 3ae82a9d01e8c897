"""Every limit on what callers may send, defined once.

The types of requests, the checks, the OpenAPI description, the defaults of the settings and the
manual take their numbers from here.
"""

from __future__ import annotations

import re

from slotwise.features import MAX_FEATURES, MAX_LENGTH, MAX_VALUES, MAX_WORDS

MAX_SLOTS = 100
MAX_POOLS = 1_000
MAX_POOL_LINKS = 10_000
MAX_BULK_POOLS = 100
MAX_ATTRIBUTES = 256
MAX_EXCLUDED = 1_000
MAX_FEATURE_VALUES = MAX_VALUES
MAX_ALL_VALUES = 256
"""What is learned of 10,000 links for so many values takes about 180 MB."""
MAX_SEGMENT_FLOORS = 32
MAX_RULES = 100
MAX_WEIGHT_RATIO = 1_000
MAX_VALUE_CHARS = 1_000
MAX_HOSTS = 100
MAX_WINDOW_S = 90 * 86_400
MAX_AMOUNT_MICROS = 10_000_000_000_000
"""Ten million units of a currency."""
MAX_SUM_MICROS = 2**62
"""Half of what 64 bits hold: 460,000 of the largest amounts may still come while windows close."""

MAX_ID_CHARS = 64
MAX_HOST_CHARS = 255
MAX_LABEL_CHARS = 200
MAX_POLICY_CHARS = 64
MAX_TITLE_CHARS = 200
MAX_GROUP_CHARS = 100
MAX_URL_CHARS = 2_048
MAX_METADATA = 20
MAX_METADATA_CHARS = 1_000
MAX_CLIENT_TIME_CHARS = 64
MAX_NOTE_CHARS = 300

SESSION_S = 30 * 60
"""How long a session lasts unless it is renewed, where the settings say nothing else."""
MAX_SESSION_S = 12 * 3600
"""How long after signing in a session can be renewed, where the settings say nothing else."""
LONGEST_SESSION_S = 30 * 86_400
"""The most that the settings can say of a session."""

MAX_KNOWN_ROWS = 256
MAX_KNOWN_VIEWS = 1_000_000_000_000
MAX_PLAN_VIEWS = 1_000_000
MAX_PLAN_CASES = 1_000

MAX_BATCH_ITEMS = 1_000
MAX_BODY_BYTES = 1_048_576
MAX_PAGE_BODY_BYTES = 16_384
MAX_SIGN_IN_BODY_BYTES = 1_024
MAX_DEPTH = 16
MAX_HEAD_BYTES = 65_536
MAX_HEADERS = 100
MAX_PIPELINED = 8
MAX_TOKEN_CHARS = 512
MAX_SEALED_CHARS = 56_000
"""A sealed page: 100 links whose ids have 64 characters and a visitor with 16 features whose values
have 100 characters of any script, encoded in base64, fit in it."""

LIMITS: dict[str, int] = {
    "pools (setting `max_pools`)": MAX_POOLS,
    "links of a pool, retired ones included (setting `max_pool_links`)": MAX_POOL_LINKS,
    "links on a page": MAX_SLOTS,
    "pools that one bulk evaluation answers (OpenFeature)": MAX_BULK_POOLS,
    "attributes of an evaluation context (OpenFeature)": MAX_ATTRIBUTES,
    "links that one `decide` call excludes": MAX_EXCLUDED,
    "allowed hosts of a pool": MAX_HOSTS,
    "features of a pool": MAX_FEATURES,
    "words or bin edges of a feature": MAX_FEATURE_VALUES,
    f"values of all features, {MAX_WORDS + 2} for an open list, one for not known": MAX_ALL_VALUES,
    "floors of segments (`segment_floors`)": MAX_SEGMENT_FLOORS,
    "rules of a pool": MAX_RULES,
    "a slot's weight over that of another": MAX_WEIGHT_RATIO,
    f"characters of a feature's value (of a word that is kept: {MAX_LENGTH})": MAX_VALUE_CHARS,
    "seconds of a click or revenue window": MAX_WINDOW_S,
    "amount of money, in millionths of the currency": MAX_AMOUNT_MICROS,
    "sum of the revenue of a link or a pool, in millionths": MAX_SUM_MICROS,
    "characters of an id": MAX_ID_CHARS,
    "characters of a link's address": MAX_URL_CHARS,
    "characters of a link's title": MAX_TITLE_CHARS,
    "characters of a link's group and of a rule's name": MAX_GROUP_CHARS,
    "metadata of a link": MAX_METADATA,
    "characters of one metadata text": MAX_METADATA_CHARS,
    "characters of a key's label": MAX_LABEL_CHARS,
    "characters of a note": MAX_NOTE_CHARS,
    "characters of `client_time`": MAX_CLIENT_TIME_CHARS,
    "imported rows of a link": MAX_KNOWN_ROWS,
    "views of an imported row": MAX_KNOWN_VIEWS,
    "page views of a simulated case of a plan": MAX_PLAN_VIEWS,
    "simulated cases of a plan": MAX_PLAN_CASES,
    "items of a batch (setting `max_batch`)": MAX_BATCH_ITEMS,
    "bytes of a body (setting `max_body_bytes`)": MAX_BODY_BYTES,
    "bytes of a body when a browser or OpenFeature asks for a page": MAX_PAGE_BODY_BYTES,
    "bytes of a body when somebody signs in": MAX_SIGN_IN_BODY_BYTES,
    "nesting of JSON (setting `max_depth`)": MAX_DEPTH,
    "bytes of a request before its body": MAX_HEAD_BYTES,
    "headers of a request": MAX_HEADERS,
    "unanswered requests of a connection, beyond which it is not read": MAX_PIPELINED,
}
"""What the manual lists: each limit that a caller can meet, with its number."""

# In Python `$` also matches before a final newline, which none of these may have.
ID_PATTERN = rf"^[A-Za-z0-9._:-]{{1,{MAX_ID_CHARS}}}$(?!\n)"
ID_RULE = f"1 to {MAX_ID_CHARS} characters of A-Z a-z 0-9 . _ : -"
METADATA_PATTERN = rf"^[a-z][a-z0-9_-]{{0,{MAX_ID_CHARS - 1}}}$(?!\n)"
CURRENCY_PATTERN = r"^[A-Z]{3}$(?!\n)"
HOST_PATTERN = (
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
    r"(:[1-9][0-9]{0,4})?$(?!\n)"
)

_id = re.compile(ID_PATTERN).fullmatch
_currency = re.compile(CURRENCY_PATTERN).fullmatch


def is_id(value: str) -> bool:
    """Say whether a text may be the id of a pool, link, decision, conversion or adjustment.

    >>> is_id("order-17"), is_id("two words"), is_id("")
    (True, False, False)
    """
    return _id(value) is not None


def is_currency(value: str) -> bool:
    """Say whether a text has the form of an ISO 4217 code."""
    return _currency(value) is not None
