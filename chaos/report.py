"""The table at the end of a campaign, for the terminal and for docs/reliability.md."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from chaos.campaign import Row
from chaos.world import ROOT

PAGE: Final = ROOT / "docs" / "reliability.md"
BEGIN: Final = "<!-- table of make chaos: begin -->"
END: Final = "<!-- table of make chaos: end -->"
SOAK_BEGIN: Final = "<!-- soak: begin -->"
SOAK_END: Final = "<!-- soak: end -->"
HOSTS_BEGIN: Final = "<!-- soak of hosts: begin -->"
HOSTS_END: Final = "<!-- soak of hosts: end -->"
HEAD: Final = (
    *("fault", "runs", "struck", "finished", "equal weights"),
    *("steps redone: median, max", "incidents right", "seconds"),
)
_LIBRARIES: Final = ("torch", "numpy", "faiss-cpu", "hnswlib")


def cells(row: Row) -> tuple[str, ...]:
    if row.skipped:
        return (row.fault.title, "0", *["-"] * 5, f"left out: {row.skipped}")
    return (
        row.fault.title if row.ok else f"**NOT WELL**: {row.fault.title}",
        str(len(row.verdicts)),
        str(row.deaths) if row.deaths else "-",
        row.share("finished"),
        row.share("equal"),
        row.steps_redone(),
        row.share("incidents_right"),
        f"{row.seconds:.0f}",
    )


def plain(rows: Sequence[Row]) -> str:
    """In columns."""
    lines = [HEAD, *map(cells, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def markdown(rows: Sequence[Row], seed: int, jobs: int, command: str) -> str:
    """With where and when it was measured."""
    minutes = sum(row.seconds for row in rows) / 60
    told = f"{about(command, seed, minutes)} {jobs} runs at a time."
    table = [
        "| " + " | ".join(HEAD) + " |",
        "|---|" + "---:|" * (len(HEAD) - 1),
        *("| " + " | ".join(cells(row)) + " |" for row in rows),
    ]
    return "\n".join([told, "", *table, "", *phases(rows)])


def phases(rows: Sequence[Row]) -> list[str]:
    """Where the deaths struck, for the faults that aim."""
    lines = []
    for row in rows:
        hits = ", ".join(f"{phase} {count}" for phase, count in row.phases.most_common())
        if hits:
            lines += [f"Where `{row.fault.name}` struck: {hits}.", ""]
        most = ", ".join(f"{value:.1f} {name}" for name, value in row.most.items())
        if most:
            lines += [f"Most in `{row.fault.name}`, of one process: {most}.", ""]
    return lines


def machine() -> str:
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    return (
        f"{platform.system()} {platform.release()} {platform.machine()}, {_processor()}, "
        f"{os.cpu_count()} cores, {_memory_gb()} GB; Python {platform.python_version()}, "
        f"{libraries}"
    )


def _processor() -> str:
    with Path("/proc/cpuinfo").open() as file:
        names = (line.partition(":")[2].strip() for line in file if line.startswith("model name"))
        return next(names, "unknown processor")


def _memory_gb() -> int:
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)


def write_into(page: Path, text: str, begin: str = BEGIN, end: str = END) -> None:
    """Replaces what stands between the markers."""
    before, opened, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not opened or not closed:
        raise ValueError(f"{page} has no place for the table: {begin} ... {end}")
    page.write_text(f"{before}{begin}\n{text.rstrip()}\n{end}{after}")


def about(command: str, seed: int, minutes: float) -> str:
    """How and where it was measured."""
    when = time.strftime("%Y-%m-%d")
    return f"`{command}`, seed {seed}, {when}, {minutes:.0f} minutes; {machine()}."
