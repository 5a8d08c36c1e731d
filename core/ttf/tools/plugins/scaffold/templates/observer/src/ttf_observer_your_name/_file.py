"""A file of values by step and name, which survives kills and torn lines. YOUR LIBRARY goes here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ttf import fsync_dir, fsync_file

HEAD = "step,name,value\n"


class ValuesFile:
    """Lines as `120,loss,3.25`. Each is with the kernel when `write` returns: a kill loses none."""

    def __init__(self, path: Path, last_step: int) -> None:
        """What an earlier process wrote is kept up to `last_step`; the rest is done again."""
        beside = path.with_suffix(".new")  # whoever dies here leaves the old file as it was
        with beside.open("w", encoding="utf-8") as file:
            file.write(HEAD)
            file.writelines(_kept(path, last_step))
            file.flush()
            fsync_file(file.fileno())
        beside.replace(path)
        fsync_dir(path.parent)
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._file.writelines(f"{step},{name},{value!r}\n" for name, value in values.items())

    def make_durable(self) -> None:
        self._file.flush()
        fsync_file(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def _kept(path: Path, last_step: int) -> list[str]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8", errors="replace") as file:
        whole = [line for line in file if line.endswith("\n") and line != HEAD]
    return [line for line in whole if _step(line) <= last_step]


def _step(line: str) -> float:
    """Of a line; infinite where it has none."""
    number = line.partition(",")[0]
    return int(number) if number.isdecimal() else float("inf")
