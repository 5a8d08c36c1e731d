"""Opens the run, encodes what is needed, and asks ttf itself the questions of the check."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ttf.data.sources import VectorRef, open_ref
from ttf.errors import ConfigError
from ttf.hookspecs import ExportFacts, ModelFolder, TowerFacts
from ttf.host import plugins
from ttf.host.options import checked
from ttf.host.plugins import is_local
from ttf.rundir.run_folder import RunFolder
from ttf.text.shell import quoted
from ttf.tools.encode.card import card_of
from ttf.tools.encode.known_models import strange_model
from ttf.tools.export import expected, facts as export_facts, smaller, texts
from ttf.tools.export.child import save_probe

if TYPE_CHECKING:
    from ttf.contracts import VectorSource
    from ttf.text.progress import Reporter
    from ttf.tools.export.asked import Asked
    from ttf.training.inference import Model

Texts = Literal["train", "val"]
Exports = Literal["vectors", "encoder", "results"]
_TEXT_MODELS: Final = "sentence-transformers"


@dataclass(frozen=True, kw_only=True)
class Ready:
    """An open run and the answers to compare with."""

    model: Model
    exports: Exports
    facts: ExportFacts
    request: Mapping[str, Any]
    matrix: NDArray[np.float32] | None
    smaller: Mapping[str, Any]
    source: VectorSource  # The documents as they are exported; of an encoder as they are compared.
    queries: NDArray[np.float32]  # As they are compared with it.
    document_vectors: NDArray[np.float32]
    find: expected.Find
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    answers: Path


@contextlib.contextmanager
def prepared(
    asked: Asked,
    exports: Exports,
    scratch: Path,
    reporter: Reporter,
    texts_of: Texts = "val",
) -> Iterator[Ready]:
    from ttf.training.open_run import open_run

    folders = {name: scratch / name for name in ("data", "probe", "answers", "texts", "miner")}
    for folder in folders.values():
        folder.mkdir()
    with contextlib.ExitStack() as stack:
        model = stack.enter_context(
            open_run(
                asked.run_dir, pairs=asked.pairs, bank=asked.bank, allow_remote=asked.allow_remote
            )
        )
        stack.enter_context(model.borrowed())
        _ = model.bank  # its absence is told before the work
        for note in model.notes:
            reporter.note(note)
        calibrated = _calibrated(asked, exports, model)
        questions = expected.asking(model)
        ref = expected.documents_ref(model, folders["data"], reporter, calibrated=calibrated)
        fp32 = exports == "encoder"
        if fp32 and model.short_products:
            reporter.note(
                "ttf search encodes queries with bfloat16 products on this machine; the export is "
                "compared with the towers in float32."
            )
        vectors = model.encode_pairs(model.judged, questions.rows, fp32=fp32)
        matrix = None
        lost: dict[str, Any] = {}
        if asked.smaller:
            ref, matrix, lost = _smaller(asked, model, ref, folders, calibrated, reporter)
        queries = _as_compared(vectors, matrix, calibrated)
        source = stack.enter_context(open_ref(ref)).source
        reporter.stage("search", None)
        if matrix is None and calibrated == (model.calibration is not None):
            find: expected.Find = model.best_rows
        else:
            find = stack.enter_context(
                expected.exact_search(ref, model, model.threads, folders["miner"])
            )
        k = min(expected.K, source.shape[0])
        rows, scores = find(queries, k)
        facts = _facts(asked, model, source, calibrated, questions, matrix is not None)
        if exports == "encoder":
            documents = _encoded(model, questions.documents, calibrated, facts.mean_correction)
        else:
            documents = expected.stored(source, questions.document_rows)
        _save_texts(asked, model, folders["texts"], reporter, texts_of)
        ids = _save_ids(model, folders["data"])
        save_probe(
            folders["probe"],
            {
                "queries": questions.queries,
                "lengths": questions.lengths,
                "query_rows": questions.file_rows,
                "query_vectors": queries,
                "document_rows": questions.document_rows,
                "documents": questions.documents,
            },
        )
        _probe_texts(folders, questions, texts_of)
        yield Ready(
            model=model,
            exports=exports,
            facts=facts,
            request={
                "exporter": asked.format,
                "options": dict(asked.options),
                "run_dir": str(asked.run_dir.resolve()),
                "facts": export_facts.to_json(facts),
                "documents": asdict(ref),
                "ids": ids,
                "matrix": _saved(folders["data"] / "matrix.npy", matrix),
                "texts": str(folders["texts"]),
                "probe": str(folders["probe"]),
                "answers": str(folders["answers"]),
                "k": k,
                "asked": {
                    "data": {
                        "pairs": _absolute(asked.pairs),
                        "bank": _absolute(asked.bank),
                    },
                    "allow_remote": asked.allow_remote,
                },
            },
            matrix=matrix,
            smaller=lost,
            source=source,
            queries=queries,
            document_vectors=documents,
            find=find,
            rows=rows,
            scores=scores,
            answers=folders["answers"],
        )


def _calibrated(asked: Asked, exports: Exports, model: Model) -> bool:
    if exports != "encoder":
        return model.calibration is not None
    if asked.calibrated and model.calibration is None:
        raise ConfigError(
            f"--calibrated: the model of {asked.run_dir} is not calibrated for this bank.",
            hint=f"To calibrate it: ttf calibrate {quoted(asked.run_dir)}",
        )
    return asked.calibrated


def _smaller(
    asked: Asked,
    model: Model,
    ref: VectorRef,
    folders: Mapping[str, Path],
    calibrated: bool,
    reporter: Reporter,
) -> tuple[VectorRef, NDArray[np.float32], dict[str, Any]]:
    int8 = asked.dtype == "int8"
    with open_ref(ref) as opened:
        whole = opened.source
        reporter.stage("make vectors smaller", whole.shape[0])
        documents_DR, queries_DR = smaller.matrix_of(
            whole, asked.dims, calibrated=calibrated, int8=int8, progress=reporter.advance
        )
        small = smaller.write_smaller(
            whole,
            documents_DR,
            folders["data"] / "smaller.npz",
            int8=int8,
            progress=reporter.advance,
        )
        bytes_before = whole.shape[1] * 4
    with expected.exact_search(small, model, model.threads, folders["miner"]) as find:
        reporter.stage("measure the loss of recall", None)
        recall = expected.recall_of(
            model,
            model.best_rows,
            find,
            lambda vectors: _as_compared(vectors, queries_DR, calibrated),
            reporter,
        )
    width = queries_DR.shape[1]
    sizes = {"bytes_per_row": width * (1 if int8 else 4), "bytes_per_row_before": bytes_before}
    return small, queries_DR, {"dim": width, "dtype": asked.dtype or "float32", **sizes, **recall}


def _as_compared(
    vectors: NDArray[np.float32], matrix: NDArray[np.float32] | None, calibrated: bool
) -> NDArray[np.float32]:
    whole = expected.with_ones(vectors) if calibrated else vectors
    return whole if matrix is None else np.ascontiguousarray(whole @ matrix)


def _encoded(
    model: Model, documents: NDArray[np.float32], calibrated: bool, mean: float
) -> NDArray[np.float32]:
    vectors = model.encode_document_inputs(documents)
    if not calibrated:
        return vectors
    means = np.full((len(vectors), 1), mean, np.float32)
    return np.concatenate([vectors, means], axis=1)


def _facts(
    asked: Asked,
    model: Model,
    source: VectorSource,
    calibrated: bool,
    questions: expected.Asking,
    prepared: bool,
) -> ExportFacts:
    from importlib import metadata

    from ttf.config.resolve import flat
    from ttf.host.version import __version__
    from ttf.training.towers import tower_specs

    folder = RunFolder.existing(asked.run_dir)
    specs, weights = tower_specs(folder.model)
    query, document = (
        TowerFacts(name=spec.name, options=asdict(spec.options), shape=spec.shape)
        for spec in (specs.query, specs.doc)
    )
    encoder = _encoder_of_the_card(model)
    summary = folder.read_summary()
    column = model.calibration.column if calibrated and model.calibration else np.zeros(1)
    return ExportFacts(
        run=folder.path.resolve().name,
        query=query,
        document=document,
        similarity="cosine" if model.towers.unit else "dot",
        rows=source.shape[0],
        dim=source.shape[1],
        calibrated=calibrated,
        mean_correction=float(column.mean()),
        vector_type="int8" if asked.dtype == "int8" else "float32",
        prepared=prepared,
        lengths=_lengths(questions),
        ids_are=expected_ids(model),
        weights_sha256=weights,
        bank_fingerprint=model.bank.bank.fingerprint(),
        metrics=dict(summary.get("metrics", {})),
        versions={"ttf": __version__, "torch": metadata.version("torch")},
        settings=flat(model.config),
        encoder=str(asked.encoder.resolve()) if asked.encoder else _folder_of(encoder),
        prompts=_prompts_of(encoder),
    )


def _absolute(given: Path | str | None) -> str | None:
    """For another process; an address stays as it is."""
    return str(given.resolve()) if isinstance(given, Path) else given


def _encoder_of_the_card(model: Model) -> Mapping[str, Any]:
    """The model of texts that `ttf data encode` made the vectors with; empty if it was none."""
    pairs = model.config.data.pairs
    found = card_of([pairs]) if pairs is not None and is_local(pairs) else None
    if found is None or found[0]["encoder"]["name"] != _TEXT_MODELS:
        return {}
    encoder: Mapping[str, Any] = found[0]["encoder"]
    return encoder


def _prompts_of(encoder: Mapping[str, Any]) -> dict[str, str]:
    about = encoder.get("about")
    prompts = about.get("prompts") if isinstance(about, dict) else None
    found = prompts if isinstance(prompts, dict) else {}
    return {role: found[role] for role in ("query", "document") if isinstance(found.get(role), str)}


def _folder_of(encoder: Mapping[str, Any]) -> str:
    """Empty if it is not on this machine, or if only the card names it: what is exported is loaded, and
    given away."""
    if not encoder:
        return ""
    factory = plugins.load("encoder", _TEXT_MODELS)
    assert isinstance(factory, ModelFolder)
    try:
        if strange_model(encoder["options"]) is not None:
            return ""
        options = checked(factory.options_type, encoder["options"], "the card")
        return str(factory.model_folder(options).resolve())
    except ConfigError:  # the exporter asks for --encoder, if it needs one
        return ""


def _lengths(questions: expected.Asking) -> tuple[int, ...]:
    longest = questions.queries.shape[1] if questions.queries.ndim == 3 else 1
    return tuple(range(1, longest + 1)) if questions.lengths is not None else (longest,)


def expected_ids(model: Model) -> str:
    from ttf.training.found import found_in

    none = np.empty((0, 1), np.int64)
    return found_in(model.bank, none, np.empty((0, 1), np.float32)).ids_are


def _save_ids(model: Model, folder: Path) -> str:
    bank = model.bank
    ids = bank.bank_ids if bank.bank_ids is not None else bank.bank_rows
    return _saved(folder / "ids.npy", None if ids is None else np.asarray(ids))


def _saved(path: Path, array: NDArray[Any] | None) -> str:
    if array is not None:
        np.save(path, array)
    return str(path)


def _save_texts(
    asked: Asked, model: Model, folder: Path, reporter: Reporter, texts_of: Texts
) -> None:
    given = {"query": asked.query_texts, "document": asked.document_texts}
    queries = model.train if texts_of == "train" else model.judged
    rows = {"query": len(queries.queries), "document": model.bank.bank.shape[0]}
    for role, path in given.items():
        if path is not None:
            reporter.stage(f"read the texts of {path.name}", None)
            split = texts_of if role == "query" else None
            texts.store(folder / role, texts.lines_of(path, split), rows[role], str(path))


def _probe_texts(folders: Mapping[str, Path], questions: expected.Asking, texts_of: Texts) -> None:
    if texts_of == "train":
        return
    asked = {"query": questions.file_rows, "document": questions.document_rows}
    for role, rows in asked.items():
        found = texts.StoredTexts.found(folders["texts"] / role)
        if found is not None:
            some = ((i, found[int(row)]) for i, row in enumerate(rows))
            texts.store(folders["probe"] / f"{role}-texts", some, len(rows), "texts")
