"""Arrays of a Python caller in the place of files: where they are written, and how errors name them.

Light: numpy is loaded only where there are arrays.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ttf.errors import ConfigError, TtfError
from ttf.rundir.run_folder import RunFolder

FILES: Final = ("pairs", "bank", "context")


def without_arrays(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options, and those of them that are arrays and not paths."""
    given = {role: options[role] for role in FILES if role in options}
    arrays = {role: v for role, v in given.items() if v is not None and not is_path(v)}
    return {name: v for name, v in options.items() if name not in arrays}, arrays


def is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def data_path(value: Any) -> Path | str | None:
    """A path as a Path; an address such as s3://... as it was given."""
    if value is None or (isinstance(value, str) and "://" in value):
        return value
    return Path(value)


def refuse_arrays(options: Mapping[str, Any], function: str, why: str) -> None:
    """Raises ConfigError for a function that reads files alone."""
    arrays = [role for role, value in options.items() if value is not None and not is_path(value)]
    if arrays:
        role = arrays[0]
        array = "X_train=..., pos_train=..." if role == "pairs" else "vectors=..."
        raise ConfigError(
            f"{function} takes {role}= as a path, not as a value of type "
            f"{type(options[role]).__name__}: {why}.",
            hint=f'numpy.savez("{role}.npz", {array}), then {role}="{role}.npz".',
        )


@contextlib.contextmanager
def as_files(options: Mapping[str, Any]) -> Iterator[dict[str, Path | str | None]]:
    """Yields the paths of `pairs`, `bank` and `context`; those of arrays end with the `with` block."""
    files, arrays = without_arrays(options)
    paths = {role: data_path(value) for role, value in files.items()}
    if not arrays:
        yield paths
        return
    from ttf.data.given_arrays import write_given

    with tempfile.TemporaryDirectory(prefix="ttf-arrays-") as scratch:
        written = write_given(arrays, Path(scratch))
        with named_as_given(written):
            yield paths | {role: Path(path) for role, path in written.items()}


def into_folder(arrays: Mapping[str, Any], folder: RunFolder) -> dict[str, str]:
    """Writes arrays into the folder of a new run, which goes again if that fails."""
    if not arrays:
        return {}
    from ttf.data.given_arrays import write_given

    try:
        return write_given(arrays, folder.inputs)
    except BaseException:
        folder.abandon()
        folder.close()
        raise


# --- errors about arrays ------------------------------------------------------------------------


@contextlib.contextmanager
def named_as_given(files: Mapping[str, str]) -> Iterator[None]:
    """Errors name the arrays and not the files that they were written to, which go with the error."""
    try:
        yield
    except TtfError as error:
        _rename(error, files)
        raise


def _rename(error: TtfError, files: Mapping[str, str]) -> None:
    said, hint = str(error), error.hint
    for role, path in files.items():
        said, hint = about_arrays(said, role, path), _hint_about_arrays(hint, role, path)
    if said != str(error):
        error.args = (said, *error.args[1:])
    error.hint = hint


def about_arrays(text: str, role: str, path: str) -> str:
    """A message about a file, as one about the arrays that were given.

    >>> about_arrays("X_train[3] in /tmp/a/pairs.npz is not finite.", "pairs", "/tmp/a/pairs.npz")
    'The array X_train, row 3, is not finite.'
    >>> about_arrays("/tmp/a/pairs.npz has no X_train.", "pairs", "/tmp/a/pairs.npz")
    'pairs= has no X_train.'
    """
    file, of = re.escape(path), "" if role == "pairs" else f" of {role}="
    text = re.sub(rf"(\w+)\[([\d, ]+)\] in {file}", rf"the array \1{of}, row \2,", text)
    text = re.sub(rf"(\w+) in {file}", rf"the array \1{of}", text)
    text = re.sub(rf"{file}: (\w+)(?=[: ])", rf"the array \1{of}", text)
    text = text.replace(path, f"{role}=")
    return text[:1].upper() + text[1:] if text.startswith("the array") else text


def _hint_about_arrays(hint: str, role: str, path: str) -> str:
    hint = re.sub(r"--set (data\.names\.\w+)=(\w+)", r'sets={"\1": "\2"}', hint)
    if path not in hint:
        return hint
    if "ttf data convert" in hint:
        return 'Convert it: array.astype("float32").'
    if "ttf data inspect" in hint:
        return (
            "To find such rows: numpy.flatnonzero(~numpy.isfinite(array.reshape(len(array), -1))"
            ".all(axis=1))"
        )
    return hint.replace(path, f"{role}=")
