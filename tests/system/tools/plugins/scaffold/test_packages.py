"""The whole way of a stranger: written by the installed ttf, built, installed beside it, its own
checks green without a change, and a training run that uses it.

Tower, storage and device go that way by the commands of their pages: tests/system/packages/test_pages.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.system.packages.fresh import BRIEFLY

if TYPE_CHECKING:
    from tests.conftest import Outcome
    from tests.system.packages.fresh import FreshEnvironment

NAME = "my-index"


def done(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, f"{outcome.out[-6000:]}\n{outcome.err[-3000:]}"
    return outcome


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["miner", "observer"])
def test_a_package_passes_its_own_checks_unedited_and_trains(
    fresh_environment: FreshEnvironment, tmp_path: Path, kind: str
) -> None:
    ttf = ("-m", "ttf")
    folder = tmp_path / "package"
    written = fresh_environment.run(*ttf, "plugins", "new", kind, NAME, "--out", folder, "--json")
    assert done(written) and json.loads(written.out)["path"] == str(folder)
    before = {path for path in folder.rglob("*") if path.is_file()}

    fresh_environment.install(folder)
    shown = fresh_environment.run(*ttf, "plugins", "show", f"{kind}.{NAME}", "--json")
    facts = json.loads(done(shown).out)
    assert (facts["distribution"], facts["available"]) == (f"ttf-{kind}-{NAME}", True)

    own = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *BRIEFLY)
    tests = fresh_environment.run(*own, cwd=folder, timeout_s=600)
    fewest = 8 if kind == "observer" else 30
    assert int(done(tests).out.splitlines()[-1].partition(" passed")[0]) >= fewest
    left = {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert left == before

    _train(fresh_environment, tmp_path, kind)


def _train(environment: FreshEnvironment, place: Path, kind: str) -> None:
    """A few steps, and the run says that it used the plugin."""

    def ttf(*argv: str) -> Outcome:
        return done(environment.run("-m", "ttf", *argv, cwd=place))

    sizes = "--pairs 256 --val 32 --seq-len 4 --dim 16 --bank 512"
    ttf("data", "synth", "--out", "demo", *sizes.split())
    bank = "demo/bank.npz"
    chosen = ("--set", f'observers=["{NAME}"]') if kind == "observer" else (f"--{kind}", NAME)
    short = "--steps 4 --batch-size 16 --threads 1 --out run --json"
    if kind == "observer":
        short += " --set miner.negatives=0"
    trained = ttf("train", "--pairs", "demo/pairs.npz", "--bank", bank, *chosen, *short.split())
    summary = json.loads(trained.out)
    assert (summary["status"], summary["steps"], summary["incidents"]) == ("finished", 4, [])
    config = (place / "run" / "run.toml").read_text()
    assert NAME in config
    if kind == "miner":
        assert NAME in summary["miner"]
    if kind == "observer":
        assert "4,loss," in (place / "run" / f"{NAME}.csv").read_text()


@pytest.mark.timeout(600)
@pytest.mark.skipif(not os.environ.get("TTF_CHAOS"), reason="one of many: TTF_CHAOS=1 runs it")
def test_a_folder_to_work_in_has_every_tool_its_readme_names(
    fresh_environment: FreshEnvironment, tmp_path: Path
) -> None:
    """As `pip install -e . --group dev` does it; then what CI runs, but for the long suite."""
    folder = tmp_path / "package"
    made = ("-m", "ttf", "plugins", "new", "observer", NAME, "--out", folder)
    done(fresh_environment.run(*made))
    fresh_environment.install(f"--editable={folder}", f"--group={folder / 'pyproject.toml'}:dev")
    for tool in (("ruff", "check"), ("ruff", "format", "--check"), ("mypy",), ("pytest", "-q")):
        done(fresh_environment.run("-m", *tool, cwd=folder))
