"""Reference of all registered policies with their settings and properties."""

from __future__ import annotations

import dataclasses
import inspect

from manual.markdown import code, table
from slotwise.cli.catalogue import needs_horizon
from slotwise.policies import POLICIES, Policy


def setting_names(policy: type[Policy]) -> list[str]:
    """Return the names of a policy's settings."""
    return [field.name for field in dataclasses.fields(policy) if field.init]  # type: ignore[arg-type]


def policies_reference() -> str:
    """Return a section for each policy, in the order of the registry."""
    parts = []
    for name, policy in POLICIES.items():
        parts.append(f"## `{name}`")
        first_line = (inspect.getdoc(policy) or "").partition("\n")[0]
        home = f"slotwise.policies.{policy.__name__}"
        parts.append(f"{first_line} In Python: [`{policy.__name__}`][{home}].")
        parts.append(_facts(policy))
        if setting_names(policy):
            parts.append(table(["setting", "default"], _settings(policy)))
        else:
            parts.append("It has no settings.")
    return "\n\n".join(parts)


def _facts(policy: type[Policy]) -> str:
    answers = {
        "needs a horizon": needs_horizon(policy),
        "keeps the floor": policy.keeps_floor,
    }
    facts = [f"{fact}: {'yes' if is_so else 'no'}" for fact, is_so in answers.items()]
    return ", ".join([*facts, f"learns from: {policy.needs.value}"]) + "."


def _settings(policy: type[Policy]) -> list[list[str]]:
    rows = []
    for field in dataclasses.fields(policy):  # type: ignore[arg-type]
        if not field.init:
            continue
        required = field.default is dataclasses.MISSING
        rows.append([code(field.name), "required" if required else code(repr(field.default))])
    return rows
