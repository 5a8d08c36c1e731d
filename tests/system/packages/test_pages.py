"""The pages for authors are true: their files are written, their commands run, as a reader would.

And what `ttf plugins new` writes of every kind passes its own tests unedited. All packages are in
one environment, and train together: each start of pip, pytest and torch would be paid once a page.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from filelock import FileLock
from tests.kit.widely import wide
from tests.system.packages.conftest import BASE, MakeEnvironment
from tests.system.packages.fresh import ALL_QUESTIONS, BRIEFLY, COMPLETE, FreshEnvironment, pip

from ttf.testing import DeviceTests, EncoderTests, MinerTests, StoreTests, TowerTests

PAGES = Path(__file__).parents[3] / "docs" / "plugins"
SUITES = {
    "tower": TowerTests,
    "storage": StoreTests,
    "device": DeviceTests,
    "encoder": EncoderTests,
    "miner": MinerTests,
}
NEW: Final = ("tower", "storage", "device", "encoder")
"""Pages that begin with `ttf plugins new`; those of miner and observer say what to write."""
MY_INDEX: Final = "my-index"
FEWEST_TESTS: Final = {
    "tower": 25,
    "storage": 25,
    "device": 25,
    "encoder": 20,
    "miner": 30,
    "observer": 8,
}
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")


def blocks(page: str) -> list[tuple[str, str, str]]:
    """(language, file name or "", text) of every fence of a page."""
    found = []
    for language, title, text in _FENCE.findall((PAGES / f"{page}.md").read_text()):
        first = _NAMED.match(text)
        found.append((language, title or (first[1] if first else ""), text))
    return found


def write_files(page: str, folder: Path) -> Path:
    for _, name, text in blocks(page):
        if name and not name.startswith("run."):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return folder


def commands(page: str) -> list[list[str]]:
    """The words of each line of the page's first shell block."""
    shell = next(text for language, _, text in blocks(page) if language == "sh")
    return [shlex.split(line) for line in shell.splitlines()]


@dataclass(frozen=True, kw_only=True)
class Written:
    """Every package of the pages, written, built and installed."""

    environment: FreshEnvironment
    packages: Path

    def new(self) -> dict[str, Path]:
        """By kind: what `ttf plugins new` wrote."""
        pages = {kind: next(self.packages.glob(f"ttf-{kind}-*")) for kind in NEW}
        return pages | {
            kind: self.packages / f"ttf-{kind}-{MY_INDEX}" for kind in ("miner", "observer")
        }


@pytest.fixture(scope="module")
def written(environments: MakeEnvironment, of_all_workers: Path) -> Written:
    folder = of_all_workers / BASE / "environments" / "pages"  # goes when the base goes
    done = Written(environment=FreshEnvironment(folder=folder), packages=folder / "packages")
    with FileLock(of_all_workers / "pages.lock"):
        if not (folder / COMPLETE).exists():
            environments(folder)
            write_all(done)
            (folder / COMPLETE).touch()
    return done


def write_all(written: Written) -> None:
    """As the pages say, but all wheels by one pip; the page of the miner shows what it makes of
    `-e`."""
    packages, environment = written.packages, written.environment
    packages.mkdir()
    miner = write_files("miner", packages / "by-hand-miner")
    observer = write_files("observer", packages / "by-hand-observer")
    new = [commands(kind)[0] for kind in NEW]
    new.append(commands("README")[-1])
    new.append([word.replace("miner", "observer") for word in new[-1]])
    said = environment.ttf(*(command[1:] for command in new), cwd=packages)
    assert said.code == 0, said.err

    for kind in NEW:
        assert commands(kind)[1] == ["pip", "install", "-e", written.new()[kind].name]
    assert commands("observer")[0] == ["pip", "install", "-e", "."]
    assert commands("miner")[0] == ["pip", "install", "-e", ".", "twotower[testing]"]
    wheels = environment.folder / "wheels"
    to_build = [*written.new().values(), observer]
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, *to_build)
    environment.install("--no-deps", *wheels.glob("*.whl"))
    environment.install(f"--editable={miner}", "twotower[testing]")


def test_the_commands_of_the_pages_do_what_they_say(written: Written, tmp_path: Path) -> None:
    pages = [command for page in ("README", *SUITES, "observer") for command in commands(page)]
    told = [command for command in pages if command[0] == "ttf" and command[1] != "train"]
    once: list[list[str]] = []
    for command in map(briefly, told):
        if command and command not in once and command[1:3] != ["plugins", "new"]:
            once.append(command)
    said = written.environment.ttf(*(command[1:] for command in once), cwd=tmp_path)
    assert said.code == 0, said.out + said.err
    checks = sum(command[1:3] == ["plugins", "check"] for command in once)
    assert checks >= 2 and said.out.count("no problems") == checks
    assert "storage" in said.out

    for kind, name in (("miner", MY_INDEX), ("observer", MY_INDEX)):
        shown = written.environment.run("-m", "ttf", "plugins", "show", f"{kind}.{name}", "--json")
        facts = json.loads(shown.out)
        assert (facts["distribution"], facts["available"]) == (f"ttf-{kind}-{name}", True)

    train(written.environment, tmp_path)


def briefly(command: list[str]) -> list[str]:
    """All questions are asked of a miner of strangers by test_strangers_together.py, and the packages'
    own tests ask those of tower and device: here it is enough that each word is in a name."""
    if ALL_QUESTIONS or command[1:3] != ["plugins", "check"]:
        return command
    kind = command[3].partition(".")[0]
    if kind == "miner":
        return [*command, "--only", "queries or saved or numpy"]
    if kind == "storage":
        return command
    for word in command[command.index("--only") + 1].split(" or "):
        assert any(n.startswith("test_") and word in n for n in dir(SUITES[kind])), word
    return []


def train(environment: FreshEnvironment, folder: Path) -> None:
    """The plugins of the five pages in one supervised run, each with the options of its page; then
    the miner and the observer as `ttf plugins new` wrote them."""
    pages = [command for page in (*SUITES, "observer") for command in commands(page)]
    trains = [command[2:] for command in pages if command[:2] == ["ttf", "train"]]
    assert len(trains) == 5
    short = ["--steps", "3", "--threads", "1", "--json"]
    together = [*(word for words in trains for word in of_the_page(words)), *short]
    done = environment.run("-m", "ttf", "train", *together, "--out", "run", cwd=folder)
    assert done.code == 0, done.out + done.err
    summary = json.loads(done.out)
    assert (summary["status"], summary["miner"]) == ("finished", "coarse")
    assert (summary["steps"], summary["incidents"]) == (3, [])
    lines = (folder / "run" / "loss.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines] == ["1", "2", "3"]
    plugins = json.loads((folder / "run" / "manifest.json").read_text())["numeric"]["plugins"]
    assert {"tower.gated", "device.careful", "miner.coarse"} <= set(plugins)  # the data are .rows

    data = ["--pairs", "demo/pairs.npz", "--bank", "demo/bank.npz"]
    both = ["--miner", MY_INDEX, "--set", f'observers=["{MY_INDEX}"]', *short, "--in-process"]
    done = environment.run("-m", "ttf", "train", *data, *both, "--out", "new", cwd=folder)
    assert done.code == 0, done.out + done.err
    summary = json.loads((folder / "new" / "summary.json").read_text())
    assert (summary["status"], summary["miner"]) == ("finished", MY_INDEX)
    assert "3,loss," in (folder / "new" / f"{MY_INDEX}.csv").read_text()
    for words in trains if ALL_QUESTIONS else ():
        if "pairs.npz" not in words:  # the page of the observer means data of the reader's
            done = environment.run("-m", "ttf", "train", *words, cwd=folder)
            assert done.code == 0 and "finished" in done.out + done.err, done.out + done.err


def of_the_page(words: Sequence[str]) -> list[str]:
    """Options that name the plugin of the page, or are its own."""
    options = zip(words[::2], words[1::2], strict=True)
    return [
        word
        for flag, value in options
        if flag not in ("--steps", "--out") and not value.endswith(".npz") and value != "linear"
        for word in (flag, value)
    ]


@pytest.mark.timeout(900)
@wide
def test_what_ttf_plugins_new_writes_passes_its_own_tests_unedited(
    written: Written, tmp_path: Path
) -> None:
    """One pytest for all kinds, by the settings that each of them has."""
    new = written.new()
    settings = {
        (p / "pyproject.toml").read_text().partition("[tool.pytest")[2] for p in new.values()
    }
    before = files(written.packages)
    own: list[str | Path] = ["-m", "pytest", "-p", "no:cacheprovider", "--import-mode=importlib"]
    own += ["-q", "-rA", "-c", new["tower"] / "pyproject.toml", "--rootdir", written.packages]
    own += [*BRIEFLY, "--basetemp", tmp_path / "basetemp"]
    done = written.environment.run(
        *own,
        *(package / "tests" for package in new.values()),
        cwd=written.packages,
        timeout_s=600,
    )
    assert done.code == 0, done.out[-6000:] + done.err
    assert files(written.packages) == before
    assert len({one.partition("\n[")[0] for one in settings}) == 1
    for kind, package in new.items():
        passed = done.out.count(f"PASSED {package.name}/tests/")
        assert passed >= FEWEST_TESTS[kind], f"{package.name}: {passed}\n{done.out[-6000:]}"


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"}
