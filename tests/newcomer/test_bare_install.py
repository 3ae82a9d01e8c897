"""A newcomer's first minute: build the wheel, install it bare, run README and the start page."""

from __future__ import annotations

import doctest
import re
import subprocess
from pathlib import Path

import pytest

from slotwise.compile.notice import NOTICE
from slotwise.version import __version__
from tests.docs.pages import Block, blocks_of, command_lines, read_page
from tests.newcomer.bare_environment import BareEnvironment

pytestmark = pytest.mark.system

START = "docs/start.md"
INSTALL = "pip install slotwise"
INSTALL_EXTRA = re.compile(r"pip install 'slotwise\[\w+\]'")

# A block of `>>>` lines, checked with the names that the blocks before it left.
DOCTEST = """
import doctest
examples = doctest.DocTestParser().get_doctest({code!r}, globals(), {page!r}, {page!r}, 0)
flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
raise SystemExit(doctest.DocTestRunner(optionflags=flags).run(examples).failed)
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> BareEnvironment:
    """Install slotwise into an empty environment with the start page's own command."""
    environment = BareEnvironment(tmp_path_factory.mktemp("newcomer"))
    environment.build_wheel()
    [install] = [block for block in section(START, "A program") if block.is_shell]
    assert command_lines(install.code) == [INSTALL]
    done = environment.shell(install.code)
    assert done.returncode == 0, done.stdout + done.stderr
    return environment


def section(page: str, heading: str) -> list[Block]:
    """Return the blocks between a heading of the second level and the next one."""
    after = read_page(page).split(f"\n## {heading}\n")[1]
    return blocks_of(after.split("\n## ")[0])


def check_clean(done: subprocess.CompletedProcess[str]) -> None:
    """Refuse a failure, and anything on the error stream but the notice of compiling."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(done.stderr.splitlines()) <= {NOTICE}


def program_of(page: str, heading: str) -> str:
    """Return the Python of a section as one program; its last block has `>>>` lines."""
    *plain, shown = [block.code for block in section(page, heading) if block.language == "python"]
    return "\n".join([*plain, DOCTEST.format(code=shown, page=page)])


@pytest.mark.parametrize("command", ["slotwise --version", "python -m slotwise --version"])
def test_the_version_needs_no_extra(bare: BareEnvironment, command: str) -> None:
    done = bare.shell(command)
    check_clean(done)
    assert done.stdout == f"slotwise {__version__}\n"


def test_readmes_program_prints_what_readme_shows(bare: BareEnvironment) -> None:
    program, shown = section("README.md", "A first program")[:2]
    assert (program.language, shown.language) == ("python", "text")
    assert len([line for line in program.code.splitlines() if line.strip()]) <= 8
    done = bare.python(program.code)
    check_clean(done)
    assert doctest.OutputChecker().check_output(shown.code, done.stdout, doctest.ELLIPSIS)


def test_the_program_of_the_start_page_runs(bare: BareEnvironment) -> None:
    done = bare.python(program_of(START, "A program"))
    check_clean(done)
    assert "paced-bayes: 20000 pages" in done.stdout


@pytest.mark.parametrize("heading", ["A service", "The paper"])
def test_the_commands_of_the_start_page_ask_for_the_extra_that_it_installs(
    bare: BareEnvironment, heading: str
) -> None:
    install, command = command_lines(section(START, heading)[0].code)
    assert INSTALL_EXTRA.fullmatch(install)
    done = bare.shell(command)
    assert done.returncode == 2
    assert done.stderr.startswith("slotwise: ")
    assert install in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_client_asks_for_the_service_extra(bare: BareEnvironment) -> None:
    [program] = section("docs/python-client.md", "A complete program")
    done = bare.python(program.code)
    assert done.returncode == 1
    assert done.stderr.endswith("; install it with: pip install 'slotwise[service]'\n")


EVERY_COMMAND = """
from slotwise.cli.main import command_names, main
print([main([name]) for name in command_names()])
"""


def test_every_command_names_an_extra(bare: BareEnvironment) -> None:
    done = bare.python(EVERY_COMMAND)
    assert done.returncode == 0, done.stderr
    exit_codes = re.findall(r"\d+", done.stdout)
    assert set(exit_codes) == {"2"}
    lines = done.stderr.splitlines()
    assert len(lines) == len(exit_codes) > 10
    assert all(INSTALL_EXTRA.search(line) for line in lines)


EVERY_NAME = """
import slotwise
for name in slotwise.__all__:
    try:
        getattr(slotwise, name)
    except slotwise.SlotwiseError as error:
        print(name, error)
"""


def test_every_public_name_works_or_names_an_extra(bare: BareEnvironment) -> None:
    done = bare.python(EVERY_NAME)
    check_clean(done)
    lacking = done.stdout.splitlines()
    assert "Client" in {line.split()[0] for line in lacking}
    assert all(INSTALL_EXTRA.search(line) for line in lacking)


def test_only_the_packages_of_the_environment_are_used(bare: BareEnvironment) -> None:
    done = bare.python("import slotwise\nprint(slotwise.__file__)\nimport typer\n")
    assert Path(done.stdout.strip()).is_relative_to(bare.folder / "environment")
    assert "No module named 'typer'" in done.stderr
