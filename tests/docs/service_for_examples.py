"""A real service for the examples of a page, with a clock that an example's waiting moves."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slotwise.client import Client
from slotwise.service.server import BackgroundServer
from slotwise.service.settings import Settings
from tests.service.conftest import Clock
from tests.system_programs import system_program

SHOWN_URL, SHOWN_KEY = "http://127.0.0.1:8460", "sw_ak_..."


def uses_service(text: str) -> bool:
    return SHOWN_URL in text or "$URL/" in text


class ExampleService:
    """What a page calls the service at its usual address, with the key it printed."""

    def __init__(self, server: BackgroundServer) -> None:
        self.url = server.url
        self.key = str(server.admin_key)
        self.shell = {"URL": self.url, "KEY": self.key}

    def place(self, code: str) -> str:
        """Return code with this service's address and key in place of those shown."""
        return code.replace(SHOWN_URL, self.url).replace(SHOWN_KEY, self.key)

    def run_shell(self, code: str) -> str:
        """Run a block of curl commands; every answer must be a good one."""
        system_program("curl", package="curl")
        done = subprocess.run(
            ["bash", "-euc", self.place(code).replace("curl -sS", "curl -sS --fail-with-body")],
            env=os.environ | self.shell,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def names(self) -> dict[str, Any]:
        """What a page's setup may use."""
        return {"url": self.url, "key": self.key, "shell": self.shell}


@contextmanager
def example_service(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[ExampleService]:
    """Start a service with the pool that the first start's commands make.

    When an example sleeps, the service's clock goes on by as much, and what settles is learned.
    """
    clock = Clock()
    settings = Settings(
        port=0, store=f"sqlite:///{folder / 'examples.db'}", seed=1, fold_every_s=3600
    )
    with BackgroundServer(settings, clock_us=clock) as server:
        example, really_sleep = threading.get_ident(), time.sleep

        def sleep(seconds: float) -> None:
            if threading.get_ident() != example:
                really_sleep(seconds)
                return
            clock.advance(seconds)
            server.context.service.learner.learn(clock())

        patch.setattr(time, "sleep", sleep)
        service = ExampleService(server)
        with Client(service.url, service.key, timeout_s=600) as client:  # it may compile
            client.put_pool(
                "home",
                slots=2,
                click_floor=0.1,
                click_window_s=5,
                revenue_window_s=10,
                max_revenue={"amount_micros": 50_000_000, "currency": "EUR"},
                allowed_hosts=["shop.example"],
            )
            urls = {f"l{number}": f"https://shop.example/{number}" for number in (1, 2, 3)}
            client.put_links("home", urls)
        yield service
