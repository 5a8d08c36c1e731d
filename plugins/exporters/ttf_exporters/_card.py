"""The model card of a run: what is known of it, and how it is used. Standard library and `ttf` only."""

from __future__ import annotations

from typing import Any

from ttf import ExportFacts

_TAGS = ("sentence-transformers", "sentence-similarity", "feature-extraction", "dense", "two-tower")
_SHOWN = (
    "train.epochs",
    "train.steps",
    "train.batch_size",
    "train.lr",
    "train.seed",
    "loss.similarity",
    "loss.temperature",
    "miner.name",
    "miner.negatives",
)


def card(facts: ExportFacts, usage: str, *, library: str, **front: Any) -> str:
    """README.md with front matter; keys that nobody gave are left out."""
    matter = {
        "library_name": library,
        "pipeline_tag": "sentence-similarity",
        "tags": [*_TAGS, "loss:InfoNCE"],
        **{key: value for key, value in front.items() if value},
    }
    lines = ["---", *(_yaml(key, value) for key, value in matter.items()), "---", ""]
    lines += [f"# {facts.run}", "", _what(facts), "", usage.strip(), "", *_metrics(facts)]
    lines += ["## Training", "", "| key | value |", "|---|---|"]
    lines += [f"| `{key}` | {facts.settings[key]} |" for key in _SHOWN if key in facts.settings]
    for side, tower in (("query", facts.query), ("document", facts.document)):
        options = ", ".join(f"{name} = {value}" for name, value in tower.options.items())
        shown = f"{tower.name} ({options})" if options else tower.name
        lines.append(f"| {side} tower | {shown} |")
    lines += [f"| {name} | {version} |" for name, version in facts.versions.items()]
    lines += [f"| weights (SHA-256) | `{facts.weights_sha256}` |", ""]
    return "\n".join(lines)


def _yaml(key: str, value: Any) -> str:
    if isinstance(value, list):
        return "\n".join([f"{key}:", *(f"- {_scalar(item)}" for item in value)])
    return f"{key}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)  # a string of JSON is one of YAML


def _what(facts: ExportFacts) -> str:
    measure = "cosine similarity" if facts.similarity == "cosine" else "inner product"
    corrected = (
        " Scores are corrected for hubs: documents have one more dimension, and it is 1 in queries."
        if facts.calibrated
        else ""
    )
    return (
        "A two-tower retriever trained with [ttf](https://pypi.org/project/twotower/). Queries and "
        f"documents have {facts.dim} dimensions and are compared by {measure}.{corrected}"
    )


def _metrics(facts: ExportFacts) -> list[str]:
    if not facts.metrics:
        return []
    rows = [f"| {name} | {value:.4f} |" for name, value in facts.metrics.items()]
    note = f"Validation pairs against the whole bank of {facts.rows:,} documents."
    return ["## Evaluation", "", note, "", "| metric | value |", "|---|---|", *rows, ""]
