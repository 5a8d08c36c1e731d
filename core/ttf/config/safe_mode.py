"""`--safe`: every remedy is active from the start, for runs that must not fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ttf.config.check import Draft
    from ttf.config.resolve import Keys, Layer

ORIGIN: Final = "--safe"
MOST_ACCUMULATE: Final = 4
EDITS: Final[dict[Keys, Any]] = {
    ("miner", "isolation"): "process",
    ("miner", "threads"): 1,
    ("miner", "deterministic"): True,
    ("device", "precision"): "fp32",
    ("train", "fuse"): 1,
}
_ACCUMULATE: Final = ("train", "accumulate")
_BATCH: Final = ("train", "batch_size")


def make_safe(draft: Draft) -> None:
    """Puts the safe values over the file's, each with a note; opposite flags on the same command
    line are problems."""
    from ttf.config.resolve import Layer

    layer = Layer()
    for path, value in EDITS.items():
        _edit(draft, layer, path, value)
    _cap_accumulation(draft, layer)
    draft.apply(layer)


def _edit(draft: Draft, layer: Layer, path: Keys, value: Any) -> None:
    section = draft.section(*path[:-1])
    given = section.get(path[-1], "auto")
    if given == value:
        return  # it stays the choice of who wrote it
    if given != "auto" and _on_command_line(draft.origin(path)):
        draft.problem(path, f"{given!r} contradicts --safe, which sets {value!r}")
    else:
        if given != "auto":
            draft.notes.append(_note(draft, path, given, value))
        layer.add(path, value, ORIGIN)


def _cap_accumulation(draft: Draft, layer: Layer) -> None:
    # The same samples per optimizer step in fewer, larger micro-batches, if the micro-batch size is
    # a number; otherwise the step becomes smaller.
    train = draft.section("train")
    asked, batch = train.get("accumulate", 1), train.get("batch_size", "auto")
    if not _is_count(asked) or asked <= MOST_ACCUMULATE:
        return
    if _on_command_line(draft.origin(_ACCUMULATE)):
        draft.problem(
            _ACCUMULATE,
            f"{asked} contradicts --safe, which allows {MOST_ACCUMULATE}",
        )
        return
    if not _is_count(batch):
        layer.add(_ACCUMULATE, MOST_ACCUMULATE, ORIGIN)
        draft.notes.append(
            f"{_note(draft, _ACCUMULATE, asked, MOST_ACCUMULATE)} train.batch_size is {batch!r}, "
            f"so a step now has {MOST_ACCUMULATE} micro-batches instead of {asked}. Use "
            "--batch-size to set the number of samples."
        )
        return
    samples = batch * asked
    granted = next(n for n in range(MOST_ACCUMULATE, 0, -1) if samples % n == 0)
    larger = samples // granted
    if _on_command_line(draft.origin(_BATCH)):
        draft.problem(
            _BATCH,
            f"{batch} contradicts --safe, which allows {MOST_ACCUMULATE} "
            f"micro-batches per step: train.accumulate is {asked} ({draft.origin(_ACCUMULATE)}). "
            f"For a step of the same size, use --batch-size {larger} --accum {granted}",
        )
        return
    layer.add(_ACCUMULATE, granted, ORIGIN)
    layer.add(_BATCH, larger, ORIGIN)
    draft.notes.append(
        f"{_note(draft, _ACCUMULATE, asked, granted)} train.batch_size is {larger} instead of "
        f"{batch}, so a step still has {samples} samples."
    )


def _note(draft: Draft, path: Keys, given: Any, value: Any) -> str:
    return f"--safe: {'.'.join(path)} is {value!r} instead of {given!r} ({draft.origin(path)})."


def _on_command_line(origin: str) -> bool:
    # Flags are `--lr`, Python's overrides `lr=`; a file's values are `run.toml:3`.
    return origin.startswith("--") or origin.endswith("=")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
