"""The pages for authors are true: their files are written, their commands run, as a reader would."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.system.packages.fresh import (
    ALL_QUESTIONS,
    BRIEFLY,
    FreshEnvironment,
    own_environment,
)

from ttf.testing import DeviceTests, StoreTests, TowerTests

PAGES = Path(__file__).parents[3] / "docs" / "plugins"
SUITES = {"tower": TowerTests, "storage": StoreTests, "device": DeviceTests}
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")


def blocks(page: str) -> list[tuple[str, str, str]]:
    """(language, file name or "", text) of every fence of a page."""
    found = []
    for language, title, text in _FENCE.findall((PAGES / f"{page}.md").read_text()):
        first = _NAMED.match(text)
        found.append((language, title or (first[1] if first else ""), text))
    return found


def write_files(page: str, folder: Path) -> None:
    for _, name, text in blocks(page):
        if name and not name.startswith("run."):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)


def commands(page: str, number: int = 0) -> Iterator[str]:
    """Of the page's shell block with that number."""
    shell = [text for language, _, text in blocks(page) if language == "sh"][number]
    yield from shell.splitlines()


def briefly(command: str) -> str:
    """All questions are asked of a miner of strangers by tests/system/packages/test_usearch_example.py;
    who is no miner trains without one."""
    if ALL_QUESTIONS:
        return command
    if "plugins check miner" in command:
        return f'{command} --only "queries or saved or numpy"'
    if "ttf train" in command and "--miner" not in command:
        return f"{command} --set miner.negatives=0"
    return command


def a_shell_in(environment: FreshEnvironment) -> dict[str, str]:
    """An environment in which `ttf`, `pip` and `python` are those of the fresh environment."""
    tools = environment.folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, words in (
        ("ttf", f'"{environment.python}" -m ttf'),
        ("pip", f'"{sys.executable}" -m pip --python "{environment.python}"'),
    ):
        script = tools / name
        script.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        script.chmod(0o755)
    return own_environment() | {
        "PATH": f"{tools}:{environment.python.parent}:{os.environ['PATH']}",
        "TTF_HOME": str(environment.folder / "ttf-home"),
        "PIP_CONSTRAINT": str(Path(__file__).parents[3] / "constraints.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def run(commands: Iterator[str], environment: FreshEnvironment, folder: Path) -> dict[str, str]:
    """What each command put out; the first that fails ends it."""
    env, said = a_shell_in(environment), {}
    for command in map(briefly, commands):
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if "after connection broken by" in done.stderr and done.returncode:
            pytest.skip("the package index cannot be reached")
        assert done.returncode == 0, f"$ {command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        said[command] = done.stdout + done.stderr
    return said


def test_a_miner_written_from_its_page_alone_works(
    fresh_environment: FreshEnvironment, tmp_path: Path
) -> None:
    folder = tmp_path / "ttf-miner-coarse"
    write_files("miner", folder)
    said = run(commands("miner"), fresh_environment, folder)
    checked = next(text for command, text in said.items() if "plugins check" in command)
    assert "no problems" in checked
    trained = next(text for command, text in said.items() if "ttf train" in command)
    assert re.search(r"miner +coarse", trained)


@pytest.mark.parametrize("kind", ["tower", "storage", "device"])
def test_the_commands_of_a_page_do_what_it_says(
    fresh_environment: FreshEnvironment, tmp_path: Path, kind: str
) -> None:
    """And the package it has had written passes its own tests as it is.

    It is built and installed as its users get it; the pages of miner and observer show what pip
    makes of `-e`."""
    new, install, *rest = commands(kind)
    run(iter([new]), fresh_environment, tmp_path)
    (package,) = tmp_path.glob(f"ttf-{kind}-*")
    assert install == f"pip install -e {package.name}"
    fresh_environment.install("--no-deps", package)
    check = next(command for command in rest if "plugins check" in command)
    if kind == "storage" or ALL_QUESTIONS:
        said = run(iter(rest), fresh_environment, tmp_path)
        assert "no problems" in said[check]
    else:  # the package's own tests ask the same
        said = run((c for c in rest if c != check), fresh_environment, tmp_path)
        assert_asks(check, SUITES[kind])
    trained = next(text for command, text in said.items() if "ttf train" in command)
    assert "finished" in trained
    own = ("-m", "pytest", "-q", "-p", "no:cacheprovider", *BRIEFLY)
    tests = fresh_environment.run(*own, cwd=package)
    assert tests.code == 0, tests.out[-6000:] + tests.err
    assert int(tests.out.splitlines()[-1].partition(" passed")[0]) >= 25


def assert_asks(check: str, suite: type) -> None:
    """Each word of its --only is in the name of a test."""
    words = shlex.split(check)
    for word in words[words.index("--only") + 1].split(" or "):
        assert any(name.startswith("test_") and word in name for name in dir(suite)), word


def test_an_observer_written_from_its_page_alone_works(
    fresh_environment: FreshEnvironment, tmp_path: Path
) -> None:
    write_files("observer", tmp_path)
    synth = "ttf data synth --out . --pairs 64 --val 8 --seq-len 3 --dim 8 --bank 50 --seed 0"
    train = [f"{c} --steps 3 --out run" if "ttf train" in c else c for c in commands("observer")]
    run(iter([synth, *train]), fresh_environment, tmp_path)
    lines = (tmp_path / "run" / "loss.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["1", "2", "3"]


def test_the_commands_of_the_first_page_run(
    fresh_environment: FreshEnvironment, tmp_path: Path
) -> None:
    said = run(commands("README"), fresh_environment, tmp_path)
    assert (tmp_path / "ttf-miner-my-index" / "pyproject.toml").is_file()
    assert "storage" in said["ttf plugins list"]
