"""In an installation without extras, what is missing is named together with its extra."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from manual.public_names import PUBLIC_MODULES
from slotwise.errors import MissingPackage

# Run in a process of its own, in which only numpy, numba and slotwise can be imported.
BARE = """
import importlib, json, re, sys
from importlib import metadata

def base(requirement):
    return re.match(r"[\\w.-]+", requirement)[0].lower().replace("-", "_")

HIDDEN = {base(one) for one in metadata.requires("slotwise") if "extra ==" in one}
HIDDEN = HIDDEN - {"slotwise"} | {"PIL"}

class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def answer(ask):
    try:
        ask()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None

sys.meta_path.insert(0, Bare())
found = {}
for name in json.loads(sys.argv[1]):
    found[name] = answer(lambda: importlib.import_module(name))
    if found[name] is None:
        module = importlib.import_module(name)
        found |= {f"{name}.{one}": answer(lambda: getattr(module, one)) for one in module.__all__}

def log_pages():
    from slotwise.page_log import LogWriter
    LogWriter("log")

def read_schema():
    from slotwise.page_log import log_schema
    log_schema()

found["log_pages"] = answer(log_pages)
found["read_schema"] = answer(read_schema)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [sys.executable, "-c", BARE, json.dumps(PUBLIC_MODULES)]
    folder = tmp_path_factory.mktemp("bare")
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_refusal_names_package_and_installation(bare: dict[str, Any]) -> None:
    refused = {name: answer for name, answer in bare.items() if answer}
    for name, (kind, message) in refused.items():
        assert kind == "MissingPackage", (name, kind, message)
        assert "which is not installed; install it with: pip install " in message, name


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("slotwise.Client", "httpx", "service"),
        ("slotwise.client", "httpx", "service"),
        ("slotwise.evaluation", "pyarrow", "experiments"),
        ("slotwise.figures", "matplotlib", "experiments"),
        ("slotwise.simulate", "pydantic", "experiments"),
        ("slotwise.simulation", "pydantic", "experiments"),
        ("log_pages", "pyarrow", "service"),
        ("read_schema", "pyarrow", "service"),
    ],
)
def test_the_extra_is_named(bare: dict[str, Any], name: str, package: str, extra: str) -> None:
    message = bare[name][1]
    assert f"needs the package {package}, " in message
    assert f"slotwise[{extra}]" in message


def test_choosing_links_needs_no_extra(bare: dict[str, Any]) -> None:
    for module in ("policies", "problem", "rounds", "selection", "selector", "environments"):
        assert bare[f"slotwise.{module}"] is None
    assert bare["slotwise.Selector"] is None


def test_pytest_is_named_for_contracts(bare: dict[str, Any]) -> None:
    assert "pip install pytest" in bare["slotwise.testing"][1]


def test_a_program_may_catch_it_as_a_missing_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "slotwise.client", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"slotwise\[service\]") as caught:
        __import__("slotwise.client")
    assert isinstance(caught.value, MissingPackage)
    assert caught.value.name == "httpx"
