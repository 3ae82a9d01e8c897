"""Alerts: watch the conditions of pools, and call webhooks when one begins and ends.

Checks the figures of the dashboard, in separate threads. Used by `api`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from queue import Empty, Full, Queue
from threading import Event, Thread

from slotwise.service.alert_conditions import Alert, AlertKind
from slotwise.service.webhook import AlertMessage, Delivery, Webhook

_log = logging.getLogger(__name__)

EVERY_S = 60.0
RETRY_AFTER_S = (1.0, 5.0, 25.0)
"""How long to wait before each further attempt; after the last one a message is dropped."""
MAX_WAITING = 100
MAX_KEPT = 20
_Key = tuple[AlertKind, str]


class AlertWatch:
    """Checks once a minute, in a thread; sends in another, so that checks do not wait for calls.

    An alert starts when it is found twice in a row and ends when it is missing twice in a row:
    problems that last less than a minute are not sent. `webhooks` returns those that alerts are
    sent to now; nothing is checked where there are none. One that is added later gets the alerts
    that last, and one that is removed gets nothing more.
    """

    def __init__(
        self,
        webhooks: Callable[[], Sequence[Webhook]],
        look: Callable[[], Iterable[Alert]],
        clock: Callable[[], datetime],
        every_s: float = EVERY_S,
        retry_after_s: tuple[float, ...] = RETRY_AFTER_S,
    ) -> None:
        self._webhooks = webhooks
        self._look = look
        self._clock = clock
        self._every_s = every_s
        self._retry_after_s = retry_after_s
        self._last: set[_Key] = set()
        self._sent: dict[str, set[_Key]] = {}
        """The present alerts that each receiver was sent."""
        self._waiting: Queue[tuple[Webhook, AlertMessage]] = Queue(MAX_WAITING)
        self._stopping = Event()
        self._threads = [
            Thread(target=target, name=f"slotwise-{name}", daemon=True)
            for name, target in (("alerts", self._watch), ("webhook", self._deliver))
        ]
        self.active: dict[_Key, tuple[Alert, datetime]] = {}
        """The present alerts, with their start."""
        self.deliveries: deque[Delivery] = deque(maxlen=MAX_KEPT)

    def start(self) -> None:
        """Start both threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop both threads; queued messages are dropped. Returns at once."""
        self._stopping.set()

    def check(self) -> None:
        """Check once and queue a message for each alert that began or ended."""
        webhooks = self._webhooks()
        looked = self._look() if webhooks else ()
        found = {(alert.kind, alert.pool_id): alert for alert in looked}
        now = self._clock()
        for key, alert in found.items():
            if key in self._last and key not in self.active:
                self.active[key] = (alert, now)
        gone = [key for key in self.active if key not in found and key not in self._last]
        ended = {key: self.active.pop(key) for key in gone}
        before, self._sent = self._sent, {}
        for webhook in webhooks:
            receiver = webhook.receiver
            sent = self._sent[receiver.receiver_id] = before.get(receiver.receiver_id, set())
            for key, (alert, since) in self.active.items():
                if key not in sent and receiver.wants(alert):
                    sent.add(key)
                    self._queue(webhook, webhook.message(alert, "started", since, now))
            for key in sent & ended.keys():
                sent.remove(key)
                self._queue(webhook, webhook.message(ended[key][0], "ended", ended[key][1], now))
        self._last = set(found)

    def deliver(self, webhook: Webhook, message: AlertMessage) -> Delivery:
        """Send a message, with a limited number of retries."""
        delivery = webhook.send(message)
        for attempt, wait_s in enumerate(self._retry_after_s, start=2):
            if delivery.delivered or self._stopping.wait(wait_s):
                break
            delivery = webhook.send(message, attempt)
        if not delivery.delivered:
            _log.warning("alert %s was not delivered: %s", message.alert, delivery.detail)
        self.deliveries.appendleft(delivery)
        return delivery

    def _queue(self, webhook: Webhook, message: AlertMessage) -> None:
        try:
            self._waiting.put_nowait((webhook, message))
        except Full:
            _log.warning("alert %s was dropped: %d others are queued", message.alert, MAX_WAITING)

    def _watch(self) -> None:
        rest_s = self._every_s
        while not self._stopping.wait(rest_s):
            started = time.perf_counter()
            try:
                self.check()
            except Exception:  # noqa: BLE001
                _log.exception("checking for alerts failed; it will be tried again")
            # A thousand pools take long to check; pages and learning need the CPU more.
            rest_s = max(self._every_s, 9 * (time.perf_counter() - started))

    def _deliver(self) -> None:
        while not self._stopping.is_set():
            try:
                webhook, message = self._waiting.get(timeout=1.0)
            except Empty:
                continue
            try:
                self.deliver(webhook, message)
            except Exception:  # noqa: BLE001 - whatever fails, the next message must be sent
                _log.exception("alert %s is not delivered", message.alert)
