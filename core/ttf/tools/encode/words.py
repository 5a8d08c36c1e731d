"""Words for a search: encoded by the encoder that the card of the run's data names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ttf.data.text_rows import TextRows
from ttf.errors import BadData, ConfigError, DataMissing
from ttf.host.plugins import is_local, open_store
from ttf.machine.processor import usable_threads
from ttf.tools.encode.card import card_of
from ttf.tools.encode.encoder_process import Chosen, EncoderProcess
from ttf.tools.encode.known_models import refuse_strange_models

if TYPE_CHECKING:
    from ttf.training.inference import Model


def vectors_of_words(model: Model, texts: Sequence[str]) -> NDArray[np.float32]:
    """Raises ConfigError if the encoder is unknown, BadData if it is another one by now."""
    empty = [number for number, text in enumerate(texts, start=1) if not text.strip()]
    if empty:
        raise ConfigError(f"--text number {empty[0]} is empty.", hint="Give at least one word.")
    card, path = _card_of(model)
    encoder = card["encoder"]
    refuse_strange_models(encoder["name"], encoder["options"], path)
    chosen = Chosen(name=encoder["name"], options=encoder["options"], threads=usable_threads())
    with EncoderProcess(chosen) as process:
        found = process.encode_texts([text.strip() for text in texts], "query")
    if found["fingerprint"] != encoder["fingerprint"] or found["dim"] != encoder["dim"]:
        raise BadData(
            f"The encoder {encoder['name']!r} is not the one that made the data: its model or its "
            f"options changed since {path} was written.",
            hint="Bring the model back, or encode the texts again and train anew.",
        )
    return np.array(found["rows"], np.float32)


def _card_of(model: Model) -> tuple[Mapping[str, Any], Path]:
    data = model.config.data
    files = [file for file in (data.pairs, data.bank) if file and is_local(file)]
    if (found := card_of(files)) is not None:
        return found
    if files and not any(Path(file).exists() for file in files):
        raise DataMissing(
            f"{files[-1]}: there is no such file, so it is unknown which encoder turns words into "
            "vectors: the card of the data lies beside it.",
            hint="If the data were moved, say where the bank is: --bank FILE",
        )
    raise ConfigError(
        f"The data of this run ({', '.join(files) or 'arrays'}) have no card of ttf data encode beside "
        "them, so it is unknown which encoder turns words into vectors.",
        hint="Encode the words as you encoded the data, and search for the vectors: --queries FILE",
    )


def texts_of(model: Model, rows: NDArray[np.int64]) -> list[list[str]] | None:
    """The texts of documents by their rows; None if the bank has none."""
    bank, opened = model.config.data.bank, model.bank
    if bank is None or opened.bank_rows is not None or not is_local(bank):
        return None
    store = open_store(bank, model.config.data.storage)
    try:
        found = TextRows.of(store, opened.bank.shape[0])
        return None if found is None else [[found.text(int(row)) for row in line] for line in rows]
    finally:
        store.close()
