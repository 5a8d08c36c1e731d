"""What ttf imports of this package: the encoder's name and its options.

ttf imports this module whenever the encoder is named, if only to show its options: it imports the
standard library and `ttf` alone. Everything else is imported by `_model`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttf import Availability, EncoderContext, hookimpl, option

if TYPE_CHECKING:
    from ttf import Encoder, EncoderFactory


@dataclass(frozen=True, kw_only=True)
class Options:
    """Set as `--set dim=128`. YOUR MODEL: an option named `model` is set by `--model` as well."""

    dim: int = option(64, "width of the vectors", unit="numbers", ge=8, le=65536)
    longest: int = option(1000, "words of a text that are read", unit="words", ge=1)


class Factory:
    """Each word adds one to a number that its hash chooses."""

    name = "your-name"
    options_type = Options

    def availability(self) -> Availability:
        if importlib.util.find_spec("numpy") is None:
            return Availability(ok=False, reason="numpy is not installed", fix="pip install numpy")
        return Availability(ok=True)

    def create(self, options: Options, context: EncoderContext) -> Encoder:
        """YOUR MODEL: use at most `context.threads` threads, and download nothing."""
        from ._model import YourNameEncoder

        return YourNameEncoder(options)


@hookimpl
def ttf_encoder(name: str) -> EncoderFactory | None:
    return Factory() if name == Factory.name else None
