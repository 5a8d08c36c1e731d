"""Everything wrong with a configuration is said at once, each with its place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ttf.config.resolve import resolve
from ttf.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from tests.conftest import FakeDistribution


def problems_of(*args: object, **kwargs: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        resolve(*args, **kwargs)  # type: ignore[arg-type]
    assert caught.value.exit_code == ExitCode.USAGE
    return caught.value.problems


def test_all_layers_report_together(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        "[data]\npairz = 'x'\n[train]\nlr = 'fast'\nepochs = true\n[miner]\nrefresh = 'never'\n"
        "kk = 3\n[miner.hnswlb]\nM = 3\n[evaluate]\nmetric = 'recall@11'\n"
        "[[gates]]\nat = 'epoch 0'\nneed = 'recall@500'\n"
    )
    found = problems_of(file, ["oops", "trian.lr=1"], {"--seed": -1, "--tower": "gruu"})
    text = "\n".join(found)
    for expected in (
        "--set oops: write it as key.path=value",
        "run.toml:2: data.pairz: no such key. Did you mean 'pairs'?",
        "run.toml:4: train.lr: input should be a valid number (got 'fast')",
        "run.toml:5: train.epochs: input should be a valid integer (got True)",
        "run.toml:7: miner.refresh: input should be 'epoch' or 'auto' or input should be a valid integer",
        "run.toml:8: miner.kk: no such key. Did you mean 'k'?",
        "run.toml:9: miner.hnswlb: no miner named 'hnswlb'. Did you mean 'hnswlib'?",
        "run.toml:12: evaluate.metric: 'recall@11' is not a metric of this run. Did you mean 'recall@1",
        "run.toml:14: gates.0.at: must be 'epoch N' or 'step N' (got 'epoch 0')",
        "run.toml:15: gates.0.need: must be like 'recall@500 >= 0.25'",
        "--set: trian: no such section. Did you mean 'train'?",
        "--seed: train.seed: input should be greater than or equal to 0 (got -1)",
        "--tower: tower.query.name: no tower named 'gruu'. Did you mean 'gru'?",
    ):
        assert expected in text
    assert len(found) == 13


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (["train=3"], "train: must be a table with keys (epochs, steps"),
        (["train.lr.x=3"], "train.lr: input should be a valid number"),
        (
            ["train.lr=3", "train.lr.x=3"],
            "train.lr: has a value (3), but other settings use it as a table with keys (x)",
        ),
        (["train.lr=inf"], "train.lr: must be a finite number (got inf)"),
        (["train.lr=0"], "train.lr: input should be greater than 0 (got 0)"),
        (["train.steps=1.5"], "train.steps: input should be a valid integer"),
        (["miner.fallback=exact"], "miner.fallback: input should be a list (got 'exact')"),
        (["miner.fallback=[3]"], "miner.fallback.0: input should be a valid string (got 3)"),
        (["miner.fallback=['exat']"], "miner.fallback: no miner named 'exat'."),
        (["memory.budget=lots"], "memory.budget: not a size: 'lots'"),
        (["observers=['mlfow']"], "observers: no observer named 'mlfow'."),
        (["data.storage=zar"], "data.storage: no storage named 'zar'. Did you mean 'zarr'?"),
        (["data.bank=b.npz"], "data.bank: bank works only together with pairs: add --pairs FILE"),
        (["device.cpu.thraeds=3"], "device.cpu.thraeds: no such option."),
        (["tower.query.hiden=3"], "tower.query.hiden: no such option. Did you mean 'hidden'?"),
        (["tower.query.nmae=mlp"], "tower.query.nmae: no such option. Did you mean 'name'?"),
        (["tower.query.hidden=0"], "tower.query.hidden: input should be greater than or equal"),
        (["tower.third.name=gru"], "tower.third: no such key. Known: doc, query."),
        (["miner.name=3"], "miner.name: input should be a valid string (got 3)"),
        (["gates=[{at='epoch 1'}]"], "gates.0.need: is missing"),
        (["gates=[{at='epoch 1', need='recall@10 >= 0..5'}]"], "gates.0.need: '0..5' is not a"),
        (["gates=3"], "gates: input should be a list (got 3)"),
        (["data.pairs=\udcff.npz"], "data.pairs: is not valid Unicode"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_one_wrong_value_gives_one_problem(sets: list[str], expected: str) -> None:
    found = problems_of(sets=sets)
    assert [p for p in found if p.removeprefix("--set: ").startswith(expected)], found
    assert len(found) == 1, found


def test_a_flag_python_does_not_know_gets_the_closest() -> None:
    (problem,) = problems_of(flags={"batch_siz": 3})
    assert problem.startswith("batch_siz: no such option. Did you mean 'batch_size'?")


def test_python_is_told_the_name_of_its_argument() -> None:
    (problem,) = problems_of(flags={"epoch": 3})
    assert problem == "epoch: no such option. Here it is train.epochs (epochs=)."


@pytest.mark.parametrize(
    "text",
    ["[train]\nlr = 1.0\nlr = 2.0\n", "[train]\nlr = 1.0\n[train]\nseed = 1\n"],
    ids=["a key", "a section"],
)
def test_a_key_that_is_there_twice_is_not_blamed_on_quotes(text: str, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match="is not valid TOML") as caught:
        resolve(file)
    assert "once" in caught.value.hint and "quotes" not in caught.value.hint


def test_a_wrong_value_of_an_own_key_is_no_reason_to_convert_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[train]\nbatch_size = 8\n")
    for flags in ({"batch_size": 0}, {"--batch-size": 0}):
        with pytest.raises(ConfigError, match="batch_size") as caught:
            resolve(file, flags=flags)
        assert "config convert" not in caught.value.hint
        assert "config explain train.batch_size" in caught.value.hint


@pytest.mark.parametrize("name", ["run.toml", "run.yaml"])
def test_the_byte_order_mark_of_an_editor_is_no_part_of_the_file(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    text = "[train]\nseed = 7\n" if name.endswith("toml") else "train:\n  seed: 7\n"
    file.write_text(text, encoding="utf-8-sig")
    assert resolve(file).config.train.seed == 7


def test_no_toml_names_file_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[train]\nlr = = 3\n")
    with pytest.raises(ConfigError, match=r"run.toml is not valid TOML: .*line 2, column 6"):
        resolve(file)


def test_a_missing_file_gets_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "novels.toml").write_text("")
    with pytest.raises(ConfigError, match=r"Did you mean 'novels.toml'\?"):
        resolve(tmp_path / "novel.toml")
    with pytest.raises(ConfigError, match="does not exist either"):
        resolve(tmp_path / "nowhere" / "novel.toml")


def test_a_folder_and_a_binary_file_are_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder") as caught:
        resolve(tmp_path)
    assert f"ttf resume {tmp_path}" in caught.value.hint
    (tmp_path / "pairs.npz").write_bytes(b"PK\x03\x04\xff\xff")
    with pytest.raises(ConfigError, match="byte 4 is not UTF-8"):
        resolve(tmp_path / "pairs.npz")


def test_a_plugin_that_cannot_run_here_is_a_problem_with_its_fix(
    fake_plugins: FakeDistribution,
) -> None:
    fake_plugins.add("ttf-foo", {"miner.foo": "ttf_foo_unavailable"})
    fake_plugins.module(
        "ttf_foo_unavailable",
        """
from ttf.contracts import Availability
from ttf.hookspecs import hookimpl
from ttf.host.options import NoOptions
class Factory:
    name, options_type = "foo", NoOptions
    def availability(self):
        return Availability(ok=False, reason="libfoo is missing.", fix='pip install "ttf-foo[lib]"')
@hookimpl
def ttf_miner(name):
    return Factory()
""",
    )
    (problem,) = problems_of(flags={"--miner": "foo"})
    assert "libfoo is missing" in problem
    assert 'pip install "ttf-foo[lib]"' in problem
    # Its table alone is checked, not whether it runs: the run does not use it.
    assert resolve(sets=["miner.foo={}"]).config.miner.options_of("foo") == {}
    (problem,) = problems_of(sets=["miner.foo.M=3"])
    assert problem == "--set: miner.foo.M: no such option."


def test_only_the_chosen_plugins_are_loaded(fake_plugins: FakeDistribution) -> None:
    fake_plugins.add("ttf-bad", {"tower.bad": "ttf_bad_tower", "miner.bad": "ttf_bad_tower"})
    fake_plugins.module("ttf_bad_tower", "raise RuntimeError('loaded')")
    resolve()
    (problem,) = problems_of(flags={"--tower": "bad"})
    assert "ttf-bad 1.0 failed to load: RuntimeError: loaded" in problem
