"""Runs what changed since a commit many times beside load: `make flaky BASE=main N=10`.

Two processes that compute and one that writes to the disk go on all the time: what passes or fails by
who is quicker fails here. What runs: test files that changed, those that use a changed file of
tests/kit, and the folders of tests/ that mirror a changed folder of core/ttf or plugins.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
TESTS: Final = ROOT / "tests"
BUSY: Final = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(10**5))"
WRITES: Final = """
import os, sys
parent, block = os.getppid(), os.urandom(1 << 20)
while os.getppid() == parent:
    with open(sys.argv[1], "wb") as file:
        for _ in range(64):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
"""


def main() -> int:
    options = _options()
    chosen = without_doubles(choose(changed_since(options.base)))
    if not chosen:
        print(f"no test has to do with what changed since {options.base}")
        return 0
    print(f"{options.times} times beside load:", *chosen, sep="\n  ", flush=True)
    failed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, load(Path(folder)):
        for number in range(1, options.times + 1):
            now = run(chosen, Path(folder) / f"{number}.xml", options.workers)
            failed.update(now)
            print(f"{number} of {options.times}: {', '.join(now) or 'all pass'}", flush=True)
    for name, times in failed.most_common():
        print(f"failed {times} of {options.times}  {name}")
    return 1 if failed else 0


# --- what to run --------------------------------------------------------------------------------


def changed_since(base: str) -> list[str]:
    """Files, by their paths in the project; those that git does not know yet as well."""
    differ = ["git", "diff", "--name-only", "--diff-filter=d", base]
    unknown = ["git", "ls-files", "--others", "--exclude-standard"]
    return [line for words in (differ, unknown) for line in _output(words).splitlines()]


def _output(words: list[str]) -> str:
    return subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def choose(changed: Iterable[str]) -> Iterator[Path]:
    """Files and folders for pytest, relative to the project."""
    kit = set()
    for name in changed:
        path = Path(name)
        if path.suffix != ".py":
            continue
        if path.parts[0] == "tests":
            if path.name.startswith("test_"):
                yield path
            elif path.name == "conftest.py":
                yield path.parent
            else:
                kit.add(name.removesuffix(".py").replace("/", "."))
        elif path.parts[:2] == ("core", "ttf"):
            mirrored = list(_mirrored(Path(*path.parts[2:-1])))
            yield from mirrored
            if not mirrored:  # a room whose tests are those of its users
                kit.add(".".join(path.with_suffix("").parts[1:]))
        elif path.parts[0] == "plugins" and len(path.parts) > 2:
            yield from _mirrored(Path("plugins", path.parts[1]))
    yield from _users_of(kit)


def without_doubles(chosen: Iterable[Path]) -> list[str]:
    """A file below a folder that is chosen runs with it."""
    found = set(chosen)
    return sorted(str(path) for path in found if not found & set(path.parents))


def _mirrored(room: Path) -> Iterator[Path]:
    """In tests/unit and tests/system, the deepest folder there is of that room."""
    for half in ("unit", "system"):
        here = room
        while here.parts and not (TESTS / half / here).is_dir():
            here = here.parent
        if here.parts:
            yield Path("tests", half, here)


def _users_of(modules: set[str]) -> Iterator[Path]:
    """Test files that import one of them, or something that does."""
    uses = {path: set(_imports(path)) for path in TESTS.rglob("*.py")}
    reached = set(modules)
    while True:
        more = {_module(path) for path, used in uses.items() if used & reached} - reached
        if not more:
            break
        reached |= more
    for path in uses:
        if _module(path) in reached and path.name.startswith("test_"):
            yield path.relative_to(ROOT)
        elif _module(path) in reached and path.name == "conftest.py":
            yield path.parent.relative_to(ROOT)


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# --- running it ---------------------------------------------------------------------------------


@contextlib.contextmanager
def load(folder: Path) -> Iterator[None]:
    busy = [[sys.executable, "-c", BUSY] for _ in range(2)]
    writes = [sys.executable, "-c", WRITES, str(folder / "written")]
    started = [subprocess.Popen(words) for words in (*busy, writes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def run(chosen: list[str], report: Path, workers: int) -> list[str]:
    """Names of the tests that failed."""
    words = ["-q", "-n", str(workers), "--dist", "worksteal", f"--junitxml={report}", *chosen]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, check=False
    )
    if not report.exists():
        raise SystemExit(done.stdout.decode() + done.stderr.decode())
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in ET.parse(report).iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("base", help="a commit: what changed since is run")
    parser.add_argument("--times", type=int, default=10, metavar="N")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="of pytest-xdist")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
