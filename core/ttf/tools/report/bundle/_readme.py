"""README.txt of a bundle: its files, what was removed, what each reproducer does."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ttf.host.version import __version__
from ttf.tools.report.bundle._redact import KINDS
from ttf.tools.report.bundle._reproduce import Reproducer

_ABOUT: Final = {
    "report.html": "the report; open it in a browser (it needs no internet)",
    "run.toml": "the configuration, with the origin of each value",
    "summary.json": "how the run ended, and its metrics",
    "manifest.json": "versions, threads, shapes of the data",
    "environment.json": "versions and environment",
    "supervision.json": "restarts and applied remedies",
    "stderr.txt": "the end of standard error",
    "stdout.txt": "the end of standard output",
    "faulthandler.txt": "Python stacks at a crash",
    "flight.json": "the last state of the trainer",
    "log.txt": "what the run said, with the time",
    "metrics.jsonl": "the last lines of the metrics",
    "memory.jsonl": "the last lines of the memory curve",
}


@dataclass(frozen=True, kw_only=True)
class Removed:
    kinds: Mapping[str, int]
    secrets: Mapping[str, int]  # by name
    common: int  # names of users and hosts that are ordinary words


def readme(
    name: str,
    files: Mapping[str, str],
    scripts: Sequence[Reproducer],
    shortened: Mapping[str, int],
    removed: Removed,
) -> str:
    """`shortened`: bytes left out at the start of each file."""
    return "\n".join(
        [
            f"Bundle of {name}, made by ttf {__version__} report --bundle",
            "",
            "CONTENT",
            *_listing(files, shortened),
            "",
            "WHAT WAS REMOVED",
            *_removed(removed),
            "",
            "WHAT IS NOT INCLUDED",
            "  No rows of the data, no vectors, no weights, no checkpoints, no index.",
            "  The bundle contains standard error of the programs, redacted as above: read",
            "  stderr.txt and incidents/*/std*.txt before you send it.",
            "",
            "REPRODUCERS",
            *_reproducers(scripts, "run.toml" in files),
            "",
        ]
    )


def _listing(files: Mapping[str, str], shortened: Mapping[str, int]) -> Iterator[str]:
    named = ["report.html", *(n for n in files if not n.startswith(("incidents/", "reproduce/")))]
    for name in named:
        cut = f" (without the first {shortened[name]:,} bytes)" if name in shortened else ""
        about = "attached by hand" if name.startswith("attached/") else _ABOUT.get(name, "")
        yield f"  {name:<18} {about}{cut}"
    incidents = sorted({n.split("/")[1] for n in files if n.startswith("incidents/")})
    if incidents:
        yield f"  {'incidents/':<18} {', '.join(incidents)}: evidence, stacks, stderr, memory"
    if any(n.startswith("reproduce/") for n in files):
        yield f"  {'reproduce/':<18} scripts that try to reproduce the incidents, see below"


def _removed(removed: Removed) -> Iterator[str]:
    if not sum(removed.kinds.values()) and not removed.secrets:
        yield "  Nothing had to be removed."
    for kind, told in KINDS.items():
        if removed.kinds.get(kind):
            yield f"  {removed.kinds[kind]:>6} x  {told}"
    if removed.secrets:
        yield "  Secrets, with the number of places that now have <secret-NAME>:"
        listed = ", ".join(f"{name} {count}" for name, count in sorted(removed.secrets.items()))
        yield from textwrap.wrap(listed, 92, initial_indent="    ", subsequent_indent="    ")
    yield "  Equal values have the same placeholder everywhere: <dir-1>/a.npz is always one file."
    if removed.common:
        yield (
            f"  {removed.common} name(s) of users or hosts are very short or ordinary words. They "
            "were removed only"
        )
        yield "  in paths, next to @, and after words such as user and host."


def _reproducers(scripts: Sequence[Reproducer], of_ttf: bool) -> Iterator[str]:
    if not scripts:
        yield "  None: there was no incident."
    for script in scripts:
        head = f"reproduce/{script.name}" if script.text else f"incident {script.incident}"
        yield f"  {head} ({script.cause})"
        yield from textwrap.wrap(script.note, 92, initial_indent="    ", subsequent_indent="    ")
    if any(script.text for script in scripts):
        yield ""
        yield (
            "  Each script is plain Python. Its first lines show what to install. It prints "
            "what it does,"
        )
        yield "  and ends by itself if there is no crash. Its argument is the number of rounds."
    if not of_ttf:
        return
    yield ""
    yield (
        "  To use ttf with synthetic data: ttf data synth --out d --pairs N --val N --seq-len "
        "L --dim D"
    )
    yield "  --bank M --seed 0 (take the shapes from manifest.json). Then:"
    yield "  ttf train run.toml --pairs d/pairs.npz --bank d/bank.npz --out again"
