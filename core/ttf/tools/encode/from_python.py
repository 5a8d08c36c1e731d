"""`ttf.encode`: the command `ttf data encode` for Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ttf.data.array_arguments import is_path
from ttf.errors import ConfigError
from ttf.tools.encode.collect import Reading
from ttf.tools.encode.encode import Encoded, Wanted, encode_inputs
from ttf.tools.encode.encoder_options import chosen_with
from ttf.tools.encode.read.columns import Columns

__all__ = ["Encoded", "encode"]

PathLike = str | os.PathLike[str]


def encode(
    inputs: PathLike | Sequence[PathLike],
    *,
    out: PathLike,
    encoder: str,
    model: PathLike | None = None,
    options: Mapping[str, Any] | None = None,
    query: str | Sequence[str] = (),
    document: str | Sequence[str] = (),
    negative: str | Sequence[str] = (),
    sequence: str | None = None,
    query_id: str | None = None,
    document_id: str | None = None,
    grade: str | None = None,
    score: str | None = None,
    negative_score: str | None = None,
    dtype: Literal["f32", "f16"] = "f32",
    val_split: float | Literal["auto"] = "auto",
    seed: int = 0,
    threads: int | None = None,
    encoding: str = "utf-8",
    delimiter: str | None = None,
    skip_empty: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> Encoded:
    """Makes pairs and bank of texts in files; continues an interrupted attempt at the same `out`.

    `ttf.train(pairs=made.pairs, bank=made.bank)` trains on the result. Call it in the main thread.
    """
    from ttf.text.progress import Reporter, make_reporter

    files = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
    if not isinstance(files, list | tuple) or not all(map(is_path, files)):
        raise ConfigError(
            f"ttf.encode takes paths of files, not a value of type {type(inputs).__name__}.",
            hint="Write the texts to a file first, for example: frame.to_parquet('texts.parquet')",
        )
    wanted = Wanted(
        inputs=tuple(Path(one) for one in files),
        out=Path(out),
        encoder=chosen_with(
            encoder, None if model is None else os.fspath(model), options or {}, threads
        ),
        reading=Reading(
            columns=Columns(
                query=_names(query),
                document=_names(document),
                negative=_names(negative),
                sequence=sequence,
                query_id=query_id,
                document_id=document_id,
                grade=grade,
                score=score,
                negative_score=negative_score,
            ),
            encoding=encoding,
            delimiter=delimiter,
            skip_empty=skip_empty,
        ),
        dtype=dtype,
        val_split=val_split,
        seed=seed,
        overwrite=overwrite,
    )
    with make_reporter(json=False) if progress else Reporter() as reporter:
        return encode_inputs(wanted, reporter)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
