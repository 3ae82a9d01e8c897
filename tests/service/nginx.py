"""A real nginx in front of replicas, on a socket in a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.system_programs import system_program

CONFIGURATION = """
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream slotwise {{
        {servers}
        keepalive 16;
    }}
    server {{
        listen unix:{folder}/nginx.sock;
        location / {{
            proxy_pass http://slotwise;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_connect_timeout 5s;
            proxy_read_timeout {read_timeout_s}s;
            proxy_next_upstream error timeout non_idempotent;
        }}
    }}
}}
"""


@contextmanager
def nginx_before(urls: Sequence[str], read_timeout_s: int = 600) -> Iterator[Path]:
    """Start nginx before services at these addresses; yield the socket that it listens on."""
    program = system_program("nginx", package="nginx")
    folder = Path(tempfile.mkdtemp(prefix="slotwise-nginx-"))
    places = [url.removeprefix("http://") for url in urls]
    servers = "\n        ".join(f"server {one} max_fails=1 fail_timeout=2s;" for one in places)
    (folder / "nginx.conf").write_text(
        CONFIGURATION.format(folder=folder, servers=servers, read_timeout_s=read_timeout_s)
    )
    process = subprocess.Popen([program, "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"])
    try:
        while not (folder / "nginx.sock").exists():
            assert process.poll() is None, (folder / "error.log").read_text()
        yield folder / "nginx.sock"
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def client_through(socket: Path, key: str) -> httpx.Client:
    """Return a client that calls services through nginx."""
    return httpx.Client(
        transport=httpx.HTTPTransport(uds=str(socket)),
        base_url="http://shop",
        headers={"authorization": f"Bearer {key}"},
        timeout=600,
    )
