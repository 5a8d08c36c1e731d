"""The card of encoded data: what was made of what, for programs (card.json) and people (card.md)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ttf.errors import ArtifactDamaged, BadData, EntryRefused
from ttf.rundir.confined import read_named_json
from ttf.rundir.durable import write_json
from ttf.rundir.outputs import write_output

CARD: Final = "card.json"
PAGE: Final = "card.md"
SCHEMA: Final = "ttf.card/1"


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """card.json last: where it is, everything is."""
    write_output(folder / PAGE, page(card).encode())
    write_json(folder / CARD, {"schema": SCHEMA, **card})


def read_card(folder: Path) -> Mapping[str, Any] | None:
    """None if there is none that this version reads."""
    try:
        found = read_named_json(folder / CARD)
    except (OSError, BadData, ArtifactDamaged, EntryRefused):
        return None
    known = isinstance(found, dict) and found.get("schema") == SCHEMA
    return found if known else None


def page(card: Mapping[str, Any]) -> str:
    encoder, counts, split = card["encoder"], card["counts"], card["split"]
    about = encoder["about"]
    rows = [
        ("inputs", ", ".join(f"`{one['path']}`" for one in card["inputs"])),
        ("encoder", f"`{encoder['name']}` ({encoder['distribution']} {encoder['version']})"),
        *((name.replace("_", " "), _cell(value)) for name, value in about.items()),
        ("fingerprint of the encoder", f"`{encoder['fingerprint']}`"),
        ("vectors", f"{encoder['dim']} numbers, {card['dtype']}"),
        *((name.replace("_", " "), f"{value:,}") for name, value in counts.items()),
        ("validation pairs", split["text"]),
        *((f"hash of the {name}", f"`{value}`") for name, value in card["texts"].items()),
    ]
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    return (
        "# Card of this data\n\nWritten by `ttf data encode`. The same facts for programs: "
        f"`{CARD}`.\n\n| | |\n|---|---|\n{table}\n\n## Files\n{_files(card)}"
    )


def _cell(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_cell(one)}" for name, one in value.items())
    return f"`{value}`".replace("|", "\\|").replace("\n", " ") if value != "" else "none"


_ROLES: Final = {
    "bank.npz": "`vectors` (a document a row), `texts` and `text_ends` (its text), `ids` if known",
    "context.npz": "`vectors` of the passages that sequences consist of, with their texts",
    "pairs.npz": "`X_*` or `seq_*` (queries), `pos_*` (rows of the bank), and what else is known",
}


def _files(card: Mapping[str, Any]) -> str:
    return "".join(f"- `{name}`: {_ROLES[name]}\n" for name in card["files"])
