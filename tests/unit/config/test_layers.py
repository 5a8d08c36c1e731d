"""Who wins, and who is named as the origin."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttf.config.declare import Section
from ttf.config.resolve import FLAGS, SECTIONLESS, Resolved, parse_value, resolve
from ttf.config.schema import RunConfig
from ttf.errors import ConfigError


def write(folder: Path, text: str, name: str = "run.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems_of(*args: object, **kwargs: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        resolve(*args, **kwargs)  # type: ignore[arg-type]
    return caught.value.problems


def test_nothing_given_is_the_demo_with_defaults_everywhere() -> None:
    resolved = resolve()
    assert resolved.config == RunConfig()
    assert set(resolved.origins.values()) == {"default"}


def test_each_layer_wins_over_the_one_before_and_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "[train]\nlr = 0.1\nepochs = 2\nseed = 3\n")
    resolved = resolve(file, ["train.epochs=4", "train.seed=5"], {"--seed": 6})
    train = resolved.config.train
    assert (train.lr, train.epochs, train.seed, train.accumulate) == (0.1, 4, 6, 1)
    assert origins(resolved, "lr", "epochs", "seed", "accumulate") == [
        "run.toml:2",
        "--set",
        "--seed",
        "default",
    ]


def origins(resolved: Resolved, *keys: str) -> list[str]:
    return [resolved.origins[f"train.{key}"] for key in keys]


def test_flags_set_the_keys_the_contract_names() -> None:
    values = {
        "--memory-bank": 7,
        "--batch-size": 8,
        "--accum": 9,
        "--precision": "bf16",
        "--isolation": "none",
    }
    config = resolve(flags=values).config
    assert config.loss.memory_bank == 7
    assert (config.train.batch_size, config.train.accumulate) == (8, 9)
    assert (config.device.precision, config.miner.isolation) == ("bf16", "none")


def test_every_flag_names_a_key_that_exists() -> None:
    known = set(resolve().origins)
    assert set(FLAGS.values()) <= known


def test_python_overrides_are_named_like_flags_or_keys() -> None:
    resolved = resolve(flags={"lr": 0.5, "train.seed": 2, "batch_size": 4})
    assert resolved.config.train.lr == 0.5
    assert resolved.origins["train.lr"] == "lr="
    assert resolved.origins["train.seed"] == "train.seed="
    assert resolved.config.train.batch_size == 4


def test_a_mapping_can_stand_for_the_file() -> None:
    resolved = resolve({"train": {"lr": 0.5}, "evaluate": {"k": (1, 10)}})
    assert resolved.config.evaluate.k == (1, 10)
    assert resolved.origins["train.lr"] == "argument"


def test_paths_in_a_file_are_relative_to_it_and_others_to_where_we_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    file = write(tmp_path, "[data]\npairs = 'p.npz'\ncontext = 's3://bucket/c.zarr'\n")
    data = resolve(file, ["train.init=../w.safetensors"], {"--bank": Path("b.npz")}).config.data
    assert data.pairs == str(tmp_path / "p.npz")
    assert data.bank == str(here / "b.npz")
    assert data.context == "s3://bucket/c.zarr"
    init = resolve(file, ["train.init=../w.safetensors"]).config.train.init
    assert init == str(tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ("'3'", "3"),
        ("hnswlib", "hnswlib"),
        ("a/b.npz", "a/b.npz"),
        ("recall@10", "recall@10"),
        ("", ""),
        ("1\nother = 2", "1\nother = 2"),
        ("x = y", "x = y"),
    ],
)
def test_values_of_set_are_toml_and_bare_words_are_strings(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_lines_are_found_in_every_way_toml_writes_a_key(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '# a comment\ntrain.lr = 0.1\n[data.names]\nX_train = "q"\n[tower]\n'
        'query = { name = "linear" }\n["loss"]\n"temperature" = 0.1\n[evaluate]\nk = [\n 1,\n 10,\n]\n'
        'metric = "recall@1"\n[[gates]]\nat = "epoch 1"\nneed = "recall@1 > 0"\n',
    )
    found = resolve(file).origins
    assert found["train.lr"] == "run.toml:2"
    assert found["data.names.X_train"] == "run.toml:4"
    assert found["tower.query.name"] == "run.toml:6"
    assert found["loss.temperature"] == "run.toml:8"
    assert found["evaluate.metric"] == "run.toml:14"
    assert found["gates"] == "run.toml:15"


def test_a_table_without_keys_is_not_the_origin_of_its_defaults(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("[train]\n# lr = 0.001\n[tower.query]\n[miner]\nk = 5\n")
    found = resolve(file, ["train.seed=3"])
    assert found.origins["train.lr"] == found.origins["tower.query.name"] == "default"
    assert found.origins["miner.k"] == "run.toml:5"
    assert found.origins["train.seed"] == "--set"
    file.write_text("\n[trian]\n")
    with pytest.raises(ConfigError, match="run.toml:2: trian"):
        resolve(file)


def test_keys_inside_a_multi_line_string_are_no_keys(tmp_path: Path) -> None:
    file = write(tmp_path, "[data.names]\nX_train = '''\n[train]\nlr = 1\n'''\n[train]\nlr = 2\n")
    assert resolve(file).origins["train.lr"] == "run.toml:7"


def test_a_tower_chosen_anew_leaves_out_the_options_of_the_old_one_and_says_so(
    tmp_path: Path,
) -> None:
    file = write(tmp_path, "[tower.query]\nname = 'gru'\nhidden = 64\n")
    resolved = resolve(file, flags={"--tower": "linear"})
    assert resolved.config.tower.query.options() == {}
    (note,) = resolved.notes
    assert note.startswith("tower.query is now 'linear' (--tower). The options of the tower 'gru'")
    assert note.endswith("are not used: hidden.")
    same = resolve(file, flags={"--tower": "gru"})
    assert same.config.tower.query.options() == {"hidden": 64}
    assert same.notes == ()


def test_options_alone_belong_to_the_default_tower(tmp_path: Path) -> None:
    file = write(tmp_path, "[tower.query]\nhidden = 64\n")
    query = resolve(file).config.tower.query
    assert (query.name, query.options()) == ("gru", {"hidden": 64})
    assert resolve(file).origins["tower.query.name"] == "default"


def test_options_alone_over_items_belong_to_the_embedding_tower() -> None:
    """A tower over items is always that one: it was refused, with the options of gru."""
    resolved = resolve(sets=["data.items=100", "data.pairs=p.npz", "tower.query.pool=gru"])
    query = resolved.config.tower.query
    assert (query.name, query.options()) == ("embedding", {"pool": "gru"})


def test_none_switches_off_what_has_a_value_by_default() -> None:
    config = resolve(sets=["checkpoint.every_s=none", "negatives.relative_margin=none"]).config
    assert config.checkpoint.every_s is None
    assert config.negatives.relative_margin is None
    assert problems_of(sets=["train.lr=none"]) == (
        "--set: train.lr: input should be a valid number (got 'none')",
    )


def test_options_set_beside_the_tower_flag_are_that_towers() -> None:
    resolved = resolve(sets=["tower.query.hidden=64"], flags={"--tower": "mlp"})
    assert resolved.config.tower.query.options() == {"hidden": 64}
    assert resolved.notes == ()


def test_python_sets_the_keys_outside_any_section_too() -> None:
    gates = [{"at": "epoch 1", "need": "recall@10 >= 0.1"}]
    config = resolve(flags={"observers": ["jsonl"], "gates": gates}).config
    assert config.observers == ("jsonl",)
    assert [gate.need for gate in config.gates] == ["recall@10 >= 0.1"]


def test_every_key_outside_any_section_is_known() -> None:
    sections = {key for key, field in RunConfig().__dict__.items() if isinstance(field, Section)}
    assert set(RunConfig.model_fields) - sections == set(SECTIONLESS)
