"""A receiver of alerts on loopback."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from threading import Event

from tests.loopback_server import LoopbackServer


class Receiver(LoopbackServer):
    """Takes messages and answers what it is told to, the last answer for ever."""

    def __init__(self) -> None:
        receiver = self
        self.answers = [204]
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.came = Event()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(({k.lower(): v for k, v in self.headers.items()}, body))
                status = receiver.answers[0]
                if len(receiver.answers) > 1:
                    receiver.answers.pop(0)
                self.send_response(status)
                if status == 302:
                    self.send_header("location", receiver.url + "/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()
                receiver.came.set()

        super().__init__(Handler)
