"""Deaths that no test of the table of causes has: under `ttf guard`, and in runs through plugins."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.campaign import Case, Fault
from chaos.foreign import FOREIGN
from chaos.foreign.case import Foreign
from chaos.memorygroup import memory_group, why_not as why_no_group
from chaos.smalldisk import why_not as why_no_mount
from chaos.verdict import Verdict
from tests.kit.faulty_run import MINED, FaultyPlace
from tests.kit.fixtures.faults import write_site
from tests.kit.guarded_command import ours

_LONGEST_S: Final = 120
_NOTHING: Final = {"class": "", "certain": False, "explanation": "", "evidence": []}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What ttf said about a death."""

    code: int
    incident: dict[str, Any]
    screen: str

    @property
    def told(self) -> str:
        evidence = [f"{e['source']}: {e['text']}" for e in self.incident["evidence"]]
        return "\n".join([self.incident["explanation"], *evidence, ours(self.screen.encode())])


def run(case: Case) -> Verdict:
    death = FOREIGN[case.number % len(FOREIGN)]
    verdict = Verdict(deaths=1)
    if death.mounts and why_no_mount():
        return Verdict()
    if death.memory_mb and why_no_group():
        return Verdict()
    answer = _answer(death, case)
    found = answer.incident["class"]
    right = found in death.right
    certain = answer.incident["certain"]
    verdict.phases[f"{death.name}: {found or 'no incident'}{', certain' if certain else ''}"] += 1
    verdict.incidents_right = right and (death.certain or not certain)
    verdict.require(right, f"{death.name}: {found}, not {death.right}; {answer.told}")
    verdict.require(death.certain or not certain, f"{death.name}: said for certain; {answer.told}")
    verdict.finished = verdict.require(
        not death.exit_codes or answer.code in death.exit_codes,
        f"{death.name}: exit code {answer.code}, not {death.exit_codes}; {answer.screen[-600:]}",
    )
    verdict.require(
        bool(re.search(death.says, answer.told)),
        f"{death.name}: {death.says!r} is not named; {answer.told}",
    )
    verdict.require(
        not death.never or not re.search(death.never, answer.told),
        f"{death.name}: {death.never!r} is said; {answer.told}",
    )
    return verdict


def _answer(death: Foreign, case: Case) -> Answer:
    ask = _under_guard if death.under == "guard" else _in_a_run
    if not death.memory_mb:
        return ask(death, case, [])
    with memory_group(death.memory_mb << 20) as group:
        return ask(death, case, group.prefix)


def _under_guard(death: Foreign, case: Case, prefix: Sequence[str]) -> Answer:
    (case.folder / "train.py").write_text(death.code)
    (case.folder / "first.txt").touch()
    _compile(death, case.folder)
    words = [sys.executable, "train.py"]
    if death.shell:
        line = death.shell.format(python=sys.executable, here=case.folder)
        words = ["bash", "-c", line]
    own = ["unshare", "-m"] if death.mounts and not death.beside else []  # mounts go with it
    other = ["bash", "-c", death.beside.format(here=case.folder) or ":"]
    beside = subprocess.Popen(other, start_new_session=True)
    reads, writes = os.pipe()
    if not death.input_open:
        os.close(writes)
    done = subprocess.run(
        [
            *prefix,
            *own,
            sys.executable,
            "-m",
            "ttf",
            "guard",
            "--out",
            "watch",
            *death.options,
            "--",
            *words,
        ],
        cwd=case.folder,
        stdin=reads,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_LONGEST_S,
        check=False,
    )
    beside.wait()
    for end in (reads, writes) if death.input_open else (reads,):
        os.close(end)
    return Answer(
        code=done.returncode, incident=_first_incident(case.folder / "watch"), screen=done.stderr
    )


def _in_a_run(death: Foreign, case: Case, prefix: Sequence[str]) -> Answer:
    site = case.world.folder / "site"
    case.world.once("faulty site", lambda: write_site(site))
    data = {name: case.world.data / f"{name}.npz" for name in ("pairs", "bank")}
    place = FaultyPlace(root=case.folder, plugins=site, data=data, home=case.world.folder / "home")
    _compile(death, case.folder)
    settings = dict(death.settings)
    if death.under == "miner":
        settings |= {**MINED, "miner.faulty.runtimes": [str(case.folder / "engine.so")]}
    else:
        code = death.code.replace("{here}", str(case.folder))
        (place.faults / "act-12").write_text(code)
    try:
        joins = prefix[2].partition(" && ")[0] if prefix else ""
        ended = place.train(settings=settings, before=joins).wait()
    finally:
        place.close()
    return Answer(code=ended.code, incident=_first_incident(ended.run), screen=ended.err)


def _first_incident(folder: Path) -> dict[str, Any]:
    found = sorted((folder / "incidents").glob("[0-9]*/incident.json"))
    return dict(json.loads(found[0].read_text())) if found else dict(_NOTHING)


def _compile(death: Foreign, folder: Path) -> None:
    if not death.native:
        return
    source = folder / ("engine.cc" if death.cxx else "engine.c")
    source.write_text(textwrap.dedent(death.native))
    words: Sequence[str] = ["g++" if death.cxx else "gcc", "-shared", "-fPIC", "-w", "-pthread"]
    subprocess.run(
        [*words, *death.flags, str(source), "-o", str(folder / "engine.so")],
        check=True,
        capture_output=True,
    )


def _why_not() -> str:
    return "" if shutil.which("g++") and os.name == "posix" else "no compiler for C and C++"


FAULT: Final = Fault(
    name="foreign-deaths",
    title="deaths that no test of the rules has, under ttf guard and ttf train: named, none wrongly "
    "for certain",
    runs=len(FOREIGN),
    quick=4,
    run=run,
    why_not=_why_not,
)
