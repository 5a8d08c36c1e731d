"""Runs the blocks of the pages, in their order, each page in a folder of its own: `make docs-check`.

    python docs/check_blocks.py                       every page
    python docs/check_blocks.py docs/python.md        one page; -v shows what the blocks print

What runs: `sh` and `console` blocks in bash (of `console` the lines after `$ `) and `python` blocks,
which share their names within a page. `text`, `toml` and the like do not run. Comments steer the next block:

    <!-- skip: next "reason" -->             it does not run; if(condition, reason="...") as in Sybil
    <!-- file: run.toml -->                  it is written to this file
    <!-- briefly: ttf train | --steps 3 -->  lines that begin so (a regular expression) get these words
    <!-- exit: 7 -->                         it ends with this code
    <!-- shows: one phrase; another -->      what the block before printed contains these phrases
    <!-- invisible-code: sh ... -->          a block that readers need not see, such as made-up data
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from unittest import SkipTest

from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import CodeBlockParser, SkipParser
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer

ROOT: Final = Path(__file__).resolve().parent.parent
RUN: Final = ("sh", "console", "python")
SHOWN: Final = ("text", "toml", "yaml", "json", "csv")
LONGEST_S: Final = 900
_TITLE = re.compile(r'```\w+ title="([^"]+)"')


def pages() -> list[Path]:
    """Every page whose blocks are run, in the order of their names."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    found += (ROOT / "examples").glob("*/README.md")
    made = {ROOT / "docs" / "cli.md"}  # help texts, made of the commands themselves
    return sorted(set(found) - made)


@dataclass(kw_only=True)
class Steering:
    """What the comments before a block said of it, and what the block before printed."""

    file: str = ""
    exit_code: int = 0
    briefly: list[tuple[str, str]] = field(default_factory=list)
    output: str = ""
    ran: int = 0

    def taken(self) -> Steering:
        """What holds for this block alone."""
        mine = Steering(file=self.file, exit_code=self.exit_code, briefly=self.briefly)
        self.file, self.exit_code, self.briefly = "", 0, []
        return mine


def installed(*modules: str) -> bool:
    """For the condition of a skip."""
    return all(importlib.util.find_spec(name) for name in modules)


def has_command(*names: str) -> bool:
    """For the same: whether this `ttf` has a command such as ("data", "encode")."""
    import click

    from ttf.cli import cli

    command: click.Command | None = cli
    for name in names:
        if not isinstance(command, click.Group):
            return False
        command = command.get_command(click.Context(command), name)
    return command is not None


def document(page: Path) -> Document:
    """The page as Sybil reads it: every block, and every comment that steers one."""
    languages = [
        CodeBlockParser("sh", _shell),
        CodeBlockParser("console", _console),
        CodeBlockParser("python", _python),
        *(CodeBlockParser(language, _shown) for language in SHOWN),
    ]
    sybil = Sybil(parsers=[SkipParser(), _comments, _titled, *languages], path=str(page.parent))
    return sybil.parse(page)


def _comments(document: Document) -> Iterable[Region]:
    for name, evaluate in _COMMENTS.items():
        for found in DirectiveInHTMLCommentLexer(name)(document):
            yield Region(found.start, found.end, found.lexemes["arguments"].strip(), evaluate)


def _titled(document: Document) -> Iterable[Region]:
    """A fence with a title is a file: ```python title="setup.py"; only the fence's first line."""
    for found in _TITLE.finditer(document.text):
        end = document.text.index("\n```", found.end())
        text = document.text[document.text.index("\n", found.end()) + 1 : end + 1]
        yield Region(found.start(), end, (found[1], text), _write_titled)


def _steering(example: Example) -> Steering:
    found: Steering = example.namespace.setdefault("__steering__", Steering())
    return found


def _file(example: Example) -> None:
    _steering(example).file = example.parsed


def _exit(example: Example) -> None:
    _steering(example).exit_code = int(example.parsed)


def _briefly(example: Example) -> None:
    command, _, words = example.parsed.partition("|")
    _steering(example).briefly.append((command.strip(), words.strip()))


def _shows(example: Example) -> None:
    output = " ".join(_steering(example).output.split())
    missing = [one.strip() for one in example.parsed.split(";") if one.strip() not in output]
    assert not missing, f"{missing} is not in the output of the block before:\n{output[-3000:]}"


_COMMENTS: Final[dict[str, Callable[[Example], None]]] = {
    "file": _file,
    "exit": _exit,
    "briefly": _briefly,
    "shows": _shows,
}


def _write_titled(example: Example) -> None:
    name, text = example.parsed
    _write(name, text)


def _write(name: str, text: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _shown(example: Example) -> None:
    mine = _steering(example).taken()
    if mine.file:
        _write(mine.file, str(example.parsed))


def _console(example: Example) -> None:
    lines = [line[2:] for line in str(example.parsed).splitlines() if line.startswith("$ ")]
    _bash(example, "\n".join(lines))


def _shell(example: Example) -> None:
    _bash(example, str(example.parsed))


def _bash(example: Example, text: str) -> None:
    steering = _steering(example)
    mine = steering.taken()
    if mine.file:
        return _write(mine.file, text)
    script = "\n".join(_shortened(line, mine.briefly) for line in text.splitlines())
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    steering.ran += 1
    steering.output = done.stdout
    print(f"$ {script}\n{done.stdout}")
    assert done.returncode == mine.exit_code, (
        f"exit code {done.returncode}, not {mine.exit_code}, of:\n{script}\n{done.stdout[-4000:]}"
    )
    return None


def _shortened(line: str, briefly: Iterable[tuple[str, str]]) -> str:
    code, mark, comment = line.partition(" #")
    words = [more for command, more in briefly if re.match(command, code.strip())]
    return f"{code.rstrip()} {' '.join(words)} {mark}{comment}" if words else line


def _python(example: Example) -> None:
    steering = _steering(example)
    mine = steering.taken()
    source = str(example.parsed)
    if mine.file:
        return _write(mine.file, source)
    lines = "\n" * (example.line - 1 + example.parsed.line_offset)
    code = compile(lines + source, str(example.path), "exec", dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, example.namespace)  # noqa: S102 - the page is what is to be run
    steering.ran += 1
    steering.output = printed.getvalue()
    print(steering.output)
    return None


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a page."""

    page: str
    ran: int
    skipped: list[str]
    failed: str
    seconds: float

    def line(self) -> str:
        reasons = f"; skipped {len(self.skipped)}: {'; '.join(sorted(set(self.skipped)))}"
        end = "FAILED  " if self.failed else ""
        skipped = reasons if self.skipped else ""
        return f"{end}{self.page}: {self.ran} blocks run in {self.seconds:.0f} s{skipped}"


def run_here(page: Path) -> Result:
    """Runs a page in this process and in an empty folder."""
    parsed = document(page)
    parsed.namespace.update(installed=installed, has_command=has_command, __name__="__main__")
    skipped, failed, start, before = [], "", time.monotonic(), Path.cwd()
    with tempfile.TemporaryDirectory(prefix="ttf-docs-", ignore_cleanup_errors=True) as folder:
        os.chdir(folder)
        for example in parsed.examples():
            where = f"{page.relative_to(ROOT)}:{example.line}"
            try:
                example.evaluate()
            except SkipTest as reason:
                skipped.append(str(reason))
            except BaseException as error:  # noqa: BLE001 - a page may raise anything
                text = "" if isinstance(error, AssertionError) else traceback.format_exc()
                failed = f"{where}: {error}\n{text}"
                break
        os.chdir(before)
    steering = parsed.namespace.get("__steering__", Steering())
    return Result(
        page=str(page.relative_to(ROOT)),
        ran=steering.ran,
        skipped=skipped,
        failed=failed,
        seconds=time.monotonic() - start,
    )


def run_in_child(page: Path, home: str) -> tuple[Result, str]:
    """The same in a process of its own, which leaves nothing behind: the result, what it printed."""
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.Popen(
        [sys.executable, __file__, "--here", str(page)],
        # Threads that wait by spinning take the processor from others, on a busy machine for minutes.
        env={"OMP_WAIT_POLICY": "passive"}
        | os.environ
        | {"TTF_HOME": home, "PATH": paths, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=4 * LONGEST_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    said, _, last = printed.rstrip().rpartition("\n")
    try:
        return Result(**json.loads(last)), said
    except (ValueError, TypeError):
        name = str(page.relative_to(ROOT))
        return Result(page=name, ran=0, skipped=[], failed=printed[-4000:], seconds=0), printed


def _chosen(names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        path = Path(name).resolve()
        yield from (p for p in pages() if p == path or path in p.parents)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the blocks of the pages.")
    parser.add_argument("pages", nargs="*", help="pages or folders (default: all)")
    parser.add_argument("--here", metavar="PAGE", help="in this process; the last line is JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the blocks print")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(vars(run_here(Path(given.here).resolve()))))
        return 0
    chosen = list(_chosen(given.pages)) if given.pages else pages()
    results = []
    with tempfile.TemporaryDirectory(prefix="ttf-docs-home-", ignore_cleanup_errors=True) as home:
        for page in chosen:
            result, printed = run_in_child(page, home)
            results.append(result)
            if given.verbose:
                print(printed)
            if result.ran or result.skipped or result.failed:
                print(result.line(), flush=True)
            if result.failed:
                print(result.failed, flush=True)
    failed = [result.page for result in results if result.failed]
    ran, skipped = sum(r.ran for r in results), sum(len(r.skipped) for r in results)
    seconds = sum(r.seconds for r in results)
    print(
        f"{len(results)} pages, {ran} blocks run, {skipped} skipped, {seconds:.0f} s;"
        f" {len(failed)} failed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
