"""The examples of every page run: all blocks in order, in one program, against a real service.

A block of `>>>` lines is a doctest, so that what it shows is checked; any other block of Python
runs as it is, and curl is sent to a service of the page's own. A new page is found by itself.
"""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks_of, read_page
from tests.docs.service_for_examples import ExampleService, example_service, uses_service

LONG = frozenset({"docs/researcher.md", "docs/experiments.md"})
"""Pages that simulate thousands of rounds in loops that other tests compile, too."""

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def is_curl(block: Block) -> bool:
    return block.is_shell and "curl " in block.code


def has_examples(page: str) -> bool:
    return any(block.language == "python" or is_curl(block) for block in blocks_of(read_page(page)))


def run_python(code: str, page: str, line: int, names: dict[str, Any]) -> None:
    """Run a block with the names that the blocks before it left, and leave its own."""
    if not code.startswith(">>>"):
        # By its whole path: numba keeps compiled code beside a file that exists.
        exec(compile("\n" * line + code, str(ROOT / page), "exec", dont_inherit=True), names)
        return
    example = doctest.DocTestParser().get_doctest(code, names, page, page, line)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    said: list[str] = []
    failures = runner.run(example, out=said.append, clear_globs=False).failed
    names.update(example.globs)
    assert not failures, "".join(said)


def run_page(text: str, page: str, names: dict[str, Any], service: ExampleService | None) -> None:
    for block in blocks_of(text):
        code = service.place(block.code) if service else block.code
        if block.language == "python":
            run_python(code, page, block.line, names)
        elif is_curl(block):
            assert service is not None
            service.run_shell(code)


def calls_curl(page: str) -> bool:
    return any(map(is_curl, blocks_of(read_page(page))))


def marks_of(page: str) -> list[pytest.MarkDecorator]:
    marks = [pytest.mark.system] if calls_curl(page) else []
    return [*marks, pytest.mark.compiled] if page in LONG else marks


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=marks_of(page)) for page in PAGES if has_examples(page)]
)
def test_the_examples_of_a_page_run_in_order(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = read_page(page)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page}
    with ExitStack() as opened:
        service = None
        if uses_service(text):
            service = opened.enter_context(example_service(tmp_path, monkeypatch))
            names |= service.names
        run_page(text, page, names, service)


def test_the_policy_of_the_page_keeps_the_contract(tmp_path: Path) -> None:
    blocks = blocks_of(read_page("docs/write-a-policy.md"))
    code = [one.code for one in blocks if not (one.is_shell or one.code.startswith(">>>"))]
    (tmp_path / "test_hopeful.py").write_text("\n\n".join(code))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_hopeful.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout


def test_a_wrong_example_is_noticed() -> None:
    page = "text\n```python\nx = 2\n```\n```sh\nrm\n```\n```python\n>>> x + 1\n4\n```\n"
    first, shell, second = blocks_of(page)
    assert (first.line, shell.line, second.line) == (2, 5, 8)
    names: dict[str, Any] = {}
    run_python(first.code, "page", first.line, names)
    with pytest.raises(AssertionError, match=r"Expected:\s+4\s+Got:\s+3"):
        run_python(second.code, "page", second.line, names)
    with pytest.raises(NameError, match="unknown"):
        run_python("unknown()\n", "page", 3, names)


@pytest.mark.system
def test_a_refused_call_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = '```sh\ncurl -sS "$URL/v1/pools/nowhere" -H "Authorization: Bearer $KEY"\n```\n'
    assert uses_service(page)
    with (
        example_service(tmp_path, monkeypatch) as service,
        pytest.raises(AssertionError, match="unknown-pool"),
    ):
        run_page(page, "page", {}, service)


def test_setups_run_and_only_a_reason_skips() -> None:
    skipped = "<!-- test: skip, because it is long -->\n```python\nx = 9\n```\n"
    [setup] = blocks_of(f"<!-- test: setup\nx = 3\n-->\n\n{skipped}")
    assert setup == Block("python", "x = 3\n", 1)
    with pytest.raises(AssertionError, match="a skipped block says why"):
        blocks_of("<!-- test: skip -->\n```python\nx = 9\n```\n")


def test_every_page_with_a_block_of_python_is_run() -> None:
    with_python = {page for page in PAGES if "```python" in read_page(page)}
    run = {page for page in PAGES if has_examples(page)}
    assert with_python <= run
    assert "README.md" in run
