"""Promises of the house style that a machine can keep an eye on."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from manual.public_names import PUBLIC_MODULES
from slotwise.version import __version__
from tests.golden.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "slotwise"
MODULES = sorted(PACKAGE.rglob("*.py"))

MAX_LINES = 800

# Words of other books, and the glossary's own in their place.
FOREIGN_WORDS = {
    "arm": "link",
    "arms": "links",
    "pull": "show",
    "pulled": "shown",
    "pulls": "views",
    "slate": "shown, or page",
    "slates": "pages",
}

# Folders of a machine; assembled, so that this file does not name what it looks for.
MACHINE_FOLDERS = ("home", "root", "tmp", "work", "Users", "mnt", "private", "opt")
MACHINE_PATH = re.compile(r"(?<![\w.~$}:/-])/(?:" + "|".join(MACHINE_FOLDERS) + r")/\w")

# The part of the package that a program embeds: numpy and numba, nothing else.
CORE = ("errors", "problem", "rounds", "version", "selection", "policies", "player", "selector")
CORE_PACKAGES = {"numba", "numpy", "slotwise"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def foreign_words(text: str) -> Iterator[str]:
    """Yield the words that the glossary replaces, also those within a snake_case name."""
    for word in re.findall(r"[A-Z]?[a-z]+", text):
        if word.lower() in FOREIGN_WORDS:
            yield word.lower()


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    files = (ROOT / name for name in listing.stdout.split("\0") if name)
    return [path for path in files if path.is_file()]


def names_in_all(path: Path) -> list[str] | None:
    """Return what `__all__` of a module lists, or None where it has no `__all__`."""
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets, value = [statement.target], statement.value
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return list(ast.literal_eval(value))
    return None


def module_of(path: Path) -> str:
    """Return the name under which a file of the package is imported."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def importers() -> dict[str, set[str]]:
    """Return the modules of the package that import each module, anywhere in their code."""
    known = {module_of(path) for path in MODULES}
    found: dict[str, set[str]] = {module: set() for module in known}
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                inside = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [one if one in known else node.module for one in inside]
            for name in known.intersection(names):
                found[name].add(module_of(path))
    return found


def user_names(module: str, users: set[str]) -> set[str]:
    """Name the users of a module as its first lines do.

    A neighbour by its file, others by their folder; within the service by their room.
    """
    home, _, own = module.rpartition(".")
    found = set()
    for user in users - {home, f"{home}.{own}"}:
        folder, _, name = user.rpartition(".")
        depth = 2 if all(one.startswith("slotwise.service.") for one in (user, module)) else 1
        found.add(name if folder == home else user.split(".")[depth])
    return found


def stale_users(module: str, text: str, users: set[str]) -> str:
    """Return what is wrong with a sentence "Used by ...", or nothing."""
    sentence = re.search(r"\bUsed by ([^.]*)\.", " ".join(text.split()))
    if sentence is None:
        return ""
    actual, said = user_names(module, users), sentence[1]
    most = re.search(r"most of (?:`(\w+)`|the (?:service|package))", said)
    named = set(re.findall(r"`(\w+)`", said.replace(most[0], "") if most else said))
    if most and not most[1]:
        actual &= named
    elif most:
        home = module.rpartition(".")[0]
        neighbours = {user.rpartition(".")[2] for user in users if user.rpartition(".")[0] == home}
        actual -= (neighbours - named) | {most[1]}
    wrong = sorted(named - actual), sorted(actual - named)
    return f"{module}: not {wrong[0]}, but {wrong[1]}" if any(wrong) else ""


def public_classes(path: Path) -> Iterator[str]:
    """Yield the classes that a module defines for others."""
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
            yield statement.name


def in_several_places(homes: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return what is in more than one place."""
    return {name: places for name, places in homes.items() if len(places) > 1}


def packages_imported_at_once(path: Path) -> set[str]:
    """Return the packages that importing the module imports with it."""
    found: set[str] = set()
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module:
            found.add(statement.module.partition(".")[0])
    return found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("best_arm = 1", ["arm"]),
        ("class ArmState", ["arm"]),
        ("the slate that was pulled", ["slate", "pulled"]),
        ("an alarm, warm and charming: it translates", []),
    ],
)
def test_foreign_words_are_found_within_names_only_whole(text: str, words: list[str]) -> None:
    assert list(foreign_words(text)) == words


def test_the_words_are_the_glossarys() -> None:
    found = [
        f"{name_of(path)}:{number}: say {FOREIGN_WORDS[word]!r}, not {word!r}"
        for path in MODULES
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for word in foreign_words(line)
    ]
    assert not found


def test_a_module_is_short_enough_to_read() -> None:
    n_lines = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    too_long = {name: n for name, n in n_lines.items() if n > MAX_LINES}
    assert not too_long, "split it by its ideas"


def test_first_lines_name_those_who_use_a_module() -> None:
    users = importers()
    docstrings = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in MODULES}
    stale = [
        stale_users(module_of(path), docstrings[path], users[module_of(path)]) for path in MODULES
    ]
    assert not list(filter(None, stale))


def test_a_stale_list_of_users_is_found() -> None:
    users = {"slotwise.service.api", "slotwise.service.api.app", "slotwise.service.server"}
    module = "slotwise.service.api.notes"
    assert stale_users(module, "Notes. Used by `app` and `server`.", users) == ""
    assert stale_users(module, "Notes. Used by most of `api`, and by `server`.", users) == ""
    assert (
        stale_users(module, "Notes. Used by `app`.", users) == f"{module}: not [], but ['server']"
    )
    assert stale_users(module, "Used by `cli`, `app`, `server`.", users).endswith(
        "not ['cli'], but []"
    )


def test_no_two_files_and_no_two_public_classes_share_a_name() -> None:
    files: dict[str, list[str]] = {}
    classes: dict[str, list[str]] = {}
    for path in MODULES:
        if not path.name.startswith("__"):
            files.setdefault(path.name, []).append(name_of(path))
        for name in public_classes(path):
            classes.setdefault(name, []).append(name_of(path))
    assert not in_several_places(files)
    assert not in_several_places(classes)


def test_only_modules_that_the_manual_documents_list_their_names() -> None:
    listed = {module_of(path): names_in_all(path) for path in MODULES}
    assert {module for module, names in listed.items() if names is not None} == {*PUBLIC_MODULES}
    for names in listed.values():
        assert names is None or len(names) == len(set(names)), "a name is listed twice"


def test_no_file_names_a_path_of_a_machine() -> None:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if MACHINE_PATH.search(line):
                found.append(f"{name_of(path)}:{number}: {line.strip()[:100]}")
    assert not found


@pytest.mark.parametrize("folder", MACHINE_FOLDERS)
def test_machine_paths_are_told_from_others(folder: str) -> None:
    assert MACHINE_PATH.search(f'open("/{folder}/someone/file")')
    assert not MACHINE_PATH.search(f"https://shop.example/{folder}/1")
    assert not MACHINE_PATH.search(f"src/{folder}/file")


def test_the_changelog_has_this_version() -> None:
    headings = re.findall(r"^## \[?([^\s\]]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert __version__ in headings


def test_the_core_needs_numpy_and_numba_only() -> None:
    allowed = CORE_PACKAGES | set(sys.stdlib_module_names)
    for path in MODULES:
        if path.relative_to(PACKAGE).parts[0].removesuffix(".py") in CORE:
            foreign = packages_imported_at_once(path) - allowed
            assert not foreign, f"{name_of(path)} imports {sorted(foreign)}"


def test_dependencies_are_ranges() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    requirements = [*project["dependencies"], *(one for extra in extras.values() for one in extra)]
    pinned = [one for one in requirements if "==" in one.partition(";")[0]]
    loose = [one for one in requirements if ">=" not in one and not one.startswith("slotwise[")]
    assert not pinned
    assert not loose


def test_the_lock_names_versions_and_no_places() -> None:
    lines = (ROOT / "requirements-dev.lock").read_text().splitlines()
    wrong = [
        line for line in lines if not re.fullmatch(r"#.*|[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", line)
    ]
    assert not wrong


def test_a_limit_is_defined_once() -> None:
    """A number that callers may not exceed is assigned in one module, others import it."""
    assigned = re.compile(r"^(MAX_\w+) = ", re.MULTILINE)
    limits = PACKAGE / "service" / "limits.py"
    names = set(assigned.findall(limits.read_text()))
    for path in MODULES:
        if path != limits:
            assert not names & set(assigned.findall(path.read_text())), path


def planned_by_make(target: str, folder: Path, *stamps: str) -> str:
    """Return what `make` would run in a checkout whose virtual environment has these stamps."""
    for name in ("Makefile", "pyproject.toml", "requirements-dev.lock", "scripts/set-up"):
        copy = folder / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / name).read_bytes())
    (folder / ".venv").mkdir()
    for stamp in stamps:
        (folder / ".venv" / stamp).touch()
    done = subprocess.run(
        ["make", "-n", target], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_paper_needs_the_packages_of_experiments_only(tmp_path: Path) -> None:
    everything, experiments = "installed-by-make", "experiments-installed-by-make"
    fresh = planned_by_make("paper", tmp_path / "fresh")
    assert "scripts/set-up python3 experiments" in fresh
    assert "slotwise reproduce --out paper" in fresh
    then = planned_by_make("test", tmp_path / "then", experiments)
    assert "scripts/set-up python3 dev" in then
    ready = planned_by_make("paper", tmp_path / "ready", everything, experiments)
    assert "set-up" not in ready


def test_an_unknown_golden_file_is_refused() -> None:
    assert main(["nothing"]) == "must be some of openapi, pages, results, got 'nothing'"
