"""`ttf search RUN --text`: the encoder of the data's card, and the texts of the documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import ttf
from ttf.tools.encode.known_models import note_models, strange_model

if TYPE_CHECKING:
    from tests.conftest import Invoke


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = "".join(f"question {n} about topic{n}?,the answer on topic{n}\n" for n in range(40))
    (tmp_path / "faq.csv").write_text(f"question,answer\n{rows}")
    made = ttf.encode(tmp_path / "faq.csv", out=tmp_path / "data", encoder="hash")
    ttf.train(
        pairs=made.pairs,
        bank=made.bank,
        out=tmp_path / "run",
        steps=1,
        batch_size=8,
        tower="identity",
        doc_tower="linear",
        threads=1,
        supervised=False,
    )
    return tmp_path / "run"


def test_words_are_encoded_by_the_encoder_of_the_data_and_texts_are_shown(
    invoke: Invoke, run: Path
) -> None:
    found = invoke(["search", run, "--text", "topic7", "--text", "what of topic31", "-k", "2"])
    assert found.code == 0, found.err
    head, *rows = found.out.splitlines()
    assert head == "query\trank\tid\tscore\ttext"
    assert rows[0].endswith("\tthe answer on topic7") and rows[0].startswith("0\t1\t7\t")
    assert rows[2].endswith("\tthe answer on topic31")
    found = invoke(["search", run, "--text", "topic7", "-k", "1", "--json"])
    assert found.json()["texts"] == [["the answer on topic7"]]


def test_an_unknown_or_another_encoder_is_told(invoke: Invoke, run: Path) -> None:
    card = run.parent / "data" / "card.json"
    facts = json.loads(card.read_text())
    facts["encoder"]["options"]["seed"] = 5
    card.write_text(json.dumps(facts))
    changed = invoke(["search", run, "--text", "x"])
    assert changed.code == 3 and "not the one that made the data" in changed.err
    del facts["encoder"]["name"]
    card.write_text(json.dumps(facts))
    damaged = invoke(["search", run, "--text", "x"])
    assert damaged.code == 2 and "no card of ttf data encode" in damaged.err
    assert invoke(["export", run, "npy", "--out", run.parent / "exported"]).code == 0
    card.unlink()
    unknown = invoke(["search", run, "--text", "x"])
    assert unknown.code == 2 and "no card of ttf data encode" in unknown.err
    assert invoke(["search", run]).code == 2
    card.parent.rename(run.parent / "moved")
    gone = invoke(["search", run, "--text", "x"])
    assert gone.code == 3 and "bank.npz: there is no such file" in gone.err
    assert "say where the bank is: --bank FILE" in gone.err


def test_a_model_that_is_closed_and_texts_without_an_encoder_are_told(run: Path) -> None:
    with ttf.load(run) as model:
        with pytest.raises(ttf.BadData, match="have the type <U1") as texts:
            model.search(["a", "b"])  # type: ignore[list-item]
        assert texts.value.hint.startswith("Texts are encoded first")
        model.search(np.ones((1, 256), np.float32))
    with pytest.raises(ttf.ConfigError, match="the model or the miner is closed"):
        model.search(np.ones((1, 256), np.float32))
    with pytest.raises(ttf.ConfigError, match="takes paths of files, not a value of type dict"):
        ttf.encode({"question": ["a"]}, out=run, encoder="hash")  # type: ignore[arg-type]


def test_a_model_that_only_a_card_names_is_neither_loaded_nor_exported(
    invoke: Invoke, run: Path, tmp_path: Path
) -> None:
    """Data may be of anybody, and so is the card beside them; to load a model may execute its code."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "", "type": "evil.E"}]')
    card = run.parent / "data" / "card.json"
    facts = json.loads(card.read_text())
    facts["encoder"] |= {"name": "sentence-transformers", "options": {"model": str(model)}}
    card.write_text(json.dumps(facts))
    refused = invoke(["search", run, "--text", "x"])
    assert refused.code == 2
    assert "names the model" in refused.err and "ttf data encode FILE" in refused.err
    options = facts["encoder"]["options"]
    assert strange_model(options) == model
    assert strange_model({"model": "all-MiniLM-L6-v2", "query_prompt": "long " * 2000}) is None
    for path in (run, run.parent / "data" / "bank.npz"):
        assert strange_model({"model": str(path)}) == path
    note_models(options)
    assert strange_model(options) is None
