"""Versions with known faults: dated rows, each with its report.

A row fires if every named distribution is installed in a matching version on a matching system.
`guarded`: ttf protects itself, and the row says how; other users of the library are affected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import eq, ge, gt, le, lt
from typing import Final, Literal

Severity = Literal["fail", "warn", "guarded"]
_COMPARED: Final = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq}
_PART: Final = re.compile(r"(<=|>=|==|<|>)\s*(\d+(?:\.\d+)*)$")


@dataclass(frozen=True, kw_only=True)
class Row:
    # By distribution: '<1.14.2', '>=4.7,<4.8', '' for any. All must be installed.
    versions: Mapping[str, str]
    severity: Severity
    what: str  # for `guarded`, also what ttf does about the fault
    issue: str
    date: str  # when the row was last reviewed
    remedy: str
    python: str = ""
    system: str = ""  # 'Darwin', 'Linux'; empty: any
    machine: str = ""  # 'arm64'; empty: any


ROWS: Final[tuple[Row, ...]] = (
    Row(
        versions={"torch": "<2.6"},
        severity="fail",
        what="torch.load can execute code of a checkpoint, even with weights_only=True",
        issue="CVE-2025-32434",
        date="2026-11-18",
        remedy='pip install --upgrade "torch>=2.10"',
    ),
    Row(
        versions={"torch": ">=2.6,<2.10"},
        severity="fail",
        what=(
            "torch.load with weights_only=True can corrupt memory when it reads a malicious "
            "checkpoint"
        ),
        issue="CVE-2026-24747",
        date="2026-11-18",
        remedy='pip install --upgrade "torch>=2.10"',
    ),
    Row(
        versions={"faiss-cpu": "<1.14.2"},
        severity="warn",
        what=(
            "when faiss reads a damaged HNSW index file, the process can crash (SIGSEGV in 4 "
            "of 14 trials)"
        ),
        issue="faiss PR#4811",
        date="2026-11-18",
        remedy='pip install --upgrade "faiss-cpu>=1.14.2"',
    ),
    Row(
        versions={"faiss-cpu": ">=1.8,<1.11"},
        severity="warn",
        what="faiss crashes in one process with torch on Apple silicon (M1 to M4)",
        issue="faiss-wheels#100",
        date="2026-11-18",
        remedy='pip install --upgrade "faiss-cpu>=1.14.2"; keep miner.isolation = "process"',
        system="Darwin",
        machine="arm64",
    ),
    Row(
        versions={"torch": "", "faiss-cpu": ""},
        severity="guarded",
        what=(
            "each package contains a libomp; if a process imports faiss and then creates a "
            "torch parameter, it crashes (SIGSEGV in __kmp_suspend_64). miner.isolation = "
            '"process", the default, keeps them in separate processes'
        ),
        issue="pytorch#149201, faiss-wheels#73",
        date="2026-11-18",
        remedy="",
        system="Darwin",
        machine="arm64",
    ),
    Row(
        versions={"torch": ">=2.13,<2.14", "lightgbm": ">=4.7,<4.8"},
        severity="warn",
        what="torch and lightgbm in one process crash on macOS: each contains a copy of libomp",
        issue="pytorch#191933",
        date="2026-08-03",
        remedy="Do not import both in one process, or set OMP_NUM_THREADS=1 before the import.",
        system="Darwin",
    ),
    Row(
        versions={"torch": ""},
        severity="warn",
        what=(
            "torch with two copies of libomp crashes under Python 3.14 on Apple silicon, even "
            "with one thread"
        ),
        issue="pytorch#183251",
        date="2026-11-18",
        remedy="Use Python 3.13.",
        python=">=3.14",
        system="Darwin",
        machine="arm64",
    ),
    Row(
        versions={"hnswlib": "<=0.8.0"},
        severity="guarded",
        what=(
            "save_index reports no error on a full or read-only disk or if the folder does "
            "not exist, and load_index of a damaged file crashes the process. ttf checks each "
            "saved index with a hash, and loads it in the miner process"
        ),
        issue="hnswlib#673, CVE-2023-37365",
        date="2026-11-18",
        remedy="",
    ),
    Row(
        versions={"zarr": ">=3.0,<=3.1.6"},
        severity="guarded",
        what=(
            "zarr reads a missing chunk as zeros, without an error. ttf records which chunks "
            "exist, and refuses a missing one"
        ),
        issue="zarr-python PR#3748",
        date="2026-11-18",
        remedy="",
    ),
    Row(
        versions={"voyager": "==2.2.2"},
        severity="warn",
        what=(
            "its wheel installs for this Python but cannot be imported: it contains a library "
            "for Python 3.12"
        ),
        issue="spotify/voyager#106",
        date="2026-11-18",
        remedy="pip uninstall voyager, or use Python 3.12.",
        python=">=3.13",
    ),
)


def fired(
    versions: Mapping[str, str],
    *,
    python: str,
    system: str,
    machine: str,
    rows: tuple[Row, ...] = ROWS,
) -> Iterator[Row]:
    """The matching rows. `versions` is by normalised name."""
    for row in rows:
        if row.system not in ("", system) or row.machine not in ("", machine):
            continue
        if not fits(python, row.python):
            continue
        if all(n in versions and fits(versions[n], spec) for n, spec in row.versions.items()):
            yield row


def release(version: str) -> tuple[int, ...]:
    """The numbers a version begins with; what follows them (rc1, +cpu) does not count.

    >>> release("2.13.0+cpu"), release("1.8.0.post1"), release("3.14.0rc2")
    ((2, 13), (1, 8), (3, 14))
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def fits(version: str, spec: str) -> bool:
    """Whether a version is in '>=2.6,<2.10'; parts with other operators are ignored.

    >>> fits("2.9.1", ">=2.6,<2.10"), fits("2.10", "<2.10"), fits("0.8.0", "==0.8"), fits("1", "")
    (True, False, True, True)
    """
    here = release(version)
    for part in spec.split(","):
        found = _PART.match(part.strip())
        if found is None:
            continue
        bound = release(found[2])
        if not _COMPARED[found[1]](here, bound):
            return False
    return True
