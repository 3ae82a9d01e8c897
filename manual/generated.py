"""What a page may ask for in a comment, and the Markdown that takes the comment's place.

<!-- generated: settings -->
<!-- generated: names slotwise.policies -->
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from manual.commands import commands_reference
from manual.figures import figure_reference
from manual.make_targets import make_targets_reference
from manual.metrics import alerting_rules_reference, metrics_reference
from manual.notebook import notebook_reference
from manual.policies import policies_reference
from manual.project_files import project_file
from manual.public_names import author_names_reference, names_reference
from manual.routes import routes_reference
from manual.settings import limits_reference, settings_reference
from slotwise.errors import UnknownName

GENERATED: Mapping[str, Callable[..., str]] = {
    "alerting-rules": alerting_rules_reference,
    "author-names": author_names_reference,
    "commands": commands_reference,
    "figure": figure_reference,
    "file": project_file,
    "limits": limits_reference,
    "make": make_targets_reference,
    "metrics": metrics_reference,
    "names": names_reference,
    "notebook": notebook_reference,
    "policies": policies_reference,
    "routes": routes_reference,
    "settings": settings_reference,
}
"""What can be asked for; words after the name are the function's arguments."""

REQUEST = re.compile(r"^<!-- generated: ([^\n]+?) -->$", re.MULTILINE)
TEST_NOTE = re.compile(r"^<!-- test: .*?-->\n", re.MULTILINE | re.DOTALL)


def with_generated(page: str) -> str:
    r"""Return a page's Markdown with all that it asks for in its place, without notes for tests.

    >>> with_generated("<!-- test: setup\nx = 1\n-->\n\nText.")
    '\nText.'
    >>> with_generated("```python\n>>> 1 + 1\n2\n```")
    '```pycon\n>>> 1 + 1\n2\n```'
    >>> with_generated("<!-- generated: weather -->")
    Traceback (most recent call last):
    slotwise.errors.UnknownName: nothing is generated as 'weather'; known are alerting-rules, ...
    """
    # As a session, so that prompts are marked and not copied.
    shown = TEST_NOTE.sub("", page).replace("```python\n>>>", "```pycon\n>>>")
    return REQUEST.sub(lambda request: _made(*request[1].split()), shown)


def _made(name: str, *arguments: str) -> str:
    if name not in GENERATED:
        raise UnknownName(f"nothing is generated as {name!r}; known are {', '.join(GENERATED)}")
    return GENERATED[name](*arguments)
