"""A PostgreSQL server of the tests' own: a temporary folder, a socket in it, no network.

It runs under an unprivileged account when the tests run as root, because PostgreSQL refuses root.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from tests.system_programs import system_program

# Nothing here survives a power cut, and nothing has to: a killed process leaves what it wrote to
# the system. `synchronous_commit` stays on, or a killed server would lose what it acknowledged.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "80",
    "shared_buffers": "32MB",
    "log_min_messages": "fatal",
    "timezone": "UTC",
}
_STARTED_WITHIN_S = 300.0
_PAUSE_S = 0.1
PRIVATE_NETWORK = "10.199.0.0/16"
"""Addresses inside network namespaces of the tests; servers listen on none unless told to."""
GUARDED = ("guarded", "right")
"""A role that needs a password, and the password."""


def bin_folder() -> Path:
    """Return the folder of PostgreSQL's programs: Debian keeps them out of the path."""
    return system_program("initdb", package="postgresql").resolve().parent


def account() -> str | None:
    """Return the account to run servers under, None for one's own."""
    if os.getuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


class PrivatePostgresql:
    """A server that can be killed, started again and asked for empty databases."""

    def __init__(self, folder: Path, before: tuple[str, ...] = (), **settings: str) -> None:
        """Start a server in a folder; `before` is a command that runs it."""
        self.folder = folder
        self._before = before
        self._account = account()
        self._settings = _SETTINGS | settings
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        if self._account:
            shutil.chown(folder, self._account)
        os.chmod(folder, 0o755)  # noqa: PTH101 - others connect to the socket
        # Texts sort by the rules of a language, as they do in most databases: not by their bytes.
        locale = ["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"]
        as_user = ["-U", "slotwise", "-A", "trust"]
        self._run("initdb", "-D", "data", *as_user, "-E", "UTF8", "-N", *locale)
        hba = f"local all {GUARDED[0]} scram-sha-256\nlocal all all trust\n"
        hba += f"host all all {PRIVATE_NETWORK} trust\n"
        (folder / "data" / "pg_hba.conf").write_text(hba)
        self.start()
        name, password = GUARDED
        self.execute("postgres", f"CREATE ROLE {name} LOGIN SUPERUSER PASSWORD '{password}'")

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [bin_folder() / program, *arguments],
            cwd=self.folder,
            user=self._account,
            check=True,
            stdout=subprocess.DEVNULL,
        )

    @property
    def pid(self) -> int:
        """The process to kill."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it answers.

        The connections of a killed server end one by one; until then a new one does not start.
        """
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        program = [str(bin_folder() / "postgres"), "-D", "data", "-k", str(self.folder), *options]
        command, user = program, self._account
        if self._before and user:  # what runs it needs root, the server refuses root
            command = [*self._before, "setpriv", f"--reuid={user}", "--clear-groups", *program]
            user = None
        ends_s = time.monotonic() + _STARTED_WITHIN_S
        while time.monotonic() < ends_s:
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    command, cwd=self.folder, user=user, stdout=log, stderr=log
                )
            while self._process.poll() is None:
                try:
                    psycopg.connect(self.url("postgres")).close()
                except psycopg.OperationalError:
                    continue
                return
            threading.Event().wait(_PAUSE_S)
        raise AssertionError((self.folder / "log").read_text())

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop; SIGKILL ends it without a word, SIGINT as a system does that shuts down."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def url(self, database: str, user: str = "slotwise", password: str = "") -> str:
        """Return the address of a database."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    def execute(self, database: str, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> str:
        """Make an empty database and return its address."""
        name = f"store{next(self._numbers)}"
        self.execute("postgres", f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def private_postgresql(
    before: tuple[str, ...] = (), **settings: str
) -> Iterator[PrivatePostgresql]:
    """Return a running server; stopped and removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="slotwise-pg-"))
    try:
        server = PrivatePostgresql(folder, before, **settings)
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
