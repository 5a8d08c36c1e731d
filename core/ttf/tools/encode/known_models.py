"""Which folders of models this user has encoded with: only they are loaded because a card names them.

Whoever gives data away writes the card beside them, and to load the folder of a model can execute code in
it (sentence-transformers before 6.0 imports the classes that its modules.json names). So `ttf data encode`
leaves a note in TTF_HOME of the folder that the user named.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ttf.errors import ConfigError
from ttf.rundir.own_notes import read_note, write_note
from ttf.text.shell import quoted

_NOTES: Final = "models"  # in TTF_HOME


def note_models(options: Mapping[str, Any]) -> None:
    """Of an encoder that the user has chosen."""
    for folder in _named(options):
        write_note(_NOTES, folder, {})


def strange_model(options: Mapping[str, Any]) -> Path | None:
    """A file or folder that these options of a card name, and that the user has never named. A name of
    the cache of Hugging Face, or of an installed package, is not one: the user brought those."""
    return next((path for path in _named(options) if read_note(_NOTES, path) is None), None)


def refuse_strange_models(encoder: str, options: Mapping[str, Any], card: Path) -> None:
    """Raises ConfigError."""
    folder = strange_model(options)
    if folder is not None:
        raise ConfigError(
            f"{card} names the model {folder}, which you have not encoded with on this machine. ttf does "
            "not load it, because to load the folder of a model can execute code in it.",
            hint="If you trust that folder, encode any texts with it once, then search again: ttf data "
            f"encode FILE --encoder {quoted(encoder)} --model {quoted(str(folder))} --out DIR",
        )


def _named(options: Mapping[str, Any]) -> Iterator[Path]:
    for value in options.values():
        if not isinstance(value, str) or not value:
            continue
        # As it stands, too: an encoder need not expand the home folder.
        for path in dict.fromkeys((Path(value), _expanded(value))):
            if os.path.exists(path):  # noqa: PTH110 - a prompt is longer than any name may be
                yield path


def _expanded(value: str) -> Path:
    try:
        return Path(value).expanduser()
    except RuntimeError:  # of a user who does not exist
        return Path(value)
