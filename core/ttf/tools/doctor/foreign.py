"""Another Python, which has no ttf: asked by small scripts of the standard library, in processes
that may die. What needs no import of its libraries is read here, from their metadata."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from ttf.errors import ConfigError
from ttf.incidents.classify import classify
from ttf.incidents.death import KilledByUs, ProcessEnd
from ttf.incidents.gather import Witness
from ttf.process.lifeline import parent_death_signal
from ttf.supervise.isolated_tasks import Ended, Task
from ttf.text.limited_json import parsed_json
from ttf.tools.doctor.packages import normal
from ttf.tools.doctor.task_failures import one_line

DEADLINE_S: Final = 90.0
_LOOK_S: Final = 0.05
_MARK: Final = "ttf-probe "
# Any Python 3 understands these scripts.
_FACTS: Final = """
import json, platform, struct, sys
print("ttf-probe " + json.dumps({"answer": {
    "version": platform.python_version(), "implementation": platform.python_implementation(),
    "executable": sys.executable, "prefix": sys.prefix, "path": sys.path,
    "bits": struct.calcsize("P") * 8, "machine": platform.machine(),
    "system": platform.system(), "platform": platform.platform()}}))
"""
_WORK: Final = """
import json, sys
def tell(**what):
    print("ttf-probe " + json.dumps(what)); sys.stdout.flush()
def rows(n):
    import numpy
    return numpy.random.RandomState(0).rand(n, 16).astype("float32")
def use(name):
    tell(at="importing " + name)
    module = __import__(name)
    tell(at="computing with " + name)
    if name == "torch":
        x = module.randn(256, 256, requires_grad=True)
        layer = module.nn.Linear(256, 256)
        (layer(x) @ x).sum().backward()
    elif name == "faiss":
        index = module.IndexFlatL2(16)
        index.add(rows(2000)); index.search(rows(64), 5)
    elif name == "hnswlib":
        index = module.Index(space="l2", dim=16)
        index.init_index(max_elements=2000); index.add_items(rows(2000)); index.knn_query(rows(64), k=5)
    elif name == "sklearn":
        from sklearn.cluster import KMeans
        KMeans(2, n_init=1).fit(rows(2000))
    elif name == "lightgbm":
        module.train({"verbose": -1}, module.Dataset(rows(500), rows(500)[:, 0]), 2)
    elif name == "xgboost":
        module.train({}, module.DMatrix(rows(500), rows(500)[:, 0]), 2)
    elif name == "numpy":
        rows(500).T @ rows(500)
def runtimes():
    try:
        with open("/proc/self/maps") as maps:
            paths = set(line.split(None, 5)[5].strip() for line in maps if "omp" in line and "/" in line)
    except (OSError, IndexError):
        return []
    names = ("libomp", "libiomp5", "libgomp")
    return sorted(p for p in paths if p.rsplit("/", 1)[1].startswith(names))
try:
    for name in sys.argv[1:]:
        use(name)
        tell(openmp=runtimes())
    use(sys.argv[1])
    tell(answer={"openmp": runtimes()})
except Exception as error:
    tell(error={"class": type(error).__name__, "message": str(error)[:400], "hint": ""})
"""


@dataclass(frozen=True)
class ForeignPython:
    path: str

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Raises ConfigError if this is no Python that works."""
        ended = _asked(self.path, _FACTS, ())
        if ended.answer is None:
            last = (ended.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise ConfigError(
                f"{self.path} is no Python 3 that works: {one_line(last, 160)}",
                hint="Give the interpreter of the environment, for example ENV/bin/python.",
            )
        return ended.answer

    @cached_property
    def distributions(self) -> Sequence[metadata.Distribution]:
        paths = [path for path in self.facts["path"] if path]
        return list(metadata.distributions(path=paths))

    @cached_property
    def versions(self) -> dict[str, str]:
        """By normalised name; the first on the path wins, as for imports."""
        found: dict[str, str] = {}
        for one in self.distributions:
            name = one.metadata["Name"]
            if name:
                found.setdefault(normal(name), one.version)
        return found

    def use(self, *modules: str) -> Ended:
        """Imports them in this order, computes with each, and with the first again."""
        return _asked(self.path, _WORK, modules)


def _asked(python: str, script: str, words: Sequence[str]) -> Ended:
    began = time.monotonic()
    # A folder of its own: a torch.py of the user must not be found in place of torch.
    with tempfile.TemporaryDirectory(prefix="ttf-doctor-") as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            try:
                process = subprocess.Popen(
                    [python, "-X", "faulthandler", "-c", script, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=folder,
                    env=_environment(),
                    start_new_session=True,
                    preexec_fn=parent_death_signal(signal.SIGKILL),  # noqa: PLW1509 - one thread
                )
            except OSError as error:
                raise ConfigError(f"{python} cannot be started: {error.strerror}.") from error
        try:
            return _ended(process, out, err, words, began)
        finally:
            _kill(process)


def _environment() -> dict[str, str]:
    # As the user's own command has it, without what would hide a second runtime.
    return {k: v for k, v in os.environ.items() if k != "KMP_DUPLICATE_LIB_OK"}


def _ended(
    process: subprocess.Popen[bytes], out: Path, err: Path, words: Sequence[str], began: float
) -> Ended:
    killed: tuple[KilledByUs, str] = ("", "")
    with Witness("command", process.pid) as witness:
        while process.poll() is None:
            witness.look()
            if time.monotonic() - began > DEADLINE_S:
                killed = ("hang", f"it did not finish within {DEADLINE_S:.0f} s")
                _kill(process)
            time.sleep(_LOOK_S)
        raw = err.read_bytes()
        notes = _notes(out.read_bytes().decode(errors="replace"))
        answer = next((note["answer"] for note in notes if "answer" in note), None)
        error = next((note["error"] for note in notes if "error" in note), None)
        death = finding = None
        if process.returncode or killed[0] or (answer is None and error is None):
            end = ProcessEnd(returncode=process.returncode, killed=killed, stderr=raw)
            death = witness.death(end)
            finding = classify(death)
    return Ended(
        task=Task(work=" ".join(words)),
        seconds=time.monotonic() - began,
        notes=notes,
        answer=answer,
        error=error,
        death=death,
        finding=finding,
        stderr=raw.decode(errors="replace"),
    )


def _notes(text: str) -> tuple[Mapping[str, Any], ...]:
    found = []
    for line in text.splitlines():
        if line.startswith(_MARK):
            try:
                found.append(parsed_json(line.removeprefix(_MARK).encode()))
            except ValueError:  # cut by its death
                continue
    return tuple(found)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
