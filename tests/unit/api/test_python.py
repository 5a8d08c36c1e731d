"""Python as people use it: typed options, values of NumPy, errors, results that show themselves."""

from __future__ import annotations

import contextlib
import inspect
import threading
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, SupportsFloat, SupportsIndex

import numpy as np
import pytest

import ttf
from ttf import api
from ttf.config import overrides, reference
from ttf.config.resolve import FLAGS
from ttf.errors import ExitCode, Told
from ttf.process.error_document import from_document, to_document
from ttf.text.html import columns_table, facts_table

SUMMARY: Mapping[str, Any] = {
    "status": "finished",
    "steps": 712,
    "metrics": {"recall@10": 0.43, "mrr@10": 0.2},
    "metrics_initial": {"recall@10": 0.38},
    "chosen_by": "recall@10",
    "miner": "<script>",
}


def _mypy_refuses_what_no_option_takes() -> None:
    """Never called: the ignores below are errors for mypy --strict as soon as it takes the line."""
    ttf.train("run.toml", lr="fast")  # type: ignore[arg-type]
    ttf.train("run.toml", epocs=3)  # type: ignore[call-arg]
    ttf.train("run.toml", precision="fp64")  # type: ignore[arg-type]
    ttf.plan("run.toml", steps=1.5)  # type: ignore[arg-type]
    ttf.mine(out="c.npz", k="many")  # type: ignore[arg-type]
    ttf.train(Path("run.toml"), lr=np.float32(0.1), seed=np.int64(3), batch_size="auto", bank="b")


# --- options -------------------------------------------------------------------------------------


def test_the_typed_options_are_the_flags_of_train() -> None:
    named = {flag.removeprefix("--").replace("-", "_"): key for flag, key in FLAGS.items()}
    hints = typing.get_type_hints(overrides.Overrides)
    assert list(hints) == list(named)
    for name, key in named.items():
        (found,) = [k for s in reference.sections() for k in s.keys if k.path == key]
        kinds = typing.get_args(hints[name]) or (hints[name],)
        words = {w for kind in kinds if typing.get_origin(kind) is Literal for w in kind.__args__}
        if typing.get_origin(hints[name]) is Literal:
            words = set(kinds)
        assert (SupportsIndex in kinds) == ("whole number" in found.takes), name
        assert (SupportsFloat in kinds) == (" number" in found.takes and "whole" not in found.takes)
        assert ("auto" in words) == ("'auto'" in found.takes and "name of" not in found.takes), name
        assert all(repr(word) in found.takes for word in words), name


def test_the_typed_options_of_mine_are_keys() -> None:
    assert set(typing.get_type_hints(overrides.MineOverrides)) == set(api._MINE_KEYS)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lr": object()}, "lr: takes numbers, text, true, false and lists, not object"),
        ({"sets": {"train.seed": {1}}}, "train.seed: takes numbers, text"),
        ({"config": 3}, "config= takes a path, not a value of type int"),
    ],
)
def test_a_value_that_no_file_could_hold_is_refused_before_there_is_a_folder(
    given: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ttf.ConfigError) as caught:
        ttf.train(**given)
    assert said in str(caught.value)
    assert list(tmp_path.rglob("run-*")) == []


def test_an_array_is_no_path_and_is_not_printed() -> None:
    with pytest.raises(ttf.ConfigError, match=r"uri= takes a path, not a value of type ndarray"):
        ttf.open_vectors(np.zeros((1000, 8)))  # type: ignore[arg-type]


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ttf.ConfigError) as caught:
        ttf.plan(tower="gruu", miner="fais", sets={"train.epcohs": 3, "lr": 0})
    assert len(caught.value.problems) == 4


# --- a run that was stopped ----------------------------------------------------------------------


def test_a_loop_that_ignores_exceptions_ends_at_ctrl_c() -> None:
    begun = []
    with pytest.raises(KeyboardInterrupt) as caught:
        for number in range(3):
            with contextlib.suppress(Exception):
                begun.append(number)
                raise ttf.Stopped(2, "Stopped by SIGINT.", hint="ttf resume runs/run-001")
    assert begun == [0]
    assert isinstance(caught.value, ttf.Stopped)
    assert caught.value.exit_code == ExitCode.INTERRUPTED


@pytest.mark.parametrize(("signum", "code"), [(2, 130), (15, 143)])
def test_stopped_crosses_processes_as_itself(signum: int, code: int) -> None:
    stopped = ttf.Stopped(signum, "It was stopped.", hint="continue")
    stopped.details = {"run_dir": "runs/run-001"}
    document = to_document(stopped)
    assert (document["known"], document["exit_code"]) == (True, code)
    again: Told = from_document(document)
    assert isinstance(again, ttf.Stopped)
    assert (str(again), again.hint, int(again.exit_code)) == ("It was stopped.", "continue", code)
    assert again.details == {"run_dir": "runs/run-001"}


# --- results -------------------------------------------------------------------------------------


def test_a_run_shows_itself_in_a_line_and_as_a_table() -> None:
    run = ttf.Run(path=Path("runs/run-001"), summary=SUMMARY)
    assert repr(run) == (
        "Run('runs/run-001': finished, 712 steps, recall@10 0.4300 (before training 0.3800))"
    )
    page = run._repr_html_()
    assert "recall@10" in page and "0.4300  (before training 0.3800)" in page
    assert "&lt;script&gt;" in page and "<script>" not in page


def test_html_of_names_of_others_is_escaped() -> None:
    for page in (
        facts_table("<b>", [("<i>", "<u>\x1b[2J")]),
        columns_table("<b>", ["<i>"], [["<u>\x1b[2J"]]),
    ):
        assert not {"<b><b>", "<i>", "<u>", "\x1b"} & {part for part in (page,) if part in page}
        assert "&lt;i&gt;" in page and "&lt;u&gt;\\x1b[2J" in page


def test_results_and_errors_that_one_meets_are_public() -> None:
    for name in [
        "Run",
        "Plan",
        "Mined",
        "Found",
        "Compared",
        "Diagnosis",
        "Guarded",
        "Reported",
        "Stopped",
        "GateNotMet",
    ]:
        assert inspect.isclass(getattr(ttf, name)), name


def test_help_says_what_there_is() -> None:
    text = inspect.getdoc(ttf) or ""
    functions = "train resume plan load evaluate mine compare doctor guard report open_vectors"
    for name in functions.split():
        assert name in text
        assert inspect.getdoc(getattr(ttf, name)), name


# --- the other commands --------------------------------------------------------------------------


def test_doctor_is_true_where_no_check_fails() -> None:
    found = ttf.doctor(checks=["memory", "ulimits"])
    assert found and found.ok and found.exit_code == ExitCode.DONE
    assert [check["id"] for check in found.to_json()["checks"]] == ["memory", "ulimits"]
    assert repr(found).startswith("Diagnosis(")
    assert "<td>memory</td>" in found._repr_html_()
    with pytest.raises(ttf.ConfigError, match="needs? a configuration"):
        ttf.doctor(checks=["data"])


def test_report_needs_the_folder_of_a_run(tmp_path: Path) -> None:
    with pytest.raises(ttf.BadData, match="is not the folder of a run"):
        ttf.report(tmp_path)
    (tmp_path / "summary.json").write_text("{}")
    with pytest.raises(ttf.ConfigError, match="out .* is a folder"):
        ttf.report(tmp_path, out=tmp_path)
    made = ttf.report(tmp_path)
    assert made.path == tmp_path / "report.html" and made.path.is_file()


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ("python train.py", {}, "takes a list of words"),
        (["true"], {"memory_limit": "lots"}, "memory_limit: not a size"),
        (["true"], {"restarts": -1}, "restarts is -1; it must be at least 0"),
        (["true"], {"hang_timeout_s": float("nan")}, "hang_timeout_s is nan"),
    ],
)
def test_guard_refuses_what_it_cannot_do(command: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ttf.ConfigError, match=said):
        ttf.guard(command, **options)


def test_guard_works_in_the_main_thread_only() -> None:
    raised: list[BaseException] = []

    def call() -> None:
        with contextlib.suppress(ttf.ConfigError):
            ttf.guard(["true"])
            return
        raised.append(ttf.ConfigError("as it should"))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert raised
