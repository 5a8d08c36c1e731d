"""`ttf data ...` as a person and a script meet it, on real files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from tests.conftest import RunTtf
from tests.unit.commands.test_data_commands import ROWS, pairs_file  # noqa: F401


@pytest.mark.parametrize("where", [">/dev/full", ">&-"], ids=["full", "closed"])
@pytest.mark.parametrize("form", ["", "--json"], ids=["text", "json"])
def test_a_result_that_cannot_be_written_is_a_storage_failure(
    where: str, form: str, tmp_path: Path
) -> None:
    path = pairs_file(tmp_path / "pairs.npz")
    line = f'"{sys.executable}" -m ttf data inspect "{path}" {form} {where}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 8, done.stderr
    assert "tandard output" in done.stderr and "Traceback" not in done.stderr


def test_nothing_is_printed_after_the_hint_where_many_chunks_are_damaged(
    tmp_path: Path, run_ttf: RunTtf
) -> None:
    """zarr reads many at once; what it had not ended was told at the end of Python."""
    array = zarr.open_array(
        str(tmp_path / "rows.zarr"), mode="w", shape=(4000, 8), chunks=(10, 8), dtype="f4"
    )
    array[:] = np.random.default_rng(0).standard_normal((4000, 8))
    for chunk in sorted((tmp_path / "rows.zarr/c").glob("*/0"))[::7]:
        chunk.write_bytes(chunk.read_bytes()[:20])
    done = run_ttf("data", "verify", "rows.zarr")
    assert done.code == 3
    assert [line.partition(":")[0] for line in done.err.splitlines()][-2:] == ["error", "hint"]
    assert "Task" not in done.err and "Traceback" not in done.err


# -- stopped by a signal


@pytest.mark.parametrize("ending", ["npz", "zarr"])
@pytest.mark.parametrize("what", ["synth", "convert", "subset"])
def test_a_terminated_command_leaves_nothing_half_written(
    what: str, ending: str, tmp_path: Path
) -> None:
    """The command signals itself once rows are in its temporary file."""
    pairs = pairs_file(tmp_path / "pairs.npz")
    out = tmp_path / "out"
    out.mkdir()
    words = {
        "synth": ["synth", "--out", out, "--pairs", "50", "--format", ending],
        "convert": ["convert", pairs, out / f"o.{ending}"],
        "subset": ["subset", pairs, out / f"o.{ending}", "--train", "9"],
    }[what]
    code = (
        "import os, signal, sys\n"
        "from ttf import cli\n"
        "from ttf_storage import _atomic_file\n"
        "real = _atomic_file.AtomicFile.append\n"
        "def append(self, data):\n"
        "    real(self, data)\n"
        "    assert any(n.startswith('.tmp-') for n in os.listdir(sys.argv[1]))\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "_atomic_file.AtomicFile.append = append\n"
        "cli.main(sys.argv[2:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, [out, "data", *words])],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 143, done.stderr
    assert done.stderr.startswith("error: Stopped by SIGTERM; nothing was written to ")
    assert done.stderr.count("\n") == 1
    assert list(out.iterdir()) == []


# -- the commands' own cost


def test_help_needs_neither_numpy_nor_zarr() -> None:
    code = (
        "import sys; from ttf.commands.data import command\n"
        "command(['synth', '--help'], standalone_mode=False)\n"
        "print([m for m in ('numpy', 'torch', 'zarr', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "Examples:" in done.stdout
