"""A small HTTP server on loopback for tests: somebody else's shop, or a receiver of alerts."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

_STOPS_WITHIN_S = 0.02


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    """More connections at once than the default of 5 come a second later, or after 3 or 7."""


class LoopbackServer:
    """Serves on a free port from now on until it is closed, and logs nothing."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        handler.log_message = lambda *_: None  # type: ignore[method-assign]
        handler.disable_nagle_algorithm = True  # head and body are two writes
        self._server = _Server(("127.0.0.1", 0), handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"
        self._thread = Thread(
            target=self._server.serve_forever, args=(_STOPS_WITHIN_S,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
