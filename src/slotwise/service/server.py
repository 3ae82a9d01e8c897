"""The server of `slotwise serve`, of the demo and of tests: open the service, listen, drain, close.

It connects all parts: the service of `opening` behind the ASGI application of `api`, on uvicorn
with the protocol of `http`. It may import every part of the service but `demo`. Used by `cli`.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import uvicorn

from slotwise.errors import InvalidConfig, SlotwiseError
from slotwise.service.api.alerts import make_watch
from slotwise.service.api.app import App
from slotwise.service.api.context import Operation, ServiceContext
from slotwise.service.api.refused_requests import Refusals
from slotwise.service.http.protocol import ConnectionLimits, HttpProtocol, protocol_with
from slotwise.service.opening import make_first_keys, open_service
from slotwise.service.refusals import StoreUnavailable
from slotwise.service.service import Service
from slotwise.service.settings import Settings, is_loopback
from slotwise.service.stop_signals import StopSignals
from slotwise.service.thread_priority import REQUESTS, SHORT_SLICE_NS, request_priority

_SWITCH_INTERVAL_S = 0.0005
"""How long the writing thread may hold the interpreter while a request waits for it."""
_CLOSE_WITHIN_S = 0.9
"""How long the last commits may take after the last requests have ended."""
_TICKS_PER_S = 10
"""How often uvicorn calls `on_tick`, which does its work once a second."""
_SPARE_FILES = 128
"""Open files of the process in addition to its connections."""
_COLLECT_EVERY = 50_000
"""New objects between two garbage collections; most are queued pages, which form no cycles."""


class ServerStart(NamedTuple):
    """What a new server reports to its caller."""

    url: str
    settings: Settings
    admin_key: str | None
    """The admin key made at the first start, otherwise None."""


def tune_interpreter() -> None:
    """Set how often this process switches threads and collects garbage while it serves."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.set_threshold(_COLLECT_EVERY)


class LoadedModules:
    """Excludes what loaded modules have made from garbage collections.

    The compiler alone has half a million objects, which stay for ever. It is loaded while the
    service runs, and each full collection would visit them, for tens of milliseconds.
    """

    def __init__(self) -> None:
        self._n_modules = 0

    def exclude(self) -> None:
        """Exclude all present objects, if modules have been loaded since the last call."""
        if len(sys.modules) != self._n_modules:
            gc.collect()
            gc.freeze()
            self._n_modules = len(sys.modules)


def _bind(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        reason = str(error.strerror).partition(" (while")[0]  # Python adds the address again
        is_taken = error.errno == errno.EADDRINUSE
        advice = "; choose another port, such as --port 8461" if is_taken else ""
        raise InvalidConfig(
            f"host, port: cannot listen on {settings.host}:{settings.port}: {reason}{advice}"
        ) from None


def _allowed_connections(wanted: int) -> int:
    """Return how many connections the system allows this process, at most as many as wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, soft - _SPARE_FILES)


class _Server(uvicorn.Server):
    """A uvicorn server that does not handle signals and reports when it listens."""

    def __init__(self, config: uvicorn.Config, service: Service, refusals: Refusals) -> None:
        super().__init__(config)
        self._service = service
        self._refusals = refusals
        self._loaded = LoadedModules()
        self.announce: Callable[[], None] = lambda: None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `serve` handles signals, and a server in a thread has none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then report it."""
        await super().startup(sockets)
        if self.started:
            self.announce()

    async def on_tick(self, counter: int) -> bool:
        """About once a second, refuse requests and writes that take too long and log refusals."""
        if counter % _TICKS_PER_S == 0:
            loop = asyncio.get_running_loop()
            now_s = loop.time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, HttpProtocol):
                    connection.close_if_overdue(now_s)
            self._loaded.exclude()
            self._service.committer.refuse_if_stuck(time.monotonic())
            self._refusals.log_if_due(now_s)
        return await super().on_tick(counter)


class _Run:
    """One run of the server, from opening the service to closing it.

    `operations` are served in addition to those of `api`. With `separate_writer` another process
    writes an SQLite file, so that requests do not wait for the writing thread.
    """

    def __init__(
        self,
        settings: Settings,
        operations: Iterable[Operation] = (),
        clock_us: Callable[[], int] | None = None,
        separate_writer: bool = False,
    ) -> None:
        self.service = open_service(settings, separate_writer)
        try:
            self._socket = _bind(settings)  # first, since the admin key is printed only once
            signer, admin_key = make_first_keys(self.service, settings)
        except SlotwiseError:
            self.service.close()
            raise
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        url = f"http://{host}:{self._socket.getsockname()[1]}"
        self.start = ServerStart(url, settings, admin_key)
        self.context = ServiceContext(
            self.service,
            settings,
            signer,
            clock_us or self.service.clock(),
            public_base=settings.public_url.rstrip("/") or url,
        )
        self.context.alerts = self._alerts = make_watch(self.context)
        self.service.directory.keys_changed = self.context.renew_secrets
        limits = ConnectionLimits(
            max_connections=_allowed_connections(settings.max_connections),
            head_within_s=settings.head_within_s,
            body_within_s=settings.body_within_s,
            read_within_s=settings.read_within_s,
        )
        config = uvicorn.Config(
            App(self.context, operations),
            loop="none",
            http=protocol_with(limits, self.context.refusals.total),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=max(1, int(settings.stop_within_s)),
        )
        self.server = _Server(config, self.service, self.context.refusals)

    def stop(self) -> None:
        """Accept no new requests, and finish those in progress."""
        self.context.stopping = True
        self.context.planner.close()
        self.server.should_exit = True

    def log_lost(self) -> None:
        """Log what is lost when the process has to be ended."""
        state = self.server.server_state
        self.context.log.warning(
            "stop.forced", connections=len(state.connections), requests=len(state.tasks)
        )
        health = self.service.health()  # not in the line above: it may wait for the stuck thread
        self.context.log.warning(
            "stop.lost", waiting_writes=health.n_waiting, decisions=health.n_lost_decisions
        )

    def _report_start(self, announce: Callable[[ServerStart], None]) -> None:
        announce(self.start)
        host = self.context.settings.host
        if not is_loopback(host) and not self.context.is_secure:
            detail = "others can reach the service, and keys travel unencrypted"
            advice = "put a proxy with TLS in front and set public_url to its https address"
            self.context.log.warning("start.unencrypted", host=host, detail=f"{detail}: {advice}")
        self.context.log.info("ready")

    async def main(self, announce: Callable[[ServerStart], None]) -> None:
        """Serve until stopped, then commit and close."""
        self.service.start(self.context.clock_us)
        self._alerts.start()
        request_priority(REQUESTS, SHORT_SLICE_NS)  # it runs as soon as a request wakes it
        self.server.announce = lambda: self._report_start(announce)
        try:
            await self.server.serve([self._socket])
        finally:
            self._alerts.stop()
            self.context.refusals.log()
            with contextlib.suppress(TimeoutError, StoreUnavailable):
                # First, since closing waits for the learner, which may take long or be stuck.
                waiting = asyncio.wrap_future(self.service.flush())
                await asyncio.wait_for(waiting, _CLOSE_WITHIN_S / 2)
            await asyncio.to_thread(self.service.close)
            await asyncio.to_thread(self.context.close)
            self.context.log.info("stopped")


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def serve(settings: Settings, announce: Callable[[ServerStart], None]) -> None:
    """Serve in this process until SIGTERM or SIGINT, then drain and close."""
    tune_interpreter()
    runs: list[_Run] = []  # empty until the store is open: a signal may arrive before
    is_stopping = threading.Event()

    def stop() -> None:
        is_stopping.set()
        for run in runs:
            run.stop()

    def log_lost() -> None:
        for run in runs:
            run.log_lost()

    signals = StopSignals(stop, log_lost, settings.stop_within_s + _CLOSE_WITHIN_S)

    async def main(run: _Run) -> None:
        signals.listen()
        await run.main(announce)

    with signals:
        runs.append(_Run(settings, separate_writer=True))
        if is_stopping.is_set():  # the signal arrived while the store was opened
            runs[0].stop()
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(main(runs[0]))


class BackgroundServer(_Run):
    """A server in a thread of this process, for the demo and for tests.

    Use it as a context manager: it listens from the beginning of the context, and at the end it
    commits everything and closes the store.
    """

    _failure: BaseException | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.start.url

    @property
    def admin_key(self) -> str:
        """The admin key made at the store's first start."""
        if self.start.admin_key is None:
            raise SlotwiseError("the store had an admin key already, and keys are shown once")
        return self.start.admin_key

    def _serve(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(self.main(lambda _: self._ready.set()))
        except BaseException as error:  # noqa: BLE001
            self._failure = error
        finally:
            self._ready.set()

    def __enter__(self) -> BackgroundServer:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="slotwise-server", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
