"""One file holds a selector: it goes on page for page, and other files are refused."""

from __future__ import annotations

import copy
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from slotwise import Rule, Selector, Uniform
from slotwise.errors import InvalidInput, UnknownDecision, UnsupportedState
from slotwise.policies import POLICIES
from slotwise.policies.con_ucb import ConUCB
from slotwise.selector import selector_file
from tests.selector.selectors import everything, knowledge, new_selector, play


def without_token(selector: Selector) -> dict[str, Any]:
    """Return everything but the numbers issued by token: a loaded selector gets a new one."""
    known = everything(selector)
    del known["issued"]
    return known


@pytest.mark.parametrize("policy", POLICIES)
def test_a_loaded_selector_goes_on_page_for_page(policy: str, tmp_path: Path) -> None:
    selector = new_selector(policy, max_revenue=3.0)
    play(selector, 50)
    selector.save(tmp_path / "pages.sel")
    loaded = Selector.load(tmp_path / "pages.sel")
    assert without_token(loaded) == without_token(selector)
    assert loaded.policy == selector.policy
    for _ in range(40):
        one, other = selector.select(), loaded.select()
        assert one.shown == other.shown
        assert one.probabilities == other.probabilities
        for which, page in ((selector, one), (loaded, other)):
            which.update(page, clicks=page.shown[:1], revenue={page.shown[0]: 2.0})
    assert without_token(loaded) == without_token(selector)


def test_saving_does_not_change_the_pages(tmp_path: Path) -> None:
    saved, other = new_selector(), new_selector()
    for round_number in range(10):
        saved.save(tmp_path / "pages.sel")
        assert play(saved, 5, seed=round_number) == play(other, 5, seed=round_number)


def test_a_selector_may_be_saved_and_loaded_many_times(tmp_path: Path) -> None:
    plain, travelling = new_selector(), new_selector()
    first = travelling.select()
    plain.select()
    for round_number in range(5):
        travelling.save(tmp_path / "pages.sel")
        travelling = Selector.load(str(tmp_path / "pages.sel"))
        assert play(plain, 5, seed=round_number) == play(travelling, 5, seed=round_number)
    travelling.update(first, clicks=[], revenue={})
    assert travelling.report().n_open_pages == 0


@pytest.mark.parametrize("policy", ["con-ucb", "lexp"])
def test_open_pages_survive_level_by_level(policy: str, tmp_path: Path) -> None:
    selector = new_selector(policy, max_open_pages=4)
    pages = [selector.select(pin=["blog", "outlet"]) for _ in range(6)]
    selector.update(pages[3], clicks=["blog"])
    selector.update(pages[4], revenue={"outlet": 0.25})
    selector.retire(["blog"])
    selector.save(tmp_path / "pages.sel")
    loaded = Selector.load(tmp_path / "pages.sel")
    assert loaded.report().n_open_pages == 4
    assert loaded.report().n_forgotten_pages == 2
    with pytest.raises(ValueError, match="`revenue` must be of links that were clicked, got 'ou"):
        loaded.update(pages[4], clicks=[])
    for which in (selector, loaded):
        which.update(pages[3].id, revenue={"blog": 0.5})
        which.update(pages[4].id, clicks=["outlet"])
        which.update(pages[5].id, clicks=[], revenue={})
    assert without_token(loaded) == without_token(selector)
    assert loaded.report().n_open_pages == 1


def test_no_page_id_is_ever_issued_twice(tmp_path: Path) -> None:
    selector = new_selector()
    before = selector.select()
    selector.save(tmp_path / "pages.sel")
    lost = selector.select()  # chosen after the save: the loaded selector cannot know it
    loaded, twin = (Selector.load(tmp_path / "pages.sel") for _ in range(2))
    after, of_twin = loaded.select(), twin.select()
    assert len({lost.id, after.id, of_twin.id}) == 3
    for stranger in (lost, of_twin):
        with pytest.raises(UnknownDecision, match="`page` must be a page of this selector"):
            loaded.update(stranger, clicks=[])
    token = after.id.rpartition("-")[0]
    with pytest.raises(UnknownDecision):
        loaded.update(f"{token}-1", clicks=[])  # page 1 was issued under the first token
    for page in (before, after):
        loaded.update(page, clicks=[], revenue={})
    assert loaded.report().n_open_pages == 0


def test_the_file_is_plain_arrays_and_one_header(tmp_path: Path) -> None:
    selector = new_selector(links=["ü", 3, ("shop", ("a", 1)), -(2**70)], n_slots=2)
    play(selector, 10)
    selector.save(tmp_path / "pages.sel")
    assert [path.name for path in tmp_path.iterdir()] == ["pages.sel"]
    with np.load(tmp_path / "pages.sel", allow_pickle=False) as stored:
        header = json.loads(stored["header"].tobytes())
        kinds = {stored[name].dtype.kind for name in stored.files}
    assert header["slotwise"] == selector_file.FORMAT
    assert kinds <= set("fiu")
    assert Selector.load(tmp_path / "pages.sel").links == selector.links


@pytest.mark.parametrize("link", [2.5, None, True, b"raw", frozenset({1}), ("shop", 1.5)], ids=repr)
def test_ids_that_json_cannot_keep_are_refused(link: Any, tmp_path: Path) -> None:
    selector = new_selector(links=["a", "b", link])
    before = everything(selector)
    message = "`links` must be strings, integers or tuples of them to be saved, got .*; give the"
    with pytest.raises(InvalidInput, match=message):
        selector.save(tmp_path / "pages.sel")
    assert not list(tmp_path.iterdir())
    assert everything(selector) == before


def test_ids_from_an_array_are_saved_as_integers(tmp_path: Path) -> None:
    selector = Selector(np.arange(3), 2, rules=[Rule("one", [*np.arange(2)], at_most=1)], seed=1)
    page = selector.select()
    selector.save(tmp_path / "pages.sel")
    loaded = Selector.load(tmp_path / "pages.sel")
    assert loaded.links == (0, 1, 2)
    loaded.update(page, clicks=page.shown, revenue={})
    assert sum(link.clicks for link in loaded.report().links) == 2


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_selector_is_saved_and_not_copied(copied: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match=r"cannot be copied or pickled; use `save` and"):
        copied(new_selector())


@dataclass(frozen=True)
class HomeMade(Uniform):
    name: ClassVar[str] = "home-made"


@dataclass(frozen=True)
class Impostor(Uniform):
    """Bears a registered name, but is another policy."""


@pytest.mark.parametrize("policy", [HomeMade(), Impostor()])
def test_a_policy_nobody_registered_is_found_in_its_module(policy: Uniform, tmp_path: Path) -> None:
    new_selector(policy).save(tmp_path / "pages.sel")
    assert type(Selector.load(tmp_path / "pages.sel").policy) is type(policy)


def test_a_policy_that_no_module_has_is_refused(tmp_path: Path) -> None:
    class Hidden(Uniform):
        name: ClassVar[str] = "hidden"

    with pytest.raises(InvalidInput, match="`policy` must be a policy that can be found by name"):
        new_selector(Hidden()).save(tmp_path / "pages.sel")


def test_a_policy_that_is_not_registered_where_it_is_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICIES, "home-made", HomeMade)
    new_selector(HomeMade()).save(tmp_path / "pages.sel")
    assert type(Selector.load(tmp_path / "pages.sel").policy) is HomeMade
    monkeypatch.delitem(POLICIES, "home-made")
    with pytest.raises(
        UnsupportedState, match=r"pages.sel cannot be restored: no policy is called"
    ):
        Selector.load(tmp_path / "pages.sel")


def test_settings_of_numpy_numbers_are_saved_as_numbers(tmp_path: Path) -> None:
    policy = ConUCB(horizon=np.int64(500), gamma_scale=np.float64(0.5))  # type: ignore[arg-type]
    new_selector(policy).save(tmp_path / "pages.sel")
    assert Selector.load(tmp_path / "pages.sel").policy == ConUCB(horizon=500, gamma_scale=0.5)


def rewritten(path: Path, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Path:
    """Write the file again after `change(header, arrays)`."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    header = json.loads(arrays.pop("header").tobytes())
    change(header, arrays)
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez_compressed(file, header=text, **arrays)
    return path


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    selector = new_selector()
    play(selector, 20)
    selector.select()
    selector.save(tmp_path / "pages.sel")
    return tmp_path / "pages.sel"


@pytest.mark.parametrize(
    ("written", "advice"), [(3, "install a newer slotwise"), (1, "use the version that saved it")]
)
def test_a_file_of_another_format_is_refused(saved: Path, written: int, advice: str) -> None:
    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        header.clear()
        header.update(slotwise=written, version="9.9.0", anything="else")
        arrays.clear()

    message = (
        rf"pages.sel was saved by slotwise 9.9.0 in format {written}, this slotwise reads "
        f"format 2; {advice}"
    )
    with pytest.raises(UnsupportedState, match=message):
        Selector.load(rewritten(saved, change))


def test_rewriting_without_a_change_is_harmless(saved: Path) -> None:
    before = Selector.load(saved)
    after = Selector.load(rewritten(saved, lambda header, arrays: None))
    assert without_token(after) == without_token(before)


def shorter(name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda header, arrays: arrays.update({name: arrays[name][..., :-1]})


CHANGES: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "no links": lambda header, arrays: header.pop("links"),
    "other links": lambda header, arrays: header.update(links=["a"]),
    "no slots": lambda header, arrays: header.update(n_slots=0),
    "floor of words": lambda header, arrays: header.update(click_floor="high"),
    "no policy": lambda header, arrays: header.update(policy=None),
    "unknown policy": lambda header, arrays: header["policy"].update(name="magic"),
    "unknown setting": lambda header, arrays: header["policy"]["settings"].update(magic=1),
    "odd chance": lambda header, arrays: header.update(rng={"bit_generator": "MT19937"}),
    "no pages": lambda header, arrays: header.pop("pages"),
    "odd pages": lambda header, arrays: header["pages"].update(issued=3),
    "no knowledge": lambda header, arrays: arrays.pop("knows_views"),
    "shorter knowledge": shorter("knows_views"),
    "shorter counts": shorter("sums"),
    "knowledge of words": lambda header, arrays: arrays.update(knows_sums=np.array(["x"])),
    "shorter pages": shorter("page_shown"),
    "odd probability": lambda header, arrays: arrays["page_probabilities"].fill(1.5),
    "infinite outcome": lambda header, arrays: arrays["page_outcomes"].fill(np.inf),
    "half an outcome": lambda header, arrays: arrays["page_outcomes"][:, 0].fill(0.0),
    "a page before the first": lambda header, arrays: arrays["page_shown"].fill(-1),
    "no number known": lambda header, arrays: arrays["knows_views"].fill(np.nan),
    "infinite counts": lambda header, arrays: arrays["sums"].fill(np.inf),
    "counts below 0": lambda header, arrays: arrays["views"].fill(-1.0),
    "known counts below 0": lambda header, arrays: arrays["knows_views"].fill(-1.0),
    "no page number": lambda header, arrays: arrays.update(page_number=np.array([np.nan])),
    "page numbers of words": lambda header, arrays: arrays.update(page_number=np.array(["x"])),
    "a huge page number": lambda header, arrays: arrays.update(page_number=np.array([1e300])),
    "a page not chosen": lambda header, arrays: arrays["page_number"].fill(10**6),
    "clipped by words": lambda header, arrays: header.update(n_clipped="many"),
    "levels of words": lambda header, arrays: header.update(levels="click"),
    "a floor on nothing": lambda header, arrays: header.update(floors={"cart": 0.2}),
    "pages of strangers": lambda header, arrays: arrays.update(page_shown=np.array([90, 91])),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_whose_parts_do_not_fit_is_refused(change: str, saved: Path) -> None:
    with pytest.raises(UnsupportedState, match=r"pages\.sel cannot be restored: \S"):
        Selector.load(rewritten(saved, CHANGES[change]))


@pytest.mark.parametrize("policy", ["cucb", "paced-bayes"])
def test_rounds_below_0_are_refused(policy: str, tmp_path: Path) -> None:
    new_selector(policy).save(tmp_path / "pages.sel")
    edited = rewritten(tmp_path / "pages.sel", lambda _, arrays: arrays["knows_rounds"].fill(-5.0))
    with pytest.raises(UnsupportedState, match=r"array knows_rounds must be at least 0"):
        Selector.load(edited)


def test_counts_in_another_memory_order_are_read_and_added_to(tmp_path: Path) -> None:
    path = tmp_path / "pages.sel"
    selector = new_selector("paced-bayes")
    play(selector, 10)
    selector.save(path)

    def turned(_: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays.update({name: np.asfortranarray(arrays[name]) for name in ("views", "sums")})

    loaded = Selector.load(rewritten(path, turned))
    play(selector, 20)
    play(loaded, 20)
    counted = [[array.tolist() for array in one.knowledge().counts] for one in (loaded, selector)]
    assert counted[0] == counted[1]


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def zipped(name: str, content: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def as_bytes(text: str) -> Any:
    return np.frombuffer(text.encode(), np.uint8)


FOREIGN = {
    "nothing": b"",
    "text": b"links,views\nblog,3\n",
    "noise": bytes(range(256)) * 8,
    "a lone array": npy(np.ones(3)),
    "pickled objects": npy(np.array([{"a": 1}], dtype=object)),
    "arrays of somebody else": npz(weights=np.ones(3)),
    "a header of noise": npz(header=np.full(9, 255, np.uint8)),
    "a header that is a list": npz(header=as_bytes("[1, 2]")),
    "a header without a version": npz(header=as_bytes("{}")),
    "a version of words": npz(header=as_bytes('{"slotwise": "one"}')),
    "a zip of text": zipped("read.me", "hello"),
    "a header of text": zipped("header.npy", "hello"),
    "a pickle": b"\x80\x04K\x03.",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused_in_one_sentence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "other.sel"
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(UnsupportedState, match=r"other\.sel is not a selector that slotwise saved"):
        Selector.load(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.sel"):
        Selector.load(tmp_path / "missing.sel")


def test_a_truncated_file_is_refused_wherever_it_ends(saved: Path) -> None:
    whole = saved.read_bytes()
    for end in range(0, len(whole), len(whole) // 60):
        saved.write_bytes(whole[:end])
        with pytest.raises(UnsupportedState, match=r"pages\.sel is not a selector"):
            Selector.load(saved)


def test_a_damaged_byte_is_noticed_or_harmless(saved: Path) -> None:
    whole = saved.read_bytes()
    expected = without_token(Selector.load(saved))
    rng = np.random.default_rng(11)
    n_noticed = 0
    for _ in range(250):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        saved.write_bytes(damaged)
        try:
            loaded = Selector.load(saved)
        except UnsupportedState:
            n_noticed += 1
        else:
            assert without_token(loaded) == expected
    assert n_noticed > 100


@pytest.mark.parametrize("moment", ["writing", "syncing", "replacing"])
def test_an_interrupted_save_leaves_the_old_file(
    moment: str, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()
    selector = Selector.load(saved)
    play(selector, 10)
    unsaved = everything(selector)

    def interrupt(*anything: Any, **settings: Any) -> None:
        if moment == "writing":
            anything[0].write(b"half of a file")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if moment == "writing":
            patch.setattr(np, "savez_compressed", interrupt)
        elif moment == "syncing":
            patch.setattr("os.fsync", interrupt)
        else:
            patch.setattr(Path, "replace", interrupt)
        with pytest.raises(KeyboardInterrupt):
            selector.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["pages.sel"]
    assert everything(selector) == unsaved
    selector.save(saved)
    assert knowledge(Selector.load(saved)) == knowledge(selector)


def test_a_folder_that_does_not_exist_is_named_with_the_file_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "pages.sel"
    with pytest.raises(FileNotFoundError) as caught:
        new_selector().save(path)
    assert str(caught.value).endswith(f"{str(path)!r}")
