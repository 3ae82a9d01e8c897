"""Alerts: what is wrong now, what the webhook was told, and a test of it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from slotwise.service.access.keys import click_secrets
from slotwise.service.alerting.conditions import Alert, alerts_of
from slotwise.service.alerting.watch import AlertWatch
from slotwise.service.alerting.webhook import Delivery, Webhook, alert_secret
from slotwise.service.api.answers import Time, to_time
from slotwise.service.api.context import Operation, Request, ServiceContext
from slotwise.service.api.dashboard import pool_picture
from slotwise.service.errors import Conflict, UnknownPool

__all__ = ["OPERATIONS", "make_watch"]


class ActiveAlert(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong now."""

    alert: str
    pool_id: str
    detail: str
    since: Time


class AlertsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Where alerts go and what was told."""

    url: str
    """The setting `alert_url`; empty where there is none."""
    secret: Annotated[str, Meta(description="What messages are signed with")]
    active: tuple[ActiveAlert, ...]
    deliveries: tuple[Delivery, ...]
    """The latest ones, newest first, since the service started."""


def make_watch(context: ServiceContext) -> AlertWatch:
    """Return a watch over the pools of a service; it is not started yet."""

    def look() -> list[Alert]:
        found: list[Alert] = []
        if context.service.health().is_learner:
            for pool in context.service.pools():
                try:
                    found += alerts_of(pool_picture(context, pool.pool_id).overview)
                except UnknownPool:
                    continue
        return found

    secrets = click_secrets(context.service.keys())
    secret = alert_secret(secrets[next(reversed(secrets))])
    webhook = Webhook(context.settings.alert_url, secret, context.public_base)
    return AlertWatch(webhook, look, lambda: to_time(context.clock_us()))


async def show_alerts(context: ServiceContext, _request: Request) -> AlertsAnswer:
    """Return what is wrong and what the webhook was told."""
    watch = context.alerts
    assert isinstance(watch, AlertWatch)
    active = tuple(
        ActiveAlert(alert=alert.kind, pool_id=alert.pool_id, detail=alert.detail, since=since)
        for alert, since in list(watch.active.values())
    )
    return AlertsAnswer(
        url=watch.webhook.url,
        secret=watch.webhook.secret,
        active=active,
        deliveries=tuple(watch.deliveries),
    )


async def send_test_alert(context: ServiceContext, _request: Request) -> Delivery:
    """Send a test message, once, and say what became of it."""
    watch = context.alerts
    assert isinstance(watch, AlertWatch)
    if not watch.webhook.url:
        raise Conflict("there is no address to send alerts to; set `alert_url` and start again")
    now = to_time(context.clock_us())
    alert = Alert(kind="test", pool_id="", detail="This is a test: alerts arrive here.")
    message = watch.webhook.message(alert, "test", now, now)
    loop = asyncio.get_running_loop()
    sent = await loop.run_in_executor(context.change_threads, watch.webhook.send, message)
    watch.deliveries.appendleft(sent)
    return sent


_DELIVERY = {
    "alert": "test",
    "state": "test",
    "pool_id": "",
    "sent_at": "2026-01-05T10:00:00Z",
    "delivered": True,
    "attempts": 1,
    "detail": "the receiver answered 204",
}

OPERATIONS = (
    Operation(
        method="GET",
        path="/v1/alerts",
        name="show_alerts",
        summary="Read what is wrong now and what the alert webhook was told",
        handler=show_alerts,
        scope="admin",
        answer=AlertsAnswer,
        answer_example={
            "url": "https://alerts.example/slotwise",
            "secret": "3f0c…",
            "active": [],
            "deliveries": [_DELIVERY],
        },
    ),
    Operation(
        method="POST",
        path="/v1/alerts:test",
        name="send_test_alert",
        summary="Send a test message to the alert webhook",
        handler=send_test_alert,
        scope="admin",
        answer=Delivery,
        problems=("conflict",),
        answer_example=_DELIVERY,
    ),
)
