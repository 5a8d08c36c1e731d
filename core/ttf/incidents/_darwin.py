"""Evidence of macOS: crash reports and reports of memory kills (.ips files).

Written from Apple's description of the format and tested on constructed reports only, not on a Mac.
A report is two JSON documents: one line with the header, then the report.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ttf.incidents.death import CrashReport

CRASH: Final = "309"
JETSAM: Final = "298"
FOLDERS: Final = (
    Path("~/Library/Logs/DiagnosticReports"),
    Path("/Library/Logs/DiagnosticReports"),
)
_OPENMP: Final = re.compile(r"/lib(?:gomp|omp|iomp5)\b[^/]*\.dylib$")
_SYSTEM: Final = "/usr/lib/system/"  # abort and pthread_kill: not the library that called them
_WAIT_S: Final = 3.0  # macOS writes the report a moment after the death


def read_report(path: Path, pid: int) -> CrashReport | None:
    """Returns None if the file is not a complete report or is about other processes."""
    try:
        first, _, rest = path.read_text(errors="replace").partition("\n")
        header, body = json.loads(first), json.loads(rest)
        kind = str(header.get("bug_type", ""))
        if kind == CRASH and body.get("pid") == pid:
            return _crash(path, body)
        if kind == JETSAM:
            return _memory_kill(path, pid, body)
    except (OSError, ValueError, AttributeError, TypeError):
        return None
    return None


def find_report(
    pid: int, since: float, folders: Iterable[Path] = FOLDERS, *, wait_s: float = _WAIT_S
) -> CrashReport | None:
    """Waits up to `wait_s` for the report about process `pid` in files written after `since`."""
    deadline = time.monotonic() + wait_s
    while True:
        for path in _recent(folders, since):
            report = read_report(path, pid)
            if report is not None:
                return report
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.2)


def _recent(folders: Iterable[Path], since: float) -> Iterator[Path]:
    for folder in folders:
        for path in sorted(folder.expanduser().glob("*.ips")):
            try:
                if path.stat().st_mtime >= since:
                    yield path
            except FileNotFoundError:  # the system moves them when it sends them in
                continue


def _crash(path: Path, body: Mapping[str, Any]) -> CrashReport:
    images = body.get("usedImages") or []
    exception = body.get("exception") or {}
    return CrashReport(
        path=path,
        pid=int(body["pid"]),
        signal=str(exception.get("signal", "")),
        words="\n".join(_words(body, exception)),
        native=_native(body, images),
        openmp=tuple(
            dict.fromkeys(
                image["path"] for image in images if _OPENMP.search(image.get("path") or "")
            )
        ),
    )


def _words(body: Mapping[str, Any], exception: Mapping[str, Any]) -> Iterator[str]:
    if exception:
        kind, signal = exception.get("type", "?"), exception.get("signal", "?")
        yield f"exception {kind} ({signal}) {exception.get('subtype', '')}".strip()
    ending = body.get("termination") or {}
    if ending:
        reasons = "; ".join(map(str, ending.get("reasons") or [ending.get("indicator", "")]))
        yield (
            f"terminated by {ending.get('byProc', '?')}: namespace {ending.get('namespace', '?')}, "
            f"code {ending.get('code', '?')}, {reasons}"
        )
    for library, messages in (body.get("asi") or {}).items():
        yield from (f"{library}: {message}" for message in messages)


def _native(body: Mapping[str, Any], images: list[Mapping[str, Any]]) -> str:
    """Returns the image of the innermost frame outside the system libraries that end a process."""
    threads = body.get("threads") or []
    crashed = next((t for t in threads if t.get("triggered")), None)
    if crashed is None:
        return ""
    names = []
    for frame in crashed.get("frames") or []:
        index = frame.get("imageIndex", -1)
        if 0 <= index < len(images):
            names.append(images[index])
    own = [image for image in names if not str(image.get("path", "")).startswith(_SYSTEM)]
    chosen: Mapping[str, Any] = next(iter(own or names), {})
    return str(chosen.get("name", ""))


def _memory_kill(path: Path, pid: int, body: Mapping[str, Any]) -> CrashReport | None:
    # A report lists all processes. Those that were killed have a reason.
    for process in body.get("processes") or []:
        if process.get("pid") == pid and process.get("reason"):
            page = (body.get("memoryStatus") or {}).get("pageSize", 0)
            held = int(process.get("rpages", 0)) * int(page)
            return CrashReport(
                path=path,
                pid=pid,
                signal="SIGKILL",
                words=(
                    f"{process.get('name', '?')} was killed: {process['reason']}, it used "
                    f"{held:,} bytes"
                ),
                killed_for_memory=str(process["reason"]),
            )
    return None
