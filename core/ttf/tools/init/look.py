"""What lies in a folder, and one level below: vectors that can be trained on, texts, a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.config.schema import DataConfig
from ttf.data.companions import Companions, Contents, companions, contents_of
from ttf.data.open_dataset import open_dataset
from ttf.errors import TtfError
from ttf.host import plugins
from ttf.text.shell import quoted
from ttf.tools.encode.read.arrow_tables import is_saved_data_set, splits_of
from ttf.tools.encode.read.columns import Columns
from ttf.tools.encode.read.inputs import Source, is_beir, opened, sources

_VECTORS: Final = (".npz", ".zarr", ".parquet", ".arrow", ".feather", ".safetensors", ".objects")
_TEXTS: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".csv.gz", ".tsv.gz", ".jsonl.gz")
_MODEL: Final = "modules.json"
_MOST: Final = 200  # entries of a folder that are looked at


@dataclass(frozen=True, kw_only=True)
class Training:
    """Files that belong together and open; the numbers are for people."""

    pairs: str
    bank: str | None
    context: str | None
    facts: str


@dataclass(frozen=True, kw_only=True)
class TextsFound:
    path: Path
    command: str
    """What encodes them."""


@dataclass(frozen=True, kw_only=True)
class Look:
    training: Training | None
    texts: TextsFound | None
    problems: tuple[str, ...]
    """Why pairs that are there cannot be trained on."""


def look(folder: Path) -> Look:
    """Prefers vectors; texts are told if there are none."""
    problems: list[str] = []
    entries = list(_entries(folder))
    for path in entries:
        if path.name.lower().endswith(_VECTORS) or (path != folder and _is_npy_folder(path)):
            training = _training(path, problems)
            if training is not None:
                return Look(training=training, texts=None, problems=())
    model = next((path for path in entries if (path / _MODEL).is_file()), None)
    texts = next((found for path in entries if (found := _texts(path, model, folder))), None)
    return Look(training=None, texts=texts, problems=tuple(problems))


def _entries(folder: Path) -> Iterator[Path]:
    """The folder itself may be a data set; what lies in it comes before what lies deeper."""
    yield folder
    inner = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".")][:_MOST]
    yield from inner
    for path in inner:
        if path.is_dir() and path.suffix not in _VECTORS and not _is_whole(path):
            yield from sorted(path.iterdir())[:_MOST]


def _is_whole(path: Path) -> bool:
    """A folder that is one thing: its parts mean nothing."""
    return (path / _MODEL).is_file() or is_beir(path) or is_saved_data_set(path)


def _is_npy_folder(path: Path) -> bool:
    return path.is_dir() and next(path.glob("*_train.npy"), None) is not None


def _training(path: Path, problems: list[str]) -> Training | None:
    contents = contents_of(str(path))
    if contents is None or not contents.is_pairs:
        return None
    found = companions(str(path))
    if found is None or found.pairs != str(path):
        return None
    lacking = _lacking(found)
    if lacking:
        problems.append(
            f"{path} has pairs, but which file is the {lacking} cannot be told."
            + (_choice(path, contents) if lacking == "bank" else "")
            + _as_items(contents, found)
        )
        return None
    config = DataConfig(pairs=found.pairs, bank=found.bank, context=found.context)
    try:
        with open_dataset(config) as data:
            queries = data.train.queries
            kind = f"sequences of up to {queries.length}" if queries.sequence else "single"
            facts = (
                f"{len(data.train):,} training pairs, {len(data.val):,} validation pairs, "
                f"{data.bank.shape[0]:,} documents; {kind} vectors of {queries.dim} numbers"
            )
    except TtfError as error:
        problems.append(str(error))
        return None
    return Training(pairs=str(path), bank=found.bank, context=found.context, facts=facts)


def _lacking(found: Companions) -> str:
    lacking = ["bank"] if found.needs_bank and found.bank is None else []
    lacking += ["context"] if found.needs_context and found.context is None else []
    return " and the ".join(lacking)


def _choice(path: Path, contents: Contents) -> str:
    """The files beside the pairs that have as many vectors as the pairs name."""
    beside = [one for one in sorted(path.parent.iterdir())[:_MOST] if one != path]
    seen = [contents_of(str(one)) for one in beside if one.name.lower().endswith(_VECTORS)]
    fit = [
        one.uri
        for one in seen
        if one is not None and (one.vectors or 0) > contents.refers.get("pos", 0)
    ]
    if not fit:
        return ""
    names = ", ".join(Path(uri).name for uri in fit)
    return (
        f" It may be one of: {names}. Choose: ttf train --pairs {quoted(contents.uri)} --bank FILE"
    )


def _as_items(contents: Contents, found: Companions) -> str:
    refers = contents.refers
    if found.bank is not None or not refers.keys() >= {"pos", "seq"}:
        return ""
    return (
        " If its rows are numbers of items that have no vectors: "
        f"ttf train --pairs {quoted(contents.uri)} --items {max(refers.values()) + 1}"
    )


def _texts(path: Path, model: Path | None, folder: Path) -> TextsFound | None:
    columns = ""
    if not is_beir(path):
        is_table = path.is_file() and path.name.lower().endswith(_TEXTS)
        if not (is_table or is_saved_data_set(path) or splits_of(path)) or _has_vectors(path):
            return None
        try:
            first = sources([path])[0][0]
            columns = _columns(first)
        except TtfError:
            return None
    words = ["ttf data encode", quoted(path), *filter(None, [columns]), _encoder(model)]
    out = folder / "data"
    return TextsFound(path=path, command=" ".join([*words, "--out", quoted(out)]))


def _has_vectors(path: Path) -> bool:
    """Such a file of tables is read as it is: nothing in it has to be encoded."""
    contents = contents_of(str(path)) if path.suffix.lower() in _VECTORS else None
    return contents is not None and (contents.is_pairs or contents.vectors is not None)


def _columns(source: Source) -> str:
    table = opened(source, "utf-8", None)
    try:
        Columns().found_in(table.columns, table.uri)
    except TtfError:
        return "--query COLUMN --document COLUMN"
    return ""


def _encoder(model: Path | None) -> str:
    usable = plugins.load("encoder", "sentence-transformers").availability().ok
    if model is not None and usable:
        return f"--encoder sentence-transformers --model {quoted(model)}"
    return "--encoder hash"
