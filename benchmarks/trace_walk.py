"""How many files must be opened to follow a run? Counted by watching real runs, by one rule.

Runs a tiny `ttf train` as users do: supervisor, trainer and miner's worker are processes of their
own, and `trace_hook/` writes down every function of ours that is entered in any of them. In a
second run the trainer is killed once it has a checkpoint. From the records come three walks: the
whole of `ttf train`, one mining refresh, and the way from a crash over its incident to the first
step of the next trainer. `--rule-help` prints the rule. It knows no file of ours by name.

    python benchmarks/trace_walk.py                              # the ttf of this interpreter
    python benchmarks/trace_walk.py --python OLD/.venv/bin/python --json
    python benchmarks/trace_walk.py --at-most 45 20 18 4         # exit code 1 where it is more
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

RULE: Final = """\
Handing on. A function hands on if it, or one of its own file that it calls, calls a function of
another file of the core. To call a look-up does not count: a property, or a function of one
statement, that hands on to nobody itself.

Station. A file is a station of a walk if a function that hands on is entered in it from another
file, or from outside (a process or a thread begins there). Files that only answer, however often,
are no stations: one opens them to know, not to find the way. The file that makes a walk's first
call is a station too.

Re-entered. A station is re-entered as many times as functions that hand on are entered in it from
other files, less one. The same function again, or from elsewhere, is no new way in: loops and
helpers count once. A generator is entered by who takes its first item.

Not counted: what runs while a module is imported, bodies of classes, what dataclasses generate.
Plugins stand behind a contract: they are listed beside, calling one is not handing on, and what
they call in the core is entered like anything else.

Walk 1, `ttf train`, from the command to its end, in all processes. Two journeys of their own count
with their door alone: the mining refresh, which is walk 2, and the writing of the report. Ways
into a station from within the refresh count as re-entries.

Walk 2, the first mining refresh: in the trainer what happens under the function that the loop calls
for it, and meanwhile the miner's worker. That function is found, not named: of those open when the
worker is started, the outermost one that the run enters again later.

Walk 3, crash > incident > resume: from the death of a trainer in the midst of a step to the first
step of the next one, in the main threads of supervisor and trainer. Of the calls of that time only
those count that neither the run of walk 1 nor this run before the crash has made (the same function
calling the same function in the same of the three processes), and the way to them since the death.

Chance. Everything is done twice (--times), and what is not a station both times is none.
"""
HOOK: Final = Path(__file__).resolve().parent / "trace_hook"
ROLES: Final = ("supervisor", "trainer", "worker")
DATA: Final = "--pairs 256 --val 32 --seq-len 4 --dim 16 --bank 512"
UNDISTURBED: Final = "--epochs 3"
STRUCK: Final = "--epochs 9 --set checkpoint.every_steps=1 --set miner.refresh=1000"
"""One table for all steps, so that no chance decides whether the restart needs a new one."""
OFTEN: Final = 4
_LONGEST_S: Final = 600.0
_PACKAGES: Final = """
import importlib.metadata as metadata, importlib.util as util, json
points = [p for d in metadata.distributions() for p in d.entry_points if p.group.startswith("ttf.")]
plugins = {p.module.partition(".")[0] for p in points} - {"ttf"}
print(json.dumps([[f"{place}/" for place in util.find_spec(name).submodule_search_locations]
                  for name in ["ttf", *sorted(plugins)]]))
"""


@dataclass(frozen=True)
class Roots:
    """Where the package lies, and its plugins; every path ends with a slash."""

    core: tuple[str, ...]
    plugins: tuple[str, ...]

    @classmethod
    def of(cls, python: str) -> Roots:
        words = [python, "-c", _PACKAGES]
        told = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, cwd="/")
        core, *plugins = json.loads(told.stdout)
        return cls(tuple(core), tuple(place for places in plugins for place in places))

    def short(self, path: str) -> str:
        """`supervise/child.py` of the core, `ttf_miners/hnswlib_miner.py` of a plugin."""
        for root in self.core:
            if path.startswith(root):
                return path.removeprefix(root)
        root = next(root for root in self.plugins if path.startswith(root))
        return f"{Path(root).name}/{path.removeprefix(root)}"


def trained(
    python: str, roots: Roots, folder: Path, more: str, strike: str | None
) -> list[Process]:
    """The processes of a tiny run, in the order they began."""
    environment = {**os.environ, "PYTHONPATH": str(HOOK), "TTF_HOME": str(folder / "home")}
    run, out = folder / "run", folder / "records"
    out.mkdir(parents=True)
    _ttf(python, ["data", "synth", "--out", str(folder), *DATA.split()], environment)
    seen = [*roots.core, *roots.plugins]
    settings = {"out": str(out), "roots": seen, "run": str(run), "strike": strike}
    given = [f"--{name}={folder / name}.npz" for name in ("pairs", "bank")]
    words = ["train", *given, "--miner", "hnswlib", "--device", "cpu", "--out", str(run)]
    _ttf(python, [*words, *more.split()], environment | {"TRACE_WALK": json.dumps(settings)})
    found = {int(log.stem): Reader(roots).read(log) for log in out.glob("*.log")}
    for process in found.values():
        above, depth = found.get(process.parent), 0
        while above is not None:
            above, depth = found.get(above.parent), depth + 1
        process.role = ROLES[min(depth, 2)]
        for call in process.calls:
            call.role = process.role
    if {process.role for process in found.values()} != set(ROLES):
        sys.exit("Not every process was traced: is PYTHONPATH kept from one of them?")
    return sorted(found.values(), key=lambda process: process.began)


def _ttf(python: str, words: Sequence[str], environment: dict[str, str]) -> None:
    command = [str(Path(python).with_name("ttf")), *words]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=_LONGEST_S, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")


# --- what was written down ----------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    file: str
    line: int
    name: str
    path: str = field(compare=False)
    core: bool = field(compare=False)

    def is_named(self, name: str) -> bool:
        """`Class.method`, or its last part alone."""
        return name in (self.name, self.name.rpartition(".")[2])


@dataclass(eq=False)
class Call:
    """One time that a function was entered."""

    function: Function
    at: float
    thread: str
    caller: Call | None
    """Of ours: what lies between is not seen. Of a thread's first: in who started it."""
    resumed: bool
    role: str = ""
    ended: float = float("inf")

    def way(self) -> Iterator[Call]:
        """This call and those above it."""
        here: Call | None = self
        while here is not None:
            yield here
            here = here.caller

    @property
    def enters(self) -> bool:
        """From another file, or from outside."""
        above = self.caller
        return not self.resumed and (above is None or above.function.file != self.function.file)

    @property
    def edge(self) -> tuple[str, Function | None, Function]:
        return self.role, self.caller.function if self.caller else None, self.function


@dataclass(eq=False)
class Process:
    began: float = 0.0
    parent: int = 0
    role: str = ""
    calls: list[Call] = field(default_factory=list)
    started: list[tuple[float, Call | None]] = field(default_factory=list)
    """When it was about to start another process, and where."""
    killed: float | None = None


@dataclass(frozen=True)
class _Open:
    """What is entered and not left yet."""

    number: str = ""
    call: Call | None = None
    """The function's; around it, where it is the body of a class or a module."""
    importing: bool = False


class Reader:
    """Turns one process's record back into calls."""

    def __init__(self, roots: Roots) -> None:
        self._roots = roots
        self._functions: dict[str, Function | None] = {}
        self._modules: set[str] = set()
        self._stacks: defaultdict[str, list[_Open]] = defaultdict(list)
        self._births: dict[str, _Open] = {}
        self._now = 0.0

    def read(self, log: Path) -> Process:
        process = Process()
        for line in log.read_text().splitlines():
            match line.split("\t"):
                case ["A", began, parent, _]:
                    process.began, process.parent = float(began), int(parent)
                case ["P", thread]:
                    process.started.append((self._now, self._open_in(thread).call))
                case ["T", thread, parent]:
                    self._births[thread] = self._open_in(parent)
                case ["F", number, program, function, path, first, name]:
                    core, short = path.startswith(self._roots.core), self._roots.short(path)
                    met = Function(short, int(first), name, path, core)
                    self._functions[number] = met if function == "1" else None
                    if name == "<module>" and program == "0":
                        self._modules.add(number)
                case ["C", thread, number, at, resumed]:
                    self._now = float(at)
                    self._enter(process, thread, number, resumed == "1")
                case ["R", thread, number]:
                    self._leave(thread, number)
                case ["K", at]:
                    process.killed = float(at)
        return process

    def _open_in(self, thread: str) -> _Open:
        stack = self._stacks[thread]
        return stack[-1] if stack else self._births.get(thread, _Open())

    def _enter(self, process: Process, thread: str, number: str, resumed: bool) -> None:
        around, function = self._open_in(thread), self._functions[number]
        importing, call = around.importing or number in self._modules, around.call
        if function is not None and not importing:
            call = Call(function, self._now, thread, around.call, resumed)
            process.calls.append(call)
        self._stacks[thread].append(_Open(number, call, importing))

    def _leave(self, thread: str, number: str) -> None:
        stack = self._stacks[thread]
        if not any(one.number == number for one in stack):
            return
        while (left := stack.pop()).number != number:
            pass
        if left.call is not None and left.call.function is self._functions[number]:
            left.call.ended = self._now


# --- the rule -----------------------------------------------------------------------------------


@dataclass
class Station:
    """A file that a walk leads through."""

    file: str
    roles: list[str] = field(default_factory=list)
    ways_in: list[str] = field(default_factory=list)
    """The functions that are entered from other files and hand on, in order."""

    @property
    def re_entered(self) -> int:
        return max(0, len(self.ways_in) - 1)


@dataclass
class Walk:
    name: str
    stations: list[Station]
    plugins: list[str]
    touched: int
    """Files of the core in which anything ran."""

    def without_chance(self, others: Iterable[Walk]) -> Walk:
        """What is there in the others as well."""
        kept = self.stations
        for other in others:
            there = {station.file: station for station in other.stations}
            kept = [
                Station(s.file, s.roles, [w for w in s.ways_in if w in there[s.file].ways_in])
                for s in kept
                if s.file in there
            ]
        return Walk(self.name, kept, self.plugins, self.touched)


def walk_of(
    name: str,
    calls: Sequence[Call],
    *,
    begins: Iterable[Call] = (),
    doors: Iterable[Function] = (),
    also: Sequence[Call] = (),
) -> Walk:
    """The stations among these calls. `begins` made the first of them; `doors` hand on, whatever
    they call; `also` are calls of which only the ways into these stations are told."""
    steps = handing_on([*calls, *also]).union(doors)
    stations: dict[str, Station] = {}
    entries = [call for call in calls if call.enters and call.function in steps]
    for call in [*begins, *entries]:
        stations.setdefault(call.function.file, Station(call.function.file))
    entries += [call for call in also if call.enters and call.function in steps]
    for call in [*begins, *entries]:
        station = stations.get(call.function.file)
        if station is not None and call.role not in station.roles:
            station.roles.append(call.role)
    for call in entries:
        station = stations.get(call.function.file)
        if station is not None and call.function.name not in station.ways_in:
            station.ways_in.append(call.function.name)
    files = dict.fromkeys((call.function.file, call.function.core) for call in calls)
    plugins = [file for file, core in files if not core]
    return Walk(name, list(stations.values()), plugins, len(files) - len(plugins))


def handing_on(calls: Iterable[Call]) -> set[Function]:
    """Functions of the core alone."""
    called: defaultdict[Function, set[Function]] = defaultdict(set)
    for call in calls:
        if call.caller is not None and call.caller.function.core and call.function.core:
            called[call.caller.function].add(call.function)
    anyhow = _reaching_others(called, set())
    answers = {f for others in called.values() for f in others if answers_at_once(f)}
    return _reaching_others(called, answers - anyhow)


def _reaching_others(
    called: dict[Function, set[Function]], look_ups: set[Function]
) -> set[Function]:
    found: set[Function] = set()
    before = -1
    while len(found) > before:
        before = len(found)
        for function, others in called.items():
            if any(o in found if o.file == function.file else o not in look_ups for o in others):
                found.add(function)
    return found


def answers_at_once(function: Function) -> bool:
    """A property, one statement, a lambda or a comprehension."""
    return _functions_in(function.path).get(function.line, True)


@functools.cache
def _functions_in(path: str) -> dict[int, bool]:
    """First line of every function (as the interpreter counts) > whether it answers at once."""
    found = {}
    for node in ast.walk(ast.parse(Path(path).read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = {ast.unparse(mark).rpartition(".")[2] for mark in node.decorator_list}
            body = node.body[ast.get_docstring(node) is not None :]
            statements = sum(isinstance(inner, ast.stmt) for n in body for inner in ast.walk(n))
            first = min(line.lineno for line in [node, *node.decorator_list])
            found[first] = statements <= 1 or bool(marks & {"property", "cached_property"})
    return found


# --- the three walks ----------------------------------------------------------------------------


def three_walks(
    plain: list[Process], struck: list[Process], names: argparse.Namespace
) -> list[Walk]:
    """Of a run that nobody disturbed, and of one whose trainer was killed."""
    calls = in_order(plain)
    door = first_refresh(plain, names.refresh)
    reports = {call.function for call in calls if call.function.is_named(names.report)}
    if names.report and not reports:
        sys.exit(f"Nothing is called {names.report!r}: name it with --report, or '' for nothing.")
    followed = [c for c in calls if not any(above.function in reports for above in _above(c))]
    refreshes = {door.function}
    inner = [
        call
        for call in followed
        if call.role == "worker" or any(above.function in refreshes for above in _above(call))
    ]
    outside = set(map(id, inner))
    outer = [call for call in followed if id(call) not in outside]
    first = [c for c in inner if door.at <= c.at <= door.ended]
    begins = [door.caller] if door.caller is not None else []
    return [
        walk_of("1 ttf train", outer, doors=reports | refreshes, also=inner),
        walk_of("2 mining refresh", [door, *first], begins=begins),
        crash_walk(calls, struck, names.step),
    ]


def in_order(processes: Iterable[Process]) -> list[Call]:
    calls = [call for process in processes for call in process.calls]
    return sorted(calls, key=lambda call: call.at)


def _above(call: Call) -> Iterator[Call]:
    return (above for above in call.way() if above is not call)


def first_refresh(plain: list[Process], name: str | None) -> Call:
    """The trainer's first call for candidates."""
    trainer = next(process for process in plain if process.role == "trainer")
    if name is not None:
        return next(call for call in trainer.calls if call.function.is_named(name))
    often = Counter(call.function for call in trainer.calls if not call.resumed)
    for worker in (process for process in plain if process.role == "worker"):
        where = [call for at, call in trainer.started if call is not None and at < worker.began]
        for call in reversed(list(where[-1].way()) if where else []):
            if often[call.function] > 1:
                return call
    sys.exit("The worker is not started in what is entered again later: name it with --refresh.")


def crash_walk(calls: list[Call], struck: list[Process], step: str) -> Walk:
    death = next((process.killed for process in struck if process.killed is not None), None)
    if death is None:
        sys.exit(f"No trainer entered {step!r} after its first checkpoint: see --step.")
    then = in_order(struck)
    next_step = [c.at for c in then if c.at > death and c.function.is_named(step)]
    usual = {call.edge for call in [*calls, *(call for call in then if call.at <= death)]}
    on_the_way: dict[Call, None] = {}
    begins: dict[Call, None] = {}
    for call in then:
        if death < call.at <= next_step[0] and call.thread == "0" and call.edge not in usual:
            for above in call.way():
                if above.at <= death:
                    begins[above] = None
                    break
                on_the_way[above] = None
    way = sorted(on_the_way, key=lambda call: call.at)
    return walk_of("3 crash > incident > resume", way, begins=begins)


# --- telling ------------------------------------------------------------------------------------


def in_words(walk: Walk) -> str:
    lines = [f"Walk {walk.name}: {len(walk.stations)} files"]
    for number, station in enumerate(walk.stations, 1):
        times = f"  re-entered {station.re_entered}" if station.re_entered else ""
        where = station.ways_in[0] if station.ways_in else "(begins here)"
        lines.append(f"{number:4}  {station.file:34}{'+'.join(station.roles):20}{where}{times}")
    for station in sorted(walk.stations, key=lambda station: -station.re_entered):
        if station.re_entered > OFTEN:
            lines.append(f"      ways into {station.file}: {_list(station.ways_in)}")
    lines.append(f"      plugins beside: {_list(walk.plugins)}")
    lines.append(f"      files of the core in which anything ran: {walk.touched}")
    return "\n".join(lines) + "\n"


def _list(words: Sequence[str]) -> str:
    return ", ".join(words) or "none"


def as_document(walk: Walk) -> dict[str, Any]:
    stations = [{**vars(station), "re_entered": station.re_entered} for station in walk.stations]
    return {**vars(walk), "files": len(walk.stations), "stations": stations}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--python", default=sys.executable, help="whose ttf is watched")
    add("--step", default="stepped", help="what the loop calls after a step [%(default)s]")
    add("--report", default="write_page", help="what writes the report [%(default)s]")
    add("--refresh", help="what the loop calls for a mining refresh [default: found]")
    add("--times", type=int, default=2, help="what is not there every time is left out")
    add("--json", action="store_true", help="one document instead of words")
    add("--at-most", nargs=4, type=int, metavar="N", help="files of 1, 2, 3, and re-entries")
    add("--rule-help", action="store_true", help="print the rule and end")
    given = parser.parse_args()
    given.python = str(Path.cwd() / given.python)  # not resolved: the link is what has the packages
    if given.rule_help:
        print(RULE, end="")
        return 0
    times: list[list[Walk]] = []
    with tempfile.TemporaryDirectory(prefix="trace-walk-") as folder:
        roots = Roots.of(given.python)
        for turn in range(given.times):
            place = Path(folder) / str(turn)
            plain = trained(given.python, roots, place / "undisturbed", UNDISTURBED, None)
            struck = trained(given.python, roots, place / "struck", STRUCK, given.step)
            times.append(three_walks(plain, struck, given))
    walks = [first.without_chance(others) for first, *others in zip(*times, strict=True)]
    if given.json:
        print(json.dumps([as_document(walk) for walk in walks], indent=1))
    else:
        print("\n".join(map(in_words, walks)), end="")
    *files, re_entries = given.at_most or [sys.maxsize] * 4
    much = any(len(walk.stations) > limit for walk, limit in zip(walks, files, strict=True))
    return int(much or any(s.re_entered > re_entries for walk in walks for s in walk.stations))


if __name__ == "__main__":
    sys.exit(main())
