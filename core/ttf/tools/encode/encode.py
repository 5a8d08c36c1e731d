"""`ttf data encode`: reads, encodes and writes; who is killed anywhere continues behind the last
whole block.

    OUT/.encode/plan.json, texts/     what was read (ttf.tools.encode.plan)
    OUT/.encode/vectors/<kind>/       blocks of vectors (ttf.mining.growing_arrays)
    OUT/bank.npz, [context.npz], pairs.npz, card.md, card.json      in this order, each whole
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ttf.data.writing import make_room
from ttf.errors import ConfigError, FolderInUse, storage_error
from ttf.host import plugins
from ttf.host.version import __version__
from ttf.machine.memory.reading import limited_reading
from ttf.rundir.confined import refuse_foreign
from ttf.rundir.outputs import refuse_special
from ttf.rundir.removing import remove, remove_if_possible, remove_if_there
from ttf.text.progress import Reporter
from ttf.text.shell import quoted
from ttf.tools.encode.assemble import num_cut, write_pairs, write_vectors
from ttf.tools.encode.card import CARD, PAGE, read_card, write_card
from ttf.tools.encode.collect import Read, Reading
from ttf.tools.encode.encoder_process import Chosen, EncoderProcess, request_for
from ttf.tools.encode.first_rows import check_first_rows
from ttf.tools.encode.known_models import note_models
from ttf.tools.encode.plan import PLAN, inputs_key, read_inputs
from ttf.tools.encode.read.columns import told_unused
from ttf.tools.encode.split import SplitPairs, split_pairs
from ttf.tools.encode.work import refuse_unread

if TYPE_CHECKING:
    from ttf.tools.tickets.desk import Desk
    from ttf.tools.tickets.place import Place

WORK: Final = ".encode"
_LOCK: Final = ".encode.lock"
PAIRS: Final = "pairs.npz"
BANK: Final = "bank.npz"
CONTEXT: Final = "context.npz"
_TYPES: Final = {"f32": "<f4", "f16": "<f2"}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    inputs: tuple[Path, ...]
    out: Path
    encoder: Chosen
    reading: Reading = field(default_factory=Reading)
    dtype: Literal["f32", "f16"] = "f32"
    val_split: float | Literal["auto"] = "auto"
    seed: int = 0
    overwrite: bool = False
    limited: bool = False
    """The process is a command's own, which may limit the memory that reading takes."""

    def reading_inputs(self) -> contextlib.AbstractContextManager[None]:
        return limited_reading(*self.inputs) if self.limited else contextlib.nullcontext()


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """What `ttf data encode --json` prints."""

    out: str
    pairs: str
    bank: str
    context: str | None
    counts: Mapping[str, int]
    dim: int
    encoder: str
    fingerprint: str
    split: str
    train_command: str
    already_there: bool = False
    notes: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        counts = ", ".join(f"{value:,} {name}" for name, value in self.counts.items())
        return f"Encoded({self.out!r}: {counts}; {self.encoder}, {self.dim} numbers)"


def encode_inputs(wanted: Wanted, reporter: Reporter, desk: Desk | None = None) -> Encoded:
    """Call it in the main thread. `desk`: where other hosts may come that help."""
    note_models(wanted.encoder.options)
    with wanted.reading_inputs():
        check_first_rows(wanted.inputs, wanted.reading)
    with _locked(wanted.out) as work, EncoderProcess(wanted.encoder) as encoder:
        reporter.stage("load the encoder", None)
        facts = encoder.facts()
        identity = _identity(wanted, facts)
        there = read_card(wanted.out)
        if there is not None and there["identity"] == identity and _all_there(wanted.out, there):
            return _encoded(wanted, there, already_there=True)
        _require_free(wanted, work, there)
        with wanted.reading_inputs():
            found = read_inputs(wanted.inputs, wanted.reading, work, reporter)
        item = 4 if wanted.dtype == "f32" else 2
        total = sum(kind.count for kind, _ in found.kinds)
        vectors = work / "vectors"
        # Blocks, and the files that are made of them.
        make_room(wanted.out, total * facts["dim"] * item * (1 if vectors.exists() else 2))
        reporter.stage("encode", total)
        dtype = _TYPES[wanted.dtype]
        told = reporter.advance, reporter.note
        if desk is None:
            encoder.encode_kinds(facts, found.kinds, vectors, dtype, *told)
        else:
            from ttf.tools.encode.hosts.shared import encode_with_hosts

            encode_with_hosts(encoder, facts, found.kinds, work, dtype, *told, desk)
        request = request_for(encoder.chosen, facts, found.kinds, vectors, dtype)
        refuse_unread(request, {kind.name: kind.count for kind, _ in found.kinds})
        split = split_pairs(found, wanted.val_split, wanted.seed)
        reporter.stage("write", None)
        card = _write(wanted, found, split, vectors, facts, identity)
        with contextlib.suppress(OSError):
            remove(work, wanted.out)
    return _encoded(wanted, card)


def help_node_0(wanted: Wanted, place: Place, reporter: Reporter) -> dict[str, Any]:
    """Reads the same inputs, and encodes blocks for the host at `place` until it has all. Call it in
    the main thread."""
    from ttf.tools.encode.hosts.other import hand_of
    from ttf.tools.tickets.facts import host_name
    from ttf.tools.tickets.follower import follow

    note_models(wanted.encoder.options)
    with wanted.reading_inputs():
        check_first_rows(wanted.inputs, wanted.reading)
    folder = wanted.out.with_name(f"{wanted.out.name}-{host_name()}")
    with _locked(folder) as work, EncoderProcess(wanted.encoder) as encoder:
        facts = encoder.facts()
        with wanted.reading_inputs():
            found = read_inputs(wanted.inputs, wanted.reading, work, reporter)
        dtype = _TYPES[wanted.dtype]
        hand = hand_of(encoder, facts, found.kinds, work, dtype, place)
        with contextlib.closing(hand):
            over = follow(place, hand)
        with contextlib.suppress(OSError):
            remove(work, folder)
    return {"ended": over.get("over"), "text": over.get("text"), "encoded_here": hand.encoded}


def _identity(wanted: Wanted, facts: Mapping[str, Any]) -> str:
    """Of all that the output depends on."""
    told = {
        "inputs": inputs_key(wanted.inputs, wanted.reading),
        "encoder": wanted.encoder.name,
        "facts": dict(facts),
        "dtype": wanted.dtype,
        "val_split": wanted.val_split,
        "seed": wanted.seed,
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[Path]:
    """The folder for unfinished work, held by this process."""
    import filelock

    refuse_special(out)
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file.", hint="--out names a folder.")
    made = not out.exists()
    lock = filelock.FileLock(out / _LOCK)
    work = out / WORK
    try:
        out.mkdir(parents=True, exist_ok=True)
        refuse_foreign(out, [_LOCK], [WORK])
        lock.acquire(timeout=0)
        work.mkdir(exist_ok=True)
    except filelock.Timeout:
        raise FolderInUse(
            f"Another process is encoding into {out}.",
            hint="Wait until it ends, or choose another --out.",
        ) from None
    except OSError as error:
        raise storage_error(error, str(out)) from error
    try:
        yield work
    finally:
        # Nothing that was read or encoded is thrown away; what is empty goes.
        if not (work / PLAN).exists() and not (work / "vectors").exists():
            remove_if_possible(work, out)
        lock.release()
        remove_if_possible(out / _LOCK, out)
        if made:
            with contextlib.suppress(OSError):
                out.rmdir()


def _require_free(wanted: Wanted, work: Path, there: Mapping[str, Any] | None) -> None:
    """Raises ConfigError if files would be replaced that are not of this attempt."""
    names = [name for name in (BANK, CONTEXT, PAIRS, CARD, PAGE) if (wanted.out / name).exists()]
    unfinished = (work / PLAN).exists() and there is None
    if not names or unfinished:
        return
    if not wanted.overwrite:
        what = "other data" if there is not None else "files that ttf data encode did not finish"
        raise ConfigError(
            f"{wanted.out} has {what}: {', '.join(names)}.",
            hint="Add --overwrite, or choose another --out.",
        )
    for name in (CARD, *names):  # the card first: what is left of the others is not taken for whole
        remove_if_there(wanted.out / name, wanted.out)


def _write(
    wanted: Wanted,
    found: Read,
    split: SplitPairs,
    vectors: Path,
    facts: Mapping[str, Any],
    identity: str,
) -> dict[str, Any]:
    out, dtype = wanted.out, _TYPES[wanted.dtype]
    files = [BANK, PAIRS]
    write_vectors(out / BANK, found.documents, vectors / found.documents.name, dtype)
    if found.passages is not None:
        files.insert(1, CONTEXT)
        write_vectors(out / CONTEXT, found.passages, vectors / found.passages.name, dtype)
    write_pairs(out / PAIRS, found, split, vectors, dtype)
    info = plugins.find("encoder", wanted.encoder.name)
    card = {
        "made_by": f"ttf {__version__}",
        "identity": identity,
        "inputs": [{"path": str(path)} for path in wanted.inputs],
        "columns": {name: _plain(value) for name, value in found.columns.items()},
        "unused_columns": list(found.unused),
        "encoder": {
            "name": wanted.encoder.name,
            "distribution": info.distribution,
            "version": info.version,
            "options": dict(wanted.encoder.options),
            **facts,
        },
        "dtype": "float32" if wanted.dtype == "f32" else "float16",
        "counts": _counts(found, split, vectors),
        "split": {"text": split.text, "seed": wanted.seed, "share": wanted.val_split},
        "texts": {kind.name: kind.digest for kind, _ in found.kinds},
        "files": {name: {"bytes": (out / name).stat().st_size} for name in files},
    }
    write_card(out, card)
    return card


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _counts(found: Read, split: SplitPairs, vectors: Path) -> dict[str, int]:
    counts = {kind.name: kind.count for kind, _ in found.kinds}
    counts |= {f"{name}_pairs": len(part) for name, part in split.parts.items()}
    more = {
        "hard_negatives": sum(
            int((part.negatives >= 0).sum())
            for part in split.parts.values()
            if part.negatives is not None
        ),
        "negatives_that_are_positives": split.left_out,
        "rows_left_out_as_empty": found.skipped,
        "judgements_with_grade_0": found.refused_grades,
        "ids_of_equal_texts": found.documents.merged,
    }
    more |= {
        f"{kind.name}_cut_by_the_encoder": num_cut(vectors / kind.name) for kind, _ in found.kinds
    }
    return counts | {name: value for name, value in more.items() if value}


def _all_there(out: Path, card: Mapping[str, Any]) -> bool:
    return all(
        (out / name).is_file() and (out / name).stat().st_size == facts["bytes"]
        for name, facts in card["files"].items()
    )


def _encoded(wanted: Wanted, card: Mapping[str, Any], *, already_there: bool = False) -> Encoded:
    out = wanted.out
    context = str(out / CONTEXT) if CONTEXT in card["files"] else None
    words = ["ttf train", "--pairs", quoted(out / PAIRS), "--bank", quoted(out / BANK)]
    words += ["--context", quoted(context)] if context is not None else []
    return Encoded(
        out=str(out),
        pairs=str(out / PAIRS),
        bank=str(out / BANK),
        context=context,
        counts=dict(card["counts"]),
        dim=card["encoder"]["dim"],
        encoder=card["encoder"]["name"],
        fingerprint=card["encoder"]["fingerprint"],
        split=card["split"]["text"],
        train_command=" ".join(words),
        already_there=already_there,
        notes=tuple(notes_of(card)),
    )


def notes_of(card: Mapping[str, Any]) -> Iterator[str]:
    """What a person should know before the training."""
    counts = card["counts"]
    for kind in ("documents", "queries", "passages"):
        cut = counts.get(f"{kind}_cut_by_the_encoder", 0)
        if cut:
            yield (
                f"{cut:,} of {counts[kind]:,} {kind} are longer than the encoder reads: it reads "
                "only their beginning."
            )
    if left_out := counts.get("negatives_that_are_positives"):
        yield f"{left_out:,} hard negatives were left out: they are positives of the same query."
    if merged := counts.get("ids_of_equal_texts"):
        yield f"{merged:,} ids belong to a text that has another id: the first id stays."
    if unused := card.get("unused_columns"):
        yield told_unused(unused)
    if empty := counts.get("rows_left_out_as_empty"):
        yield f"{empty:,} rows with an empty text were left out."
