"""A virtual environment of its own for one test, made the way a user makes it: by pip, from wheels.

       large: torch, by links into the environment the tests run in: 700 MB less to unpack
         ^ a .pth file: pip and Python see what is there, and write nothing into it
       base: the project's wheel with every other dependency, installed once a session
         ^ likewise
       environment: what one test installs

The index pip is configured for is the only network. Where it cannot be reached, the test skips.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.conftest import ROOT, Outcome

CONSTRAINTS: Final = ROOT / "constraints.txt"
EXTRAS: Final = "testing"
ALL_QUESTIONS: Final = bool(os.environ.get("TTF_CHAOS"))
BRIEFLY: Final = (
    ()
    if ALL_QUESTIONS
    else ("-k", "not torch and not segfault and not kill_9 and not budget and not one_thread")
)
"""Of a package's own tests, in a suite that everybody waits for: tests/system/testing starts torch
beside plugins, weighs and kills them, as well; each package trains here."""
"""What the base has besides the dependencies: a stranger's package runs its own tests."""
LARGE: Final = "large"
"""The folder of the base that holds links."""
_LARGE_NAME: Final = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)$")

COMPLETE: Final = "complete"
"""The file that says that the base is installed in full."""

_UNREACHABLE: Final = re.compile(
    r"after connection broken by '(NewConnectionError|NameResolutionError|ConnectTimeoutError|"
    r"ReadTimeoutError|ProxyError|ProtocolError)"
)
_GAVE_UP: Final = re.compile(
    r"from versions: none|ResolutionImpossible|Max retries exceeded|ConnectionError: "
)
"""What pip says in the end, having heard nothing: of one package, of a pinned one, of a file."""
_OF_THIS_INTERPRETER: Final = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")
"""Not handed on. Bytecode is written: pip is told not to, and torch is compiled for seconds."""


_ONE_PROCESS: Final = """\
import json, sys
from ttf import cli
for line in json.loads(sys.argv[1]):
    if code := cli.run(line):
        sys.exit(code)
"""


class PipFailed(Exception):
    """pip ended with an error; the message is all it said."""


@dataclass(frozen=True, kw_only=True)
class FreshEnvironment:
    """A virtual environment without pip, on top of the base; the dev environment's pip fills it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return _site_packages(self.folder)

    def install(self, *wanted: str | Path) -> None:
        """Wheels, package folders and names (or options), as `pip install` takes them, with their
        dependencies from the index; raises PipFailed.

        A folder is built with the dev environment's hatchling first: pip would fetch it anew.
        """
        given = [self.build(one) if _is_package(one) else one for one in wanted]
        _install(self.python, *given)

    def build(self, folder: str | Path) -> Path:
        """The wheel of a package's folder."""
        return build_wheel(Path(folder), self.folder / "wheels" / Path(folder).name)

    def run(
        self,
        *argv: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 300,
    ) -> Outcome:
        """`python *argv` there, e.g. `run("-m", "ttf", "train")`, with a TTF_HOME of its own."""
        done = subprocess.run(
            [self.python, *map(str, argv)],
            env=own_environment() | {"TTF_HOME": str(self.folder / "ttf-home")} | dict(env or {}),
            cwd=cwd or self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return Outcome(code=done.returncode, out=done.stdout, err=done.stderr)

    def ttf(self, *commands: Sequence[str | Path], cwd: Path) -> Outcome:
        """Command lines one after another in one process, which loads once what all need; the
        first that fails ends it."""
        lines = [[str(word) for word in command] for command in commands]
        return self.run("-c", _ONE_PROCESS, json.dumps(lines), cwd=cwd)


def build_wheel(project: Path, into: Path) -> Path:
    """Raises PipFailed; leaves nothing in the project's folder."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", into, project)
    (wheel,) = into.glob("*.whl")
    return wheel


def make_base(folder: Path, wheel: Path) -> None:
    """The project's wheel and all it needs, from the index; torch need not come from there."""
    venv.create(folder, with_pip=False, symlinks=True)
    large = folder / LARGE
    large.mkdir()
    _link_torch(large)
    _see(folder, large)
    _install(folder / "bin" / "python", f"twotower[{EXTRAS}] @ {wheel.as_uri()}")


def make_plain(folder: Path, wheel: Path) -> None:
    """An environment with a wheel and what it needs, compiled as a user's pip compiles it."""
    venv.create(folder, with_pip=False, symlinks=True)
    pip("--python", folder / "bin" / "python", "install", "--quiet", "--retries", "2",
        "--timeout", "30", "--constraint", CONSTRAINTS, wheel)  # fmt: skip


def make_environment(folder: Path, base: Path, *below: FreshEnvironment) -> FreshEnvironment:
    """An environment that has the packages of the base and of others, and place for more."""
    venv.create(folder, with_pip=False, symlinks=True)
    _see(folder, *(b.site_packages for b in below), _site_packages(base), base / LARGE)
    return FreshEnvironment(folder=folder)


def pip(*argv: str | Path) -> str:
    """What pip said; raises PipFailed, and skips the test where the index cannot be reached."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", *map(str, argv)],
        env=own_environment() | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode == 0:
        return done.stdout
    broken = _UNREACHABLE.search(done.stdout)
    if broken and _GAVE_UP.search(done.stdout):
        pytest.skip(f"the package index cannot be reached: {broken[1]}")
    raise PipFailed(f"pip {' '.join(map(str, argv))}\n{done.stdout}")


@contextlib.contextmanager
def held_by_many(folder: Path) -> Iterator[None]:
    """Keeps a folder of the session while anyone uses it: the last one to leave removes it, since
    pytest would keep hundreds of megabytes of each of its last three sessions."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(users, fcntl.LOCK_UN)  # two that leave at once would each see the other
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / COMPLETE).unlink(missing_ok=True)
                shutil.rmtree(folder, ignore_errors=True)


def _link_torch(folder: Path) -> None:
    """And what it brings for graphics cards, gigabytes; not where this interpreter has another
    release than the one that is tested with: then pip unpacks it."""
    have = {dist.name.lower(): dist for dist in importlib.metadata.distributions()}
    torch = have.get("torch")
    version = torch.version.partition("+")[0] if torch else ""
    if f"torch=={version}" not in CONSTRAINTS.read_text().splitlines():
        return
    for dist in [dist for name, dist in have.items() if _LARGE_NAME.match(name)]:
        for top in sorted({file.parts[0] for file in dist.files or ()} - {".."}):
            link = folder / top
            if not link.is_symlink():  # nvidia's packages share a folder
                link.symlink_to(Path(str(dist.locate_file(top))).resolve())


def _see(environment: Path, *folders: Path) -> None:
    (_site_packages(environment) / "below.pth").write_text("".join(f"{f}\n" for f in folders))


def _install(python: Path, *wanted: str | Path) -> None:
    pip(
        "--python", python, "install", "--quiet", "--no-compile", "--retries", "2",
        "--timeout", "30", "--constraint", CONSTRAINTS, *wanted,
    )  # fmt: skip


def own_environment() -> dict[str, str]:
    """Ours, without what would lead from the fresh interpreter to this one."""
    return {k: v for k, v in os.environ.items() if k not in _OF_THIS_INTERPRETER}


def _is_package(wanted: str | Path) -> bool:
    return (Path(wanted) / "pyproject.toml").is_file()


def _site_packages(environment: Path) -> Path:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return environment / "lib" / version / "site-packages"
