"""A model of sentence-transformers behind the contract of `ttf`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import ConfigError, Role
from ttf_encoders._local_model import content_of, local_folder, offline

if TYPE_CHECKING:
    from pathlib import Path

    from ttf_encoders.sentence_model import SentenceOptions

_LIBRARIES: Final = ("sentence-transformers", "transformers", "tokenizers", "torch")


class SentenceEncoder:
    """See `ttf.Encoder` and `ttf.CutsTexts`."""

    def __init__(self, options: SentenceOptions, threads: int) -> None:
        self._options = options
        self._folder = local_folder(options.model)
        self._model = _loaded(self._folder, options.device)
        if options.max_length is not None:
            self._set_max_length(options.max_length)
        self._max_length: int | None = self._model.max_seq_length
        self.dim = _width(self._model)
        self._prompts: dict[Role, str] = {
            "query": self._prompt("query", options.query_prompt),
            "document": self._prompt("document", options.document_prompt),
        }
        self.about: Mapping[str, Any] = {
            "model": options.model,
            "max_length": self._max_length,
            "prompts": dict(self._prompts),
            "device": str(self._model.device),
            "libraries": {name: version(name) for name in _LIBRARIES},
        }

    def _set_max_length(self, wanted: int) -> None:
        longest = self._model.max_seq_length
        positions = getattr(self._model[0].config, "max_position_embeddings", None)
        most = positions or longest
        if most and wanted > most:
            raise ConfigError(
                f"max_length = {wanted}: the model {self._options.model} reads at most {most} tokens."
            )
        self._model.max_seq_length = wanted

    def _prompt(self, role: Role, given: str | None) -> str:
        if given is not None:
            return given
        prompts = self._model.prompts or {}
        return str(prompts.get(role) or prompts.get(self._model.default_prompt_name) or "")

    def fingerprint(self) -> str:
        facts = {
            "files": content_of(self._folder),
            "prompts": self._prompts,
            "max_length": self._max_length,
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]

    def encode(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        if not texts:
            return np.empty((0, self.dim), np.float32)
        work = self._model.encode_query if role == "query" else self._model.encode_document
        found = work(
            list(texts),
            prompt=self._prompts[role],  # also an empty one: None would be that of the model
            batch_size=self._options.batch_size,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        return np.ascontiguousarray(found, dtype=np.float32)

    def too_long(self, texts: Sequence[str], role: Role) -> NDArray[np.bool_]:
        if self._max_length is None:
            return np.zeros(len(texts), np.bool_)
        prompt = self._prompts[role]
        # Without truncation, which the tokenizer of the model is set to do.
        tokens = self._tokenizer()
        found = tokens.encode_batch([prompt + text for text in texts])
        return np.array([len(one.ids) > self._max_length for one in found], np.bool_)

    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        if not hasattr(self, "_counting"):
            self._counting = Tokenizer.from_str(self._model.tokenizer.backend_tokenizer.to_str())
            self._counting.no_truncation()
            self._counting.no_padding()
        return self._counting


def _width(model: Any) -> int:
    # The name since version 5.4; the earlier one warns there.
    new = getattr(model, "get_embedding_dimension", None)
    return int(new() if new is not None else model.get_sentence_embedding_dimension())


def _loaded(folder: Path, device: str) -> Any:
    with offline():
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        quiet: Any = logging.disable_progress_bar  # of the reading of weights: seconds
        quiet()
        try:
            return SentenceTransformer(str(folder), device=device, local_files_only=True)
        except Exception as error:
            raise ConfigError(
                f"The model in {folder} could not be loaded: {type(error).__name__}: {error}",
                hint="Is the folder a complete copy? SentenceTransformer(FOLDER) must load it.",
            ) from error
