"""Every limit on what callers may send, defined once.

The types of requests, the checks, the OpenAPI description, the defaults of the settings and the
manual use these numbers. Used by most of the service.
"""

from __future__ import annotations

import re

from slotwise.features import MAX_VALUES

MAX_SLOTS = 100
MAX_POOLS = 1_000
MAX_POOL_LINKS = 10_000
MAX_BULK_POOLS = 100
MAX_ATTRIBUTES = 256
MAX_EXCLUDED = 1_000
MAX_FEATURE_VALUES = MAX_VALUES
MAX_ALL_VALUES = 256
"""The learned state of 10,000 links with this many values takes about 180 MB."""
MAX_SEGMENT_FLOORS = 32
MAX_RULES = 100
MAX_WEIGHT_RATIO = 1_000
MAX_VALUE_CHARS = 1_000
MAX_HOSTS = 100
MAX_WINDOW_S = 90 * 86_400
MAX_AMOUNT_MICROS = 10_000_000_000_000
"""Ten million units of a currency."""
MAX_SUM_MICROS = 2**62
"""Half of the maximum of 64 bits: 460,000 of the largest amounts may still arrive."""

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
MAX_ALERT_RECEIVERS = 20

SESSION_S = 30 * 60
"""Default of how long a session lasts unless it is renewed."""
MAX_SESSION_S = 12 * 3600
"""Default of how long after signing in a session can be renewed."""
LONGEST_SESSION_S = 30 * 86_400
"""Maximum duration of a session in the settings."""

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
"""Large enough for a sealed page with 100 links whose ids have 64 characters and a visitor with 16
features whose values have 100 characters of any script, encoded in base64."""

# In Python `$` also matches before a final newline, which none of these may have.
ID_PATTERN = rf"^[A-Za-z0-9._:-]{{1,{MAX_ID_CHARS}}}$(?!\n)"
ID_RULE = f"1 to {MAX_ID_CHARS} characters of A-Z a-z 0-9 . _ : -"
METADATA_PATTERN = rf"^[a-z][a-z0-9_-]{{0,{MAX_ID_CHARS - 1}}}$(?!\n)"
CURRENCY_PATTERN = r"^[A-Z]{3}$(?!\n)"
HOST_PATTERN = (
    r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
    r"(:[1-9][0-9]{0,4})?$(?!\n)"
)
CURRENCY_RULE = "three capital letters (ISO 4217)"
ADDRESS_PATTERN = "^https?://"
PATTERN_RULES = {
    ID_PATTERN: ID_RULE,
    METADATA_PATTERN: f"1 to {MAX_ID_CHARS} characters of a-z 0-9 _ -, the first a letter",
    CURRENCY_PATTERN: CURRENCY_RULE,
    HOST_PATTERN: "a lower-case host such as shop.example or shop.example:8080",
    ADDRESS_PATTERN: "an http or https address",
}
"""The patterns as rules for error messages."""

TEXT_RULE = "text without control characters"
_has_controls = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]").search

_id = re.compile(ID_PATTERN).fullmatch
_currency = re.compile(CURRENCY_PATTERN).fullmatch


def is_id(value: str) -> bool:
    """Return whether a text may be the id of a pool, link, decision, conversion or adjustment.

    >>> is_id("order-17"), is_id("two words"), is_id("")
    (True, False, False)
    """
    return _id(value) is not None


def is_text(value: str) -> bool:
    r"""Return whether a text has no control characters and none that reverse its direction.

    >>> is_text("Käse & Brot 🧀"), is_text("a\x00b"), is_text("a\u202eb")
    (True, False, False)
    """
    return _has_controls(value) is None


def is_currency(value: str) -> bool:
    """Return whether a text has the form of an ISO 4217 code."""
    return _currency(value) is not None
