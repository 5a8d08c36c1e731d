"""Writes a package from a template: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ttf.errors import ConfigError, storage_error
from ttf.rundir.removing import folder_written_whole

if TYPE_CHECKING:
    from ttf.tools.plugins.scaffold.naming import Naming

TEMPLATES: Final = Path(__file__).with_name("templates")
_EVERY_KIND: Final = "_every_kind"  # the template of files that every kind of plugin has
# Left in a template after its tests were run; pip leaves bytecode in an installed one.
_LEFT_BY_TOOLS: Final = ("__pycache__", ".*_cache", ".hypothesis", ".venv", "dist", "*.egg-info")


def kinds() -> list[str]:
    """The kinds of plugins that have a template."""
    return sorted(f.name for f in TEMPLATES.iterdir() if f.is_dir() and f.name != _EVERY_KIND)


def rendered(naming: Naming) -> dict[str, str]:
    """Every file of the package: its path, with slashes, and its text."""
    files = {
        naming.render(path.relative_to(template).as_posix()): naming.render(path.read_text("utf-8"))
        for template in (TEMPLATES / _EVERY_KIND, TEMPLATES / naming.kind)
        for path in _files(template)
    }
    return dict(sorted(files.items()))


def write(files: Mapping[str, str], out: Path) -> None:
    """Makes the folder `out`. Raises ConfigError if it exists and is not empty, or StorageError."""
    check_free(out)
    with folder_written_whole(out, "package") as folder:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")


def check_free(out: Path) -> None:
    """Raises ConfigError if something there must not be overwritten."""
    try:
        if out.is_symlink() and not out.exists():
            raise ConfigError(
                f"{out} is a symbolic link to a file or folder that does not exist.",
                hint="Choose another --out.",
            )
        if not out.exists():
            return
        if not out.is_dir():
            raise ConfigError(f"{out} is a file.", hint="Choose another folder with --out.")
        there = sorted(inner.name for inner in out.iterdir())
    except OSError as error:
        raise storage_error(error, str(out)) from error
    if there:
        raise ConfigError(
            f"The folder {out} is not empty: it contains "
            f"{there[0]!r}{f' and {len(there) - 1} more' if there[1:] else ''}. ttf overwrites no "
            "files.",
            hint="Choose another folder with --out.",
        )
    if out.resolve() == Path.cwd():
        raise ConfigError(
            f"{out} is the current folder, and ttf would have to replace it.",
            hint="Use a folder that does not exist yet.",
        )


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if any(path.match(pattern) for pattern in _LEFT_BY_TOOLS):
            continue
        if path.is_dir():
            yield from _files(path)
        else:
            yield path
