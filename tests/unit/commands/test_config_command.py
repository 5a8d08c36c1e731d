"""`ttf config`: values with origins before a run, one key explained, a schema."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from ttf.config.resolve import resolve
from ttf.config.toml import dump

if TYPE_CHECKING:
    from tests.conftest import Invoke


def test_show_is_toml_with_the_origin_of_every_value(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[train]\nepochs = 3\n")
    given = ["--lr", "0.5", "--tower", "gru", "--set", "miner.name=hnswlib"]
    result = invoke(["config", "show", file, *given])
    assert result.code == 0, result.err
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    for line in (
        "epochs = 3 # mine.toml:2",
        "lr = 0.5 # --lr",
        'name = "hnswlib" # --set',
        "hidden = 256 # default",
        "M = 32 # default",
    ):
        assert line in lines
    again = tmp_path / "again.toml"
    again.write_text(result.out)
    repeated = invoke(["config", "show", again, "--json"]).json()["values"]
    first = invoke(["config", "show", file, *given, "--json"])
    assert {key: value["value"] for key, value in repeated.items()} == {
        key: value["value"] for key, value in first.json()["values"].items()
    }
    assert first.json()["values"]["train.lr"] == {"value": 0.5, "origin": "--lr"}


def test_show_reads_the_folder_of_a_run(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(dump(resolve(flags={"--lr": 0.25})))
    shown = invoke(["config", "show", tmp_path, "--json"]).json()["values"]
    assert shown["train.lr"] == {"value": 0.25, "origin": "--lr"}
    assert shown["train.epochs"]["origin"] == "default"


def test_show_tells_every_problem(invoke: Invoke) -> None:
    result = invoke(["config", "show", "--lr", "0", "--set", "miner.kk=3"])
    assert (result.code, result.out) == (2, "")
    assert "The configuration has 2 problems:" in result.err
    assert "hint: To see what a key takes: ttf config explain train.lr" in result.err


def test_explain_tells_what_a_key_takes_its_unit_and_its_default(invoke: Invoke) -> None:
    result = invoke(["config", "explain", "supervise.hang_timeout_s"])
    assert result.code == 0
    assert (
        "  takes    a number from 1 to 2,592,000, or text like '90s', '10m' or '2h', or 'auto'\n"
        in result.out
    )
    assert "  unit     s\n" in result.out
    assert '  default  "auto"\n' in result.out
    assert "--set supervise.hang_timeout_s=..." in result.out
    (section,) = invoke(["config", "explain", "--lr", "--json"]).json()["sections"]
    (key,) = section["keys"]
    assert (key["path"], key["flag"], key["default"]) == ("train.lr", "--lr", "0.001")


def test_explain_without_a_key_lists_the_sections(invoke: Invoke) -> None:
    listed = invoke(["config", "explain"]).out
    assert "supervise     What the supervisor does about a process that dies or hangs.\n" in listed


def test_an_unknown_key_is_an_error_with_the_closest(invoke: Invoke) -> None:
    result = invoke(["config", "explain", "negativs"])
    assert result.code == 2
    assert "No key or section named 'negativs'. Did you mean 'negatives'?" in result.err


def test_explain_of_deaths_finds_keys_too(invoke: Invoke) -> None:
    assert (
        "share of queries that must have a candidate after the filter"
        in invoke(["explain", "min_yield"]).out
    )
    assert "Did you mean 'min_yield'?" in invoke(["explain", "min_yeld"]).err
    assert "Did you mean 'segfault'?" in invoke(["explain", "segfalt"]).err
    assert "incident class" in invoke(["explain", "xyzzy"]).err
    assert invoke(["explain", "hang"]).out.startswith("# hang")


def test_the_schema_is_json(invoke: Invoke) -> None:
    document = json.loads(invoke(["config", "schema"]).out)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert set(document["properties"]) == set(tomllib.loads(dump(resolve()))) | {"gates"}
