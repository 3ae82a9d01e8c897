"""The receivers of alerts that were added by a call or on the dashboard.

They are stored in the list of changes, which also says who added and removed them. Used by `api`.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from concurrent.futures import Future

import msgspec
from msgspec.structs import replace

from slotwise.errors import InvalidInput
from slotwise.service.limits import MAX_ALERT_RECEIVERS
from slotwise.service.records import ChangeRecord
from slotwise.service.refusals import Conflict, UnknownReceiver
from slotwise.service.settings import ALERT_URL_RULE, is_alert_url, origin_of
from slotwise.service.storage import contract
from slotwise.service.storage.group_commit import GroupCommitter, then
from slotwise.service.webhook import AlertReceiver, is_allowed

_ADDED, _REMOVED = "receiver.add", "receiver.remove"
# An id has no space, so no pool, link or key has this subject.
_SUBJECT = "alert receivers"
_MAX_CHANGES = 10_000
"""Maximum number of changes that are read, the latest ones."""


class AlertReceivers:
    """The stored receivers; `hosts` are those of the setting `alert_hosts`."""

    def __init__(
        self, store: contract.Store, committer: GroupCommitter, hosts: Sequence[str]
    ) -> None:
        self._store = store
        self._committer = committer
        self.hosts = tuple(hosts)

    def all(self) -> list[AlertReceiver]:
        """Return the receivers, oldest first, also those of other processes. Reading."""
        with self._store.reading() as reader:
            changes = reader.changes(_SUBJECT, _MAX_CHANGES)
        removed = {change.before for change in changes if change.action == _REMOVED}
        added = (
            msgspec.json.decode(change.after, type=AlertReceiver)
            for change in reversed(changes)
            if change.action == _ADDED
        )
        return [one for one in added if one.receiver_id not in removed]

    def add(self, receiver: AlertReceiver, by: str, now_us: int) -> Future[AlertReceiver]:
        """Store a receiver under an id of its own. Reading.

        Only hosts that the operator allows can be called: whoever may add a receiver must not reach
        what only the service can reach.
        """
        if not is_alert_url(receiver.url):
            raise InvalidInput.of("url", ALERT_URL_RULE, origin_of(receiver.url))
        if not is_allowed(receiver.url, self.hosts):
            raise InvalidInput.of(
                "url",
                "a webhook of Slack or Teams, or on a host of the setting `alert_hosts`",
                origin_of(receiver.url),
            )
        n_present = len(self.all())
        if n_present >= MAX_ALERT_RECEIVERS:
            raise Conflict(
                f"there are {n_present} receivers of alerts, and the most is {MAX_ALERT_RECEIVERS}"
            )
        made = replace(receiver, receiver_id=secrets.token_hex(8), by=by, made_us=now_us)
        after = msgspec.json.encode(made).decode()
        return then(self._save(_ADDED, by, now_us, after=after), lambda _: made)

    def remove(self, receiver_id: str, by: str, now_us: int) -> Future[AlertReceiver]:
        """Remove a receiver; the list of changes still contains it. Reading."""
        found = next((one for one in self.all() if one.receiver_id == receiver_id), None)
        if found is None:
            raise UnknownReceiver(f"there is no receiver of alerts {receiver_id!r}")
        return then(self._save(_REMOVED, by, now_us, before=receiver_id), lambda _: found)

    def _save(
        self, action: str, by: str, now_us: int, before: str = "", after: str = ""
    ) -> Future[list[object]]:
        change = ChangeRecord(now_us, by, action, _SUBJECT, before, after)
        return self._committer.submit([contract.SaveChange(change=change)])
