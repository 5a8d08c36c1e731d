"""Real deaths: a child process that dies in a given way, and what a supervisor gathers of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conftest import wait_until

from ttf.incidents.classify import classify
from ttf.incidents.death import Death, Finding, KilledByUs, ProcessEnd, ProcessName
from ttf.incidents.gather import Witness
from ttf.incidents.inputs import InputFile

GO = "import sys; sys.stdin.readline()\n"
"""Children wait for a line, so that the witness is there while they live."""
_LONGEST_S = 60.0
STACKS = "import faulthandler; faulthandler.enable(file=open(sys.argv[1], 'ab'))\n"


def die(
    code: str | Sequence[str],
    folder: Path,
    *,
    during: Callable[[subprocess.Popen[bytes]], object] = lambda _: None,
    process: ProcessName = "trainer",
    stacks: bool = True,
    killed_by_us: KilledByUs = "",
    reason: str = "",
    finished: bool = False,
    error: Mapping[str, Any] | None = None,
    inputs: Sequence[InputFile] = (),
    folders: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
) -> Death:
    """Runs `code` (or a command line) until it dies; `during` runs while the child waits or, where
    the code says 'ready', once it has said so."""
    dump = folder / "faulthandler.txt"
    words = list(code) if not isinstance(code, str) else _python(code, dump, stacks)
    child = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=None if env is None else dict(env),
    )
    try:
        with Witness(process, child.pid, stacks=dump, inputs=inputs) as witness:
            assert child.stdin is not None and child.stdout is not None
            if "'ready'" in code:
                child.stdin.write(b"go\n")
                child.stdin.flush()
                assert child.stdout.readline() == b"ready\n"
            during(child)
            witness.look()
            stderr = _until_it_ends(child, witness)
            end = ProcessEnd(
                returncode=child.returncode,
                stderr=stderr,
                killed=(killed_by_us, reason),
                finished=finished,
                error=error,
                folders=tuple(folders),
            )
            return witness.death(end)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()
        child.wait()


def _until_it_ends(child: subprocess.Popen[bytes], witness: Witness) -> bytes:
    """As the supervisor does, we look again and again: on a busy machine the process may live long,
    and what was seen long before its end says nothing."""
    given: bytes | None = b"go\n"
    end = time.monotonic() + _LONGEST_S
    while True:
        try:
            return child.communicate(given, timeout=0.2)[1]
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                raise
            given = None
            witness.look()


def _python(code: str, dump: Path, stacks: bool) -> list[str]:
    return [sys.executable, "-c", GO + (STACKS if stacks else "") + code, str(dump)]


def kill(signum: int) -> Callable[[subprocess.Popen[bytes]], None]:
    def send(child: subprocess.Popen[bytes]) -> None:
        os.kill(child.pid, signum)

    return send


def hang_and_kill(dump: Path, line: str) -> Callable[[subprocess.Popen[bytes]], None]:
    """As the supervisor does, stacks first; again until the child is where it hangs."""

    def end(child: subprocess.Popen[bytes]) -> None:
        def seen() -> bool:
            os.kill(child.pid, signal.SIGUSR1)
            time.sleep(0.02)
            return line in dump.read_text()

        def still() -> bool:
            before = dump.stat().st_size
            time.sleep(0.2)
            return dump.stat().st_size == before

        wait_until(seen)
        wait_until(still)  # on a busy machine the last signal is answered late
        os.kill(child.pid, signal.SIGKILL)

    return end


def told(finding: Finding) -> str:
    """All of the evidence as one text."""
    return "\n".join(f"{e.source}: {e.text}" for e in finding.evidence)


def finding_of(code: str | Sequence[str], folder: Path, **more: Any) -> Finding:
    return classify(die(code, folder, **more))
