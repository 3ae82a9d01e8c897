"""One of several processes on a store: it takes over what the others change and publish."""

from __future__ import annotations

import logging
from threading import Event, Thread

from slotwise.service.ended_sessions import SignedOut
from slotwise.service.learning.learner import Learner
from slotwise.service.pool_directory import PoolDirectory
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.storage.contract import Sharing

_log = logging.getLogger(__name__)


class Replica:
    """Reads changes of pools and keys, and the versions of the process that learns.

    It does so when it is told of a change, and every `POLL_S` in case a notification is lost.
    """

    POLL_S = 1.0

    def __init__(
        self,
        sharing: Sharing,
        directory: PoolDirectory,
        learner: Learner,
        signed_out: SignedOut,
    ) -> None:
        self._sharing = sharing
        self._signed_out = signed_out
        self._directory = directory
        self._learner = learner
        self._told = Event()
        self._stopping = False
        self._thread = Thread(target=self._run, name="slotwise-replica", daemon=True)

    def start(self) -> None:
        """Stand for election and keep up with the others."""
        self._sharing.start(self._told.set)
        self._thread.start()

    def stop(self) -> None:
        """Stop keeping up; safe to call twice, and without a start."""
        self._stopping = True
        self._told.set()
        if self._thread.is_alive():
            self._thread.join()

    def catch_up(self) -> None:
        """Take over everything that others have committed. Reading."""
        self._directory.refresh()
        self._signed_out.read()
        self._learner.follow()

    def _run(self) -> None:
        while not self._stopping:
            self._told.wait(self.POLL_S)
            self._told.clear()
            try:
                self.catch_up()
            except StoreUnavailable as error:
                _log.debug("cannot keep up with other replicas: %s", error)
            except Exception:
                _log.exception("cannot keep up with other replicas; it is tried again")
