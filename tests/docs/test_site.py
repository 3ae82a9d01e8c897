"""The manual builds without a warning, asks no other host for anything, and leaves nothing out.

Everything that can be typed, set, called, counted or imported is looked for on the built pages.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import re
from pathlib import Path
from typing import Any, get_args

import griffe
import pytest

import slotwise
from manual.commands import program
from manual.figures import FIGURES
from manual.make_targets import make_targets
from manual.public_names import NOT_PUBLIC, PUBLIC_MODULES, public_names
from manual.routes import meaning_of
from slotwise.cli.main import command_names
from slotwise.environments.datasets import DATASETS
from slotwise.policies import POLICIES
from slotwise.service.api.app import ALL_OPERATIONS
from slotwise.service.http.openapi import openapi_document
from slotwise.service.http.problems import PROBLEMS
from slotwise.service.observability import METRICS
from slotwise.service.settings import Settings, setting_notes
from slotwise.simulation import shipped_experiments
from slotwise.simulation.experiment_file import EnvironmentSection
from tests.docs.built_site import (
    STYLE_ADDRESS,
    Page,
    broken_links,
    foreign,
    missing,
    read_site,
    shared_site,
)
from tests.docs.pages import PAGES, ROOT, read_page

PYTHON_PAGES = {
    "slotwise.environments.datasets": "datasets",
}


class Site:
    """The built pages, and every file beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages = read_site(folder)
        self.files = {
            path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
        }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(shared_site(tmp_path_factory.getbasetemp()))


# The site as a whole


def test_nothing_is_loaded_from_another_host(site: Site) -> None:
    loaded = {name: foreign(page.loads) for name, page in site.pages.items()}
    assert not {name: found for name, found in loaded.items() if found}
    for name in site.files:
        if name.endswith(".css"):
            assert not foreign(STYLE_ADDRESS.findall((site.folder / name).read_text())), name


def test_links_within_the_site_lead_somewhere(site: Site) -> None:
    assert not broken_links(site.pages, site.files)


@pytest.mark.parametrize("page", [page for page in PAGES if "/" not in page])
def test_links_of_the_projects_own_files_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", read_page(page))
    assert links
    assert not [link for link in links if not foreign([link]) and not (ROOT / link).exists()]


def test_search_has_every_page(site: Site) -> None:
    index = json.loads((site.folder / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] or "index.html" for entry in index["docs"]}
    assert site.pages.keys() - {"404.html"} <= found


def test_formulas_are_drawn_without_a_script(site: Site) -> None:
    for name, page in site.pages.items():
        assert "arithmatex" not in page.source, f"{name}: a formula was left as it is"
    formulas = [page for name, page in site.pages.items() if "<math" in page.source]
    assert len(formulas) >= 10


def test_notes_for_tests_are_not_shown(site: Site) -> None:
    for name, page in site.pages.items():
        assert "<!-- test:" not in page.source, name
        assert "<!-- generated:" not in page.source, name


def test_prompts_are_marked_so_that_they_are_not_copied(site: Site) -> None:
    style = (site.folder / "stylesheets" / "manual.css").read_text()
    assert "[data-md-copying] .gp, [data-md-copying] .go { display: none; }" in style
    marked = re.compile(r'<span class="gp">(&gt;&gt;&gt;|\.\.\.) ?</span>')
    assert len(marked.findall(site.pages["embed.html"].source)) > 20
    for name, page in site.pages.items():
        blocks = "".join(re.findall(r"<pre.*?</pre>", page.source, re.DOTALL))
        assert "&gt;&gt;&gt;" not in marked.sub("", blocks), name


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_is_drawn_and_shown(site: Site, figure: str) -> None:
    for scheme in ("light", "dark"):
        name = f"images/{figure}-{scheme}.svg"
        assert name in site.files
        assert any(f"{name}#only-{scheme}" in page.source for page in site.pages.values())


# Everything has its place


def typer_commands() -> dict[str, Any]:
    """Return every command of the program by its words."""
    found = {}

    def walk(name: str, command: Any) -> None:
        inner = getattr(command, "commands", None)
        if inner is None:
            found[name] = command
        else:
            for word, one in inner.items():
                walk(f"{name} {word}", one)

    walk("slotwise", program())
    return found


COMMANDS = typer_commands()


def test_every_file_of_a_command_is_a_command() -> None:
    assert {name.split()[1] for name in COMMANDS} == set(command_names())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_at_work_on_a_page(name: str) -> None:
    guides = [page for page in PAGES if page.startswith("docs/") and "/reference/" not in page]
    assert any(name in read_page(page) for page in guides), "only the reference knows it"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_described(site: Site, name: str) -> None:
    section = site.pages["reference/commands.html"].sections[name]
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name == "option":
            assert not missing([*parameter.opts, *parameter.secondary_opts], section)
        else:
            label = (parameter.metavar or parameter.name.upper()).strip("[]")
            assert any(label in piece for piece in section.code), label
        assert parameter.help, f"{name}: {parameter.name} has no help"


def test_options_of_the_program_are_described(site: Site) -> None:
    page = site.pages["reference/commands.html"]
    options = program().params
    said = " ".join(page.code)
    assert not [spelling for one in options for spelling in one.opts if spelling not in said]


def test_every_setting_is_described(site: Site) -> None:
    page = site.pages["reference/settings.html"]
    assert not missing(Settings.__struct_fields__, page)
    assert not missing([f"SLOTWISE_{name.upper()}" for name in Settings.__struct_fields__], page)
    for note in setting_notes().values():
        assert note in page.source


def test_every_route_is_described(site: Site) -> None:
    page = site.pages["reference/routes.html"]
    assert not missing([f"{one.method} {one.path}" for one in ALL_OPERATIONS], page)
    for operation in ALL_OPERATIONS:
        assert operation.name.replace("_", "-") in page.anchors
        for slug in operation.problems:
            assert f"problems.html#{slug}" in page.links


def test_every_field_of_a_body_is_described(site: Site) -> None:
    page = site.pages["reference/routes.html"]
    for operation in ALL_OPERATIONS:
        shapes = get_args(operation.body) or (operation.body,)
        for shape in shapes:
            assert not missing(getattr(shape, "__struct_fields__", ()), page), operation.name
        assert not missing(getattr(operation.query, "__struct_fields__", ()), page)


def test_every_field_of_a_body_has_a_meaning() -> None:
    document = openapi_document(ALL_OPERATIONS)
    silent = [
        f"{body.__name__}.{name}"
        for operation in ALL_OPERATIONS
        for body in get_args(operation.body) or (operation.body,)
        for name in getattr(body, "__struct_fields__", ())
        if not meaning_of(
            document["components"]["schemas"][body.__name__]["properties"][name], document
        )
    ]
    assert not silent


def test_every_problem_is_described(site: Site) -> None:
    page = site.pages["reference/problems.html"]
    text = (ROOT / "docs" / "reference" / "problems.md").read_text()
    rows = dict(re.findall(r'^\| <a id="[\w-]+"></a>`([\w-]+)` (\|.*)$', text, re.MULTILINE))
    assert rows.keys() == PROBLEMS.keys()
    for slug, kind in PROBLEMS.items():
        assert rows[slug].startswith(f"| {kind.status} | {kind.title} | "), slug
        assert slug in page.anchors


def test_every_metric_is_described(site: Site) -> None:
    page = site.pages["reference/metrics.html"]
    assert not missing(METRICS, page)
    named = {name.removesuffix("_bucket") for name in re.findall(r"slotwise_\w+", page.source)}
    assert named <= METRICS.keys(), "an alarm names a metric that does not exist"


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_is_described_with_its_settings(site: Site, name: str) -> None:
    page = site.pages["reference/policies.html"]
    settings = [field.name for field in dataclasses.fields(POLICIES[name]) if field.init]  # type: ignore[arg-type]
    assert not missing(settings, page.sections[name])
    explained = Page("explained", page.source.partition("<h2")[0])
    assert not missing(settings, explained), "the table of meanings lacks a setting"


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_stands_in_the_mathematics(site: Site, name: str) -> None:
    formulas = [page for place, page in site.pages.items() if place.startswith("mathematics/")]
    module = POLICIES[name].__module__
    assert any(module in page.code for page in formulas), f"no page names {module}"


def test_modules_named_in_the_mathematics_exist(site: Site) -> None:
    for place, page in site.pages.items():
        if place.startswith("mathematics/"):
            for name in page.code:
                if re.fullmatch(r"slotwise(\.[a-z_]+)+", name):
                    importlib.import_module(name)


def test_every_environment_is_described(site: Site) -> None:
    page = site.pages["reference/environments.html"]
    experiments = site.pages["experiments.html"]
    for section in get_args(get_args(EnvironmentSection)[0]):
        kind = get_args(section.model_fields["kind"].annotation)[0]
        keys = [key for key in section.model_fields if key != "kind"]
        assert not missing([kind, *keys], page)
        assert not missing([kind, *keys], experiments)


def test_every_data_set_and_experiment_is_described(site: Site) -> None:
    assert not missing(DATASETS, site.pages["data.html"])
    assert not missing(shipped_experiments(), site.pages["experiments.html"])


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_is_described(site: Site, module: str) -> None:
    page = PYTHON_PAGES.get(module) or module.rpartition(".")[2]
    anchors = site.pages[f"reference/python/{page}.html"].anchors
    names = importlib.import_module(module).__all__
    assert not [name for name in names if f"{module}.{name}" not in anchors]


def test_selector_and_simulate_come_first() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("- reference/index.md")[2]
    assert re.findall(r"reference/[\w/]+\.md", nav)[:2] == [
        "reference/python/selector.md",
        "reference/python/simulation.md",
    ]
    assert public_names("slotwise.selector")[0] == "Selector"
    assert public_names("slotwise.simulation")[0] == "simulate"


def test_the_index_of_the_reference_names_every_module(site: Site) -> None:
    assert not missing(PUBLIC_MODULES, site.pages["reference/index.html"])


@pytest.fixture(scope="module")
def sources() -> griffe.ModulesCollection:
    loader = griffe.GriffeLoader(search_paths=[ROOT / "src"])
    loader.load("slotwise")
    loader.resolve_aliases(implicit=True)
    return loader.modules_collection


@pytest.mark.parametrize("module", PUBLIC_MODULES)
def test_every_public_name_has_words(module: str, sources: griffe.ModulesCollection) -> None:
    names = importlib.import_module(module).__all__
    assert not [name for name in names if not sources[f"{module}.{name}"].has_docstring]


def test_every_module_is_public_or_says_why_not() -> None:
    packages = ["slotwise", "slotwise.environments", "slotwise.simulation"]
    found = {"slotwise"}
    for package in packages:
        inside = pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}.")
        found |= {one.name for one in inside if one.ispkg or package == "slotwise"}
    assert found == {*PUBLIC_MODULES, *NOT_PUBLIC}
    assert all(NOT_PUBLIC.values())


def test_every_make_target_is_described(site: Site) -> None:
    page = site.pages["reference/make.html"]
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == make_targets().keys()
    assert not missing([f"make {name}" for name in make_targets()], page)
    assert all(make_targets().values()), "a target has no note"
    variables = re.findall(r"^([A-Z]+) \?=", makefile, re.MULTILINE)
    assert not missing(variables, page)


def test_the_version_is_in_the_changelog(site: Site) -> None:
    assert slotwise.__version__ in site.pages["changelog.html"].source


def test_the_claimed_versions_of_python_are_those_of_the_package() -> None:
    classifiers = (ROOT / "pyproject.toml").read_text()
    versions = re.findall(r":: Python :: (3\.\d+)", classifiers)
    claim = f"is tested with Python {', '.join(versions)} on Linux"
    assert claim in read_page("README.md")
    assert claim in read_page("docs/start.md")


# The tests above can fail


def test_what_is_missing_is_named() -> None:
    page = Page("page", "<h2>one</h2><code>--runs</code> and <code>--out DIR</code>")
    assert missing(["--runs", "--out", "--seed"], page) == ["--out", "--seed"]
    assert missing(["--runs"], page.sections["one"]) == []


def test_other_hosts_are_recognised() -> None:
    page = Page(
        "page",
        '<script src="https://cdn.example/a.js"></script><link href="//fonts.example/f.css">'
        '<img src="images/a.png"><a href="https://www.example/">people follow this</a>'
        '<p style="background: url(https://img.example/b.png)">',
    )
    assert sorted(foreign(page.loads)) == [
        "//fonts.example/f.css",
        "https://cdn.example/a.js",
        "https://img.example/b.png",
    ]


def test_broken_links_are_named() -> None:
    pages = {
        "a.html": Page("a.html", '<a href="sub/b.html#here">1</a><a href="none.html">2</a>'),
        "sub/b.html": Page("sub/b.html", '<p id="there"><a href="../a.html">3</a></p>'),
    }
    assert broken_links(pages, set(pages)) == [
        "a.html: sub/b.html#here: no such place",
        "a.html: none.html: no such file",
    ]
