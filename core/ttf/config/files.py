"""A configuration file, read as what its name says: .yaml and .yml are YAML, all others TOML."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

from ttf.config import toml, yaml_text
from ttf.errors import ConfigError, EntryRefused, suggestion
from ttf.rundir.confined import open_named

MOST_BYTES: Final = 2**20  # of a file
YAML_ENDINGS: Final = (".yaml", ".yml")
ENDINGS: Final = (".toml", *YAML_ENDINGS)


def read(path: Path) -> toml.Document:
    """Raises ConfigError with what to do."""
    read_text = yaml_text.read if _is_yaml(path) else toml.read
    return read_text(text_of(path), path)


def _is_yaml(path: Path) -> bool:
    return path.suffix.lower() in YAML_ENDINGS


def text_of(path: Path) -> str:
    """Raises ConfigError with what to do."""
    try:
        data = _read_bytes(path)
    except FileNotFoundError as error:
        raise ConfigError(
            f"There is no file {path}.{_nearby(path)}",
            hint="Check the path. To have one written for the files of a folder: ttf init FOLDER",
        ) from error
    except IsADirectoryError as error:
        raise ConfigError(
            f"{path} is a folder. A configuration is a TOML or YAML file.",
            hint=f"To continue a run: ttf resume {path}. To repeat it: ttf train {path}/run.toml.",
        ) from error
    except OSError as error:
        raise ConfigError(f"Could not read {path}: {error.strerror}.") from error
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()  # some editors write this mark first
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not valid {'YAML' if _is_yaml(path) else 'TOML'}: byte {error.start} is not UTF-8 text.",
            hint="A configuration is a text file. For data files, use --pairs and --bank.",
        ) from error


def _read_bytes(path: Path) -> bytes:
    if path.is_dir():
        raise IsADirectoryError
    try:
        with open_named(path) as file:
            data = file.read(MOST_BYTES + 1)
    except EntryRefused as error:  # a pipe or a device
        raise ConfigError(str(error), hint="Write the configuration to a file first.") from error
    if len(data) > MOST_BYTES:
        raise ConfigError(
            f"{path} is too large for a configuration: more than {MOST_BYTES:,} bytes.",
            hint="For data files, use --pairs and --bank.",
        )
    return data


def _nearby(path: Path) -> str:
    if not path.parent.is_dir():
        return f" The folder {path.parent} does not exist either."
    return suggestion(path.name, [p.name for p in path.parent.iterdir() if p.suffix in ENDINGS])
