"""Do the tests notice a mistake? Puts small ones into the code, one at a time, and runs the tests.

    .venv/bin/python tests/mutants.py --seed 14 --count 40      # in a tree without changes of your own

A seeded program chooses them, in turn from every room of `core/ttf` and every folder of `plugins`:
a comparison turned round, a condition negated, a number off by one, a sum that is a difference,
`and` for `or`, a statement left out. The tests nearest to the changed file run first, the whole
suite last; the first that fails ends the run. A mutant that no test notices is printed as a patch:
it is a missing test, or it changes nothing that anybody could see (say so, and take another seed).
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CORE: Final = ROOT / "core/ttf"
PLUGINS: Final = ROOT / "plugins"
TESTS: Final = ROOT / "tests"
_TURNED: Final[dict[type[ast.AST], str]] = {
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.And: "or",
    ast.Or: "and",
}
_HANGS_S: Final = 1200.0
"""A mutant that makes a test wait for ever is noticed as well."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed place."""

    file: Path
    line: int
    what: str
    text: str
    """The whole file with the mistake in it."""


def main() -> int:
    options = _options()
    if _git("status", "--porcelain", "core", "plugins"):
        print("core/ or plugins/ hold changes of yours: commit them first", file=sys.stderr)
        return 2
    missed = 0
    for number, mutant in enumerate(mutants(options.seed, options.count), 1):
        if number <= options.skip:
            continue
        where = f"{mutant.file.relative_to(ROOT)}:{mutant.line}"
        begun = time.monotonic()
        noticed = _noticed(mutant, options.processes)
        took = time.monotonic() - begun
        print(f"{number:3} {where}  {mutant.what}: {noticed or 'NOT NOTICED'} ({took:.0f} s)")
        sys.stdout.flush()
        missed += not noticed
    print(f"{missed} not noticed")
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--skip", type=int, default=0, help="the first of them were run before")
    parser.add_argument("--processes", type=int, default=2)
    return parser.parse_args()


# --- which ---------------------------------------------------------------------------------------


def mutants(seed: int, count: int) -> Iterator[Mutant]:
    """As many from each folder, give or take one; the same for the same seed and tree."""
    chance = random.Random(seed)
    folders = [path for path in sorted(CORE.iterdir()) if path.is_dir()]
    folders += [path for path in sorted(PLUGINS.iterdir()) if path.is_dir()]
    places = {name: found for name in (*folders, CORE) if (found := _places_below(name, chance))}
    names = list(places)
    chance.shuffle(names)
    for number in range(count):
        yield _made(*places[names[number % len(names)]].pop())


def _places_below(folder: Path, chance: random.Random) -> list[tuple[Path, ast.AST, str]]:
    files = sorted(folder.glob("*.py") if folder == CORE else folder.rglob("*.py"))
    found = [
        (file, node, what)
        for file in files
        if "templates" not in file.parts
        for node, what in _places(ast.parse(file.read_text()))
    ]
    chance.shuffle(found)
    return found


def _places(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """What may be changed; nothing in annotations, decorators and messages."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.AnnAssign(value=value):
                if value is not None:
                    yield from _places(ast.Expression(body=value))
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                for statement in node.body:
                    yield from _places(ast.Module(body=[statement], type_ignores=[]))
                continue
            case ast.JoinedStr() | ast.Raise() | ast.arguments() | ast.Import() | ast.ImportFrom():
                continue
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.BinOp(op=ast.LShift()):
                continue  # the size of a buffer: its last bytes change nothing that one could see
            case ast.If() | ast.While() | ast.IfExp():
                yield node, "condition negated"
            case ast.Compare(ops=[operator]) if type(operator) in _TURNED:
                yield node, "comparison turned round"
            case ast.BinOp(op=operator) if type(operator) in _TURNED:
                yield node, "another arithmetic"
            case ast.BoolOp():
                yield node, "and for or"
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                yield node, "one more"
            case ast.Expr(value=ast.Call()):
                yield node, "left out"
        yield from _places(node)


def _made(file: Path, node: ast.AST, what: str) -> Mutant:
    """The file with this one place changed; everything else keeps its bytes."""
    text = file.read_text()
    changed: ast.expr | ast.stmt
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            changed, new = test, f"(not ({ast.get_source_segment(text, test)}))"
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            changed, new = node, _joined(text, left, operator, right)
        case ast.BinOp(left=left, op=operator, right=right):
            changed, new = node, _joined(text, left, operator, right)
        case ast.BoolOp(op=operator, values=values):
            words = (f"({ast.get_source_segment(text, value)})" for value in values)
            changed, new = node, f"({f' {_TURNED[type(operator)]} '.join(words)})"
        case ast.Constant(value=int(value)):
            changed, new = node, str(value + 1)
        case ast.Expr():
            changed, new = node, "pass"
        case _:
            raise AssertionError(ast.dump(node))
    return Mutant(file, changed.lineno, what, _with(text, changed, new))


def _joined(text: str, left: ast.expr, operator: ast.AST, right: ast.expr) -> str:
    parts = (ast.get_source_segment(text, side) for side in (left, right))
    first, second = (f"({part})" for part in parts)
    return f"({first} {_TURNED[type(operator)]} {second})"


def _with(text: str, node: ast.expr | ast.stmt, new: str) -> str:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    rows = text.encode().splitlines(keepends=True)  # the offsets of `ast` count bytes
    before = b"".join(rows[: node.lineno - 1]) + rows[node.lineno - 1][: node.col_offset]
    after = rows[node.end_lineno - 1][node.end_col_offset :] + b"".join(rows[node.end_lineno :])
    return (before + new.encode() + after).decode()


# --- noticed -------------------------------------------------------------------------------------


def _noticed(mutant: Mutant, processes: int) -> str:
    """The first test that fails; empty where all pass."""
    original = mutant.file.read_bytes()
    mutant.file.write_text(mutant.text)
    patch = _git("diff", "--unified=1", str(mutant.file))
    try:
        for tests in _nearest_first(mutant.file):
            if failed := _failing(tests, processes):
                return failed
    finally:
        mutant.file.write_bytes(original)
    print(patch)
    return ""


def _nearest_first(file: Path) -> Iterator[list[Path]]:
    """Test files that name the module; those that mirror its folder; the rest."""
    base = CORE if file.is_relative_to(CORE) else PLUGINS
    module = ".".join(file.relative_to(base.parent if base == CORE else base).with_suffix("").parts)
    if base == PLUGINS:
        module = module.split(".", 1)[-1]  # the folder of the kind is no package
    every = sorted(TESTS.rglob("test_*.py"))
    named = [test for test in every if _names(test, module)]
    room = file.relative_to(base).parts[0] if base == CORE else "plugins"
    mirrored = [test for test in every if room in test.parts and test not in named]
    rest = [test for test in every if test not in named and test not in mirrored]
    for part in (named, mirrored, rest):
        for kind in ("unit", "system"):
            if some := [test for test in part if (TESTS / kind) in test.parents]:
                yield some


def _names(test: Path, module: str) -> bool:
    package, _, name = module.rpartition(".")
    text = test.read_text()
    return module in text or bool(re.search(rf"from {package} import .*\b{name}\b", text))


def _failing(tests: list[Path], processes: int) -> str:
    words = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    words += ["-n", str(processes), "--dist", "worksteal"] if len(tests) > 1 else []
    try:
        ended = subprocess.run(
            [*words, *map(str, tests)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_HANGS_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"hangs in {tests[0].relative_to(ROOT)} or beside it"
    if ended.returncode in (0, 5):  # 5: every test of these was deselected
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, re.MULTILINE)
    return found[1] if found else ended.stdout.strip().splitlines()[-1]


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
