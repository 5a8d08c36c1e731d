"""The model card of a run for the Hugging Face Hub: README.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ttf import (
    Availability,
    BadData,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    hookimpl,
    option,
)
from ttf_exporters._card import card
from ttf_exporters._common import needs

README: Final = "README.md"
_USAGE: Final = """
## Usage
```python
import ttf

with ttf.load("RUN_DIR") as model:
    found = model.search(queries, k=10)  # found.ids, found.scores
```
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    license: str = option("", "license of the model, e.g. apache-2.0")
    language: str = option("", "language of the texts, e.g. en")
    base_model: str = option("", "name of the text encoder on the Hub")
    dataset: str = option("", "name of the data set on the Hub")


class CardExporter:
    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        given = self._options
        text = card(
            source.facts,
            _USAGE,
            library="ttf",
            license=given.license,
            language=given.language,
            base_model=given.base_model,
            datasets=[given.dataset] if given.dataset else [],
        )
        folder.joinpath(README).write_text(text, "utf-8")
        empty = [key for key in ("license", "language", "base_model") if not getattr(given, key)]
        if empty:
            source.say(f"The card does not say: {', '.join(empty)}. Set it: --set {empty[0]}=VALUE")
        return {"file": README}

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        import huggingface_hub

        found = huggingface_hub.ModelCard.load(folder / README)
        if found.data.to_dict().get("pipeline_tag") != "sentence-similarity":
            raise BadData(f"huggingface_hub does not read the front matter of {README}")
        for name, value in probe.facts.metrics.items():
            if f"| {name} | {value:.4f} |" not in found.text:
                raise BadData(f"{README} does not have {name}")
        lines = len(found.content.splitlines())
        return ExportAnswers(count=lines, library=f"huggingface_hub {huggingface_hub.__version__}")


class CardFactory:
    """A model card for the Hugging Face Hub"""

    name = "hf-card"
    options_type = Options
    exports: Literal["results"] = "results"

    def availability(self) -> Availability:
        return needs("huggingface_hub", "text")

    def create(self, options: Options) -> CardExporter:
        return CardExporter(options)


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return CardFactory() if name == "hf-card" else None
