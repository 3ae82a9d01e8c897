"""A small HTTP server on loopback for tests: somebody else's shop, or a receiver of alerts."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class LoopbackServer:
    """Serves on a free port from now on until it is closed, and logs nothing."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        handler.log_message = lambda *_: None  # type: ignore[method-assign]
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
