"""The example that replaces a manager of one's own: it runs, and the README says what is different."""

from __future__ import annotations

import difflib
import re
import subprocess
import sys
from pathlib import Path

from tests.kit.widely import wide

EXAMPLE = Path(__file__).parents[3] / "examples/embedding_manager"


def printed(script: str, folder: Path) -> list[str]:
    words = [sys.executable, str(EXAMPLE / script), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.splitlines()


def test_both_managers_train_to_the_same_losses_bit_for_bit(tmp_path: Path) -> None:
    told = {name: printed(f"{name}.py", tmp_path / name) for name in ("before", "after")}
    losses = {name: [line for line in lines if "loss" in line] for name, lines in told.items()}
    assert losses["before"] == losses["after"]
    assert len(set(losses["after"])) == 10
    lines = [line for line in told["after"] if line.startswith("embedding table, epoch")]
    assert len(lines) == 2
    assert re.search(r"[1-9]\d* syncs", lines[0])


@wide
def test_as_it_is_meant_no_step_waits_for_a_read(tmp_path: Path) -> None:
    told = printed("better.py", tmp_path)
    assert told[-1] == "demand loads: 0"


def test_the_readme_names_every_line_that_differs() -> None:
    before, after = (
        [line.strip() for line in (EXAMPLE / name).read_text().splitlines()]
        for name in ("before.py", "after.py")
    )
    code = [
        line
        for line in difflib.unified_diff(before, after, lineterm="", n=0)
        if re.match(r"[-+][^-+]", line) and "Trains one" not in line and "python " not in line
    ]
    readme = (EXAMPLE / "README.md").read_text()
    missing = [
        line for line in code if line[1:].rstrip(",").removeprefix("manager = ") not in readme
    ]
    assert missing == []
