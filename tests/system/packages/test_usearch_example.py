"""The example of a third-party miner is a package like anybody's: installed, tested, trained with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.system.packages.conftest import InstalledOnce
from tests.system.packages.fresh import BRIEFLY, FreshEnvironment

EXAMPLE = ROOT / "examples" / "ttf-miner-usearch"
SYNTH = ("--pairs", "192", "--val", "64", "--bank", "400", "--dim", "16", "--seq-len", "4")
SHORT = ("--epochs", "1", "--tower", "linear", "--set", "miner.negatives=4")


@pytest.fixture(scope="module")
def installed(installed_once: InstalledOnce) -> FreshEnvironment:
    return installed_once("usearch", EXAMPLE)


def test_it_passes_its_own_tests_where_a_user_installed_it(
    installed: FreshEnvironment, tmp_path: Path
) -> None:
    argv = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", EXAMPLE, *BRIEFLY)
    done = installed.run(*argv, "--basetemp", tmp_path / "basetemp", EXAMPLE / "tests", cwd=EXAMPLE)
    assert done.code == 0, done.out + done.err
    assert " passed" in done.out


def test_a_run_that_names_it_trains_with_it(installed: FreshEnvironment, tmp_path: Path) -> None:
    made = installed.run("-m", "ttf", "data", "synth", "--out", tmp_path, *SYNTH)
    assert made.code == 0, made.err
    data = ("--pairs", tmp_path / "pairs.npz", "--bank", tmp_path / "bank.npz")
    run = tmp_path / "run"
    done = installed.run(
        "-m", "ttf", "train", *data, "--out", run, *SHORT, "--miner", "usearch",
        "--set", "miner.usearch.dtype=f16",
    )  # fmt: skip
    assert done.code == 0, done.err
    summary = json.loads((run / "summary.json").read_text())
    assert summary["miner"] == "usearch"
    assert summary["status"] == "finished"
    assert 'dtype = "f16"' in (run / "run.toml").read_text()


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
