"""The tasks of the encoder's process: what the encoder is, and all blocks of vectors.

A block is some thousand texts, sorted by length, which are encoded in one call. Where blocks begin
depends on the texts alone, so whoever continues computes the same bits.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.errors import BadData, ConfigError, StorageError
from ttf.hookspecs import CutsTexts, EncoderContext
from ttf.host import plugins
from ttf.host.options import checked
from ttf.machine.thread_variables import thread_environment
from ttf.mining.growing_arrays import GrowingArrays, Layout
from ttf.process.collector import paused_for_imports
from ttf.tools.encode.hosts.loose import Block, Form, LooseBlocks
from ttf.tools.encode.text_files import Texts

if TYPE_CHECKING:
    from ttf.hookspecs import Encoder, Role
    from ttf.process.serve import Tell

BLOCK_TEXTS: Final = 2048
BLOCK_BYTES: Final = 4 << 20
VECTORS: Final = "vectors.npy"
CUT: Final = "cut.npy"
_OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def facts(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """What the encoder is; raises ConfigError if it cannot work here."""
    return _facts(_encoder(request))


def _facts(encoder: Encoder) -> dict[str, Any]:
    dim, about = encoder.dim, json.loads(json.dumps(dict(encoder.about)))
    return {"dim": int(dim), "about": about, "fingerprint": str(encoder.fingerprint())}


def _encoder(request: Mapping[str, Any]) -> Encoder:
    options = json.dumps(request["options"], sort_keys=True)
    return _loaded(request["encoder"], options, request["threads"])


@functools.cache
def _loaded(name: str, options: str, threads: int) -> Encoder:
    # Before any library is loaded. This process ends with its tasks.
    os.environ.update(_OFFLINE | thread_environment(threads))
    factory = plugins.usable("encoder", name)
    given = checked(factory.options_type, json.loads(options), f"encoder.{name}")
    with paused_for_imports():
        return factory.create(given, EncoderContext(threads=threads))


def encode(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Fills the arrays of every kind of text, behind what is there already."""
    encoder = made_as_before(request)
    tell({"at": "encoding"})
    for kind in request["kinds"]:
        _Kind(kind, request, encoder, tell).fill()
    return {}


def block(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Writes one block to a file of its own, for encodings on several hosts."""
    encoder, kind = made_as_before(request), request["kind"]
    folder, wanted = Path(request["loose"]), Block(*request["block"])
    rows, cut = encoded_block(
        encoder,
        Texts(Path(kind["stem"])).read(wanted.first, wanted.stop),
        kind["role"],
        np.dtype(request["dtype"]),
        wanted.first,
        f"number {{:,}} of the {kind['name']}",
    )
    form = Form(dim=encoder.dim, dtype=request["dtype"])
    name = LooseBlocks(folder=folder, inside=folder).write(wanted, form.packed(rows, cut))
    return {"block": list(wanted), "name": name}


def made_as_before(request: Mapping[str, Any]) -> Encoder:
    """Raises ConfigError if it is another one by now."""
    options, facts = (json.dumps(request[name], sort_keys=True) for name in ("options", "facts"))
    return _as_before(request["encoder"], options, request["threads"], facts)


@functools.cache  # to look at a large model takes longer than a block
def _as_before(name: str, options: str, threads: int, facts: str) -> Encoder:
    encoder = _loaded(name, options, threads)
    if json.dumps(_facts(encoder), sort_keys=True) != facts:
        raise ConfigError(
            "The encoder changed while the command worked: its model or its options are others.",
            hint="Run the command again.",
        )
    return encoder


def texts_now(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """The vectors of a few texts, as lists."""
    encoder = _encoder(request)
    rows = _rows(encoder, list(request["texts"]), request["role"])
    return {**_facts(encoder), "rows": rows.astype(np.float64).tolist()}


def layouts(rows: int, dim: int, dtype: str) -> dict[str, Layout]:
    return {VECTORS: Layout((rows, dim), dtype), CUT: Layout((rows,), "|b1")}


def key_of(facts: Mapping[str, Any], digest: str, role: str, dtype: str) -> str:
    """Of all that a kind's vectors depend on."""
    told = [facts, digest, role, dtype, BLOCK_TEXTS, BLOCK_BYTES]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def arrays_of(kind: Mapping[str, Any], request: Mapping[str, Any], count: int) -> GrowingArrays:
    """Those of one kind of text, as far as they are."""
    folder, facts, dtype = Path(kind["folder"]), request["facts"], request["dtype"]
    return GrowingArrays.open(
        folder,
        folder,
        layouts(count, facts["dim"], dtype),
        key_of(facts, kind["digest"], kind["role"], dtype),
        "encode",
    )


def refuse_unread(request: Mapping[str, Any], counts: Mapping[str, int]) -> None:
    """Raises StorageError if vectors do not read back as they were written. `counts`: texts by kind."""
    facts, dtype = request["facts"], request["dtype"]
    for kind in request["kinds"]:
        folder, form = Path(kind["folder"]), layouts(counts[kind["name"]], facts["dim"], dtype)
        key = key_of(facts, kind["digest"], kind["role"], dtype)
        if GrowingArrays.finished(folder, folder, form, key, "encode") is None:
            GrowingArrays.forget(folder)
            raise StorageError(
                f"What was written to {folder} does not read back as it was written.",
                hint="Check the disk, then run the same command again.",
            )


class _Kind:
    """The vectors of one kind of text."""

    def __init__(
        self, kind: Mapping[str, Any], request: Mapping[str, Any], encoder: Encoder, tell: Tell
    ) -> None:
        self._texts = Texts(Path(kind["stem"]))
        self._role: Role = kind["role"]
        self._name = kind["name"]
        self._encoder, self._tell = encoder, tell
        self._arrays = arrays_of(kind, request, self._texts.count)
        self._dtype = np.dtype(request["dtype"])

    def fill(self) -> None:
        arrays, count = self._arrays, self._texts.count
        self._tell({"kind": self._name, "kept": arrays.done})
        where = f"number {{:,}} of the {self._name}"
        while arrays.done < count:
            first = arrays.done
            stop = self._texts.block_end(first, BLOCK_TEXTS, BLOCK_BYTES)
            texts = self._texts.read(first, stop)
            arrays.append(
                *encoded_block(self._encoder, texts, self._role, self._dtype, first, where)
            )
            self._tell({"kind": self._name, "done": arrays.done})


def encoded_block(
    encoder: Encoder,
    texts: list[str],
    role: Role,
    dtype: np.dtype[Any],
    first: int,
    where: str,
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The rows, and which texts were cut. `where` names a text by its number. Raises BadData."""
    order = np.argsort([-len(text) for text in texts], kind="stable")
    ordered = [texts[n] for n in order]
    rows = np.empty((len(texts), encoder.dim), dtype)
    with np.errstate(over="ignore"):  # told below, with the text
        rows[order] = _rows(encoder, ordered, role)
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        shown = texts[wrong[0]][:60]
        in_type = f" in {dtype}" if dtype.itemsize == 2 else ""
        raise BadData(
            f"The encoder made a vector with NaN or infinity{in_type} of the text {shown!r} "
            f"({where.format(first + int(wrong[0]))}).",
            hint="Try --dtype f32." if in_type else "Is the model damaged?",
        )
    cut = np.zeros(len(texts), np.bool_)
    if isinstance(encoder, CutsTexts):
        cut[order] = encoder.too_long(ordered, role)
    return rows, cut


def _rows(encoder: Encoder, texts: list[str], role: Role) -> NDArray[np.float32]:
    rows = np.asarray(encoder.encode(texts, role))
    if rows.shape != (len(texts), encoder.dim):
        raise ConfigError(
            f"The encoder returned an array of the shape {rows.shape} for {len(texts)} texts. It must "
            f"be {(len(texts), encoder.dim)}.",
            hint="Report this to the authors of the encoder.",
        )
    return rows.astype(np.float32, copy=False)
