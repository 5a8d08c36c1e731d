"""Where the encoder `sentence-transformers` looks for a model, and what it says if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttf import ConfigError
from ttf_encoders import _local_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    for name in ("modules.json", "model.safetensors", "1_Pooling/config.json", "README.md"):
        (folder / name).write_text(name)
    return folder


def test_a_folder_without_a_model_and_a_file_are_refused_with_what_was_meant(
    model: Path, tmp_path: Path
) -> None:
    assert _local_model.local_folder(str(model)) == model
    with pytest.raises(ConfigError, match="neither modules.json nor config.json"):
        _local_model.local_folder(str(tmp_path))
    with pytest.raises(ConfigError, match="is a file"):
        _local_model.local_folder(str(model / "modules.json"))
    with pytest.raises(ConfigError, match="needs a model"):
        _local_model.local_folder("")


def test_a_missing_model_is_one_message_that_says_how_to_bring_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_local_model, "_cache_folder", lambda: tmp_path / "hub")
    with pytest.raises(ConfigError, match="no model 'some/model' on this machine") as caught:
        _local_model.local_folder("some/model")
    assert "hf download some/model" in caught.value.hint
    assert "copy the folder" in caught.value.hint


def test_a_model_of_the_cache_is_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path
) -> None:
    hub = tmp_path / "hub" / "models--some--model"
    (hub / "snapshots").mkdir(parents=True)
    (hub / "refs").mkdir()
    (hub / "refs" / "main").write_text("abc")
    model.rename(hub / "snapshots" / "abc")
    monkeypatch.setattr(_local_model, "_cache_folder", lambda: tmp_path / "hub")
    assert _local_model.local_folder("some/model") == hub / "snapshots" / "abc"


def test_a_model_in_an_installed_package_is_found_and_no_code_of_it_runs(
    monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path
) -> None:
    package = tmp_path / "site" / "ttf_carried_model"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    model.rename(package / "weights")
    monkeypatch.syspath_prepend(package.parent)
    assert _local_model.local_folder("ttf-carried-model") == package / "weights"


def test_the_content_is_that_of_the_files_that_vectors_depend_on(model: Path) -> None:
    first = _local_model.content_of(model)
    (model / "README.md").write_text("other words")
    (model / "onnx").mkdir()
    (model / "onnx" / "model.onnx").write_text("the same weights")
    assert _local_model.content_of(model) == first
    (model / "model.safetensors").write_text("trained more")
    assert _local_model.content_of(model) != first
