"""Alerts: where they go, which were sent, and a test. Used by `app` and `server`."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import Meta

from slotwise.service.access.keys import click_secrets
from slotwise.service.alert_conditions import Alert, alerts_of
from slotwise.service.alerting import AlertWatch
from slotwise.service.api.bodies import Time
from slotwise.service.api.context import Operations, Request, ServiceContext
from slotwise.service.api.dashboard import dashboard_pool
from slotwise.service.records import compose, to_time
from slotwise.service.refusals import Conflict, UnknownPool
from slotwise.service.webhook import Delivery, Webhook, alert_secret

OPERATIONS = Operations()


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
    active: tuple[ActiveAlert, ...]
    deliveries: tuple[Delivery, ...]
    """The latest ones, newest first, since the service started."""


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

    secrets = click_secrets(context.service.directory.keys())
    secret = alert_secret(secrets[next(reversed(secrets))])
    settings = context.settings
    webhook = Webhook(settings.alert_url, secret, context.public_base, settings.alert_format)
    return AlertWatch(webhook, look, lambda: to_time(context.clock_us()))


@OPERATIONS.add("GET /v1/alerts", "admin")
async def show_alerts(context: ServiceContext, _request: Request) -> AlertsAnswer:
    """Read the present alerts and those sent to the webhook."""
    watch = context.alerts
    assert isinstance(watch, AlertWatch)
    active = tuple(
        compose(ActiveAlert, alert, alert=alert.kind, since=since)
        for alert, since in list(watch.active.values())
    )
    deliveries = tuple(watch.deliveries)
    return compose(AlertsAnswer, watch.webhook, active=active, deliveries=deliveries)


@OPERATIONS.add("POST /v1/alerts:test", "admin", problems=("conflict",))
async def send_test_alert(context: ServiceContext, _request: Request) -> Delivery:
    """Send a test message to the alert webhook."""
    watch = context.alerts
    assert isinstance(watch, AlertWatch)
    if not watch.webhook.url:
        raise Conflict("there is no address for alerts; set `alert_url` and restart the service")
    now = to_time(context.clock_us())
    alert = Alert(kind="test", pool_id="", detail="This is a test: alerts arrive here.")
    message = watch.webhook.message(alert, "test", now, now)
    loop = asyncio.get_running_loop()
    sent = await loop.run_in_executor(context.alert_threads, watch.webhook.send, message)
    watch.deliveries.appendleft(sent)
    return sent
