"""A function compiled without an entry for Python must not be called from Python."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import event
from numba.core.caching import FunctionCache, NullCache

import slotwise
from slotwise.compile.decorators import direct, direct_choice, direct_later, hot, inner, is_compiled
from slotwise.selection.mix import dense_probabilities, new_mix
from slotwise.selection.page_search import new_search
from slotwise.selection.share_slots import take_top_links

SOURCES = sorted(Path(slotwise.__file__).parent.rglob("*.py"))
COMPILED = {"compiled", "hot", "inner"}


def decorators(function: ast.FunctionDef) -> set[str]:
    return {one.id for one in function.decorator_list if isinstance(one, ast.Name)}


def inner_functions(tree: ast.Module) -> set[str]:
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {function.name for function in functions if "inner" in decorators(function)}


class CallsFromPython(ast.NodeVisitor):
    """Collect the plain names that are called outside compiled functions."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if not decorators(node) & COMPILED:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name):
            self.names.add(node.func.id)
        self.generic_visit(node)


USER = """
from typing import Any, NamedTuple
import numpy as np
from slotwise.selection.mix import new_mix, set_probabilities

class Mine(NamedTuple):
    sure: Any
    open: Any
    probabilities: Any
    tied: Any
    places: Any
    sums: Any
    sizes: Any
"""


def test_types_of_a_users_module_do_not_spoil_the_code_on_disk(tmp_path: Path) -> None:
    (tmp_path / "of_user.py").write_text(USER)
    paths = os.pathsep.join([str(Path(slotwise.__file__).parents[1]), str(tmp_path)])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("NUMBA_CACHE_LOCATOR_CLASSES", None)
    with_user = "from of_user import *; set_probabilities(Mine(*new_mix(3)), np.ones(3))"
    without = "import numpy as np; from slotwise.selection.mix import *"
    without += "; set_probabilities(new_mix(3), np.ones(3))"
    for code, path in ((with_user, paths), (without, paths.split(os.pathsep)[0])):
        for _ in range(2):
            subprocess.run(
                [sys.executable, "-c", code], env={**environment, "PYTHONPATH": path}, check=True
            )
    assert list((tmp_path / "cache").rglob("*.nbi"))


def test_inner_functions_are_called_from_compiled_code_only() -> None:
    trees = {path: ast.parse(path.read_text()) for path in SOURCES}
    inner = {path: inner_functions(tree) for path, tree in trees.items()}
    everywhere = set().union(*inner.values())
    assert len(everywhere) > 30
    for path, tree in trees.items():
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slotwise")
            for alias in node.names
        }
        calls = CallsFromPython()
        calls.visit(tree)
        # a function given away may be called anywhere, so `direct(f, ...)` counts as a call of f
        given = {
            argument.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"direct", "direct_choice", "direct_later"}
            for argument in node.args
            if isinstance(argument, ast.Name)
        }
        known = inner[path] | (imported & everywhere)
        assert not (calls.names | given) & known, path


def test_a_call_from_python_runs_interpreted() -> None:
    search, mix = new_search(5), new_mix(5)
    value, bonus = np.array([0.1, 0.5, 0.3, 0.9, 0.2]), np.zeros(5)
    take_top_links(value, bonus, 0.0, 2, search, mix)
    assert dense_probabilities(mix).tolist() == [0.0, 1.0, 0.0, 1.0, 0.0]


LINKED = """
import numpy as np
from numba.core import event
from slotwise.selection import rounding
compiled = []
class Listener(event.Listener):
    def on_start(self, happened):
        compiled.append(happened.data["dispatcher"].py_func.__name__)
    def on_end(self, happened):
        pass
event.register("numba:compile", Listener())
page = rounding.dependent_rounding(np.full(8, 0.5), np.random.default_rng(3))
print(len([name for name in compiled if name in {"_round_all", "round_entries"}]), page.tolist())
"""


def test_linked_code_is_read_from_disk(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    environment.pop("NUMBA_CACHE_LOCATOR_CLASSES", None)
    environment["PYTHONPATH"] = str(Path(slotwise.__file__).parents[1])

    def said() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", LINKED],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.split(maxsplit=1)

    first, page = said()
    assert (first, said()) == ("2", ["0", page])
    # a caller that is compiled anew links what lies on disk
    for index in tmp_path.rglob("rounding._round_all*.nbi"):
        index.unlink()
    assert said() == ["1", page]


@inner
def halved(number: float) -> float:
    return number / 2.0


@hot
def quartered(number: float) -> float:
    return halved(halved(number))


def compile_anew(function: Any, *arguments: Any) -> None:
    """Call a function, compiled now: what an earlier run left on disk cannot be looked into."""
    function._cache = NullCache()
    function(*arguments)
    function.recompile()


@pytest.mark.skipif(not is_compiled(halved), reason="nothing is compiled")
def test_inner_functions_have_no_machine_code_of_their_own() -> None:
    compile_anew(quartered, 8.0)
    assert quartered(8.0) == 2.0
    dispatcher: Any = halved
    [overload] = dispatcher.overloads.values()
    assert not list(overload.library._final_module.functions)
    linked = [one.name for one in overload.library._get_module_for_linking().functions]
    assert any("halved" in name for name in linked)


def test_machine_code_can_wait_for_its_first_call() -> None:
    @hot
    def doubled(number: int) -> int:
        return 2 * number

    call = direct_later(doubled, 1)
    dispatcher: Any = doubled
    if is_compiled(doubled):
        assert not dispatcher.signatures
    assert [call(3), call(4)] == [6, 8]
    if is_compiled(doubled):
        assert len(dispatcher.signatures) == 1


class CollectorWhileCompiling(event.Listener):
    """Notes whether the garbage collector is on when a function is compiled."""

    def __init__(self) -> None:
        self.was_on: list[bool] = []

    def on_start(self, happened: Any) -> None:
        self.was_on.append(gc.isenabled())

    def on_end(self, happened: Any) -> None:
        pass


@pytest.mark.skipif(not is_compiled(halved), reason="nothing is compiled")
@pytest.mark.parametrize("is_enabled", [True, False])
def test_the_garbage_collector_rests_while_an_entry_is_compiled(is_enabled: bool) -> None:
    @hot
    def tripled(number: int) -> int:
        return 3 * number

    dispatcher: Any = tripled
    dispatcher._cache = NullCache()
    listening: Any = event.install_listener
    was_enabled = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        with listening("numba:compile", CollectorWhileCompiling()) as listener:
            assert direct(tripled, 1)(2) == 6
        assert listener.was_on == [False]
        assert gc.isenabled() == is_enabled
        with pytest.raises(TypeError):
            direct(tripled)
        assert gc.isenabled() == is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


@hot
def certain(state: Any, visitor: Any, rng: np.random.Generator) -> None:
    state[0] += 1.0


@hot
def chancy(state: Any, visitor: Any, chance: np.random.Generator) -> None:
    state[0] = chance.random()


def test_a_generator_that_is_not_used_is_not_unpacked() -> None:
    state, nobody = np.zeros(1), np.zeros(0, np.int64)
    choose: Any = direct_choice(certain, state, nobody, np.random.default_rng(1))
    choose(state, nobody, "no generator at all")
    assert state[0] == 1.0


def test_a_generator_that_is_used_gives_its_draws() -> None:
    state, nobody = np.zeros(1), np.zeros(0, np.int64)
    rng = np.random.default_rng(1)
    direct_choice(chancy, state, nobody, rng)(state, nobody, rng)
    assert state[0] == np.random.default_rng(1).random()


@pytest.mark.skipif(not is_compiled(take_top_links), reason="nothing is compiled")
def test_functions_linked_in_are_private_so_that_unused_arguments_cost_nothing() -> None:
    @hot
    def take(value: Any, n_slots: Any, search: Any, mix: Any) -> None:
        take_top_links(value, value, 0.0, n_slots, search, mix)

    dispatcher: Any = take
    compile_anew(take, np.array([0.1, 0.9, 0.5]), 2, new_search(3), new_mix(3))
    (code,) = dispatcher.inspect_llvm().values()
    defined = [line for line in code.splitlines() if line.startswith("define")]
    assert any("take" in line for line in defined)
    assert not any("linkonce_odr" in line for line in defined)


@pytest.mark.skipif(not is_compiled(take_top_links), reason="nothing is compiled")
def test_a_function_looks_for_its_cache_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cache: Any = FunctionCache
    looked: list[object] = []
    begin = cache.__init__

    def counted(self: object, function: object) -> None:
        looked.append(function)
        begin(self, function)

    monkeypatch.setattr(cache, "__init__", counted)

    @hot
    def add_one(number: float) -> float:
        return number + 1.0

    assert add_one(1.0) == 2.0
    assert len(looked) == 1
