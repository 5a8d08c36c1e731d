"""What the campaign of damaged files takes for equal, and for different."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from chaos.both_ways import difference
from chaos.values_read import values_of
from tests.kit.forked_commands import Did

DID = Did(
    code=0,
    seconds=1.0,
    peak_bytes=1,
    out="queries 64 x 40\nindex 0.3273 s\nhead 12.5 MB, 3 GB/s\n",
    err="note: torch was loaded before, so ...\nencode took 74 ms\n",
    hung=False,
    longest_s=10.0,
)


def test_commands_that_differ_only_in_what_they_measured_agree() -> None:
    out = "queries 64 x 40\nindex 12 ms\nhead 9 kB, 800 MB/s\n"
    other = replace(DID, seconds=8.0, out=out, err="encode took 1.2 s\n")
    assert difference(DID, other) == ""


def test_another_end_or_another_word_is_a_difference() -> None:
    assert "exit code 3, forked 0" in difference(DID, replace(DID, code=3))
    assert "out differs" in difference(DID, replace(DID, out="queries none\n"))
    assert "err differs" in difference(DID, replace(DID, err=DID.err + "warning: x\n"))


def test_a_member_that_is_no_array_holds_no_values(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", good=np.arange(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("bad.npy", b"no header")
    assert list(values_of(tmp_path / "a.npz")) == ["good"]
