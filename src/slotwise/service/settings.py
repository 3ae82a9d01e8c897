"""Settings of the service: defaults, a TOML file, SLOTWISE_* variables, flags; later ones win.

Used by most of the service.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from slotwise.errors import InvalidConfig, InvalidInput, MissingData, did_you_mean
from slotwise.service import limits
from slotwise.service.http.addresses import TrustedProxies, split_address
from slotwise.service.http.problems import advise, field_error, with_value
from slotwise.service.logs import LogLevel

ENVIRONMENT_PREFIX = "SLOTWISE_"
NO_SETTINGS = ("SLOTWISE_COMPILE", "SLOTWISE_CONFIG", "SLOTWISE_KEY", "SLOTWISE_PLAIN_NJIT")
"""Variables with that prefix that set options of commands: --config, and --key of `import`."""

AlertFormat = Literal["auto", "json", "slack", "teams"]
Count = Annotated[int, Meta(ge=1)]
Rate = Annotated[float, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]
SessionSeconds = Annotated[int, Meta(ge=60, le=limits.LONGEST_SESSION_S)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything an operator can set; the descriptions are the documentation.

    >>> Settings(port=9000).public_base
    'http://127.0.0.1:9000'
    """

    host: Annotated[str, Meta(description="Address to listen on")] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port; 0 takes a free one")] = 8460
    store: Annotated[str, Meta(description="Store URL: a SQLite file, or postgresql://")] = (
        "sqlite:///slotwise.db"
    )
    store_direct: Annotated[
        str,
        Meta(
            description="URL of PostgreSQL itself, for the session that holds the lock of the "
            "learner, where store is the URL of a connection pooler"
        ),
    ] = ""
    public_url: Annotated[
        str, Meta(description="What click URLs start with; empty: the address listened on")
    ] = ""
    durability: Annotated[
        Literal["batched", "strict"],
        Meta(description="strict: a decision, too, is answered only after its commit"),
    ] = "batched"
    fold_every_s: Annotated[
        Seconds, Meta(description="How often closed windows are folded into the statistics")
    ] = 1.0
    seed: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Seed of the pages drawn; none: from the system"),
    ] = None
    max_pool_links: Annotated[Count, Meta(description="Links a pool may have")] = (
        limits.MAX_POOL_LINKS
    )
    max_pools: Annotated[Count, Meta(description="Pools the service may have")] = limits.MAX_POOLS
    max_body_bytes: Annotated[Count, Meta(description="Bytes a request body may have")] = (
        limits.MAX_BODY_BYTES
    )
    max_depth: Annotated[Count, Meta(description="How deep JSON may be nested")] = limits.MAX_DEPTH
    max_batch: Annotated[Count, Meta(description="Items a batch may have")] = limits.MAX_BATCH_ITEMS
    max_connections: Annotated[Count, Meta(description="Connections open at once")] = 4_096
    head_within_s: Annotated[
        Seconds, Meta(description="How long a client may take to send the head of a request")
    ] = 10.0
    body_within_s: Annotated[
        Seconds, Meta(description="How long a client may take to send the body of a request")
    ] = 30.0
    read_within_s: Annotated[
        Seconds, Meta(description="How long a client may leave an answer unread")
    ] = 60.0
    trusted_proxies: Annotated[
        str,
        Meta(
            description="Addresses or networks of proxies whose X-Forwarded-For is trusted, "
            "separated by commas"
        ),
    ] = ""
    decide_per_s: Annotated[Rate, Meta(description="Decisions per second and key")] = 50_000.0
    pages_per_s: Annotated[
        Rate, Meta(description="Pages for the script per second and client address")
    ] = 100.0
    events_per_s: Annotated[Rate, Meta(description="Events per second and key")] = 100_000.0
    clicks_per_s: Annotated[
        Rate,
        Meta(
            description="Click links per second: for one page, and for one client address that "
            "sends unknown ones"
        ),
    ] = 200.0
    refused_keys_per_s: Annotated[
        Rate, Meta(description="Calls with a missing or wrong key per second and client address")
    ] = 20.0
    calls_per_s: Annotated[
        Rate, Meta(description="All other calls per second and key, or client address")
    ] = 500.0
    retention_days: Annotated[
        Annotated[int, Meta(ge=0)],
        Meta(
            description="Days that raw rows are kept after their windows have closed; 0 keeps all"
        ),
    ] = 0
    alert_url: Annotated[
        str,
        Meta(
            description="Address that is called when a floor is missed, feedback stops or learning "
            "fails: https, or http on this machine; empty: alerts are not sent"
        ),
    ] = ""
    alert_format: Annotated[
        AlertFormat,
        Meta(
            description="Format sent to alert_url: json (signed), slack or teams; auto: by the "
            "host, json if it is neither Slack nor Teams"
        ),
    ] = "auto"
    alert_hosts: Annotated[
        str,
        Meta(
            description="Hosts that alerts added on the dashboard may go to, in addition to those "
            "of Slack and Teams, separated by commas"
        ),
    ] = ""
    session_idle_s: Annotated[
        SessionSeconds,
        Meta(description="How long a user stays signed in to the dashboard without using it"),
    ] = limits.SESSION_S
    session_max_s: Annotated[
        SessionSeconds, Meta(description="How long after signing in a user must sign in again")
    ] = limits.MAX_SESSION_S
    plan_within_s: Annotated[
        Seconds, Meta(description="How long the simulation of a traffic plan may take")
    ] = 120.0
    log_level: Annotated[LogLevel, Meta(description="Least severe log lines written")] = "info"
    log_requests: Annotated[
        Literal["all", "notable", "none"],
        Meta(description="Requests logged; notable: admin changes and refusals"),
    ] = "notable"
    stop_within_s: Annotated[
        Seconds, Meta(description="How long requests in progress may take when stopping")
    ] = 4.0

    @property
    def public_base(self) -> str:
        """The start of click URLs, without a slash at the end."""
        if self.public_url:
            return self.public_url.rstrip("/")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def proxy_networks(self) -> tuple[str, ...]:
        """The networks of `trusted_proxies`."""
        return _listed(self.trusted_proxies)

    @property
    def alert_host_names(self) -> tuple[str, ...]:
        """The hosts of `alert_hosts`."""
        return _listed(self.alert_hosts)


def _listed(text: str) -> tuple[str, ...]:
    """Return the parts of a text that are separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def setting_notes() -> dict[str, str]:
    """Return each setting's name with its documentation, in order."""
    fields = msgspec.json.schema(Settings)["$defs"]["Settings"]["properties"]
    return {name: schema["description"] for name, schema in fields.items()}


def load_settings(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, object]
) -> Settings:
    """Merge the sources and check every value; a broken rule names its source and key.

    >>> load_settings(None, {"SLOTWISE_PORT": "9000"}, {"host": "localhost"}).port
    9000
    >>> load_settings(None, {"SLOTWISE_PORT": "many"}, {})
    Traceback (most recent call last):
    slotwise.errors.InvalidConfig: environment: SLOTWISE_PORT: `port` must be a whole number, \
got text
    """
    from_file = _read_file(file) if file else {}
    from_environment = {
        name.removeprefix(ENVIRONMENT_PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT_PREFIX) and name not in NO_SETTINGS
    }
    # Flags given as NAME=VALUE are text, like the environment.
    from_flags = {name: value for name, value in flags.items() if value is not None}
    merged: dict[str, Any] = {}
    for source, values, strict in (
        (str(file), from_file, True),
        ("environment", from_environment, False),
        ("flags", from_flags, False),
    ):
        _check(source, values, strict=strict)
        merged.update(values)
    settings = msgspec.convert(merged, Settings, strict=False)
    public_url = settings.public_url
    parts = split_address(public_url)
    if public_url and (parts is None or parts.query):
        raise InvalidConfig(f"public_url: must be an http or https address, got {public_url!r}")
    _check_alert_url(settings.alert_url)
    try:
        TrustedProxies(settings.proxy_networks)
    except InvalidInput as error:
        raise InvalidConfig(f"trusted_proxies: {error}") from None
    return settings


def _read_file(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text())
    except FileNotFoundError:
        raise MissingData(f"`config` must be a file that exists, got {str(file)!r}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{file}: not TOML: {error}") from None
    except RecursionError:
        raise InvalidConfig(f"{file}: arrays and tables are nested too deeply") from None


def _check(source: str, values: Mapping[str, Any], *, strict: bool) -> None:
    for name, value in values.items():
        shown = f"{ENVIRONMENT_PREFIX}{name.upper()}" if source == "environment" else name
        if name not in Settings.__struct_fields__:
            advice = did_you_mean(name, Settings.__struct_fields__)
            raise InvalidConfig(f"{source}: {shown}: no such setting; {advice}")
        try:
            msgspec.convert({name: value}, Settings, strict=strict)
        except msgspec.ValidationError as error:
            is_number = isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value)
            number = int(value) if is_number else value
            broken = with_value(field_error(str(error)), {name: number})
            raise InvalidConfig(f"{source}: {shown}: {advise(broken, Settings).detail}") from None


ALERT_URL_RULE = "an https address without a user name, or an http address of this machine"


def is_alert_url(url: str) -> bool:
    """Return whether alerts may be sent to an address: encrypted, and without a password in it.

    >>> is_alert_url("https://alerts.example/x"), is_alert_url("http://alerts.example/x")
    (True, False)
    """
    parts = split_address(url)
    return parts is not None and (
        "@" not in parts.netloc and (parts.scheme == "https" or is_loopback(parts.hostname or ""))
    )


def _check_alert_url(url: str) -> None:
    """Refuse an address that is not safe."""
    if url and not is_alert_url(url):
        # A user name, a password and the path are secrets, and errors end up in logs.
        raise InvalidConfig(f"alert_url: must be {ALERT_URL_RULE}, got {origin_of(url)!r}")


def origin_of(url: str) -> str:
    """Return the scheme and the host of an address, without anything that may be a secret.

    >>> origin_of("https://me:secret@alerts.example:8443/token?key=1")
    'https://alerts.example:8443'
    """
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{re.split('[/?#]', rest)[0].rpartition('@')[2]}"


class ServiceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the service runs, for all pools."""

    fold_every_s: float = 1.0
    """How often closed windows are folded and probabilities published."""
    commit_every_ms: float = 2.0
    """How long writes wait so that they share one commit."""
    max_waiting: int = 100_000
    """Writes in the queue; beyond it feedback is refused and the oldest decisions are dropped."""
    max_links: int = limits.MAX_POOL_LINKS
    """Links of one pool, retired ones included."""
    max_pools: int = limits.MAX_POOLS
    retention_days: int = 0
    """How long raw rows are kept after their windows have closed; 0 keeps all."""
    seed: int | None = None
    """Makes every page reproducible; for tests."""
    commit_by_hand: bool = False
    """Commit only when `commit_waiting` is called; for tests."""
