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
    "report.html": "the report; open it in a browser, it fetches nothing",
    "run.toml": "the configuration, each value with where it came from",
    "summary.json": "how it ended and what came of it",
    "manifest.json": "versions, threads, shapes of the data",
    "environment.json": "versions and surroundings",
    "supervision.json": "restarts and the remedies in force",
    "stderr.txt": "the end of standard error",
    "faulthandler.txt": "stacks of Python at a death",
    "flight.json": "what the trainer did last",
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
            "WHAT IS IN IT",
            *_listing(files, shortened),
            "",
            "WHAT WAS STRUCK OUT",
            *_removed(removed),
            "",
            "WHAT IS NOT IN IT",
            "  No row of the data, no vectors, no weights, no checkpoints, no index.",
            "  What a program printed on standard error is in it, redacted as above: look through",
            "  stderr.txt and incidents/*/stderr.txt before you send it.",
            "",
            "REPRODUCERS",
            *_reproducers(scripts, "run.toml" in files),
            "",
        ]
    )


def _listing(files: Mapping[str, str], shortened: Mapping[str, int]) -> Iterator[str]:
    named = ["report.html", *(n for n in files if not n.startswith(("incidents/", "reproduce/")))]
    for name in named:
        cut = f" ({shortened[name]:,} bytes before that are left out)" if name in shortened else ""
        yield f"  {name:<18} {_ABOUT.get(name, '')}{cut}"
    incidents = sorted({n.split("/")[1] for n in files if n.startswith("incidents/")})
    if incidents:
        yield f"  {'incidents/':<18} {', '.join(incidents)}: evidence, stacks, stderr, memory"
    if any(n.startswith("reproduce/") for n in files):
        yield f"  {'reproduce/':<18} scripts that try to make it happen again, see below"


def _removed(removed: Removed) -> Iterator[str]:
    if not sum(removed.kinds.values()) and not removed.secrets:
        yield "  Nothing was found that had to be."
    for kind, told in KINDS.items():
        if removed.kinds.get(kind):
            yield f"  {removed.kinds[kind]:>6} x  {told}"
    if removed.secrets:
        yield "  Secrets by name, with how often the files have <secret-NAME> in their place:"
        listed = ", ".join(f"{name} {count}" for name, count in sorted(removed.secrets.items()))
        yield from textwrap.wrap(listed, 92, initial_indent="    ", subsequent_indent="    ")
    yield "  The same thing has the same placeholder everywhere: <dir-1>/a.npz is one file."
    if removed.common:
        yield (
            f"  {removed.common} name(s) of users or hosts are too short or ordinary words; they "
            "were struck out"
        )
        yield "  in paths and after or before @ and words like user and host only."


def _reproducers(scripts: Sequence[Reproducer], of_ttf: bool) -> Iterator[str]:
    if not scripts:
        yield "  None: there was no incident."
    for script in scripts:
        head = f"reproduce/{script.name}" if script.text else f"incident {script.incident}"
        yield f"  {head} ({script.cause})"
        yield from textwrap.wrap(script.note, 92, initial_indent="    ", subsequent_indent="    ")
    if any(script.text for script in scripts):
        yield ""
        yield "  Each is plain Python; its first lines say what to install. It prints what it does and"
        yield "  ends by itself where nothing happens. A number as its argument: how many rounds."
    if not of_ttf:
        return
    yield ""
    yield "  With ttf, on made-up data: ttf data synth --out d --pairs N --val N --seq-len L --dim D"
    yield "  --bank M --seed 0, with the shapes of manifest.json, then"
    yield "  ttf train run.toml --pairs d/pairs.npz --bank d/bank.npz --out again"
