"""The encoder `sentence-transformers`: a model of that library, from this machine, never downloaded."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from ttf import Availability, Encoder, EncoderContext, EncoderFactory, hookimpl, option


@dataclass(frozen=True, kw_only=True)
class SentenceOptions:
    model: str = option(
        "",
        "a folder, the name of a model in the Hugging Face cache, or a Python package with a model",
    )
    query_prompt: str | None = option(None, "text before each query; none: that of the model")
    document_prompt: str | None = option(None, "text before each document; none: that of the model")
    max_length: int | None = option(
        None, "the rest of a longer text is not read; none: as the model says", unit="tokens", ge=1
    )
    batch_size: int = option(32, "texts that the model computes at a time", unit="texts", ge=1)
    device: str = option("cpu", "a device name of torch")


class SentenceFactory:
    """A model of sentence-transformers that lies on this machine."""

    name = "sentence-transformers"
    options_type = SentenceOptions

    def availability(self) -> Availability:
        if importlib.util.find_spec("sentence_transformers") is None:
            return Availability(
                ok=False,
                reason="sentence-transformers is not installed",
                fix='pip install "twotower[text]"',
            )
        return Availability(ok=True)

    def create(self, options: SentenceOptions, context: EncoderContext) -> Encoder:
        from ttf_encoders._sentence_encoder import SentenceEncoder

        return SentenceEncoder(options, context.threads)

    def model_folder(self, options: SentenceOptions) -> Path:
        from ttf_encoders._local_model import local_folder

        return local_folder(options.model)


@hookimpl
def ttf_encoder(name: str) -> EncoderFactory | None:
    return SentenceFactory() if name == "sentence-transformers" else None
