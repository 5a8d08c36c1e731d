"""run.toml says where every value came from, and reads back as the same run."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ttf.config.resolve import load_run_toml, resolve
from ttf.config.toml import dump, render


def everything(folder: Path) -> Path:
    file = folder / "ok.toml"
    file.write_text(
        "[data]\npairs = 'd/p  # x.npz'\nnames = { X_train = 'q # x', 'Y train' = 'y\"' }\n"
        "[tower.query]\nname = 'gru'\nhidden = 64\n[checkpoint]\nevery_s = 'none'\n"
        "[[gates]]\nat = 'epoch 1'\nneed = 'recall@500 >= 0.25'\n"
        "[[gates]]\nat = 'step 9'\nneed = 'mrr@10 > 0'\n"
    )
    return file


def test_what_is_written_reads_back_equal_with_the_same_origins(tmp_path: Path) -> None:
    resolved = resolve(everything(tmp_path), ["miner.k=50"], {"--seed": 5, "--lr": 1e-5})
    text = dump(resolved)
    (tmp_path / "run.toml").write_text(text)
    again = load_run_toml(tmp_path / "run.toml", plugins=True)
    assert again.config == resolved.config
    assert again.origins == resolved.origins
    assert dump(again) == text


def test_a_value_that_somebody_wrote_into_it_is_no_default(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[tower.query]\nname = "linear"\n[train]\nseed = 3  # --seed\n')
    origins = load_run_toml(file).origins
    assert origins["tower.query.name"] == "run.toml:2"
    assert origins["train.seed"] == "--seed"
    assert origins["train.lr"] == "default"


def test_every_key_is_there_and_none_is_a_comment(tmp_path: Path) -> None:
    resolved = resolve(everything(tmp_path), flags={"--seed": 5})
    text = dump(resolved)
    parsed = tomllib.loads(text)
    assert parsed["train"]["seed"] == 5
    assert "steps" not in parsed["train"]
    assert "# steps =" in text
    assert parsed["gates"][1]["need"] == "mrr@10 > 0"
    (line,) = (x for x in text.splitlines() if x.startswith("seed ="))
    assert line.endswith("  # --seed")
    for dotted in resolved.origins:
        assert dotted.rpartition(".")[2].partition(" ")[0] in text


def test_a_copied_run_toml_still_means_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    resolved = resolve(flags={"--pairs": "p.npz"})
    elsewhere = tmp_path / "a" / "b"
    elsewhere.mkdir(parents=True)
    (elsewhere / "run.toml").write_text(dump(resolved))
    assert load_run_toml(elsewhere / "run.toml").config.data.pairs == str(tmp_path / "p.npz")


def test_a_run_can_be_read_where_its_plugins_are_not_installed(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[miner]\nname = 'gone'\n[tower.query]\nname = 'gone'\n")
    assert load_run_toml(tmp_path / "run.toml").config.miner.name == "gone"


values = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(values)
def test_any_value_survives_the_way_through_toml(value: object) -> None:
    assert tomllib.loads(f"value = {render(value)}")["value"] == value
