"""The encoder `hash`: no model; texts that share words and parts of words get near vectors."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from ttf import Availability, Encoder, EncoderContext, EncoderFactory, hookimpl, option


@dataclass(frozen=True, kw_only=True)
class HashOptions:
    dim: int = option(256, "width of the vectors", unit="numbers", ge=8, le=65536)
    seed: int = option(0, "another seed puts each word at other places", ge=0, le=2**31)


class HashFactory:
    """Hashed words and parts of words. For tests and demos; it knows no meaning."""

    name = "hash"
    options_type = HashOptions

    def availability(self) -> Availability:
        if importlib.util.find_spec("numpy") is None:
            return Availability(ok=False, reason="numpy is not installed", fix="pip install numpy")
        return Availability(ok=True)

    def create(self, options: HashOptions, context: EncoderContext) -> Encoder:
        from ttf_encoders._hashed_grams import HashEncoder

        return HashEncoder(options.dim, options.seed)


@hookimpl
def ttf_encoder(name: str) -> EncoderFactory | None:
    return HashFactory() if name == "hash" else None
