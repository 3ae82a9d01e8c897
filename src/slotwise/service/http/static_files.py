"""The files that browsers load: each is read and compressed once and has an ETag."""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.util
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from slotwise.errors import MissingData
from slotwise.service.http.exchange import Answer, Request

__all__ = ["CHART_LIBRARY", "Asset", "answer_asset", "load_asset"]

CHART_LIBRARY = "plotly.min.js"
_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    """A file with its content type."""

    content: bytes
    content_type: bytes

    @functools.cached_property
    def compressed(self) -> bytes:
        """The content, compressed with gzip."""
        return gzip.compress(self.content, 6, mtime=0)

    @functools.cached_property
    def tag(self) -> bytes:
        """A hash of the content, for the ETag."""
        return hashlib.sha256(self.content).hexdigest()[:32].encode()


@functools.cache
def load_asset(package: str, name: str) -> Asset:
    """Return a file of a package's folder `static`, or the chart library's script."""
    if name == CHART_LIBRARY:
        content = _chart_library().read_bytes()
    else:
        content = resources.files(package).joinpath("static", name).read_bytes()
    return Asset(content, _TYPES[Path(name).suffix])


def _chart_library() -> Path:
    """Find plotly's script without importing plotly, which takes a second."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or not spec.submodule_search_locations:
        raise MissingData(
            "the charts need plotly; install it with: pip install 'slotwise[service]'"
        )
    return Path(spec.submodule_search_locations[0]) / "package_data" / CHART_LIBRARY


def answer_asset(
    asset: Asset, request: Request[Any], headers: tuple[tuple[bytes, bytes], ...] = ()
) -> Answer:
    """Answer a file, compressed if the browser accepts it, or 304 if the browser has it."""
    tag = b'"' + asset.tag + b'"'
    headers = ((b"etag", tag), (b"vary", b"accept-encoding"), *headers)
    if request.headers.get(b"if-none-match") == tag:
        return Answer(b"", 304, b"", headers)
    if b"gzip" in request.headers.get(b"accept-encoding", b""):
        headers = ((b"content-encoding", b"gzip"), *headers)
        return Answer(asset.compressed, 200, asset.content_type, headers)
    return Answer(asset.content, 200, asset.content_type, headers)
