"""A configuration that is absurd is refused at once, with exit code 2: too large, too deep, or with
numbers that no run can have."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ttf.config import reference
from ttf.config.files import MOST_BYTES
from ttf.config.resolve import resolve
from ttf.config.toml import MOST_VALUES
from ttf.errors import ConfigError, ExitCode

MANY = 100_000
EXTREMES: tuple[int | float, ...] = (
    0, -1, 2**31, 2**63 - 1, 2**63, 10**30, -(10**30), 1e-30, 1e30, 1.7e308, math.inf, math.nan,
)  # fmt: skip


def refused(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(*args, **kwargs)
    assert caught.value.exit_code == ExitCode.USAGE
    text = str(caught.value)
    assert text.count("\n") < 60 and len(text) < 20_000, "nobody reads a message of that length"
    return text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = " + "[" * MANY + "]" * MANY, "nested more than 16 deep"),
        ("a = " + "{a = " * MANY + "1" + "}" * MANY, "nested more than 16 deep"),
        (".".join(["a"] * MANY) + " = 1", "more than 16 parts"),
        (".".join(['"a"'] * MANY) + " = 1", "more than 16 parts"),
        ("[" + " . ".join(["a"] * MANY) + "]", "more than 16 parts"),
        ("".join(f"k{n} = 1\n" for n in range(MANY // 2)), "more than 2,000 values"),
        ("".join(f"[k{n}]\n" for n in range(MANY)), "more than 2,000 values"),
        ("[evaluate]\nk = [" + "1," * MANY + "]", "more than 2,000 values"),
        ("# " + "x" * MOST_BYTES, "too large for a configuration"),
        ("[train]\nsteps = " + "9" * 5000, "1,000 digits"),
        ("[train]\nsteps = 0x" + "f" * 900, "too large for 64 bits"),
        ('a = """' + '\\"""' * MANY, "Unterminated string"),
        (
            "[" + " " * MANY + "train" + " " * MANY + "]\nlr = 0",
            "train.lr: input should be greater",
        ),
        ("k" * MANY + " = 1", "no such section"),
        ("".join(f"k{n} = 1\n" for n in range(MOST_VALUES)), "and 1,950 more"),
        ("[data]\npairs = '" + "x" * MANY + "'", "at most 4096 characters"),
        ('[data]\npairs = "a\\u0000b"', "NUL character"),
        ("[memory]\nbudget = '" + "9" * 200 + "'", "must be at most"),
        ("[memory]\nbudget = '" + "9" * 250 + "GB'", "must be at most"),
    ],
    ids=lambda value: value[:24].replace("\n", " ") if isinstance(value, str) else "",
)
def test_a_file_that_is_no_configuration_is_refused_at_once(
    text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text)
    assert said in refused(file)


def test_a_pipe_is_no_configuration(tmp_path: Path) -> None:
    pipe = tmp_path / "run.toml"
    os.mkfifo(pipe)
    assert "not a regular file" in refused(pipe)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("train.lr=" + "[" * MANY, "train.lr: input should be a valid number"),
        ("train.seed=" + "9" * 5000, "train.seed: input should be a valid integer"),
        ("a." * MANY + "b=1", "nested more than 16 deep"),
        ("\udcff.x=1", "is not valid Unicode"),
        ("data.pairs=" + "x" * MANY, "at most 4096 characters"),
        ("x" * MANY, "write it as key.path=value"),
    ],
    ids=lambda value: ascii(value[:12]),
)
def test_a_setting_that_is_absurd_is_refused_at_once(setting: str, said: str) -> None:
    assert said in refused(sets=[setting])


def test_a_mapping_of_python_has_the_same_limits() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    assert "nested more than 16 deep" in refused({"train": deep})
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    assert "nested more than 16 deep" in refused(flags={"lr": nested})
    assert "lr=: train.lr: takes numbers, text" in refused(flags={"lr": object()})


def numeric() -> Iterator[tuple[str, str]]:
    """(key, the tower or miner it needs) of every key that takes a number, and lists of them."""
    for section in (*reference.sections(), *reference.plugin_sections(only_ours=True)):
        for key in section.keys:
            if "number" in key.takes and not section.path.startswith("tower.doc"):
                yield key.path, key.plugin


@pytest.mark.parametrize(("key", "plugin"), list(numeric()), ids=lambda value: str(value))
def test_every_number_is_taken_or_refused_and_none_is_a_fault(key: str, plugin: str) -> None:
    tower = {"tower.query.name": plugin.partition(".")[2]} if plugin.startswith("tower.") else {}
    taken = []
    for value in EXTREMES:
        given = [value] if key == "evaluate.k" else value
        try:
            resolve(flags={**tower, key: given})
        except ConfigError as error:
            assert key in str(error)
        else:
            taken.append(value)
    assert not {math.inf, -(10**30), 10**30, 2**63} & {v for v in taken if isinstance(v, int)}
    assert -1 not in taken
    assert 1.7e308 not in taken, "nothing is computed in more than float32"


def test_every_number_has_bounds_on_both_sides() -> None:
    loose = [
        key.path
        for section in (*reference.sections(), *reference.plugin_sections(only_ours=True))
        for key in section.keys
        if "number" in key.takes
        and " from " not in key.takes
        and not ("at least" in key.takes or "above" in key.takes)
        & ("at most" in key.takes or "below" in key.takes)
    ]
    assert not loose


def test_numbers_of_numpy_and_paths_are_taken(tmp_path: Path) -> None:
    config = resolve(
        flags={
            "seed": np.int64(3),
            "lr": np.float32(0.5),
            "epochs": np.uint8(2),
            "pairs": tmp_path / "pairs.npz",
            "evaluate.k": np.array([1, 10]),
            "train.shuffle": np.bool_(False),
        }
    ).config
    assert (config.train.seed, config.train.lr, config.train.epochs) == (3, 0.5, 2)
    assert (config.evaluate.k, config.train.shuffle) == ((1, 10), False)
    assert config.data.pairs == str(tmp_path / "pairs.npz")
