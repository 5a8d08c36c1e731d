"""A plugin whose import hangs, ends or floods its process is named, soon, and nothing of it stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.conftest import FakeDistribution
from tests.kit.forked_commands import ForkedCommands
from tests.kit.hostile.plugins import IMPORTS, Import
from tests.kit.processes import with_variable

MARK: Final = "TTF_TEST_HOSTILE"
LONGEST_S: Final = 15.0
"""Ten, and what it takes to start processes on a busy machine."""
ENDS: Final = {
    "plugins list": (0,),
    "plugins show miner.broken": (2,),
    "doctor --check plugins": (0, 6),  # a plugin that raises is a warning: ttf does not use it
    "doctor --check coload": (0, 6),
    "train --pairs pairs.npz --bank bank.npz --miner broken --out again --steps 2 "
    "--set supervise.hang_timeout_s=5": (2,),
}
"""The exit codes that each command may have."""


@pytest.fixture(scope="module")
def commands() -> Iterator[ForkedCommands]:
    with ForkedCommands() as forked:
        yield forked


@pytest.mark.skipif(not os.environ.get("TTF_CHAOS"), reason="takes minutes: TTF_CHAOS=1 runs it")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("hostile", IMPORTS, ids=str)
def test_a_plugin_that_does_harm_when_it_is_imported_is_named_by_every_command(
    hostile: Import, trained: Path, tmp_path: Path, commands: ForkedCommands
) -> None:
    root, site = tmp_path / "place", tmp_path / "site"
    shutil.copytree(trained, root)
    site.mkdir()
    distribution = FakeDistribution(folder=site)
    distribution.add("ttf-broken", {"miner.broken": "ttf_broken_import"})
    distribution.module("ttf_broken_import", hostile.source)
    mark = str(tmp_path)
    own = {
        "TTF_HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
        "TTF_DISABLE_PLUGINS": "",
        MARK: mark,
    }
    problems = []
    for words in ENDS:
        # Ours are looked at elsewhere.
        own["TTF_DISABLE_PLUGINS"] = "twotower" if words.startswith("doctor") else ""
        did = commands.run(words.split(), root, own, path=site, longest_s=LONGEST_S)
        said = did.out + did.err
        found = [did.problem] * bool(did.problem)
        found += ["it does not name the plugin"] * ("ttf-broken" not in said)
        found += [f"exit code {did.code}"] * (did.code not in ENDS[words])
        found += ["what it says holds control characters"] * ("\x1b]0" in said)
        left = list(with_variable(MARK, mark))
        found += [f"left behind: {left}"] * bool(left)
        problems += [f"{words}: {problem}\n{said[-1500:]}" for problem in found]
    assert problems == [], "\n".join(problems)
