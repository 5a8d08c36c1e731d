"""A study of commands that somebody else wrote runs nothing on its own."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Invoke

from ttf.errors import ConfigError
from ttf.rundir.cache import cache_dir
from ttf.tools.ab.study import ABStudy, begin_commands, commands_setup
from ttf.tools.bisect.command_runs import CommandExperiment, prepare_command
from ttf.tools.bisect.study import BisectStudy
from ttf.tools.studies.guarded_run import since_then

_WORDS = ("python3", "train.py")
_VARIED = ("env:XQ=1",)


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("LD_PRELOAD", raising=False)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on, this is the machine of somebody else."""
    return lambda: monkeypatch.setenv("TTF_HOME", str(tmp_path / "another-home"))


def bisection(words: tuple[str, ...] = _WORDS) -> CommandExperiment:
    return prepare_command(
        words,
        vary=_VARIED,
        run_limit_s=None,
        hang_timeout_s=None,
        seed=0,
        confidence=0.99,
        rarest=0.2,
    )


def begun(setup: CommandExperiment | None = None) -> Path:
    study = BisectStudy(folder=Path("study"), setup=setup or bisection()).begin()
    study.close()
    return study.folder


def change(folder: Path, **values: Any) -> None:
    document = json.loads((folder / "study.json").read_text())
    document["command"].update(values)
    (folder / "study.json").write_text(json.dumps(document))


def test_a_study_that_was_started_here_goes_on_without_its_command() -> None:
    folder = begun()
    BisectStudy.open(folder).close()
    (note,) = (cache_dir() / "studies").iterdir()
    assert stat.S_IMODE(note.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "changed",
    [
        {"words": ["sh", "-c", "id > P"]},
        {"cwd": "/"},
        {"pins": {"LD_PRELOAD": "./x.so"}},
        {"pins": {"PATH": "."}},
        {"factors": [{"name": "env:A", "what": "A", "edits": {"env:LD_PRELOAD": "./x.so"}}]},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_a_study_that_was_changed_or_received_is_refused_with_what_it_would_run(
    changed: Mapping[str, Any], elsewhere: Callable[[], None]
) -> None:
    folder = begun()
    change(folder, **changed)
    with pytest.raises(ConfigError, match="does not run what is written") as refused:
        BisectStudy.open(folder)
    told = {"words": "sh -c 'id > P'", "cwd": "in the folder: /", "factors": "LD_PRELOAD=./x.so"}
    values = {**told, "pins": "=".join(next(iter(changed.get("pins", {"": ""}).items())))}
    assert values[next(iter(changed))] in str(refused.value)
    named = Path("study").absolute() if "cwd" in changed else "study"
    assert f"ttf bisect --resume {named} --command --vary" in refused.value.hint
    # Also the same command line of its new owner runs nothing but what it says.
    elsewhere()
    with pytest.raises(ConfigError, match="something else than you have given") as differs:
        BisectStudy.open(folder, given=bisection())
    assert any(problem.startswith("there: ") for problem in differs.value.problems)
    assert not (Path("home") / "another-home").exists()


def test_whoever_gives_the_same_command_again_may_go_on_from_then_on(
    elsewhere: Callable[[], None],
) -> None:
    folder = begun()
    elsewhere()
    with pytest.raises(ConfigError, match="does not run"):
        BisectStudy.open(folder)
    BisectStudy.open(folder, given=bisection()).close()
    BisectStudy.open(folder).close()


def test_the_note_of_another_user_or_one_that_others_may_write_counts_for_nothing() -> None:
    folder = begun()
    (note,) = (cache_dir() / "studies").iterdir()
    note.chmod(0o660)
    with pytest.raises(ConfigError, match="does not run"):
        BisectStudy.open(folder)


def test_what_is_shown_of_a_received_study_cannot_forge_lines_or_obey_the_terminal(
    elsewhere: Callable[[], None],
) -> None:
    folder = begun(bisection(("sh", "-c", "id\n\x1b[2Kerror: all well", "train.py")))
    elsewhere()
    with pytest.raises(ConfigError) as refused:
        BisectStudy.open(folder)
    assert "\x1b" not in str(refused.value) + refused.value.hint
    assert "\nerror:" not in str(refused.value)


def test_a_study_that_began_under_a_preloaded_library_does_not_load_it_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as preloaded:
        preloaded.setenv("LD_PRELOAD", "/nowhere/x.so")
        folder = begun()
        BisectStudy.open(folder).close()
    with pytest.raises(ConfigError, match=r"began with LD_PRELOAD=/nowhere/x\.so, which is not"):
        BisectStudy.open(folder)


def test_pins_set_variables_of_native_libraries_only_and_none_that_loads_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    pins = {
        "OMP_NUM_THREADS": "2",
        "LD_PRELOAD": "./x.so",
        "OMP_TOOL_LIBRARIES": "./x.so",
        "CUDA_INJECTION64_PATH": "./x.so",
        "NCCL_NET_PLUGIN": "./x.so",
        "PYTHONPATH": ".",
        "BASH_ENV": "x.sh",
    }
    assert set(pins) & {name for name, value in since_then(pins).items() if value} == {
        "OMP_NUM_THREADS"
    }


def test_the_commands_of_a_received_comparison_are_those_that_run_not_the_names_of_its_arms(
    elsewhere: Callable[[], None],
) -> None:
    texts = ["true", "python3 b.py | tee log"]
    study = begin_commands(texts, out=Path("study"))
    study.close()
    ABStudy.reopened(study.folder, 12).close()
    document = json.loads((study.folder / "study.json").read_text())
    elsewhere()
    with pytest.raises(ConfigError) as refused:
        ABStudy.open(study.folder)
    assert refused.value.hint.endswith("--command true --command 'python3 b.py | tee log'")
    document["setup"]["arms"][0]["words"] = ["sh", "-c", "id > P"]
    (study.folder / "study.json").write_text(json.dumps(document))
    with pytest.raises(ConfigError, match=r"there: command: sh -c 'id > P'"):
        ABStudy.open(study.folder, given=commands_setup(texts))


@pytest.mark.parametrize("again", [[], ["--command", "--vary", *_VARIED, "--", *_WORDS]])
def test_ttf_bisect_refuses_a_received_study_and_runs_nothing(
    again: list[str], elsewhere: Callable[[], None], invoke: Invoke
) -> None:
    folder = begun()
    change(folder, words=["sh", "-c", "id > P"])
    elsewhere()
    refused = invoke(["bisect", "--resume", folder, *again])
    assert refused.code == 2
    assert "sh -c 'id > P'" in refused.err
    assert not Path("P").exists()
    assert not (folder / "runs").exists()


def test_ttf_ab_refuses_a_received_study_and_runs_nothing(
    elsewhere: Callable[[], None], invoke: Invoke
) -> None:
    begin_commands(["touch P", "touch Q"], out=Path("study")).close()
    elsewhere()
    refused = invoke(["ab", "--resume", "study"])
    assert refused.code == 2
    assert "--command 'touch P' --command 'touch Q'" in refused.err
    assert not Path("P").exists()
    assert not Path("study/runs").exists()
