"""Plant small faults, one at a time, and report which of them no test notices.

    python -m tests.mutants [--count 40] [--seed 1] [--only player]

Each fault changes one operator, constant or condition in a copy of the sources, where the tests
near it are run, interpreted. A fault that survives is a branch that no test looks at, or code
that makes no difference.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("src", "tests", "benchmarks", "experiments", "examples", "manual", "docs")
FILES = (
    *("pyproject.toml", "Makefile", "mkdocs.yml"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md"),
)
TIMEOUT_S = 900.0
"""A fault may make a loop endless; that is noticed, too."""

NEAR: dict[str, tuple[str, ...]] = {
    "src/slotwise/player": ("tests/player", "tests/selector", "tests/policies/test_contract.py"),
    "src/slotwise/selector": ("tests/selector", "tests/combinations"),
    "src/slotwise/policies/paced_bayes": ("tests/policies", "tests/selector"),
    "src/slotwise/policies/floor_prices": ("tests/policies", "tests/selector"),
    "src/slotwise/policies/link_": ("tests/policies", "tests/selector"),
    "src/slotwise/policies/visitor_": ("tests/policies", "tests/selector"),
    "src/slotwise/policies/open_views": ("tests/policies", "tests/selector"),
    "src/slotwise/service/learning": ("tests/service/learning", "tests/service/reporting"),
    "src/slotwise/service/counting": ("tests/service/counting", "tests/service/learning"),
}
"""Where faults are planted, by the beginning of a path, and the tests that should notice them."""

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


class Mutant(NamedTuple):
    """A fault: where it is, the expression before and after, and the whole text with it."""

    file: str
    line: int
    before: str
    after: str
    text: str


def places_in(source: str) -> list[int]:
    """Return the places of a module at which a fault can be planted, in the order of `ast.walk`."""
    nodes = ast.walk(_without_types(ast.parse(source)))
    return [
        place
        for place, node in enumerate(nodes)
        if _changed(node) is not None and _is_found(source, node)
    ]


def mutant_at(file: str, source: str, place: int) -> Mutant:
    """Plant the fault at a place of a module.

    >>> source = "y = a < 2 and not b"
    >>> mutants = [mutant_at("x.py", source, place) for place in places_in(source)]
    >>> [(one.before, one.after) for one in mutants]
    [('a < 2 and (not b)', 'a < 2 or not b'), ('a < 2', 'a <= 2'), ('not b', 'b'), ('2', '3')]
    """
    tree = _without_types(ast.parse(source))
    target: Any = list(ast.walk(tree))[place]
    before, after = ast.unparse(target), ast.unparse(_changed(target))
    return Mutant(file, target.lineno, before, after, _replaced(source, target, f"({after})"))


def _replaced(source: str, node: Any, text: str) -> str:
    """Return a source with a text in the place of an expression; the rest stays as it is.

    A module that is written anew has no docstrings, and tests that read them would fail.
    """
    begin, end = _span(source, node)
    return (source.encode()[:begin] + text.encode() + source.encode()[end:]).decode()


def _is_found(source: str, node: Any) -> bool:
    """Return whether an expression is where its node is, which is not so inside f-strings."""
    begin, end = _span(source, node)
    try:
        found = ast.parse(f"({source.encode()[begin:end].decode()})", mode="eval")
    except (SyntaxError, UnicodeDecodeError):
        return False
    return ast.unparse(found) == ast.unparse(node)


def _span(source: str, node: Any) -> tuple[int, int]:
    """Return the bytes of a source at which an expression begins and ends."""
    lines = source.encode().splitlines(keepends=True)
    before = sum(map(len, lines[: node.lineno - 1])), sum(map(len, lines[: node.end_lineno - 1]))
    return before[0] + node.col_offset, before[1] + node.end_col_offset


def _without_types(tree: ast.Module) -> ast.Module:
    """Remove docstrings and annotations, which no test can notice."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                body[0] = ast.Pass()
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                argument.annotation = None
    return tree


def _changed(node: ast.AST) -> Any:
    """Return the faulty form of an expression; None if there is none."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        return _with(node, ops=[_COMPARED[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.BoolOp):
        return _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    if isinstance(node, ast.BinOp) and type(node.op) in _CALCULATED:
        return _with(node, op=_CALCULATED[type(node.op)]())
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.IfExp):
        return _with(node, body=node.orelse, orelse=node.body)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return ast.Constant(node.value + 1)
    return None


def _with(node: Any, **changes: Any) -> Any:
    fields = {name: getattr(node, name) for name in node._fields}
    return type(node)(**{**fields, **changes})


def chosen(places: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Return faults in the modules of some places: the same number from each, at random."""
    chance = random.Random(seed)
    found = []
    for place in places:
        files = sorted(ROOT.glob(f"{place}*.py")) or sorted(ROOT.glob(f"{place}/*.py"))
        sources = {file.relative_to(ROOT).as_posix(): file.read_text() for file in files}
        every = [(name, one) for name, source in sources.items() for one in places_in(source)]
        share = min(-(-count // len(places)), len(every))
        found += [mutant_at(name, sources[name], one) for name, one in chance.sample(every, share)]
    return found[:count]


class Copy:
    """A copy of the repository in which faults are planted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.output = ""
        """What the last failing tests printed."""
        unwanted = shutil.ignore_patterns("__pycache__", "site", "*.png")
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=unwanted)
        for name in FILES:
            shutil.copy(ROOT / name, folder / name)

    def is_noticed(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        """Return whether a test fails with a fault; the fault is removed afterwards."""
        file = self._folder / mutant.file
        original = file.read_text()
        file.write_text(mutant.text)
        try:
            return not self.passes(tests)
        finally:
            file.write_text(original)

    def passes(self, tests: Sequence[str]) -> bool:
        """Return whether tests pass, one group after the other until one fails."""
        environment = {**os.environ, "SLOTWISE_COMPILE": "never", "PYTHONDONTWRITEBYTECODE": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(self._folder / "src"), str(self._folder)])
        options = ("-q", "-x", "-p", "no:cacheprovider", "-m")
        wanted = "not slow and not system and not compiled"
        for group in tests:
            command = [sys.executable, "-m", "pytest", *options, wanted, group]
            try:
                done = subprocess.run(
                    command,
                    cwd=self._folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return False
            if done.returncode:
                self.output = done.stdout
                return False
        return True


def main() -> None:
    """Plant the faults and print which survive."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of the name of a place, such as player")
    asked = parser.parse_args()
    places = [place for place in NEAR if asked.only in place]
    if not places:
        parser.error(f"`--only` must be a part of one of {', '.join(NEAR)}, got {asked.only!r}")
    mutants = chosen(places, asked.count, asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        tree = Copy(Path(folder) / "copy")
        for group in sorted({group for place in places for group in NEAR[place]}):
            if not tree.passes([group]):
                print(tree.output)
                sys.exit(f"{group} fails without a fault, too: nothing was measured")
        survivors = []
        for number, mutant in enumerate(mutants, 1):
            [place] = [one for one in places if mutant.file.startswith(one)]
            is_noticed = tree.is_noticed(mutant, NEAR[place])
            survivors += [] if is_noticed else [mutant]
            word = "noticed " if is_noticed else "SURVIVED"
            print(f"{number:3}/{len(mutants)} {word} {described(mutant)}", flush=True)
    print(f"{len(survivors)} of {len(mutants)} faults were not noticed")
    for mutant in survivors:
        print(f"  {described(mutant)}")


def described(mutant: Mutant) -> str:
    """Return a fault in one line."""
    return f"{mutant.file}:{mutant.line}  {mutant.before}  ->  {mutant.after}"


if __name__ == "__main__":
    main()
