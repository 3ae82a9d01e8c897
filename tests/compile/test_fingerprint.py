"""The digest of a function changes with the code that it runs, and with nothing else."""

from __future__ import annotations

import ast
import importlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest

import slotwise
from slotwise.compile.fingerprint import PACKAGE, digest_of, digest_of_modules
from slotwise.policies import POLICIES
from slotwise.simulation.experiment import DECIDING

BASE = """
from typing import NamedTuple

import numpy as np

from slotwise.compile import compiled, hot

SCALE = 2.0
TABLE = np.array([1.0, 2.0])
UNUSED = 1

class State(NamedTuple):
    first: float
    second: float

class Names:
    FACTOR = 3
    OTHER = 4

class Held:
    def __init__(self, number):
        self.number = number

HELD = Held(1)

@hot
def innermost(number):
    return number + 1.0

@hot
def helper(number, power=2):
    return SCALE * innermost(number) ** power

@hot
def unrelated(number):
    return number

@hot
def root(state, number):
    '''Return a number.'''
    def inside(amount):
        return amount - 0.5
    return inside(helper(State(state.first, number).second) + TABLE[0] * Names.FACTOR)

@hot
def holding(number):
    return number + HELD.number
"""

CHANGES_NOTHING = {
    "docstring": ("Return a number.", "Return another number."),
    "comment": ("SCALE = 2.0", "# Twice.\nSCALE = 2.0"),
    "lines": ("@hot\ndef root", "\n\n\n@hot\ndef root"),
    "another function": ("return number\n", "return number * 2\n"),
    "another constant": ("UNUSED = 1", "UNUSED = 2"),
    "another attribute": ("OTHER = 4", "OTHER = 5"),
}
CHANGES_THE_RESULT = {
    "body": ("+ TABLE[0]", "- TABLE[0]"),
    "function inside": ("amount - 0.5", "amount - 0.25"),
    "called function": ("SCALE * innermost", "SCALE / innermost"),
    "called by a called function": ("number + 1.0", "number + 2.0"),
    "default": ("power=2", "power=3"),
    "constant": ("SCALE = 2.0", "SCALE = 2.5"),
    "array": ("np.array([1.0, 2.0])", "np.array([1.0, 3.0])"),
    "attribute": ("FACTOR = 3", "FACTOR = 5"),
    "fields": ("first: float\n    second: float", "second: float\n    first: float"),
    "decorator": ("@hot\ndef helper", "@compiled\ndef helper"),
}

_numbers = itertools.count()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    # bytecode is taken for that of a text of the same size and second
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("of_tests", None)


def loaded(folder: Path, text: str) -> ModuleType:
    """Import a module anew."""
    (folder / "of_tests.py").write_text(f"{text}\nVERSION = {next(_numbers)}\n")
    sys.modules.pop("of_tests", None)
    importlib.invalidate_caches()
    return importlib.import_module("of_tests")


@pytest.mark.parametrize("edit", CHANGES_NOTHING.values(), ids=CHANGES_NOTHING)
def test_an_edit_that_changes_no_result_keeps_the_digest(
    edit: tuple[str, str], folder: Path
) -> None:
    assert BASE.count(edit[0]) == 1
    before = digest_of(loaded(folder, BASE).root)
    assert digest_of(loaded(folder, BASE.replace(*edit)).root) == before is not None


@pytest.mark.parametrize("edit", CHANGES_THE_RESULT.values(), ids=CHANGES_THE_RESULT)
def test_an_edit_that_can_change_a_result_changes_the_digest(
    edit: tuple[str, str], folder: Path
) -> None:
    assert BASE.count(edit[0]) == 1
    before = digest_of(loaded(folder, BASE).root)
    assert digest_of(loaded(folder, BASE.replace(*edit)).root) != before


def test_a_value_without_a_text_counts_with_the_file_that_has_it(folder: Path) -> None:
    before = digest_of(loaded(folder, BASE).holding)
    assert before is not None
    assert digest_of(loaded(folder, BASE.replace("Held(1)", "Held(2)")).holding) != before


def test_a_value_that_is_in_no_file_has_no_digest() -> None:
    held = object()
    names = {"held": held, "__name__": "nowhere"}
    exec("def nothing(): return held", names)
    assert digest_of(names["nothing"]) is None


def test_closures_count_with_their_values() -> None:
    def adding(amount: float) -> object:
        return lambda number: number + amount

    assert digest_of(adding(1.0)) == digest_of(adding(1.0))
    assert digest_of(adding(1.0)) != digest_of(adding(2.0))


def test_a_function_that_its_author_compiles_counts_as_its_python_code() -> None:
    def plain(number: float) -> float:
        return float(np.sqrt(number))

    jit: object = numba.njit(plain)
    assert digest_of(jit) == digest_of(plain) is not None


@pytest.mark.parametrize("name", POLICIES)
def test_the_functions_of_policies_have_digests(name: str) -> None:
    kind = POLICIES[name]
    assert len({digest_of(kind.choose), digest_of(kind.learn), None}) == 3


def test_modules_count_without_docstrings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all kinds: of modules, classes, methods and functions."""
    text = '"""Module."""\nX = "x"\nclass A:\n    """Class."""\n    Y = "y"\n'
    text += '    def f(self):\n        """Method."""\n        return "z"\n'
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest(edited: str) -> str:
        folder = tmp_path / f"package_{next(_numbers)}"
        folder.mkdir()
        (folder / "__init__.py").touch()
        (folder / "counted.py").write_text(edited)
        importlib.invalidate_caches()
        return digest_of_modules((f"{folder.name}.counted",))

    for doc in ("Module.", "Class.", "Method."):
        assert digest(text.replace(doc, f"Another {doc}")) == digest(text)
    for value in ('"x"', '"y"', '"z"'):
        assert digest(text.replace(value, '"other"')) != digest(text)


# What the engine imports besides `DECIDING`, and why it changes no number.
NOT_DECIDING = {
    "slotwise.arrays": "types",
    "slotwise.compile": "names of others",
    "slotwise.compile.background": "where a function is compiled",
    "slotwise.compile.cache": "where machine code is stored",
    "slotwise.compile.descriptions": "how a function is found in another process",
    "slotwise.compile.fingerprint": "under which digest",
    "slotwise.compile.notice": "what is said of compiling",
    "slotwise.compile.switch": "when a function is compiled",
    "slotwise.environments": "names of others",
    "slotwise.errors": "texts",
    "slotwise.extras": "packages that are missing",
    "slotwise.plugins": "policies of others, which have digests of their own",
    "slotwise.version": "part of the configuration itself",
}


def imported(module: str) -> set[str]:
    """Return the modules of slotwise that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(source(module).read_text())):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("slotwise"):
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                found.add(inside if source(inside).exists() else str(node.module))
    return found


def source(module: str) -> Path:
    place = PACKAGE.joinpath(*module.split(".")[1:])
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def test_the_fingerprint_of_experiments_covers_all_that_the_engine_imports() -> None:
    assert Path(slotwise.__file__).parent == PACKAGE
    seen = set[str]()
    waiting = {f"slotwise.simulation.{name}" for name in ("engine", "experiment", "optimum")}
    while waiting:
        module = waiting.pop()
        seen.add(module)
        waiting |= imported(module) - seen
    covered = {name for name in seen if name.startswith(tuple(f"{one}." for one in DECIDING))}
    assert seen - covered - set(DECIDING) == set(NOT_DECIDING)
    assert "slotwise.compile.vector_code" in DECIDING  # imported where it is compiled
