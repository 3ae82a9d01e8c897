"""Alerts: who receives them, which were sent, and a test. Used by `app` and `server`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slotwise.service.access.keys import click_secrets
from slotwise.service.alert_conditions import Alert, AlertKind, alerts_of
from slotwise.service.alert_receivers import AlertReceivers
from slotwise.service.alerting import AlertWatch
from slotwise.service.api.bodies import Id, Strict, Time
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.dashboard import dashboard_pool
from slotwise.service.http.routing import links_to
from slotwise.service.limits import MAX_URL_CHARS
from slotwise.service.records import time_if_any, to_time
from slotwise.service.refusals import Conflict, UnknownPool, UnknownReceiver
from slotwise.service.settings import AlertFormat
from slotwise.service.webhook import (
    SETTINGS_RECEIVER,
    AlertReceiver,
    Delivery,
    Webhook,
    alert_secret,
    is_allowed,
)

SentKind = Literal[
    "floor-missed",
    "rule-violated",
    "feedback-stopped",
    "learning-failed",
    "one-network",
    "own-page-better",
]
"""The kinds that a receiver can be limited to: all but the test."""


class ReceiverBody(Strict, frozen=True, kw_only=True):
    """A receiver to add."""

    url: Annotated[
        str,
        Meta(
            max_length=MAX_URL_CHARS,
            description="A webhook of Slack or Teams, or an address on a host of `alert_hosts`",
        ),
    ]
    format: Annotated[AlertFormat, Meta(description="auto: by the host")] = "auto"
    pool_id: (
        Annotated[Id, Meta(description="The only pool whose alerts are sent; none: all")] | None
    ) = None
    alerts: Annotated[
        tuple[SentKind, ...],
        Meta(
            description="The alerts that are sent; none: all",
            extra_json_schema={"uniqueItems": True},
        ),
    ] = ()


class ReceiverAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A receiver of alerts."""

    receiver_id: str
    """`settings` for the address that the operator set as `alert_url`; it cannot be removed."""
    url: str
    """Of Slack and Teams its host only."""
    format: AlertFormat
    pool_id: str
    """The only pool whose alerts are sent; empty: all pools."""
    alerts: tuple[AlertKind, ...]
    """The alerts that are sent; empty: all."""
    allowed: bool
    """False where its host was removed from `alert_hosts`: nothing is sent."""
    by: str
    """The label of the key that added it, or its id."""
    made_at: Time | None
    """None for that of the settings."""


class TestAlertBody(Strict, frozen=True, kw_only=True):
    """Who gets the test."""

    receiver_id: Annotated[Id, Meta(description="The receiver; none: the first")] | None = None


class ActiveAlert(msgspec.Struct, frozen=True, kw_only=True):
    """A present problem."""

    alert: str
    pool_id: str
    detail: str
    since: Time


class AlertsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Where alerts go and which were sent."""

    url: str
    """The setting `alert_url`, of Slack and Teams its host only; empty where there is none."""
    secret: Annotated[str, Meta(description="What messages are signed with")]
    receivers: tuple[ReceiverAnswer, ...]
    """That of the settings first, then those that were added."""
    hosts: tuple[str, ...]
    """The setting `alert_hosts`: hosts of receivers, in addition to those of Slack and Teams."""
    active: tuple[ActiveAlert, ...]
    deliveries: tuple[Delivery, ...]
    """The latest ones, newest first, since the service started."""


OPERATIONS = Operations()


def make_watch(context: ServiceContext) -> AlertWatch:
    """Return a watch over the pools of a service; it is not started yet."""

    def look() -> list[Alert]:
        found: list[Alert] = []
        if context.service.health().is_learner:
            for pool in context.service.directory.pools():
                try:
                    found += alerts_of(dashboard_pool(context, pool.pool_id).overview)
                except UnknownPool:
                    continue
        return found

    def webhooks() -> list[Webhook]:
        return [_webhook(context, one) for one in _receivers(context) if _is_used(context, one)]

    return AlertWatch(webhooks, look, lambda: to_time(context.clock_us()))


@OPERATIONS.add("GET /v1/alerts", "admin")
def show_alerts(context: ServiceContext, _request: Request) -> AlertsAnswer:
    """Read who receives alerts, the present alerts and those that were sent."""
    watch = _watch(context)
    active = tuple(
        ActiveAlert(alert=alert.kind, pool_id=alert.pool_id, detail=alert.detail, since=since)
        for alert, since in list(watch.active.values())
    )
    return AlertsAnswer(
        url=_of_settings(context).shown_url,
        secret=_secret(context),
        receivers=tuple(_answer(context, one) for one in _receivers(context)),
        hosts=context.settings.alert_host_names,
        active=active,
        deliveries=tuple(watch.deliveries),
    )


@OPERATIONS.add(
    "POST /v1/alerts/receivers",
    "admin",
    body=ReceiverBody,
    status=201,
    example={"url": "https://hooks.slack.com/services/T0/B0/x", "alerts": ["floor-missed"]},
    links=links_to("remove_receiver", giving=("receiver_id",)),
    problems=("unknown-pool", "conflict"),
)
async def add_receiver(context: ServiceContext, request: Request) -> ReceiverAnswer:
    """Add an address that alerts are sent to."""
    body: ReceiverBody = request.body
    if body.pool_id is not None:
        context.service.directory.pool(body.pool_id)
    made = AlertReceiver(
        url=body.url, format=body.format, pool_id=body.pool_id or "", alerts=body.alerts
    )
    stored = await asyncio.to_thread(
        _stored(context).add, made, request.caller(), context.clock_us()
    )
    return _answer(context, await asyncio.wrap_future(stored))


@OPERATIONS.add("DELETE /v1/alerts/receivers/{receiver_id}", "admin", problems=("conflict",))
async def remove_receiver(context: ServiceContext, request: Request) -> ReceiverAnswer:
    """Remove an address: nothing more is sent there."""
    receiver_id = request.path_values["receiver_id"]
    if receiver_id == SETTINGS_RECEIVER and context.settings.alert_url:
        raise Conflict("this address is the setting `alert_url`; the operator can change it")
    removed = await asyncio.to_thread(
        _stored(context).remove, receiver_id, request.caller(), context.clock_us()
    )
    return _answer(context, await asyncio.wrap_future(removed))


@OPERATIONS.add(
    "POST /v1/alerts:test",
    "admin",
    body=TestAlertBody,
    body_optional=True,
    example={"receiver_id": "settings"},
    problems=("conflict", "unknown-receiver"),
)
async def send_test_alert(context: ServiceContext, request: Request) -> Delivery:
    """Send a test message to a receiver of alerts."""
    body: TestAlertBody = request.body or TestAlertBody()
    used = [one for one in await asyncio.to_thread(_receivers, context) if _is_used(context, one)]
    if body.receiver_id is not None:
        used = [one for one in used if one.receiver_id == body.receiver_id]
        if not used:
            raise UnknownReceiver(f"there is no receiver of alerts {body.receiver_id!r}")
    if not used:
        raise Conflict("nobody receives alerts; add an address, or set `alert_url`")
    webhook = _webhook(context, used[0])
    now = to_time(context.clock_us())
    alert = Alert(kind="test", pool_id="", detail="This is a test: alerts arrive here.")
    message = webhook.message(alert, "test", now, now)
    loop = asyncio.get_running_loop()
    sent = await loop.run_in_executor(context.alert_threads, webhook.send, message)
    _watch(context).deliveries.appendleft(sent)
    return sent


def _watch(context: ServiceContext) -> AlertWatch:
    watch = context.alerts
    assert isinstance(watch, AlertWatch)
    return watch


def _stored(context: ServiceContext) -> AlertReceivers:
    service = context.service
    return AlertReceivers(service.store, service.committer, context.settings.alert_host_names)


def _of_settings(context: ServiceContext) -> AlertReceiver:
    settings = context.settings
    return AlertReceiver(url=settings.alert_url, format=settings.alert_format)


def _receivers(context: ServiceContext) -> list[AlertReceiver]:
    """Return the receiver of the settings and those that were added. Reading."""
    own = _of_settings(context)
    return [*([own] if own.url else []), *_stored(context).all()]


def _is_used(context: ServiceContext, receiver: AlertReceiver) -> bool:
    """Return whether alerts may be sent to a receiver now."""
    is_own = receiver.receiver_id == SETTINGS_RECEIVER
    return is_own or is_allowed(receiver.url, context.settings.alert_host_names)


def _secret(context: ServiceContext) -> str:
    """Return what messages are signed with: derived from the newest secret of the store."""
    secrets = click_secrets(context.service.directory.keys())
    return alert_secret(secrets[next(reversed(secrets))])


def _webhook(context: ServiceContext, receiver: AlertReceiver) -> Webhook:
    return Webhook(receiver, _secret(context), context.public_base)


def _answer(context: ServiceContext, receiver: AlertReceiver) -> ReceiverAnswer:
    key = context.service.directory.key_records.get(receiver.by)
    return ReceiverAnswer(
        receiver_id=receiver.receiver_id,
        url=receiver.shown_url,
        format=receiver.final_format,
        pool_id=receiver.pool_id,
        alerts=receiver.alerts,
        allowed=_is_used(context, receiver),
        by=(key.label if key else "") or receiver.by,
        made_at=time_if_any(receiver.made_us),
    )
