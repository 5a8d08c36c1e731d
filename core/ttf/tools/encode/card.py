"""The card of encoded data: what was made of what, for programs (card.json) and people (card.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """None if there is none that this version reads, or one that somebody damaged."""
    try:
        found = read_named_json(folder / CARD)
    except (OSError, BadData, ArtifactDamaged, EntryRefused):
        return None
    known = isinstance(found, dict) and found.get("schema") == SCHEMA and _is_whole(found)
    return found if known else None


def card_of(files: Iterable[str]) -> tuple[Mapping[str, Any], Path] | None:
    """The card that was written together with one of these files, and where it is."""
    for file in map(Path, files):
        card = read_card(file.absolute().parent)
        if card is not None and file.name in card["files"]:
            return card, file.parent / CARD
    return None


def _is_whole(found: Mapping[str, Any]) -> bool:
    # What is read of it without further questions; it may come from a stranger, beside the data.
    encoder, files = found.get("encoder"), found.get("files")
    if not isinstance(encoder, dict) or not isinstance(files, dict):
        return False
    types = {"name": str, "options": dict, "fingerprint": str, "dim": int}
    return all(isinstance(encoder.get(key), kind) for key, kind in types.items())


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
