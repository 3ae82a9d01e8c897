"""Every setting of the service, read from the class that checks them."""

from __future__ import annotations

import msgspec

from manual.markdown import code, table
from slotwise.service.limits import LIMITS
from slotwise.service.settings import ENVIRONMENT_PREFIX, Settings, setting_notes


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
