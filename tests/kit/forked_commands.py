"""Command lines in forks of one process that has imported everything: many commands in little time,
each with its time, its memory and its end."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

LONGEST_S: Final = 10.0
MOST_BYTES: Final = 1 << 30
# What commands import, once; nothing that starts a thread or a team of OpenMP.
_IMPORTED: Final = (
    *("jinja2", "numpy.ctypeslib", "numpy.ma", "zarr"),
    *("ttf_devices.cpu", "ttf_miners.exact_miner", "ttf_storage._npz_reader"),
    *("ttf_storage._npz_writer", "ttf_storage._zarr_reader", "ttf_storage._zarr_writer"),
    *("ttf_towers._modules", "ttf.api", "ttf.cli", "ttf.tools.ab.study"),
    *("ttf.tools.report.bundle", "ttf.training.trainer"),
)
_TTF: Final = Path(sys.executable).with_name("ttf")


@dataclass(frozen=True, kw_only=True)
class Did:
    code: int  # Negative: the signal that ended it.
    seconds: float
    peak_bytes: int
    out: str
    err: str
    hung: bool
    longest_s: float

    @property
    def problem(self) -> str:
        """What no command may do; empty if it did not."""
        if self.hung:
            return f"no end after {self.longest_s:.0f} s"
        if self.code in (70, 5) or self.code < 0:
            return f"exit code {self.code}: {self.err[-600:]}"
        if "Traceback" in self.err:
            return f"a traceback: {self.err[-600:]}"
        if self.peak_bytes > MOST_BYTES:
            return f"{self.peak_bytes >> 20} MB"
        return ""


class ForkedCommands:
    """Runs one command at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def run(
        self,
        words: list[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        path: Path | None = None,
        longest_s: float = LONGEST_S,
    ) -> Did:
        """`path`: a folder with plugins."""
        request = {
            "words": words,
            "folder": str(folder),
            "environment": dict(environment),
            "path": [str(path)] if path else [],
            "longest_s": longest_s,
        }
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Did(**json.loads(self._process.stdout.readline()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def run_ordinary(
    words: list[str], folder: Path, environment: Mapping[str, str], *, longest_s: float = LONGEST_S
) -> Did:
    """The same command in a process that starts a Python of its own, as a user does it."""

    def start(out: int, err: int) -> int:
        process = subprocess.Popen(
            [str(_TTF), *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        process.returncode = 0  # `_measured` waits for it
        return process.pid

    return Did(**_measured(start, longest_s))


def main() -> None:
    _import_what_commands_import()
    for line in sys.stdin:
        request = json.loads(line)

        def start(out: int, err: int, request: dict[str, Any] = request) -> int:
            child = os.fork()
            if not child:
                _be_the_command(request, out, err)
            return child

        print(json.dumps(_measured(start, request["longest_s"])), flush=True)


def _import_what_commands_import() -> None:
    import torch

    for name in _IMPORTED:
        importlib.import_module(name)
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # the collector of a child would copy every page


def _measured(start: Callable[[int, int], int], longest_s: float) -> dict[str, Any]:
    """The fields of `Did`."""
    with tempfile.TemporaryFile("w+b") as out, tempfile.TemporaryFile("w+b") as err:
        began = time.monotonic()
        child = start(out.fileno(), err.fileno())
        hung, status, usage = _ended(child, began + longest_s)
        return {
            "code": os.waitstatus_to_exitcode(status),
            "seconds": time.monotonic() - began,
            "peak_bytes": usage.ru_maxrss << 10,
            "out": _text(out),
            "err": _text(err),
            "hung": hung,
            "longest_s": longest_s,
        }


def _be_the_command(request: dict[str, Any], out: int, err: int) -> None:
    from ttf import cli

    code = 99
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        sys.path[:0] = request["path"]
        code = cli.run(request["words"])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _ended(child: int, ends_at: float) -> tuple[bool, int, Any]:
    hung = False
    while True:
        found, status, usage = os.wait4(child, os.WNOHANG)
        if found:
            with contextlib.suppress(ProcessLookupError):  # what it started ends with it
                os.killpg(child, signal.SIGKILL)
            return hung, status, usage
        if not hung and time.monotonic() > ends_at:
            hung = True
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.005)


def _text(file: Any) -> str:
    file.seek(0)
    return str(file.read(1 << 20).decode(errors="replace"))


if __name__ == "__main__":
    main()
