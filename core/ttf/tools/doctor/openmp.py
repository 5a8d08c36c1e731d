"""Check `openmp-duplicates`: which installed packages bring an OpenMP runtime. Imports none of them.

There are two families. GNU's libgomp has no check for duplicates, and copies of it can coexist.
LLVM's libomp and Intel's libiomp5 are one program under two names, which aborts if it finds another
active copy. Installed copies may never be in one process: the check `coload` tests this.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from ttf.hookspecs import Verdict
from ttf.tools.doctor.check import fail, ok, warn
from ttf.tools.doctor.context import Examination

_RUNTIME: Final = re.compile(
    r"^lib(?P<family>gomp|iomp5md|iomp5|omp)(?:[-.]?[0-9a-f]{4,}|140\.\w+)?"
    r"(?:\.so(?:\.\d+)*|(?:\.\d+)*\.dylib|\.dll)$"
)
_GNU: Final = "gomp"


@dataclass(frozen=True, kw_only=True, order=True)
class Runtime:
    name: str  # libgomp, libomp or libiomp5
    distribution: str
    path: str
    digest: str


def look_for_duplicates(_: Examination) -> Verdict:
    # The files that packages list, and the environment's own lib folder (conda).
    return judged(find(metadata.distributions(), Path(sys.prefix)), sys.platform)


def judged(found: list[Runtime], platform: str) -> Verdict:
    evidence = [f"{r.name} of {r.distribution}: {r.path} (sha256 {r.digest})" for r in found]
    checked = [runtime for runtime in found if runtime.name != f"lib{_GNU}"]
    names = sorted({runtime.name for runtime in checked})
    if len(checked) < 2:
        return ok(_harmless(found, checked), *evidence)
    owners = ", ".join(f"{r.name} of {r.distribution}" for r in checked)
    if len(names) > 1:
        return fail(
            f"{' and '.join(names)} are both installed ({owners}). In one process, they abort "
            "(OMP: Error #15), crash or hang.",
            *evidence,
            remedy=(
                "Uninstall one of the packages, or install both from one source, such as "
                'conda-forge. miner.isolation = "process" (the default) keeps the runtime of '
                "a miner out of the trainer. See the check coload."
            ),
        )
    usual = " This is usual with wheels for macOS." if platform == "darwin" else ""
    return warn(
        f"{len(checked)} copies of {names[0]} are installed ({owners}). If one process runs two "
        f"copies, it aborts (OMP: Error #15) or crashes.{usual}",
        *evidence,
        remedy=(
            'miner.isolation = "process" (the default) keeps the copy of a miner out of the '
            "trainer. The check coload shows whether one process loads both. Never set "
            "KMP_DUPLICATE_LIB_OK."
        ),
    )


def _harmless(found: list[Runtime], checked: list[Runtime]) -> str:
    gnu = len(found) - len(checked)
    if not found:
        return "no package contains an OpenMP runtime"
    parts = [f"one {runtime.name} ({runtime.distribution})" for runtime in checked]
    if gnu == 1:
        parts.append("one libgomp")
    elif gnu:
        parts.append(f"{gnu} copies of libgomp, which work together in one process")
    return "; ".join(parts)


def find(distributions: Iterable[metadata.Distribution], prefix: Path) -> list[Runtime]:
    """Every runtime once, even if the file has several names."""
    seen: dict[tuple[int, int], Runtime] = {}
    for path, name, owner in _listed(distributions, prefix):
        try:
            stat = path.stat()
            if (stat.st_dev, stat.st_ino) not in seen:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
                seen[stat.st_dev, stat.st_ino] = Runtime(
                    name=name, distribution=owner, path=str(path), digest=digest
                )
        except OSError:  # listed, and gone or not ours to read: it cannot be loaded either
            continue
    return sorted(seen.values())


def _listed(
    distributions: Iterable[metadata.Distribution], prefix: Path
) -> Iterator[tuple[Path, str, str]]:
    """The file, its runtime name, its owner."""
    for dist in distributions:
        text = dist.read_text("RECORD") or ""
        for line in text.splitlines():
            listed = line.partition(",")[0].strip('"')
            if (name := _name(listed)) is not None:
                yield Path(str(dist.locate_file(listed))), name, dist.metadata["Name"] or "?"
    for path in (prefix / "lib").glob("lib*omp*"):
        if (name := _name(path.name)) is not None:
            yield path, name, "the environment itself"


def _name(listed: str) -> str | None:
    """libgomp, libomp or libiomp5; None for any other file."""
    found = _RUNTIME.match(listed.rpartition("/")[2]) if "omp" in listed else None
    return None if found is None else f"lib{found['family'].removesuffix('md')}"
