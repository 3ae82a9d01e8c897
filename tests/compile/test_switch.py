"""Interpreted and compiled code do the same, and the switch happens when it pays."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
import pytest

import slotwise
from slotwise import Selector
from slotwise.compile import switch
from slotwise.compile.decorators import can_be_compiled, hot
from slotwise.compile.switch import Code, code_for, switching
from slotwise.errors import SlotwiseError
from slotwise.policies import POLICIES, make_policy
from slotwise.selection.confidence import kl_lower, kl_upper

pytestmark = pytest.mark.compiled

SOURCES = str(Path(slotwise.__file__).parents[1])

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {"n_links": 12, "n_slots": 3, "click_floor": 0.6},
    "large": {"n_links": 80, "n_slots": 5, "click_floor": 3.0},
    "visitors": {
        "n_links": 12,
        "n_slots": 3,
        "click_floor": 0.6,
        "features": {"device": ("phone", "desktop"), "new": bool},
    },
    "slots": {"n_links": 12, "n_slots": 3, "click_floor": 0.6, "slot_weights": "learn"},
    "both": {
        "n_links": 12,
        "n_slots": 3,
        "features": {"device": ("phone", "desktop")},
        "slot_weights": (1.4, 1.0, 0.6),
    },
}
"""Sizes and kinds of pages; functions that the kinds share are compiled once."""
N_PAGES = 60


def played(name: str, n_links: int, n_slots: int, folder: Path, **options: Any) -> list[Any]:
    """Use all that a selector offers; return pages, knowledge and report."""
    settings = {"probabilities": [n_slots / n_links] * n_links} if name == "fixed-mix" else {}
    policy = make_policy(name, settings)
    selector = Selector(range(n_links), n_slots, policy=policy, horizon=500, seed=3, **options)
    chance = random.Random(7)
    pages: list[Any] = []
    for number in range(N_PAGES):
        if number == N_PAGES // 3 and name != "fixed-mix":
            selector.add_links([n_links, n_links + 1])
            selector.retire([2])
        if number == 2 * N_PAGES // 3:
            selector.save(folder / "some.sel")
            selector = Selector.load(folder / "some.sel")
        visitor = {"device": chance.choice(["phone", "desktop"])} if "features" in options else None
        restricted: Any = {"pin": [4], "exclude": [0]} if number % 3 == 0 else {}
        page = selector.select(visitor=visitor, **restricted)
        clicked = [link for link in page.shown if chance.random() < 0.1 + 0.6 * link / n_links]
        revenue = {link: round(chance.random(), 3) for link in clicked}
        selector.update(page, clicks=clicked, revenue=revenue)
        pages.append((page.shown, sorted(page.probabilities.items())))
    if selector.policy.needs.takes_counts and "features" not in options:
        selector.update_batch({1: 40, 3: 7}, {1: 4}, {1: 0.6})
    known = {name: array.tolist() for name, array in selector._player.knowledge().arrays.items()}
    return [*pages, known, str(selector.report())]


@pytest.fixture
def fresh_codes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget which functions have switched."""
    monkeypatch.setattr(switch, "_codes", {})
    switch._calling.cache_clear()
    yield
    switch._calling.cache_clear()


_made: dict[tuple[Any, str], Any] = {}


def machine_code(code: Code) -> Any:
    """Return the machine code of a function, made once for all examples."""
    key = (code.function, code.described)
    if key not in _made:
        code.compile()
        _made[key] = code.call
    return _made[key]


@pytest.mark.usefixtures("fresh_codes")
@pytest.mark.skipif(not switch.has_compiler(), reason="numba is not installed")
@pytest.mark.parametrize(
    "variant",
    # the code for visitors takes half a minute to compile
    [
        pytest.param(one, marks=pytest.mark.slow if "features" in options else ())
        for one, options in VARIANTS.items()
    ],
)
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_pages_are_the_same_whenever_functions_switch(
    name: str, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call is interpreted or compiled at random, which covers every moment of a switch."""
    monkeypatch.setattr(Code, "_begin", Code.interpret)
    try:
        expected = played(name, folder=tmp_path, **VARIANTS[variant])
    except SlotwiseError:
        pytest.skip("the policy refuses such a page")
    for seed in range(2):
        chance = random.Random(seed)

        def begin(self: Code, chance: random.Random = chance) -> None:
            if not can_be_compiled(self.function):
                return self.interpret()
            compiled, share = machine_code(self), chance.random()

            def call(*arguments: Any) -> Any:
                return (compiled if chance.random() < share else self.function)(*arguments)

            self.call = call
            return None

        switch._codes.clear()
        switch._calling.cache_clear()
        monkeypatch.setattr(Code, "_begin", begin)
        assert played(name, folder=tmp_path, **VARIANTS[variant]) == expected


def run(
    program: str, folder: Path, *, check: bool = True, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, with an empty cache in `folder`."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), **settings}
    environment["PYTHONPATH"] = os.pathsep.join([SOURCES, str(folder)])
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=check,
    )


PAGES = """
from slotwise import Selector
selector = Selector(range(12), 3, click_floor=0.6, seed=1)
for number in range(30):
    page = selector.select()
    selector.update(page, clicks=page.shown[:1], revenue={page.shown[0]: 0.5})
print(page.shown, page.probabilities, selector.report().page)
"""


def test_without_numba_everything_is_interpreted_with_one_warning(tmp_path: Path) -> None:
    """The import and the first pages do without it where it is installed, too."""
    simulated = """
import slotwise
links = slotwise.BernoulliLinks([0.3, 0.2, 0.1], [0.1, 0.5, 0.9])
for seed in (1, 2):
    done = slotwise.simulate(links, [slotwise.CUCB()], n_slots=1, n_rounds=50, n_runs=2, seed=seed)
print(done.final("cucb", "reward").tolist())
"""
    blocked = f"import sys\nsys.modules['numba'] = None\n{PAGES}\n{simulated}"
    without = run(blocked, tmp_path, SLOTWISE_COMPILE="auto")
    assert without.stderr.count("numba is not installed") == 1
    no_need = "import os, sys\nassert 'numba' not in sys.modules"
    no_need += "\nos.environ['SLOTWISE_COMPILE'] = 'never'"
    with_numba = run(f"{PAGES}\n{no_need}\n{simulated}", tmp_path, SLOTWISE_COMPILE="auto")
    assert without.stdout == with_numba.stdout


SWITCHING = """
import sys, threading
from slotwise.compile import can_be_compiled, switch
if sys.argv[1:] == ["alone"]:
    sys.executable = ""
switch.BUDGET_S = 0.0
from slotwise.compile import code_for
from slotwise.selection.confidence import kl_upper
code = code_for(kl_upper, 1.0, 9.0, 2.0)
before = code.call(1.0, 9.0, 2.0)
for thread in threading.enumerate():
    if thread.name == "slotwise-compiling":
        thread.join()
assert code.call(1.0, 9.0, 2.0) == before
print(type(code.call).__name__)
"""


def test_another_process_compiles_once_the_budget_is_spent(tmp_path: Path) -> None:
    for loaded in (False, True):
        done = run(SWITCHING, tmp_path, SLOTWISE_COMPILE="auto")
        assert (done.stdout, done.stderr) == ("builtin_function_or_method\n", ""), loaded


def test_where_no_process_can_be_started_this_one_compiles(tmp_path: Path) -> None:
    alone = SWITCHING.replace('sys.argv[1:] == ["alone"]', "True")
    done = run(alone, tmp_path, SLOTWISE_COMPILE="auto")
    assert done.stdout == "builtin_function_or_method\n"
    assert "compiling to machine code in this process" in done.stderr


def test_functions_that_took_longest_are_compiled_first(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Code] = []
    monkeypatch.setattr(switch._COMPILER, "compile", asked.extend)
    short, long = (Code(function, (1.0, 9.0, 2.0), False) for function in (kl_lower, kl_upper))
    meter = switch._Meter()
    for code, share in ((short, 0.4), (long, 0.3), (long, 0.2)):
        meter.add(code, share * switch.BUDGET_S)
    assert asked == []
    meter.add(short, 0.2 * switch.BUDGET_S)
    meter.add(long, 0.2 * switch.BUDGET_S)
    assert asked == [short, long]


def test_a_function_switches_before_the_next_one_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = [Code(function, (1.0, 9.0, 2.0), False) for function in (kl_upper, kl_lower)]
    switched_before: list[int] = []

    class Process:
        """Answers one request after the other, and says that the last one failed."""

        def ask(self, requests: Iterator[Any]) -> None:
            assert [place for place, _ in requests] == [
                "slotwise.selection.confidence:kl_upper",
                "slotwise.selection.confidence:kl_lower",
            ]

        def is_next_done(self) -> bool:
            switched_before.append(sum(not isinstance(code.call, MethodType) for code in codes))
            return len(switched_before) == 1

        def close(self) -> None:
            switched_before.append(2)

    monkeypatch.setattr(switch, "CompilingProcess", Process)
    monkeypatch.setattr(switch, "_is_announced", False)
    codes[0].compile()  # into the cache
    compiler = switch._Compiler()
    compiler._waiting = list(codes)
    for code in codes:
        code.interpret()
    compiler._run()
    assert switched_before == [0, 1, 2]
    assert not any(isinstance(code.call, MethodType) for code in codes)


LEFT_BEHIND = """
import os, signal
from slotwise.compile import switch
switch.BUDGET_S = 0.0
from slotwise.selection import solve
solve([0.9, 0.6, 0.1], [0.1, 0.5, 0.9], 1, 0.3)
while switch._COMPILER._process is None:
    pass
process = switch._COMPILER._process._process.pid
niceness = [os.getpriority(os.PRIO_PROCESS, one) for one in (process, os.getpid())]
print(process, niceness[0] - niceness[1], flush=True)
"""


def is_running(process: int) -> bool:
    """Return whether a process runs; one that has ended may wait for its parent."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not (state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.parametrize("end", ["", "os.kill(os.getpid(), signal.SIGKILL)"], ids=["end", "kill"])
def test_no_compiler_outlives_the_program(end: str, tmp_path: Path) -> None:
    done = run(LEFT_BEHIND + end, tmp_path, check=False, SLOTWISE_COMPILE="auto")
    process, niceness = map(int, done.stdout.split())
    assert niceness == 0
    while is_running(process):  # the limit of all tests ends a wait in vain
        pass


BOUND = """
from slotwise.compile.switch import code_for
from slotwise.selection.confidence import kl_upper
print([code_for(kl_upper, 1.0, 2.0, 3.0).call(0.1 * mean, 50.0, 2.0) for mean in range(10)])
"""


def test_a_function_that_was_interpreted_once_is_compiled_when_that_is_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SLOTWISE_COMPILE", "never")
    code = Code(kl_upper, (1.0, 2.0, 3.0), is_checked=False)
    found = code.call(0.1, 50.0, 2.0)
    monkeypatch.setenv("SLOTWISE_COMPILE", "first")
    assert code.call(0.1, 50.0, 2.0) == found
    assert not isinstance(code.call, MethodType)  # machine code, no method of the class


def test_unknown_numba_means_plain_njit_with_one_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = run(BOUND, tmp_path, SLOTWISE_COMPILE="first", SLOTWISE_PLAIN_NJIT="1")
    assert plain.stderr.count("slotwise does not know numba") == 1
    exec(BOUND, {})
    assert capsys.readouterr().out == plain.stdout


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["uniform", "cucb"])  # the second needs most vector passes
def test_plain_njit_gives_the_same_pages(tmp_path: Path, policy: str) -> None:
    pages = PAGES.replace("click_floor=0.6", f'policy="{policy}"')
    plain = run(pages, tmp_path, SLOTWISE_COMPILE="first", SLOTWISE_PLAIN_NJIT="1")
    assert plain.stderr.count("slotwise does not know numba") == 1
    assert plain.stdout == run(pages, tmp_path, SLOTWISE_COMPILE="never").stdout


OF_USER = """
import numba, slotwise
from slotwise import Selector
from slotwise.policies import Uniform
from slotwise.policies.uniform_and_fixed import choose, learn

@numba.njit
def own_choose(state, visitor, rng):
    choose(state, visitor, rng)

class Own(Uniform):
    name = "own"
    choose = staticmethod(own_choose)
    samples = True

selector = Selector(range(5), 2, policy=Own(), seed=1)
print(selector.select().shown, own_choose.signatures != [])
"""


def test_a_policy_that_its_author_compiles_calls_slotwises_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run(OF_USER, tmp_path, SLOTWISE_COMPILE="auto")
    monkeypatch.setenv("SLOTWISE_COMPILE", "never")
    interpreted = OF_USER.replace("@numba.njit\n", "")
    exec(interpreted.replace("own_choose.signatures != []", "True"), {"__name__": "of_user"})
    assert done.stdout == capsys.readouterr().out


def test_the_same_types_share_their_code() -> None:
    assert code_for(kl_upper, 1.0, 2.0, 3.0) is code_for(kl_upper, 4.0, 5.0, 6.0)
    assert code_for(kl_upper, 1.0, 2.0, 3.0) is not code_for(kl_upper, 1, 2.0, 3.0)


class Parts(NamedTuple):
    numbers: Any


@hot
def n_parts(parts: Parts) -> int:
    return len(parts)


def test_a_state_with_a_part_that_another_lacks_has_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The code of the other would compile itself while the caller waits, though it may not."""
    call = switching(n_parts)
    assert call(Parts(None)) == 1
    monkeypatch.setenv("SLOTWISE_COMPILE", "never")
    assert call(Parts(np.zeros(3))) == 1
    without, with_numbers = [one for key, one in switch._codes.items() if key[0] is n_parts]
    assert not isinstance(without.call, MethodType)
    assert isinstance(with_numbers.call, MethodType)
