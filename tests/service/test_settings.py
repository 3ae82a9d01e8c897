"""Settings: three sources, one rule each, and an error that names source and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slotwise.errors import InvalidConfig, MissingData
from slotwise.service.settings import Settings, is_loopback, load_settings, setting_notes


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "slotwise.toml"
    file.write_text('host = "localhost"\nport = 1\nmax_batch = 7\n')
    settings = load_settings(file, {"SLOTWISE_PORT": "2", "SLOTWISE_HOST": "::1"}, {"port": 3})
    assert (settings.host, settings.port, settings.max_batch) == ("::1", 3, 7)


def test_flags_that_were_not_given_change_nothing() -> None:
    assert load_settings(None, {}, {"port": None, "host": None}) == Settings()


def test_other_variables_are_left_alone() -> None:
    others = {"HOME": "x", "PORT": "5", "SLOTWISE_KEY": "of the command import"}
    assert load_settings(None, others, {}) == Settings()


@pytest.mark.parametrize(
    ("environment", "flags", "message"),
    [
        (
            {"SLOTWISE_PORT": "x"},
            {},
            "environment: SLOTWISE_PORT: `port` must be a whole number, got text",
        ),
        ({"SLOTWISE_PROT": "1"}, {}, "SLOTWISE_PROT: no such setting; did you mean `port`?"),
        ({"SLOTWISE_PORT": "70000"}, {}, "must be a whole number, at most 65535, got 70000"),
        ({}, {"port": 70_000}, "flags: port: `port` must be a whole number, at most 65535"),
        (
            {},
            {"durability": "maybe"},
            "`durability` must be 'batched' or 'strict', got 'maybe'",
        ),
        (
            {},
            {"fold_every_s": "0"},
            "flags: fold_every_s: `fold_every_s` must be a number, more than 0",
        ),
        ({}, {"public_url": "ftp://x"}, "public_url: must be an http or https address"),
        ({}, {"public_url": "https://"}, "public_url: must be an http or https address"),
        ({}, {"public_url": "https://[::1"}, "public_url: must be an http or https address"),
        ({}, {"public_url": "http://h:99999"}, "public_url: must be an http or https address"),
    ],
)
def test_a_broken_rule_names_its_source_and_key(
    environment: dict[str, str], flags: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidConfig, match=message.replace("(", r"\(")):
        load_settings(None, environment, flags)


@pytest.mark.parametrize(
    "url",
    [
        "https://me:secret@alerts.example/x",
        "http://me:secret@alerts.example",
        "ftp://me:secret@[/",
        "http://hooks.slack.com/services/T0/B0/secret",
        "http://hooks.slack.com?sig=secret",
    ],
)
def test_a_refused_alert_url_does_not_show_its_secrets(url: str) -> None:
    with pytest.raises(InvalidConfig, match="alert_url: must be an https address") as refused:
        load_settings(None, {"SLOTWISE_ALERT_URL": url}, {})
    assert "secret" not in str(refused.value)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "slotwise.toml"
    file.write_text('port = "8460"')
    with pytest.raises(
        InvalidConfig, match=r"slotwise.toml: port: `port` must be a whole number, got text"
    ):
        load_settings(file, {}, {})
    file.write_text("port = ")
    with pytest.raises(InvalidConfig, match=r"slotwise.toml: not TOML"):
        load_settings(file, {}, {})
    with pytest.raises(MissingData, match=r"`config` must be a file that exists"):
        load_settings(tmp_path / "none.toml", {}, {})


def test_every_setting_has_a_note() -> None:
    notes = setting_notes()
    assert list(notes) == list(Settings.__struct_fields__)
    for name, note in notes.items():
        assert note, name


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.1", False),
        ("shop.example", False),
        ("", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_click_urls_start_with_the_public_address() -> None:
    assert Settings(host="::1", port=5).public_base == "http://[::1]:5"
    assert Settings(public_url="https://go.example/").public_base == "https://go.example"


def test_deeply_nested_toml_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text("seed = " + "[" * 100_000)
    with pytest.raises(InvalidConfig, match=r"deep\.toml: arrays and tables are nested too deeply"):
        load_settings(file, {}, {})


def test_proxies_that_are_no_networks_are_refused() -> None:
    assert load_settings(None, {}, {"trusted_proxies": "10.0.0.0/8, ::1"}).proxy_networks == (
        "10.0.0.0/8",
        "::1",
    )
    with pytest.raises(InvalidConfig, match=r"trusted_proxies: .* got 'proxy.example'"):
        load_settings(None, {}, {"trusted_proxies": "10.0.0.1,proxy.example"})
