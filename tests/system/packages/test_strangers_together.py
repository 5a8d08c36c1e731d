"""A storage, a tower and a miner of three strangers in one environment, and a fourth who claims
the name of one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import ROOT, Outcome
from tests.kit.widely import wide
from tests.system.packages.conftest import InstalledOnce
from tests.system.packages.fresh import BRIEFLY, FreshEnvironment

PACKAGES = Path(__file__).parent
STRANGERS = (
    ROOT / "examples" / "ttf-miner-usearch",
    PACKAGES / "ttf-storage-parquet",
    PACKAGES / "ttf-tower-decay",
)
SYNTH = ("--pairs", "192", "--val", "64", "--bank", "400", "--dim", "16", "--seq-len", "4")
CLAIMED = "ttf-miner-usearch:usearch"
THEIRS = "ttf-storage-parquet:parquet"  # ttf has a storage of this name

RUN_TOML = """
[data]
pairs = "pairs.parquet"
bank = "bank.parquet"
storage = "ttf-storage-parquet:parquet"

[tower.query]
name = "decay"
half_life = 4.0

[miner]
name = "usearch"
k = 20
negatives = 4

[miner.usearch]
connectivity = 16
dtype = "f16"

[train]
steps = 3
batch_size = 64
"""
SETTINGS = (
    "data.pairs=pairs.parquet",
    "data.bank=bank.parquet",
    f"data.storage={THEIRS}",
    "tower.query.name=decay",
    "tower.query.half_life=4.0",
    "miner.name=usearch",
    "miner.k=20",
    "miner.negatives=4",
    "miner.usearch.connectivity=16",
    "miner.usearch.dtype=f16",
    "train.steps=3",
    "train.batch_size=64",
)


@pytest.fixture(scope="module")
def strangers(installed_once: InstalledOnce) -> FreshEnvironment:
    return installed_once("strangers", *STRANGERS)


@pytest.fixture(scope="module")
def contested(
    installed_once: InstalledOnce,
    strangers: FreshEnvironment,
    tmp_path_factory: pytest.TempPathFactory,
) -> FreshEnvironment:
    """The same, and one more distribution that claims miner.usearch."""
    package = tmp_path_factory.mktemp("contested") / "usearch-for-all"
    package.mkdir()
    package.joinpath("usearch_for_all.py").write_text("raise SystemExit('nobody asked for me')\n")
    package.joinpath("pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "usearch-for-all"\nversion = "7.0"\ndependencies = ["twotower>=0.1"]\n'
        '[project.entry-points."ttf.v1"]\n"miner.usearch" = "usearch_for_all"\n'
        '[tool.hatch.build.targets.wheel]\ninclude = ["usearch_for_all.py"]\n'
    )
    return installed_once("contested", package, below=[strangers])


@pytest.fixture(scope="module")
def data(strangers: FreshEnvironment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small synthetic set in Parquet, and run.toml beside it."""
    folder = tmp_path_factory.mktemp("data")
    done = strangers.ttf(
        ["data", "synth", "--out", folder, *SYNTH],
        *(
            ["data", "convert", f"{name}.npz", f"{name}.parquet", "--to-storage", THEIRS]
            for name in ("pairs", "bank")
        ),
        cwd=folder,
    )
    assert done.code == 0, done.err
    folder.joinpath("run.toml").write_text(RUN_TOML)
    return folder


def ttf(environment: FreshEnvironment, cwd: Path, *argv: str | Path, code: int = 0) -> Outcome:
    done = environment.run("-m", "ttf", *argv, cwd=cwd)
    assert done.code == code, done.out + done.err
    return done


def sets(*values: str) -> list[str | Path]:
    return [word for value in values for word in ("--set", value)]


@wide
def test_each_passes_its_own_tests_beside_the_others(
    strangers: FreshEnvironment, tmp_path: Path
) -> None:
    """One pytest for all, which have the same settings. What they do beside torch and in a run, the
    runs below show with all of them at once."""
    own: list[str | Path] = ["-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *BRIEFLY]
    # A configuration that lies here cuts off this suite's own conftest.py files.
    own += ["-c", PACKAGES / "ttf-tower-decay" / "pyproject.toml"]
    own += ["--basetemp", tmp_path / "basetemp", *(package / "tests" for package in STRANGERS)]
    done = strangers.run(*own, cwd=tmp_path)
    assert done.code == 0, done.out + done.err
    for package in STRANGERS:
        (file,) = (package / "tests").glob("test_*.py")
        assert f"{file.name}::" in done.out


@wide
def test_what_was_converted_comes_back_bit_for_bit(
    strangers: FreshEnvironment, data: Path, tmp_path: Path
) -> None:
    assert data.joinpath("pairs.parquet").is_dir() and data.joinpath("bank.parquet").is_file()
    names = ("pairs", "bank")
    commands: list[list[str | Path]] = []
    for name in names:
        theirs = [f"{name}.parquet", "--storage", THEIRS]
        commands.append(["data", "verify", *theirs])
        commands.append(["data", "convert", *theirs, tmp_path / f"{name}.npz"])
    done = strangers.ttf(*commands, cwd=data)
    assert done.code == 0, done.err
    for name in names:
        assert (tmp_path / f"{name}.npz").read_bytes() == (data / f"{name}.npz").read_bytes()


@wide
def test_settings_alone_and_a_file_alone_give_one_run_that_is_evaluated_and_searched(
    strangers: FreshEnvironment, data: Path, tmp_path: Path
) -> None:
    by_flags, by_file = tmp_path / "by-flags", tmp_path / "by-file"
    ttf(strangers, tmp_path, "train", data / "run.toml", "--out", by_file)
    queries = ("--queries", data / "pairs.parquet", "-k", "3", "--json")
    done = strangers.ttf(
        ["train", *sets(*SETTINGS), "--out", by_flags, "--in-process"],
        ["eval", by_file],
        ["search", by_file, *queries],
        cwd=data,
    )
    assert done.code == 0, done.err
    found = json.loads(done.out[done.out.index("{") :])
    assert {len(ids) for ids in found["ids"]} == {3}
    ended = [json.loads((run / "summary.json").read_text()) for run in (by_flags, by_file)]
    for summary in ended:
        assert (summary["status"], summary["miner"]) == ("finished", "usearch")
        assert summary["steps"] == 3
    assert ended[0]["weights_sha256"] == ended[1]["weights_sha256"]
    manifest = json.loads((by_file / "manifest.json").read_text())
    plugins = manifest["numeric"]["plugins"]
    assert plugins["tower.decay"] == "ttf-tower-decay 0.2.0"
    assert plugins["miner.usearch"] == "ttf-miner-usearch 0.1.0"
    written = (by_file / "run.toml").read_text()
    assert 'name = "decay"' in written and "half_life = 4.0" in written
    assert 'name = "usearch"' in written and f'storage = "{THEIRS}"' in written
    assert "connectivity = 16" in written and 'dtype = "f16"' in written


@wide
def test_a_name_that_two_claim_is_reported_with_both(
    contested: FreshEnvironment, data: Path
) -> None:
    for argv in (["--miner", "usearch"], sets("miner.name=usearch"), ["run.toml"]):
        files = ["--pairs", "pairs.parquet", "--bank", "bank.parquet"]
        done = ttf(contested, data, "train", *argv, *files, "--plan", code=2)
        assert CLAIMED in done.err and "usearch-for-all:usearch" in done.err, done.err
    listed = ttf(contested, data, "plugins", "list").out
    assert f"choose {CLAIMED}" in listed and "choose usearch-for-all:usearch" in listed


@wide
def test_the_one_that_is_meant_is_chosen_with_its_options(
    contested: FreshEnvironment, data: Path, tmp_path: Path
) -> None:
    """By flag, by --set and by file."""
    rest = [one for one in SETTINGS if not one.startswith(("miner.name", "miner.usearch"))]
    option = f"miner.{CLAIMED}.connectivity=16"
    text = RUN_TOML.replace('name = "usearch"', f'name = "{CLAIMED}"')
    file = tmp_path / "claimed.toml"
    file.write_text(text.replace("[miner.usearch]", f'[miner."{CLAIMED}"]'))
    files: list[str | Path] = ["--pairs", data / "pairs.parquet", "--bank", data / "bank.parquet"]
    ways: dict[str, list[str | Path]] = {
        "flag": ["--miner", CLAIMED, *sets(*rest, option)],
        "set": sets(*rest, f"miner.name={CLAIMED}", option),
        "file": [file, *files],
    }
    steps: list[list[str | Path]] = [
        ["train", *argv, "--in-process", "--out", tmp_path / way] for way, argv in ways.items()
    ]
    done = contested.ttf(*steps, cwd=data)
    assert done.code == 0, done.err
    for way in ways:
        run = tmp_path / way
        summary = json.loads((run / "summary.json").read_text())
        assert (summary["status"], summary["miner"]) == ("finished", CLAIMED)
        written = (run / "run.toml").read_text()
        assert f'[miner."{CLAIMED}"]\nconnectivity = 16' in written
    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["numeric"]["plugins"]["miner.usearch"] == "ttf-miner-usearch 0.1.0"
