"""A web server on loopback that answers for parts of files, counts what it was asked, and fails on demand."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from ttf import DataMissing, RemoteFault

FAULTS = ("503", "short", "cut", "changed", "slow", "long")
ENDLESS = 1 << 40
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True)
class Asked:
    """One request for (a part of) a file."""

    name: str
    start: int


@dataclass
class Plan:
    pattern: str
    fault: str
    left: int


@dataclass
class ObjectServer:
    """Serves a folder. `url` is its address."""

    folder: Path
    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    plans: list[Plan] = field(default_factory=list)
    slow_s: float = 0.05
    sent_in_vain: int = 0
    """Bytes of endless answers."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, pattern: str, fault: str, times: int = 1 << 30) -> None:
        """The next answers for such names: 503; short: an honest length, but less than asked for; cut:
        the connection ends in the middle; changed: other bytes; slow: a pause before the answer; long: the
        range that was asked for, and a body that does not end."""
        assert fault in FAULTS
        self.plans.append(Plan(pattern, fault, times))

    def names(self) -> list[str]:
        """What was asked for, in order."""
        with self._lock:
            return [asked.name for asked in self.asked]

    def fault_of(self, asked: Asked) -> str:
        with self._lock:
            self.asked.append(asked)
            for plan in self.plans:
                if plan.left and fnmatchcase(asked.name, plan.pattern):
                    plan.left -= 1
                    return plan.fault
        return ""


class _Listening(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Says nothing: clients are killed here, and cut off."""


@contextmanager
def serving(folder: Path) -> Iterator[ObjectServer]:
    server = ObjectServer(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Silence."""

        def do_GET(self) -> None:
            _answer(server, self)

        do_HEAD = do_GET

    listening = _Listening(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def _answer(server: ObjectServer, handler: BaseHTTPRequestHandler) -> None:
    name = handler.path.lstrip("/")
    found = _RANGE.fullmatch(handler.headers.get("Range", ""))
    start = int(found[1]) if found else 0
    fault = server.fault_of(Asked(name, start))
    path = server.folder / name
    if fault == "slow":
        time.sleep(server.slow_s)
    if fault == "503" or not path.is_file():
        handler.send_error(503 if fault == "503" else 404)
        return
    whole = path.read_bytes()
    stop = min(int(found[2]) + 1, len(whole)) if found and found[2] else len(whole)
    body = whole[start:stop]
    if fault == "short":
        body = body[: len(body) // 2]
    if fault == "changed":
        body = bytes(byte ^ 1 for byte in body)
    handler.send_response(206 if found else 200)
    if found:
        handler.send_header("Content-Range", f"bytes {start}-{start + len(body) - 1}/{len(whole)}")
    endless = ENDLESS if fault == "long" else 0
    handler.send_header("Content-Length", str(len(body) + endless))
    handler.send_header("Last-Modified", handler.date_time_string(1_700_000_000))
    handler.send_header("ETag", '"one"')
    handler.end_headers()
    if handler.command == "HEAD":
        return
    if fault == "cut":
        handler.wfile.write(body[: len(body) // 2])
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.close()
        return
    handler.wfile.write(body)
    for _ in range(0, endless, 1 << 20):
        handler.wfile.write(bytes(1 << 20))
        server.sent_in_vain += 1 << 20


class PlainRemote:
    """A `ttf.Remote` without obstore: the standard library's client."""

    def __init__(self, url: str, timeout_s: float = 20.0) -> None:
        self._host = urlsplit(url).netloc
        self._timeout_s = timeout_s

    def read(self, key: str, start: int, stop: int) -> bytes:
        connection = http.client.HTTPConnection(self._host, timeout=self._timeout_s)
        try:
            connection.request("GET", f"/{key}", headers={"Range": f"bytes={start}-{stop - 1}"})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise RemoteFault(str(error) or type(error).__name__) from error
        finally:
            connection.close()
        if answer.status == 404:
            raise DataMissing(f"{key}: there is no such object.")
        if answer.status >= 500:
            raise RemoteFault(f"the server answered {answer.status}")
        return body
