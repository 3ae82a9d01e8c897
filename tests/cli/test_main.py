from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
import typer

import slotwise
import slotwise.cli
from slotwise.cli.main import HEADINGS, OF_SERVICE, command_names, first_line, main
from slotwise.errors import SlotwiseError
from slotwise.extras import extras_with
from slotwise.version import __version__


class AddCommand(Protocol):
    def __call__(self, name: str, body: str, imports: str = "") -> None: ...


COMMAND = """
import typer
{imports}
from slotwise.errors import InvalidInput

def {function}_command(word: str = "nothing") -> None:
    "Do what the test asks for."
    {body}
"""


@pytest.fixture
def add_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AddCommand]:
    """Put a command's file where the program looks for commands."""
    monkeypatch.setattr(slotwise.cli, "__path__", [*slotwise.cli.__path__, str(tmp_path)])
    modules: list[str] = []

    def add(name: str, body: str, imports: str = "") -> None:
        module = name.replace("-", "_")
        text = COMMAND.format(function=module, body=body, imports=imports)
        (tmp_path / f"{module}.py").write_text(text)
        monkeypatch.setitem(HEADINGS["Serving"], name, module)
        modules.append(f"slotwise.cli.{module}")
        importlib.invalidate_caches()

    yield add
    for module in modules:
        sys.modules.pop(module, None)
        vars(slotwise.cli).pop(module.rpartition(".")[2], None)


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"slotwise {__version__}\n"


def test_version_is_printed_without_the_packages_of_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"slotwise {__version__}\n"
    assert main(["policies"]) == 2
    assert "slotwise[" in capsys.readouterr().err


@pytest.mark.parametrize("name", command_names())
def test_the_list_of_commands_has_the_first_lines_of_their_helps(name: str) -> None:
    [module] = [commands[name] for commands in HEADINGS.values() if name in commands]
    found = getattr(importlib.import_module(f"slotwise.cli.{module}"), f"{_python(name)}_command")
    text = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert first_line(name, module) == str(text).splitlines()[0]


def _python(name: str) -> str:
    return name.replace("-", "_")


def test_the_list_of_commands_imports_none_of_them() -> None:
    program = "import sys; from slotwise.cli.main import main; main(['--help']); "
    program += "print({'matplotlib', 'sqlalchemy', 'polars', 'numba'} & set(sys.modules))"
    finished = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert finished.stdout.splitlines()[-1] == "set()"
    assert "move-store" in finished.stdout


def test_python_runs_slotwise_as_a_module() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "slotwise", "--version"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (finished.returncode, finished.stdout) == (0, f"slotwise {__version__}\n")


def test_every_public_name_is_listed() -> None:
    assert set(slotwise.__all__) <= set(dir(slotwise))


def test_a_command_is_found_by_its_module(
    add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command("say-it", "print('said', word)")
    assert "say-it" in command_names()
    assert main(["say-it", "--word", "hello"]) == 0
    assert capsys.readouterr().out == "said hello\n"


@pytest.mark.parametrize("name", sorted(command_names()))
def test_examples_of_helps_are_indented(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    examples = re.findall(r"^( *)slotwise ", capsys.readouterr().out, re.MULTILINE)
    assert set(examples) == {"   "}


def test_help_lists_every_command(
    add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command("say-it", "print(word)")
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in command_names())


def test_a_command_loads_no_other_command(
    add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command("say-it", "print('said')")
    add_command("broken", "pass", imports="raise RuntimeError('loaded')")
    assert main(["say-it"]) == 0
    assert capsys.readouterr().out == "said\n"


def test_an_error_of_slotwise_is_one_sentence(
    add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command("fail", "raise InvalidInput.of('n_slots', 'at least 1', 0)")
    assert main(["fail"]) == 2
    assert capsys.readouterr().err == "slotwise: `n_slots` must be at least 1, got 0\n"


def test_an_error_nobody_meant_keeps_its_traceback(add_command: AddCommand) -> None:
    add_command("fail", "raise ZeroDivisionError('by accident')")
    with pytest.raises(ZeroDivisionError, match="by accident"):
        main(["fail"])


def test_an_interrupt_is_one_line(
    add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command("wait", "raise KeyboardInterrupt")
    assert main(["wait"]) == 130
    assert capsys.readouterr() == ("", "slotwise: interrupted\n")


def test_an_interrupt_while_a_command_is_imported_is_one_line(
    add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    add_command("late", "pass", imports="raise KeyboardInterrupt")
    assert main(["late"]) == 130
    assert capsys.readouterr() == ("", "slotwise: interrupted\n")


def test_nothing_slow_is_imported_where_an_interrupt_would_show() -> None:
    asked = "import slotwise.cli.main, sys; print(*{'numba', 'numpy', 'typer'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "\n")


def test_the_code_of_exit_is_kept(add_command: AddCommand) -> None:
    add_command("leave", "raise typer.Exit(3)")
    assert main(["leave"]) == 3


def test_wrong_usage_is_exit_code_2(
    add_command: AddCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["no-such-command"]) == 2
    assert "No such command" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--word", "x"], ["--help"], ["more", "--unknown"]])
def test_a_missing_package_names_its_extra(
    add_command: AddCommand,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    add_command("serve-it", "pass", "import uvicorn.config")
    assert main(["serve-it", *arguments]) == 2
    assert capsys.readouterr().err == (
        "slotwise: `slotwise serve-it` needs the package uvicorn, which is not installed; "
        "install it with: pip install 'slotwise[service]'\n"
    )


def test_help_lists_a_command_that_lacks_its_packages(
    add_command: AddCommand,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    add_command("serve-it", "pass", "import uvicorn")
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert "serve-it" in printed
    assert "slotwise[service]" in printed


def test_without_typer_the_extras_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    assert main(["--help"]) == 2
    assert capsys.readouterr().err == (
        "slotwise: `slotwise` needs the package typer, which is not installed; install it with: "
        "pip install 'slotwise[experiments]' or pip install 'slotwise[service]'\n"
    )


def test_a_missing_module_of_slotwise_is_a_bug(add_command: AddCommand) -> None:
    add_command("lost", "pass", "import slotwise.no_such_module")
    with pytest.raises(ModuleNotFoundError, match=r"slotwise\.no_such_module"):
        main(["lost"])


def test_a_package_of_no_extra_is_named_alone() -> None:
    requirements = ["numpy>=2", "rich>=14; extra == 'dev'"]
    assert extras_with("numpy", requirements) == []
    assert extras_with("rich", requirements) == []


def test_a_public_name_that_lacks_its_packages_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in list(sys.modules):
        if module.startswith("slotwise.simulation"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pydantic", None)
    monkeypatch.delitem(vars(slotwise), "simulate", raising=False)  # kept once it was used
    with pytest.raises(SlotwiseError, match=r"`slotwise\.simulate` needs the package pydantic"):
        _ = slotwise.simulate


def test_a_command_without_its_extra_names_that_one_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    for command, extra in (("serve", "service"), ("simulate", "experiments")):
        assert main([command]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert said.endswith(f"pip install 'slotwise[{extra}]'\n")
        assert said.startswith(f"slotwise: `slotwise {command}` needs the package typer")


def test_help_marks_only_commands_that_lack_their_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "polars" else find_spec(name)
    )
    assert main(["--help"]) == 0
    printed = capsys.readouterr().out.splitlines()
    marked = {line.split()[1] for line in printed if "pip install 'slotwise[experiments]'" in line}
    assert {"simulate", "evaluate"} <= marked
    assert not marked & {"policies", "datasets", "serve", "warm-up"}


def test_commands_of_the_service_are_those_that_import_it() -> None:
    folder = Path(slotwise.cli.__file__).parent
    named = re.compile(r"slotwise\.(service|client)\b")
    found = {
        command
        for commands in HEADINGS.values()
        for command, module in commands.items()
        if named.search((folder / f"{module}.py").read_text())
    }
    assert found == OF_SERVICE | {"warm-up"}  # it leaves out the service where that is missing
