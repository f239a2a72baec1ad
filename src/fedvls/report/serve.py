"""The page served on this machine only, refreshed as rounds arrive.

Two addresses exist, `/` and `/data.json`; there are no files to browse. The Host header must name this machine, so that
a page elsewhere cannot read the numbers by pointing its own name here.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from ..errors import FedvlsError, UsageError
from ..runs.store import find_runs
from .bundle import Bundle, collect
from .html import build_page, heading

ADDRESS = "127.0.0.1"
WATCHED = ("config.yaml", "header.json", "metrics.jsonl", "result.json")


class Source:
    """The runs' numbers, read again only when a file of theirs has changed."""

    def __init__(self, run_dirs: Sequence[Path], title: str | None) -> None:
        self._run_dirs, self._title = list(run_dirs), title
        self._lock = threading.Lock()
        self._stamp: object = None
        self._bundle: Bundle = {}
        self._data, self._tag = b"", ""

    def data(self) -> tuple[bytes, str]:
        """The numbers as JSON and a tag that changes with them."""
        with self._lock:
            self._refresh()
            return self._data, self._tag

    def page(self) -> bytes:
        with self._lock:
            self._refresh()
            return build_page(self._bundle, self._title or heading(self._bundle), live=True).encode()

    def _refresh(self) -> None:
        runs = find_runs(self._run_dirs)
        stamp = [(str(p), _changed(p)) for run in runs for p in (run.path / name for name in WATCHED)]
        if stamp == self._stamp:
            return
        # A run that has its folder but not yet its header will be there next time.
        self._bundle = collect([run for run in runs if (run.path / "header.json").exists()])
        self._data = json.dumps(self._bundle, allow_nan=False).encode()
        self._tag, self._stamp = f'"{hashlib.sha256(self._data).hexdigest()[:24]}"', stamp


def _changed(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_size


def make_server(run_dirs: Sequence[Path], title: str | None, port: int) -> ThreadingHTTPServer:
    """A server on the loopback address; port 0 takes a free one."""
    source = Source(run_dirs, title)

    class Handler(BaseHTTPRequestHandler):
        server_version, sys_version = "fedvls", ""
        server: ThreadingHTTPServer

        def do_GET(self) -> None:
            allowed = {f"{name}:{self.server.server_port}" for name in (ADDRESS, "localhost")}
            if self.headers.get("Host") not in allowed:
                return self._answer(HTTPStatus.FORBIDDEN, b"this page answers to this machine's own name only\n")
            path = self.path.partition("?")[0]
            try:
                if path == "/":
                    return self._answer(HTTPStatus.OK, source.page(), "text/html; charset=utf-8")
                if path == "/data.json":
                    data, tag = source.data()
                    if self.headers.get("If-None-Match") == tag:
                        return self._answer(HTTPStatus.NOT_MODIFIED, b"", tag=tag)
                    return self._answer(HTTPStatus.OK, data, "application/json", tag)
            except FedvlsError as error:
                return self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode())
            return self._answer(HTTPStatus.NOT_FOUND, b"there is / and /data.json\n")

        def _answer(
            self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8", tag: str | None = None
        ) -> None:
            self.send_response(status)
            headers = {
                "Content-Type": kind,
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
                "X-Frame-Options": "DENY",
                "Cross-Origin-Resource-Policy": "same-origin",
                "Referrer-Policy": "no-referrer",
                **({"ETag": tag} if tag else {}),
                **({} if status == HTTPStatus.NOT_MODIFIED else {"Content-Length": str(len(body))}),
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: a poll every two seconds is not news."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        allow_reuse_address = os.name == "posix"

    try:
        return Server((ADDRESS, port), Handler)
    except OSError as error:
        raise UsageError(f"cannot serve on port {port}: {error.strerror}; choose another with --port") from None


def serve_page(run_dirs: Sequence[Path], title: str | None, port: int, say: Callable[[str], None]) -> None:
    """Serve until Ctrl-C."""
    with make_server(run_dirs, title, port) as server:
        say(f"serving on http://{ADDRESS}:{server.server_address[1]}/ (this machine only; stop with Ctrl-C)")
        server.serve_forever()
