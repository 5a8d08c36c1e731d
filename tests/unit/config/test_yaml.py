"""A configuration in YAML is read like one in TOML: same values, same places, same limits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ttf.config import files
from ttf.config.resolve import resolve
from ttf.config.yaml_text import read
from ttf.errors import ConfigError
from ttf.tools.ab.resolve_task import resolve_arms

MANY = 100_000


def written(folder: Path, text: str, name: str = "run.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def values(text: str) -> dict[str, object]:
    return dict(read(text, Path("run.yaml")).values)


def test_yaml_and_toml_give_the_same_configuration_with_the_same_kind_of_origin(
    tmp_path: Path,
) -> None:
    toml = written(
        tmp_path,
        "[data]\npairs = 'p.npz'\n[train]\nlr = 1e-3\nshuffle = false\nsteps = 5\n"
        "[evaluate]\nk = [1, 10]\n[[gates]]\nat = 'step 1'\nneed = 'recall@10 >= 0.1'\n",
        "run.toml",
    )
    yaml = written(
        tmp_path,
        "data:\n  pairs: p.npz\ntrain:\n  lr: 1e-3\n  shuffle: off\n  steps: 5\n"
        "evaluate: {k: [1, 10]}\ngates:\n- at: step 1\n  need: recall@10 >= 0.1\nmemory:\n",
    )
    from_toml, from_yaml = resolve(toml), resolve(yaml)
    assert from_yaml.config == from_toml.config
    assert from_yaml.config.data.pairs == str(tmp_path / "p.npz")
    assert from_yaml.origins["train.lr"] == "run.yaml:4"
    assert from_yaml.origins["gates"] == "run.yaml:8"


def test_every_problem_has_its_line(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "train:\n  lr: fast\n  epochs: '3'\ngates:\n- at: epoch 0\n  need: x\nmemroy: {a: 1}\n",
    )
    with pytest.raises(ConfigError) as caught:
        resolve(file)
    found = "\n".join(caught.value.problems)
    for expected in (
        "run.yaml:2: train.lr: input should be a valid number (got 'fast')",
        "run.yaml:3: train.epochs: input should be a valid integer (got '3')",
        "run.yaml:5: gates.0.at: must be",
        "run.yaml:6: gates.0.need: must be",
        "memroy: no such section. Did you mean 'memory'?",
    ):
        assert expected in found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 1e5),
        ("5.", 5.0),
        ("1_000", 1000),
        ("0x10", 16),
        ("010", "010"),
        ("1:30", "1:30"),
        ("2026-11-19", "2026-11-19"),
        ("1__0", "1__0"),
        ("On", True),
        ("no", False),
        ("'no'", "no"),
        ("~", None),
        ("none", "none"),
        ("|\n    two\n    lines", "two\nlines\n"),
        ("1" * 50 + "x", "1" * 50 + "x"),
    ],
)
def test_what_versions_of_yaml_read_differently(text: str, value: object) -> None:
    found = values(f"a:\n  b: {text}\n")["a"]
    assert found == {"b": value} and isinstance(found, dict)
    assert type(found["b"]) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x 1\nb: *x\n", "run.yaml:1: anchors and aliases (&x) are not read"),
        ("a: !!python/object/apply:os.system ['true']\n", "run.yaml:1: tags"),
        ("a: 1\n---\nb: 2\n", "run.yaml:2: a second document starts here"),
        ("- a\n- b\n", "it must be a table of keys"),
        ("? [a, b]\n: 1\n", "run.yaml:1: a key must be a plain word"),
        ("a:\n\tb: 1\n", "is not valid YAML: while scanning for the next token, found character"),
        ("a: [1, 2\n", "is not valid YAML"),
        ("a: 'b\n", "is not valid YAML"),
        ("a: \0\n", "is not valid YAML: unacceptable character"),
        ("a: " + "[" * MANY, "nested more than 16 deep"),
        ("a: " + "{b: " * MANY, "nested more than 16 deep"),
        ("- " * 5000 + "a", "nested more than 16 deep"),
        ("".join(f"k{n}: 1\n" for n in range(MANY // 2)), "more than 2,000 values"),
        ("a: [" + "1," * MANY + "]", "more than 2,000 values"),
        ("a: " + "9" * 5000, "1,000 digits"),
        ("# " + "x" * files.MOST_BYTES, "too large for a configuration"),
    ],
    ids=lambda value: value[:20].replace("\n", " ").replace("\0", "NUL"),
)
def test_a_file_that_is_no_configuration_is_refused_at_once(
    text: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(written(tmp_path, text))
    assert said in str(caught.value) and caught.value.exit_code == 2
    assert len(str(caught.value)) < 1000


def test_keys_given_twice_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(written(tmp_path, "train:\n  lr: 1\n  lr: 2\nloss: {}\ntrain:\n  lr: 3\n"))
    assert caught.value.problems == (
        "run.yaml:3: the key 'lr' is given twice (first in line 2)",
        "run.yaml:5: the key 'train' is given twice (first in line 1)",
    )


def test_arms_of_a_comparison_may_be_yaml(tmp_path: Path) -> None:
    file = written(tmp_path, "train: {steps: 5}\nevaluate: {every: 2}\n", "arm.YML")
    (arm,) = resolve_arms({"arms": [{"toml": str(file), "sets": []}]}, lambda *_: None)["arms"]
    assert arm["problems"] == [] and arm["steps"] == 5 and arm["says_when"]


def test_an_empty_file_is_the_default(tmp_path: Path) -> None:
    assert resolve(written(tmp_path, "# nothing\n")).config == resolve().config


def test_without_pyyaml_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)  # then `import yaml` raises ImportError
    with pytest.raises(ConfigError, match="PyYAML, which reads it, is not installed") as caught:
        resolve(written(tmp_path, "train: {lr: 1}\n"))
    assert "pip install pyyaml" in caught.value.hint
