"""A stored state that cannot be restored: nothing is lost, and everybody is told."""

from __future__ import annotations

import logging
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from slotwise.service.alert_conditions import alerts_of
from slotwise.service.learning.pool_player import decode_state, encode_state
from slotwise.service.learning.pool_run import NEW_SETTINGS
from slotwise.service.records import SECOND_US, ClickEvent
from slotwise.service.reporting.counts_since_start import OutcomesSinceStart
from slotwise.service.reporting.overview import draw_pool
from slotwise.service.reporting.pool_report import describe_trouble
from slotwise.service.service import Service
from slotwise.service.settings import ServiceOptions
from slotwise.service.storage.maintenance import purge
from slotwise.service.storage.sqlite import SqliteStore
from slotwise.service.storage.verify import verify
from tests.service.rows import T0, arrays_of, learned_of, link, pool

LINKS = [link(f"l{k}") for k in range(6)]
SHORT = {"click_window_s": 60, "revenue_window_s": 60, "policy_settings": {}}
END_US = T0 + 1_000 * SECOND_US


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def started(path: Path) -> Service:
    return Service(SqliteStore(path), ServiceOptions(seed=1, commit_every_ms=0.0))


def visit(service: Service, n_views: int, now_us: int) -> None:
    chance = random.Random(now_us)
    for k in range(n_views):
        at_us = now_us + k * SECOND_US
        page = service.decider.decide("home", at_us, visitor={})
        for shown in page.shown:
            if chance.random() < (0.6 if shown.link_id == "l3" else 0.1):
                click = ClickEvent(page.decision_id, shown.link_id)
                service.committer.submit_events([click], at_us + 1)


def trained(path: Path, **settings: Any) -> Service:
    service = started(path)
    made = pool(policy="paced-bayes", **{**SHORT, **settings})
    service.directory.put_pool(made, "test", T0).result()
    service.directory.put_links("home", LINKS, "test", T0).result()
    visit(service, 60, T0 + 1)
    service.learner.learn(END_US)
    service.flush().result()
    return service


def stored_state(path: Path) -> bytes:
    with closing(sqlite3.connect(path)) as connection:
        [(state,)] = connection.execute("SELECT state FROM learned").fetchall()
    return bytes(state)


def write_state(path: Path, state: bytes) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE learned SET state = ?", (state,))


def drop_rows(path: Path) -> None:
    store = SqliteStore(path)
    purge(store.reading, lambda one: store.commit([one])[0], END_US)
    store.close()


def of_another_release(state: bytes) -> bytes:
    """Return a state that lacks an array which this release needs."""
    stored = decode_state(state)
    return encode_state(replace(stored, arrays=dict(list(stored.arrays.items())[1:])))


def of_other_shape(state: bytes) -> bytes:
    """Return a state with an array that is too short."""
    stored = decode_state(state)
    (name, (shape, saved)), *others = stored.arrays.items()
    return encode_state(replace(stored, arrays={name: (shape, saved[8:])} | dict(others)))


def of_other_links(state: bytes) -> bytes:
    """Return a state about links that the pool never had."""
    return encode_state(replace(decode_state(state), link_ids=tuple("abcdef")))


def not_utf_8(stored: bytes) -> bytes:
    return stored.replace(b"paced", b"pace\xff")


DAMAGES = [
    of_another_release,
    of_other_shape,
    of_other_links,
    not_utf_8,
    lambda _: b"\x99",
    lambda one: one[:-9],
]


def probabilities(service: Service) -> list[float]:
    probabilities: list[float] = service.decider.installed("home").probabilities.tolist()
    return probabilities


@pytest.mark.parametrize("features", [{}, {"device": ["phone", "desktop"]}])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_pool_keeps_its_version_and_its_state_where_rows_are_purged(
    path: Path, damage: Any, features: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    service = trained(path, features=features)
    before = probabilities(service)
    service.close()
    good = stored_state(path)
    write_state(path, broken := damage(good))
    drop_rows(path)
    caplog.set_level(logging.INFO)
    service = started(path)
    assert probabilities(service) == before
    visit(service, 20, END_US)
    service.learner.learn(END_US + 200 * SECOND_US)
    assert probabilities(service) == before
    health = service.health()
    assert (health.is_learning, health.pools[0].fallback) == (False, "")
    assert "What 1 of 1 pools have learned cannot be read" in health.detail
    trouble = describe_trouble(health, "home")
    assert "The pool shows its last version, and what is stored stays as it is" in trouble
    assert "reset the statistics of all links" in trouble
    now_us = END_US + 200 * SECOND_US
    picture = draw_pool(service.reporter, "home", now_us, OutcomesSinceStart(now_us), health)
    [alert] = alerts_of(picture.overview)
    assert (alert.kind, alert.detail) == ("learning-failed", trouble)
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING] == [
        f"pool home: {trouble}"
    ]
    # Feedback is still counted, and a changed pool shows its present links only.
    assert service.reporter.stats("home").groups[0].click_views == 80
    service.directory.put_links(
        "home", [replace(LINKS[3], retired=True), link("new")], "test", END_US + 1
    ).result()
    shown = service.decider.installed("home")
    assert "l3" not in shown.link_ids
    assert sum(shown.probabilities) == pytest.approx(2.0)
    service.directory.put_links("home", LINKS[3:4], "test", END_US + 2).result()
    service.flush().result()
    service.close()
    assert stored_state(path) == broken
    # With a state that can be read, the pool has learned the views since.
    write_state(path, good)
    service = started(path)
    service.learner.learn(END_US + 201 * SECOND_US)
    assert learned_of(service).arrays["rounds"].tolist() == [80.0, 80.0]
    assert service.health().is_learning
    service.close()
    store = SqliteStore(path)
    assert verify(store).mismatches == ()
    store.close()


def test_rows_that_an_unreadable_state_lacks_are_not_purged(path: Path) -> None:
    service = trained(path)
    service.close()
    write_state(path, of_another_release(stored_state(path)))
    drop_rows(path)
    service = started(path)
    visit(service, 20, END_US)
    service.learner.learn(END_US + 200 * SECOND_US)
    service.close()
    drop_rows(path)
    store = SqliteStore(path)
    with store.reading() as reader:
        # The last of the views that it has learned is never purged.
        assert len(reader.views_after("home", 0, None, 0, 100).views) == 21
    store.close()


def test_a_pool_starts_over_when_all_its_links_are_reset(path: Path) -> None:
    service = trained(path)
    service.close()
    write_state(path, b"\x99")
    drop_rows(path)
    service = started(path)
    service.learner.learn(END_US)
    assert not service.health().is_learning
    reset = service.directory.put_links("home", LINKS, "test", END_US, reset_statistics=True)
    reset.result()
    service.learner.learn(END_US + 1)
    assert service.health().is_learning
    assert learned_of(service).arrays["views"].sum() == 0
    service.close()


def test_a_state_is_learned_again_from_the_rows_where_all_exist(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = trained(path)
    known, before = arrays_of(service), probabilities(service)
    service.close()
    write_state(path, b"\x99")
    service = started(path)
    assert probabilities(service) == before
    service.learner.learn(END_US + 1)
    assert arrays_of(service) == known
    assert service.health().is_learning
    said = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(said) == 1
    assert "all its views are learned again from the rows" in said[0]
    service.close()


def test_a_version_that_cannot_be_read_is_made_anew(path: Path) -> None:
    service = trained(path)
    known = arrays_of(service)
    service.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        [(published,)] = connection.execute("SELECT published FROM learned").fetchall()
        connection.execute("UPDATE learned SET published = ?", (not_utf_8(bytes(published)),))
    drop_rows(path)
    service = started(path)
    service.learner.learn(END_US + 1)
    assert arrays_of(service) == known
    assert service.health().is_learning
    service.close()


@pytest.mark.parametrize("changed", [{"policy": "queue-ts"}, {"features": {"device": ["phone"]}}])
def test_new_settings_keep_the_counts_of_purged_views(
    path: Path, changed: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service = trained(path)
    views = learned_of(service).arrays["views"].sum()
    service.close()
    drop_rows(path)
    service = started(path)
    made = replace(service.directory.pool("home"), **changed)
    service.directory.put_pool(made, "test", END_US).result()
    service.learner.learn(END_US + 1)
    counted = service.reporter.stats("home").groups[0].click_views
    assert (counted, views) == (60, 240)  # two links a page, at two levels
    assert learned_of(service).arrays["views"].sum() == views
    assert NEW_SETTINGS % "home" in caplog.messages
    service.close()


def test_a_word_with_a_new_floor_takes_the_place_of_a_rare_one(path: Path) -> None:
    service = started(path)
    made = pool(policy="paced-bayes", features={"country": "text"}, **SHORT)
    service.directory.put_pool(made, "test", T0).result()
    service.directory.put_links("home", LINKS, "test", T0).result()
    for k in range(30 * 50):
        said = {"country": f"C{k % 30}"}
        service.decider.decide("home", T0 + 1 + k, visitor=said)
    service.learner.learn(END_US)
    rounds = learned_of(service).arrays["rounds"].tolist()
    service.flush().result()
    service.close()
    drop_rows(path)
    service = started(path)
    floor = {"country": {"XX": 0.2}}
    made = replace(service.directory.pool("home"), segment_floors=floor)
    service.directory.put_pool(made, "test", END_US).result()
    service.learner.learn(END_US + 1)
    assert learned_of(service).arrays["rounds"].tolist() == rounds
    words = learned_of(service).words["country"]
    assert (len(words), "XX" in words) == (30, True)
    assert service.health().is_learning
    service.close()


@pytest.mark.slow
def test_a_pool_that_outgrows_pairs_of_values_goes_on(path: Path) -> None:
    service = started(path)
    features = {f"f{k}": ["a", "b"] for k in range(8)}
    made = pool(policy="paced-bayes", features=features, **SHORT)
    service.directory.put_pool(made, "test", T0).result()
    links = [link(f"l{k}") for k in range(452)]
    service.directory.put_links("home", links[:440], "test", T0).result()
    visit(service, 12, T0 + 1)
    service.learner.learn(END_US)
    service.flush().result()
    service.close()
    drop_rows(path)
    service = started(path)
    service.directory.put_links("home", links[440:], "test", END_US).result()
    service.learner.learn(END_US + 1)
    is_learning = service.health().is_learning
    service.close()
    assert is_learning


@pytest.mark.slow
def test_a_word_replaces_another_in_a_full_list_of_two(path: Path) -> None:
    """Every view is learned once, whichever form the policy has."""
    service = started(path)
    made = pool(policy="paced-bayes", features={"country": "text", "ref": "text"}, **SHORT)
    service.directory.put_pool(made, "test", T0).result()
    service.directory.put_links("home", LINKS, "test", T0).result()
    said = [f"C{k % 30}" for k in range(30 * 52)] + ["new"] * 130
    for k, country in enumerate(said):
        service.decider.decide("home", T0 + 1 + k, visitor={"country": country})
    for k in range(3):
        service.learner.learn(END_US + k)
    rounds, failure = (
        learned_of(service).arrays["rounds"].tolist(),
        service.health().pools[0].failure,
    )
    service.close()
    assert (rounds, failure) == ([len(said)] * 2, "")
