"""System calls of the trainer fail or kill, without any help of our code (strace).

A disk that lies is left to `failpoint`, which tells checkpoints and tables from metrics.jsonl, that
nobody reads back while it grows.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from chaos.campaign import RESUMED, Case, Fault, resumed_until_finished
from chaos.running import Running
from chaos.verdict import Verdict, judge_classes, judge_end

INJECTIONS: Final = (
    *("pwrite64:signal=KILL", "fsync:signal=KILL", "rename:signal=KILL"),
    *("pwrite64:error=ENOSPC", "pwrite64:error=EIO", "fsync:error=EIO", "rename:error=EIO"),
)
_CALLS: Final = {"pwrite64": 60, "fsync": 60, "rename": 20}
"""Of each there are at least so many in the checkpoint thread of a whole run."""
_ATTACH_S: Final = 60.0


def why_not() -> str:
    if shutil.which("strace") is None:
        return "strace is not installed"
    done = subprocess.run(
        ["strace", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False
    )
    return f"strace may not trace: {done.stderr.strip()}" if done.returncode else ""


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    reference = case.reference
    injection = INJECTIONS[case.number % len(INJECTIONS)]
    call = injection.partition(":")[0]
    # Counted for each thread by itself.
    inject = f"{injection}:when={case.rng.randrange(1, _CALLS[call])}"
    log = place.root / "strace.txt"
    with Running(place, case.words(place)) as running:
        tracer = _attached(running, inject, log)
        try:
            code = running.ended()
        finally:
            tracer.terminate()
            tracer.wait(30)
    struck = len(re.findall(r"\(INJECTED\)|killed by SIGKILL", log.read_text(errors="replace")))
    verdict.deaths = int(struck > 0)
    verdict.phases[injection if struck else "never reached"] += 1
    if "error" in injection:
        code = resumed_until_finished(case, place, code, verdict)
    judge_end(verdict, place, code, reference)
    wanted = [("trainer", "killed")] if "KILL" in injection else []
    if verdict.phases[RESUMED]:
        wanted = [("trainer", "disk-full"), ("trainer", "python-error")]
    judge_classes(verdict, place, wanted, at_least=int("KILL" in injection and struck > 0))
    if not verdict.ok:
        verdict.problems.append(f"strace -e inject={inject}")
    return verdict


def _attached(running: Running, inject: str, log: Path) -> subprocess.Popen[bytes]:
    """To the threads that the trainer has once it trains: its own and the checkpoint thread's, but
    not to the miner's worker, which would be struck as well. Raises TimeoutError."""
    flight = running.when(lambda flight: flight.step > 0, _ATTACH_S)
    pid = running.trainer_seen()
    if flight is None or pid is None:
        raise TimeoutError("there was no trainer to trace")
    call = inject.partition(":")[0]
    words = ["strace", "-qq", "-o", str(log), "-e", f"trace={call}", "-e", f"inject={inject}"]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        words += ["-p", thread.name]
    tracer = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    until = time.monotonic() + _ATTACH_S
    status = Path(f"/proc/{pid}/status")
    while status.exists() and "TracerPid:\t0\n" in status.read_text():
        if tracer.poll() is not None or time.monotonic() > until:
            raise TimeoutError(f"strace did not attach to {pid}")
        time.sleep(0.005)
    return tracer


FAULT: Final = Fault(
    name="strace",
    title="system calls of the trainer killed or refused (strace)",
    runs=12,
    quick=3,
    run=run,
    why_not=why_not,
)
