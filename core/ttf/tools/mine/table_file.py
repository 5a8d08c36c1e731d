"""The table of `ttf mine`: checks that it can be written, and writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ttf.data.writing import array_bytes, check_output, make_room, writing
from ttf.errors import ConfigError
from ttf.host.plugins import create_store, is_local, storage_for

if TYPE_CHECKING:
    from ttf.contracts import DType
    from ttf.mining.job import MiningReport

_BLOCK_ROWS: Final = 4096
_ARRAYS: Final[tuple[tuple[str, DType], ...]] = (("ids", "int64"), ("scores", "float32"))


def check_table(out: Path, inputs: Sequence[str], *, overwrite: bool) -> None:
    """Raises ConfigError or StorageError if `out` cannot be written, is an input, or exists.

    Starts a table and aborts it, so that these errors come before mining.
    """
    refuse_inputs(out, inputs)
    storage_of(str(out), "auto", "Use a file name such as candidates.npz or candidates.zarr.")
    check_output(str(out), overwrite=overwrite)
    make_room(out.absolute().parent, 0)
    writer = create_store(str(out))
    try:
        for name, dtype in _ARRAYS:
            writer.array(name, (0, 1), dtype)
    finally:
        writer.abort()


def refuse_inputs(out: Path, inputs: Sequence[str]) -> None:
    """Raises ConfigError if the table would replace one of its inputs."""
    if out.resolve() in {Path(uri).resolve() for uri in inputs if is_local(uri)}:
        raise ConfigError(
            f"The output {out} is the same file as an input.", hint="Choose another --out."
        )


def storage_of(uri: str, storage: str, hint: str) -> str:
    """The storage plugin of a file or URL. Raises ConfigError with `hint`."""
    try:
        return storage_for(uri, storage)
    except ConfigError as error:
        raise ConfigError(str(error), hint=hint) from error


def write_table(out: Path, report: MiningReport) -> None:
    # In blocks: the table may be larger than memory.
    paths = {"ids": report.ids_path, "scores": report.scores_path}
    tables = [(name, dtype, np.load(paths[name], mmap_mode="r")) for name, dtype in _ARRAYS]
    needed = sum(array_bytes(found.shape, dtype) for _, dtype, found in tables)
    with writing(str(out), needed_bytes=needed) as writer:
        for name, dtype, found in tables:
            array = writer.array(name, found.shape, dtype)
            for start in range(0, len(found), _BLOCK_ROWS):
                array.append(np.asarray(found[start : start + _BLOCK_ROWS]))
