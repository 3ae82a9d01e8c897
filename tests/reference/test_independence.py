"""A twin that used what it is compared with would prove nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TWINS = sorted(Path(__file__).parent.glob("[!t]*.py"))


@pytest.mark.parametrize("path", TWINS, ids=lambda path: path.name)
def test_a_twin_imports_nothing_it_is_compared_with(path: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    assert not {name for name in imported if name.partition(".")[0] == "slotwise"}
