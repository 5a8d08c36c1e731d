"""The trained tables of a run: rows of towers that want some (`TableTower`).

A step gets its rows as one leaf tensor a table; the towers read from it, backward leaves the gradients
in it, and after the optimizer's step the table takes its own. Between steps (evaluation, mining) rows
are read where they lie. A checkpoint names the version of each table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray

from ttf.data.embedding.hot_rows import ROW_BYTES
from ttf.data.embedding.stored_rows import FACTS
from ttf.data.embedding.table import EmbeddingTable
from ttf.data.embedding.tower_rows import TableRows, TableTower
from ttf.data.items import numbers_in
from ttf.data.loader import Needed
from ttf.errors import ArtifactDamaged, ConfigError
from ttf.rundir.confined import refuse_foreign_entries
from ttf.rundir.documents import MODEL_CONFIG
from ttf.rundir.typed_json import dataclass_from
from ttf.training.towers import TwoTower

FOLDER: Final = "tables"
_MOST_VERSIONS: Final = 5  # Of checkpoints; a table keeps six.
_MOST_AHEAD: Final = 100


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What the model of a run says of a table."""

    rows: int
    dim: int
    seed: int
    version: int


@dataclass(kw_only=True)
class _Open:
    """One table, and its rows of the step that is under way."""

    wish: TableRows
    table: EmbeddingTable
    documents: bool  # Which of a step's rows it holds.
    items: bool
    ids: NDArray[np.int64] | None = None
    leaf: torch.Tensor | None = None

    def needed(self, step: Needed) -> NDArray[np.int64]:
        parts = [step.documents] * self.documents + [step.items] * self.items
        return parts[0] if len(parts) == 1 else np.union1d(*parts)

    def rows(self, x: torch.Tensor) -> torch.Tensor:
        numbers = numbers_in(x)
        flat = numbers.reshape(-1).cpu()
        if self.leaf is None or self.ids is None:
            found = self.table.get(flat, keep=False).to(x.device)
        else:
            place = torch.searchsorted(torch.from_numpy(self.ids), flat)
            found = self.leaf.index_select(0, place.to(x.device))
        return found.view(*numbers.shape, -1)


def _place(run: Path, name: str) -> Path:
    """The folder of a table. Raises EntryRefused: a link there would lead what is written elsewhere."""
    refuse_foreign_entries(run, [FOLDER, f"{FOLDER}/{name}"])
    return run / FOLDER / name


def _facts_of(name: str, document: object) -> _Facts:
    found = document.get(name) if isinstance(document, Mapping) else None
    try:
        return dataclass_from(_Facts, found)
    except (TypeError, LookupError, ValueError) as error:
        raise ArtifactDamaged(
            f"{MODEL_CONFIG} does not describe the table {name!r} of the model ({error})."
        ) from None


def _kept(table: Path) -> Path:
    """Raises ArtifactDamaged if it is not there: a new one would have other rows."""
    if not (table / FACTS).exists():
        raise ArtifactDamaged(
            f"The trained rows of this model are missing: {table}.",
            hint=f"Copy the folder {FOLDER!r} of the run to its place beside model/.",
        )
    return table


class Tables:
    """None if no tower wants rows: then every call does nothing."""

    def __init__(self, model: TwoTower, rows: int, dim: int, budget_bytes: int) -> None:
        self._wishes: dict[str, dict[str, TableRows]] = {}
        self._model = model
        for side, tower in (("documents", model.doc), ("items", model.query)):
            if isinstance(tower, TableTower):
                self._wishes.setdefault(tower.table.name, {})[side] = tower.table
        for name, sides in self._wishes.items():
            if len(set(sides.values())) > 1:
                raise ConfigError(
                    f"Both towers use the table {name!r}, but with other options: "
                    f"{' and '.join(map(str, sides.values()))}.",
                    hint="Give the same optimizer and rows_lr, or another name to one of them.",
                )
        self._rows, self._dim = rows, dim
        self.budget_bytes = budget_bytes  # of all of them; `resize` changes it
        self._open: dict[str, _Open] = {}
        self._synced: dict[int, dict[str, int]] = {}
        self._durable: list[int] = []

    def __bool__(self) -> bool:
        return bool(self._wishes)

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Self:
        return self  # of copied towers: the rows are the run's

    @property
    def places_bytes(self) -> int:
        """What they take for the places of their rows, whatever the budget."""
        return len(self._wishes) * self._rows * ROW_BYTES

    def resize(self, budget_bytes: int) -> None:
        """Between two steps: another budget for all of them, at most the first one. Changes no row."""
        self.budget_bytes = budget_bytes
        for opened in self._open.values():
            opened.table.resize(budget_bytes // len(self._wishes))

    # --- files ------------------------------------------------------------------------------------

    def open(self, folder: Path, seed: int, versions: Mapping[str, int], step: int = 0) -> None:
        """As they were at a checkpoint; what was written later is forgotten."""
        for name, sides in self._wishes.items():
            wish = next(iter(sides.values()))
            table = EmbeddingTable(
                _place(folder, name),
                rows=self._rows,
                dim=self._dim,
                budget=self.budget_bytes // len(self._wishes),
                optimizer=wish.optimizer,
                lr=wish.lr,
                seed=seed,
                zeros=wish.zeros,
                at_version=versions.get(name, 0),
            )
            self._attach(name, wish, table)
        if versions:
            self._synced[step] = dict(versions)
            self._durable = [step]

    def open_newest(self, folder: Path, document: object) -> None:
        """For a model of a run that is not training. `document`: what `facts` returned, of a run that
        may be anybody's. Raises ArtifactDamaged."""
        for name, sides in self._wishes.items():
            wish = next(iter(sides.values()))
            facts = _facts_of(name, document)
            table = EmbeddingTable(
                _kept(_place(folder, name)),
                rows=facts.rows,
                dim=facts.dim,
                optimizer=wish.optimizer,
                seed=facts.seed,
                zeros=wish.zeros,
            )
            self._attach(name, wish, table)

    def _attach(self, name: str, wish: TableRows, table: EmbeddingTable) -> None:
        sides = self._wishes[name]
        self._open[name] = _Open(
            wish=wish, table=table, documents="documents" in sides, items="items" in sides
        )
        self.attach(self._model)

    def attach(self, model: TwoTower) -> None:
        """These rows to towers of the same configuration."""
        for tower in (model.doc, model.query):
            if isinstance(tower, TableTower) and tower.table.name in self._open:
                tower.rows = self._open[tower.table.name].rows

    def sync(self, step: int) -> dict[str, int]:
        """Makes the rows after `step` durable, and returns the version of each table."""
        self._synced[step] = {name: o.table.sync(keep=True) for name, o in self._open.items()}
        return self._synced[step]

    def checkpointed(self, step: int, keep: int) -> None:
        """The checkpoint of `step` is durable: versions before the `keep` newest are forgotten."""
        if not self._wishes or step not in self._synced:
            return
        self._durable = [*(s for s in self._durable if s < step), step][
            -min(keep, _MOST_VERSIONS) :
        ]
        for name, version in self._synced[self._durable[0]].items():
            self._open[name].table.release(version)
        self._synced = {s: v for s, v in self._synced.items() if s >= self._durable[0]}

    def facts(self, seed: int) -> dict[str, dict[str, int]]:
        """For whoever opens the finished model."""
        facts = {"rows": self._rows, "dim": self._dim, "seed": seed}
        return {name: {**facts, "version": o.table.version} for name, o in self._open.items()}

    def close(self, *, whole: bool = False) -> None:
        """`whole`: everything is in the base files afterwards, so that they open at once."""
        for opened in self._open.values():
            opened.table.close() if whole else opened.table.abandon()
        self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(whole=kind is None)

    # --- a step -----------------------------------------------------------------------------------

    def steps_ahead(self, rows_per_step: int) -> int:
        """How many steps are announced: their rows fit into half the memory of the hot rows."""
        if not self._wishes:
            return 0
        slots = min(o.table.stats().most_hot_rows for o in self._open.values())
        return max(2, min(_MOST_AHEAD, slots // (2 * max(1, rows_per_step))))

    def begin(self, now: Needed, coming: Iterable[Needed]) -> None:
        for step in coming:
            for opened in self._open.values():
                opened.table.prefetch(opened.needed(step))
        for opened in self._open.values():
            opened.ids = opened.needed(now)
            opened.leaf = opened.table.get(opened.ids).requires_grad_()

    @property
    def leaves(self) -> list[torch.Tensor]:
        return [o.leaf for o in self._open.values() if o.leaf is not None]

    def finish(self, share: float) -> None:
        """The step of each table's optimizer; `share`: of the learning rate at its peak."""
        for opened in self._open.values():
            if opened.leaf is None or opened.ids is None:
                continue
            if opened.leaf.grad is not None:
                opened.table.optimizer.lr = opened.wish.lr * share
                opened.table.apply_gradients(opened.ids, opened.leaf.grad)
            opened.ids = opened.leaf = None

    def drop(self) -> None:
        """Of a step that failed."""
        for opened in self._open.values():
            opened.ids = opened.leaf = None

    def end_epoch(self) -> Iterator[str]:
        for name, opened in self._open.items():
            said: list[str] = []
            opened.table.end_epoch(say=said.append)
            yield from (f"table {name}: {line}" for line in said)
