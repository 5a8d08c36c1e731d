"""From the words of `ttf data import` to finished folders."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from pathlib import Path

from ttf.contracts import Progress
from ttf.data.writing import sigterm_raised
from ttf.errors import BadData, ConfigError, DataMissing
from ttf.host.plugins import is_local
from ttf.tools.import_ import carry_out as work
from ttf.tools.import_.carry_out import Imported
from ttf.tools.import_.columns import Column, Input
from ttf.tools.import_.inputs import open_input
from ttf.tools.import_.roles import NONE, Wanted, bank_columns, pair_columns

# The files of the sets of http://corpus-texmex.irisa.fr, which lie in one folder.
_TEXMEX = {"base": "_base.", "query": "_query.", "truth": "_groundtruth.ivecs"}


def import_vectors(
    source: str,
    out: Path,
    *,
    queries: str | None = None,
    positives: str | None = None,
    wanted: Wanted | None = None,
    storage: str = "auto",
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """`queries` and `positives`: files, or arrays of the source; NONE: no pairs. Goes on with an
    unfinished import of the same content."""
    wanted = wanted or Wanted()
    if is_local(source) and not Path(source).exists():
        raise DataMissing(f"{source}: there is no such file.", hint="Check the path.")
    if is_local(source) and Path(source).is_dir() and queries is None:
        source, queries, positives = _texmex_folder(Path(source)) or (source, queries, positives)
    with contextlib.ExitStack() as stack:

        def opened(uri: str) -> Input:
            found = open_input(uri, storage if uri == source else "auto")
            stack.callback(found.close)
            return found

        main = opened(source)
        inputs = {"source": main}
        containers = {"bank": bank_columns(main, wanted)}
        pairs = _pairs(main, queries, positives)
        if pairs is not None:
            for role, (uri, _) in pairs.items():
                inputs[role] = main if uri is None else opened(uri)
            containers["pairs"] = pair_columns(
                inputs["queries"], pairs["queries"][1], inputs["positives"],
                pairs["positives"][1], containers["bank"]["vectors"].shape[0], wanted,
            )  # fmt: skip
            _same_width(containers)
        names = {role: (uri, name) for role, (uri, name) in (pairs or {}).items()}
        key = work.key_of(
            {role: given.identity for role, given in inputs.items()},
            {**asdict(wanted), **{role: str(name) for role, (_, name) in names.items()}},
        )
        done = work.finished(out, key)
        if done is not None:
            return done
        work.check_free(out, overwrite=overwrite or work.is_complete(out / work.STAGING, key))
        card = Imported(
            source=source,
            what=main.what,
            key=key,
            bank=str(out / "bank"),
            pairs=str(out / "pairs") if pairs is not None else None,
            arrays=_described(containers),
            notes=[
                note
                for given in {id(i): i for i in inputs.values()}.values()
                for note in given.notes
            ],
        )
        stopped = f"Stopped by SIGTERM. The same command goes on with {out}."
        with sigterm_raised(stopped), work.staging(out) as folder:
            if work.is_complete(folder, key):
                return work.publish(out, folder)
            work.drop_others(folder, key)
            made = work.carry_out(out, folder, containers, card, progress, list(inputs.values()))
        return made


def _pairs(
    main: Input, queries: str | None, positives: str | None
) -> dict[str, tuple[str | None, str | None]] | None:
    """For queries and positives: the file (None: the main one) and the name of the array in it."""
    if NONE in (queries, positives):
        return None
    queries = queries or main.defaults.get("queries")
    positives = positives or main.defaults.get("positives")
    if queries is None and positives is None:
        return None
    if queries is None or positives is None:
        given, other = (
            ("--positives", "--queries") if queries is None else ("--queries", "--positives")
        )
        raise ConfigError(
            f"{given} was given without {other}: pairs need both.", hint=f"Add {other}."
        )
    return {"queries": _place(main, queries), "positives": _place(main, positives)}


def _place(main: Input, text: str) -> tuple[str | None, str | None]:
    if text in main.columns:
        return None, text
    if "://" in text or Path(text).exists():
        return text, None
    return None, text  # the error lists the arrays


def _texmex_folder(folder: Path) -> tuple[str, str | None, str | None] | None:
    files = sorted(
        path for path in folder.iterdir() if path.suffix in (".fvecs", ".bvecs", ".ivecs")
    )
    found = {role: [p for p in files if mark in p.name] for role, mark in _TEXMEX.items()}
    if len(found["base"]) != 1:
        return None
    base, query, truth = (str(found[r][0]) if len(found[r]) == 1 else None for r in _TEXMEX)
    assert base is not None
    return (base, query, truth) if query and truth else (base, None, None)


def _same_width(containers: dict[str, dict[str, Column]]) -> None:
    bank, queries = containers["bank"]["vectors"], containers["pairs"]["X_train"]
    if bank.shape[1:] != queries.shape[1:]:
        raise BadData(
            f"The vectors have {bank.shape[1]} numbers, but the queries have {queries.shape[1]}.",
            hint="They must come from one encoder.",
        )


def _described(containers: dict[str, dict[str, Column]]) -> list[dict[str, object]]:
    return [
        {"container": where, "name": name, "shape": list(column.shape), "dtype": column.dtype}
        for where, columns in containers.items()
        for name, column in columns.items()
    ]
