"""An export is given away: of the encoder's folder, only files of the encoder are in it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ttf import ConfigError, TtfError
from ttf_exporters._sentence import _copy_encoder

TYPES = "sentence_transformers.models."


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "models" / "encoder"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"word_embedding_dimension": 8}')
    keys = tmp_path / "home" / ".aws"
    keys.mkdir()
    (keys / "credentials").write_text("secret")
    return folder


def copied(encoder: Path, out: Path, *more: dict[str, Any]) -> dict[str, bytes]:
    transformer = {"idx": 0, "path": "", "type": f"{TYPES}Transformer"}
    pooling = {"idx": 1, "path": "1_Pooling", "type": f"{TYPES}Pooling"}
    (encoder / "modules.json").write_text(json.dumps([transformer, pooling, *more]))
    out.mkdir()
    _copy_encoder(encoder, out)
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def test_the_files_of_the_modules_are_copied(encoder: Path, tmp_path: Path) -> None:
    found = copied(encoder, tmp_path / "out")
    assert found["encoder/model.safetensors"] == b"weights"
    assert set(found) == {"encoder/model.safetensors", "encoder_1_pooling/config.json"}


@pytest.mark.parametrize("path", ["../../.aws", "1_Pooling/../../../.aws", "..", ".hidden", "/", 3])
def test_a_module_elsewhere_is_refused(encoder: Path, tmp_path: Path, path: object) -> None:
    module = {"idx": 2, "path": path, "type": f"{TYPES}Normalize"}
    with pytest.raises(ConfigError, match="which is none of a module"):
        copied(encoder, tmp_path / "out", module)
    assert not list((tmp_path / "out").rglob("credentials"))


def test_the_number_of_a_module_chooses_no_folder(encoder: Path, tmp_path: Path) -> None:
    module = {"idx": "1_pooling/../../home/x", "path": "1_Pooling", "type": f"{TYPES}Pooling"}
    found = copied(encoder, tmp_path / "out", module)
    assert "encoder_2_pooling/config.json" in found
    assert sorted(p.name for p in (tmp_path / "home").iterdir()) == [".aws", "models"]


def test_a_link_is_copied_only_from_the_cache_that_it_belongs_to(
    encoder: Path, tmp_path: Path
) -> None:
    cached = tmp_path / "models--a--b" / "snapshots" / "1f"
    cached.parent.mkdir(parents=True)
    encoder.rename(cached)
    blob = tmp_path / "models--a--b" / "blobs" / "77"
    blob.parent.mkdir()
    blob.write_bytes(b"words")
    (cached / "vocab.txt").symlink_to(blob)
    assert copied(cached, tmp_path / "out")["encoder/vocab.txt"] == b"words"
    (cached / "1_Pooling" / "keys.txt").symlink_to(tmp_path / "home" / ".aws" / "credentials")
    with pytest.raises(ConfigError, match="is a link to a file outside"):
        copied(cached, tmp_path / "other")


def test_a_pipe_in_the_place_of_modules_json_is_not_waited_for(
    encoder: Path, tmp_path: Path
) -> None:
    os.mkfifo(encoder / "modules.json")
    with pytest.raises(TtfError, match="named pipe"):
        _copy_encoder(encoder, tmp_path)
