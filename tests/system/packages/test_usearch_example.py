"""The example of a third-party miner is clean and uses what is public. It is installed, tested and
trained with beside other strangers: test_strangers_together.py."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.conftest import ROOT

EXAMPLE = ROOT / "examples" / "ttf-miner-usearch"


@pytest.mark.parametrize("words", [("check",), ("format", "--check")], ids=" ".join)
def test_it_is_clean_by_its_own_configuration(words: tuple[str, ...]) -> None:
    """mypy looks at it with everything else: make types."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *words, "--no-cache"],
        cwd=EXAMPLE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_uses_what_is_public_and_no_more() -> None:
    """What a plugin imports of ttf is frozen in the plugin API; the rest may change any day."""
    for file in [*EXAMPLE.glob("src/**/*.py"), *EXAMPLE.glob("tests/*.py")]:
        for line in file.read_text().splitlines():
            words = line.split()
            if words[:1] in (["from"], ["import"]) and words[1].split(".")[0].startswith("ttf"):
                own = words[1].startswith("ttf_miner_usearch")
                assert own or words[1] in ("ttf", "ttf.testing"), f"{file.name}: {line}"
