"""The flags of a run's configuration, for every command that takes one.

A wrong value is no error here: it is passed on as text, and the configuration reports it together
with all other problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ttf.commands import _options as options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ttf.contracts import Kind

F = TypeVar("F", bound=Callable[..., Any])
NO_REMEDIES: Final = "--no-remedies"
_CORE: Final = "--core"
_SWITCHES: Final = (NO_REMEDIES, _CORE)  # not given: the configuration decides


class _Value(click.ParamType[Any]):
    """Text that `parse` reads if it can."""

    def __init__(
        self,
        name: str,
        parse: Callable[[str], Any] = str,
        values: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.name = name
        self._parse = parse
        self._values = values

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(str(value).strip())
        except ValueError:
            return str(value)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.name

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(v) for v in self._values() if v.startswith(incomplete)]


def _choices(kind: Kind, also: tuple[str, ...]) -> list[str]:
    from ttf.host import installed

    return [*also, *installed.choices(kind)]


def _plugin(flag: str, kind: Kind, *also: str, help: str) -> Callable[[F], F]:
    return click.option(flag, type=_Value("NAME", values=partial(_choices, kind, also)), help=help)


def _one_of(flag: str, *values: str, help: str) -> Callable[[F], F]:
    return click.option(flag, type=_Value("|".join(values), values=lambda: values), help=help)


_count = _Value("N", int)
_count_or_auto = _Value("N|auto", int, lambda: ["auto"])

_FLAGS: Final = (
    options.data(
        "--pairs", help="File with training and validation pairs. [default: a demo data set]"
    ),
    options.data("--bank", help="File with the documents. [default: the distinct rows of Y]"),
    click.option(
        "--items",
        type=_count,
        help="Number of items whose vectors are trained, in place of a bank: seq_* and pos_* are "
        "item numbers. [default: the documents of --bank]",
    ),
    options.data("--context", help="File with the vectors for seq_*. [default: the bank]"),
    click.option(
        "--val-split",
        type=_Value("F|auto", float, lambda: ["auto"]),
        help="Share of the training pairs to use for validation if the file has no validation "
        "pairs; auto: 5%, at least 200 and at most 5000 pairs; 0: none, and the file must "
        "have its own. [default: auto]",
    ),
    _plugin("--tower", "tower", "auto", help="Query tower; auto: from the data. [default: auto]"),
    _plugin("--doc-tower", "tower", help="Document tower. [default: identity]"),
    _plugin(
        "--miner",
        "miner",
        "auto",
        help="Miner of hard negatives; auto: chosen by a cost model. [default: auto]",
    ),
    _plugin(
        "--storage",
        "storage",
        "auto",
        help="Storage plugin that reads the files; auto: by the file ending. [default: auto]",
    ),
    _plugin(
        "--device",
        "device",
        "auto",
        help="Device for the training; auto: the best of this machine. [default: auto]",
    ),
    click.option("--epochs", type=_count, help="Passes over the training pairs. [default: 8]"),
    click.option(
        "--steps", type=_count, help="Stop after N optimizer steps. [default: all epochs]"
    ),
    click.option(
        "--batch-size", type=_count_or_auto, help="Samples per micro-batch. [default: auto]"
    ),
    click.option("--accum", type=_count, help="Micro-batches per optimizer step. [default: 1]"),
    click.option(
        "--lr", type=_Value("X", float), help="Learning rate after the warm-up. [default: 0.001]"
    ),
    click.option("--seed", type=_count, help="Seed of weights, order and negatives. [default: 0]"),
    click.option(
        "--threads",
        type=_count_or_auto,
        help="CPU threads; auto: one per physical core. [default: auto]",
    ),
    click.option(
        "--memory-bank",
        type=_count_or_auto,
        help="Documents of earlier steps used as negatives; 0: none. [default: auto]",
    ),
    _one_of("--precision", "fp32", "bf16", "auto", help="Precision of the towers. [default: auto]"),
    _one_of(
        "--isolation",
        "process",
        "none",
        help=(
            "Where the miner runs; process: in its own process; none: in the trainer. [default: "
            "process]"
        ),
    ),
    options.path(
        "--init",
        metavar="FILE",
        help="Safetensors file with the initial weights. [default: random weights]",
    ),
    options.sets,
    click.option(
        "--safe",
        is_flag=True,
        help="Use the safest settings: isolated miner with one thread, accumulation of at most 4, "
        "fp32. The run is slower.",
    ),
    click.option(
        NO_REMEDIES,
        is_flag=True,
        help="After a crash, never change the configuration: restart unchanged, or end.",
    ),
    click.option(
        _CORE,
        is_flag=True,
        help="After a crash of the trainer in native code, keep its native stacks (native.txt) and "
        "name the function. Needs gdb, and a system that writes core files; they are removed. "
        "[default: off]",
    ),
)


def flags(command: F) -> F:
    """Adds the flags; the command gets `sets`, `safe` and, as `**flags`, all others."""
    for option in reversed(_FLAGS):
        command = option(command)
    return command


def given(flags: dict[str, Any]) -> dict[str, Any]:
    """The flags that were given, by their names on the command line."""
    found = {f"--{name.replace('_', '-')}": v for name, v in flags.items() if v is not None}
    return {name: value for name, value in found.items() if name not in _SWITCHES or value}
