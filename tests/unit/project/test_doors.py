"""Files of runs, studies, stores and caches are opened, read and removed through a few modules.

A folder may come from somebody else: see `ttf.rundir.confined`. Whoever opens a file in another way
gives a reason here.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence

import pytest
from tests.unit.project.test_project import ROOT

CORE = ROOT / "core" / "ttf"
DOORS = {
    "rundir/confined.py": "the door to what lies in a folder",
    "text/limited_json.py": "the door to JSON, of files and of connections",
    "rundir/durable.py": "the door to durable writing",
    "rundir/outputs.py": "the door to the temporary files of what the user named",
    "rundir/removing.py": "the door to whole folders, and the one that removes",
}
SYSTEM = "a file of the system, or of an installed package"
OWN = "a file that this process, or its child, made a moment ago in a folder of its own"
VERIFIED = "after `verified_manifest`, or in a folder of its own"
MESSAGE = "a message between our own processes"
TEXTS = "reads what the user named; its own files are in a folder that it made and holds locked"
BELOW = "lies below rundir; opened without following a link"
TESTS = "part of the tests that plugin authors run"
OUTSIDE = {
    "cli.py": SYSTEM,
    "data/demo.py": OWN,
    "data/sources.py": OWN,
    "data/synth.py": OWN,
    "host/installed.py": SYSTEM,
    "incidents/_darwin.py": SYSTEM,
    "incidents/_linux.py": SYSTEM,
    "incidents/disks.py": SYSTEM,
    "incidents/core_file.py": "settings of the system; removes what the kernel wrote for our child",
    "incidents/inputs.py": "lists the files of a store that was opened, and opens each by the door",
    "machine/devices.py": MESSAGE,
    "rundir/own_notes.py": "a note of this user alone, in the cache, which no folder holds",
    "tools/import_/carry_out.py": "removes an empty folder that it made a moment ago",
    "tools/import_/torch_file.py": "maps the file that it has opened through the doors",
    "training/settled_alike.py": MESSAGE,
    "machine/memory/limits.py": SYSTEM,
    "machine/memory/reading.py": "files of the system; sums sizes of what the user named, opens none",
    "machine/others_load.py": SYSTEM,
    "machine/processor.py": SYSTEM,
    "mining/miner_results.py": VERIFIED,
    "mining/provenance.py": SYSTEM,
    "mining/scan/bf16_bank.py": VERIFIED,
    "mining/worker_main.py": VERIFIED,
    "training/calibration/stored.py": VERIFIED,
    "training/calibration/work.py": VERIFIED,
    "process/activity.py": SYSTEM,
    "process/child.py": SYSTEM,
    "process/command.py": BELOW,
    "process/departures.py": SYSTEM,
    "process/error_document.py": MESSAGE,
    "process/lifeline.py": BELOW,
    "process/messages.py": MESSAGE,
    "process/orphans.py": SYSTEM,
    "rundir/flight_record.py": "a mapped file: opened without following a link",
    "rundir/new_folder.py": "removes the empty folders of a run that could not be made",
    "rundir/run_folder.py": "removes the empty folders that it made",
    "rundir/waiting_lock.py": SYSTEM,
    "testing/_crashing.py": TESTS,
    "tools/decision/record.py": "removes the empty folders that it made",
    "testing/_measuring.py": TESTS,
    "testing/_tasks.py": TESTS,
    "testing/encoders.py": TESTS,
    "testing/executors.py": TESTS,
    "testing/exporters.py": TESTS,
    "testing/miners.py": TESTS,
    "testing/plugin.py": TESTS,
    "testing/stores.py": TESTS,
    "text/progress/lasting_stream.py": SYSTEM,
    "text/terminal.py": SYSTEM,
    "tools/bench/ceilings_disk.py": OWN,
    "tools/bench/storage.py": OWN,
    "tools/bench/training.py": OWN,
    "tools/bisect/runs.py": MESSAGE,
    "tools/bisect/study.py": "removes an empty folder",
    "tools/doctor/foreign.py": OWN,
    "tools/doctor/peers/facts.py": SYSTEM,
    "tools/doctor/openmp.py": SYSTEM,
    "tools/doctor/run_tasks.py": MESSAGE,
    "tools/doctor/trial.py": OWN,
    "tools/encode/assemble.py": TEXTS,
    "tools/encode/collection.py": TEXTS,
    "tools/encode/distinct.py": TEXTS,
    "tools/encode/links.py": TEXTS,
    "tools/encode/plan.py": TEXTS,
    "tools/encode/read/examples.py": TEXTS,
    "tools/encode/read/text_tables.py": TEXTS,
    "tools/encode/sequences.py": TEXTS,
    "tools/encode/text_files.py": TEXTS,
    "tools/encode/encode.py": TEXTS,
    "tools/encode/work.py": MESSAGE,
    "tools/explain/pages.py": SYSTEM,
    "tools/export/child.py": OWN,
    "tools/export/given.py": OWN,
    "tools/export/texts.py": OWN,
    "tools/export/make.py": OWN,
    "tools/guard/activity.py": SYSTEM,
    "tools/guard/command.py": SYSTEM,
    "tools/guard/folder.py": OWN,
    "tools/guard/outputs.py": "reads the log of a foreign command, wherever it is",
    "tools/guard/pythons.py": OWN,
    "tools/guard/site/sitecustomize.py": "runs in a foreign Python, without ttf",
    "tools/guard/stacks.py": OWN,
    "tools/mine/offline.py": OWN,
    "tools/mine/table_file.py": OWN,
    "tools/plugins/check/suite.py": OWN,
    "tools/plugins/describe.py": MESSAGE,
    "tools/plugins/scaffold/package.py": OWN,
    "tools/report/bundle/_identity.py": SYSTEM,
    "tools/report/bundle/_reproduce.py": SYSTEM,
    "training/manifest.py": SYSTEM,
    "training/mining_round.py": OWN,
}
NOT_OURS = ("tools/plugins/scaffold/templates", "tools/report/bundle/scripts")

OF_MODULES = {
    "json": {"load", "loads"},
    "np": {"fromfile", "load", "memmap"},
    "os": {"open", "remove", "rename", "replace", "rmdir", "truncate", "unlink", "walk"},
    "shutil": {"copy", "copyfile", "copytree", "move", "rmtree"},
}
OF_PATHS = {"read_bytes", "read_text", "rmdir", "rmtree", "touch", "unlink"}
OF_PATHS |= {"hardlink_to", "symlink_to", "write_bytes", "write_text"}


def calls(source: str) -> Iterator[str]:
    """What opens, reads, removes or parses a file without a door."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="open")):
                yield "open"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if (
                name in OF_MODULES.get(module, ())
            ):
                yield f"{module}.{name}"
            case ast.Call(func=ast.Attribute(attr=name)) if name in OF_PATHS:
                yield f"Path.{name}"
            case ast.Call(func=ast.Attribute(attr="open"), args=[]):
                yield "Path.open"
            case ast.Call(
                func=ast.Attribute(attr="open"), args=[ast.Constant(value=str(mode)), *_]
            ):
                if set(mode) <= set("rwxab+"):
                    yield "Path.open"


@functools.cache
def found() -> Mapping[str, Sequence[str]]:
    """By file. Not at import: every process of the suite imports this."""
    return {
        path.relative_to(CORE).as_posix(): sorted(set(calls(path.read_text())))
        for path in CORE.rglob("*.py")
    }


def test_files_are_opened_and_removed_through_the_doors_or_with_a_reason() -> None:
    known = {*DOORS, *OUTSIDE}
    others = {
        name: used
        for name, used in found().items()
        if used and name not in known and not name.startswith(NOT_OURS)
    }
    assert not others, "use ttf.rundir.confined, removing or durable; or say why here"


def test_no_exception_outlives_its_reason() -> None:
    assert [name for name in OUTSIDE if not found().get(name)] == []


@pytest.mark.parametrize(
    "code",
    [
        "open(path)",
        "path.open()",
        "path.open('rb')",
        "(folder / name).read_text()",
        "os.open(path, flags)",
        "json.loads(text)",
        "shutil.rmtree(path)",
        "path.unlink(missing_ok=True)",
    ],
)
def test_the_guard_sees_what_it_should(code: str) -> None:
    assert list(calls(code))
    assert not list(calls("Journal.open(folder)\nstore.open(uri)\nremove(path, inside)"))
