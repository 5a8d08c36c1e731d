"""Guards around every test, and what several rooms of the suite share."""

from __future__ import annotations

import compileall
import contextlib
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest
from tests.kit.widely import CHAOS

# Idle OpenMP threads spin by default and take the processor from whoever has work: with three test
# processes and their children on two cores the suite then needs twice the time. No bit depends on it.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Each worker reads 240 files of tests; with pytest's changes to them on disk in half of the time.
sys.dont_write_bytecode = False

# A suite started by `nohup ... &` inherits ignored signals, and so do the children that tests interrupt.
for _signal in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(
            _signal, signal.default_int_handler if _signal == signal.SIGINT else signal.SIG_DFL
        )

# On a busy machine a single draw or example may take a second: the time decides no test. The random
# numbers are others every time: what a campaign asks at once, the suite asks in turn.
hypothesis.settings.register_profile(
    "any machine",
    deadline=None,
    max_examples=100 if CHAOS else 40,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("any machine")

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared" / "data"
if str(ROOT) not in sys.path:  # `chaos` is no installed package
    sys.path.append(str(ROOT))
_SETS_ITSELF = {"PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR"}  # pytest, torch when it loads


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a command line ended with."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


RunTtf = Callable[..., Outcome]
Invoke = Callable[[Sequence[str | Path]], Outcome]


def pytest_configure(config: pytest.Config) -> None:
    """Compiles what hundreds of processes load, also where PYTHONDONTWRITEBYTECODE is set."""
    mounts_of_its_own()
    if not hasattr(config, "workerinput"):
        for folder in ("core", "plugins"):
            compileall.compile_dir(ROOT / folder, quiet=2, maxlevels=10)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """A million objects of pytest, torch and the tests stay to the end: the collector, which walks
    them at every full collection, leaves them out."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def mounts_of_its_own() -> None:
    """Full disks that one worker's tests mount are no evidence for the deaths in another's. Without
    the right to do so (not root, not Linux) tests that mount something are skipped anyway."""
    if sys.platform == "linux" and ctypes.CDLL(None).unshare(_CLONE_NEWNS) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=False, capture_output=True)


_CLONE_NEWNS = 0x00020000
_LONG = (
    "tests/system/supervise/crashes/test_hangs.py",
    "tests/system/packages/test_pages.py",
    "tests/system/supervise/crashes/test_deaths.py",
    "tests/system/chaos",
    "tests/system/tools/bisect/test_studies.py",
    "tests/system/tools/ab/test_command.py",
    "tests/system/packages",
    "tests/system/supervise",
    "tests/system/tools/doctor/test_whole.py",
)
"""Where the longest tests are, the longest first."""


def _rank(item: pytest.Item) -> int:
    return next((n for n, where in enumerate(_LONG) if item.nodeid.startswith(where)), len(_LONG))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every worker begins with its share of the long ones: nobody waits for one at the end."""
    long = sorted((item for item in items if _rank(item) < len(_LONG)), key=_rank)
    rest = [item for item in items if _rank(item) == len(_LONG)]
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    items.clear()
    for number in range(workers):  # xdist deals in blocks of one size
        mine = long[number::workers]
        ours = (number + 1) * (len(long) + len(rest)) // workers - len(items)
        taken = max(0, ours - len(mine))
        items += [*mine, *rest[:taken]]
        del rest[:taken]
    items += rest


@pytest.fixture(autouse=True, scope="session")
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads or writes the cache of the person who runs the suite."""
    os.environ["TTF_HOME"] = str(tmp_path_factory.mktemp("ttf-home"))


@pytest.fixture(autouse=True)
def _leaves_no_trace(_own_home: None) -> Iterator[None]:
    """Environment, working directory and child processes are as they were."""
    environment, folder = dict(os.environ), Path.cwd()
    children = _children()
    yield
    changed = _changed(environment)
    moved = Path.cwd() != folder
    os.chdir(folder)
    if "torch" in sys.modules:  # a trainer in this process says how it multiplies
        sys.modules["torch"].set_float32_matmul_precision("highest")
    left = _still_alive(_children() - children)
    assert not changed, f"the test changed the environment: {sorted(changed)}"
    assert not moved, "the test left another working directory"
    assert not left, f"the test left child processes: {left}"


def _changed(before: dict[str, str]) -> set[str]:
    """Variables that differ, put back; what a device policy prepared for torch may stay."""
    now = dict(os.environ)
    differ = {k for k in before.keys() | now.keys() if before.get(k) != now.get(k)}
    prepared = {"TTF_PREPARED", *json.loads(now.get("TTF_PREPARED", "{}"))}
    unexpected = differ - _SETS_ITSELF - prepared
    for key in unexpected:
        if key in before:
            os.environ[key] = before[key]
        else:
            del os.environ[key]
    return unexpected


def _children() -> set[psutil.Process]:
    found = set()
    for pid in _children_of(os.getpid()):
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            found.add(psutil.Process(pid))
    return found


def _children_of(parent: int) -> Iterator[int]:
    """All below `parent`. The kernel's own lists: psutil reads every process of the machine, twice a
    test, which took a minute of the suite."""
    if not Path("/proc/self/task").is_dir():
        yield from (p.pid for p in psutil.Process(parent).children(recursive=True))
        return
    folder, tasks = f"/proc/{parent}/task", []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the process has ended
        tasks = os.listdir(folder)  # noqa: PTH208 - of every thread, twice a test
    for task in tasks:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            with open(f"{folder}/{task}/children", "rb") as file:  # noqa: PTH123
                children = file.read().split()
            for child in map(int, children):
                yield child
                yield from _children_of(child)


def _still_alive(processes: set[psutil.Process]) -> list[str]:
    """What does not end; Python's own resource tracker lives on by design."""
    trackers = {process for process in processes if "resource_tracker" in _line_of(process)}
    _, alive = psutil.wait_procs(list(processes - trackers), timeout=20)
    left = []
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                left.append(f"{process.pid}: {_line_of(process)}")
                process.kill()
    return left


def _line_of(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


@pytest.fixture
def run_ttf(tmp_path: Path) -> RunTtf:
    """`ttf` in a process of its own, with a fresh TTF_HOME."""

    def run(
        *argv: str | Path,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        timeout_s: float = 240,
    ) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "ttf", *map(str, argv)],
            env=os.environ | {"TTF_HOME": str(tmp_path / "home")} | (env or {}),
            cwd=cwd or tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Outcome(code=done.returncode, out=done.stdout, err=done.stderr)

    return run


@pytest.fixture
def invoke(capfd: pytest.CaptureFixture[str]) -> Invoke:
    """A command line in this process: fast, for what needs no fresh interpreter."""
    from ttf import cli

    def run(argv: Sequence[str | Path]) -> Outcome:
        capfd.readouterr()
        code = cli.run([str(word) for word in argv])
        out, err = capfd.readouterr()
        return Outcome(code=code, out=out, err=err)

    return run


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """The folder of a real data set; skips where the sets are not beside the project."""

    def folder(name: str) -> Path:
        path = SHARED / name
        if not path.is_dir():
            pytest.skip(f"the data set {name} is not at ../shared/data")
        return path

    return folder


@dataclass(frozen=True, kw_only=True)
class FakeDistribution:
    """A distribution on sys.path that is nothing but metadata and, where given, a module."""

    folder: Path

    def add(
        self,
        name: str,
        entry_points: dict[str, str],
        *,
        group: str = "ttf.v1",
        version: str = "1.0",
    ) -> None:
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        info.joinpath("METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        lines = [f"[{group}]", *(f"{key} = {value}" for key, value in entry_points.items())]
        info.joinpath("entry_points.txt").write_text("\n".join(lines) + "\n")

    def module(self, name: str, source: str) -> None:
        self.folder.joinpath(f"{name}.py").write_text(source)


@pytest.fixture
def fake_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDistribution]:
    """Third-party plugins that exist for one test."""
    from ttf.host import plugins

    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    _forget(plugins)
    yield FakeDistribution(folder=folder)
    _forget(plugins)
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(folder) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def _forget(plugins: Any) -> None:
    plugins.installed.cache_clear()
    plugins.load.cache_clear()


def wait_until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    """Polls until an event has come; the time only ends a test that waits in vain."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
