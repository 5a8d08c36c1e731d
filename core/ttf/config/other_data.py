"""The data of a finished run with other files, other array names, or another way to read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypedDict

from ttf.config.resolve import resolve
from ttf.config.schema import DataConfig
from ttf.errors import ConfigError

_FLAGS: Final = {"data.pairs": "--pairs", "data.bank": "--bank"}


class OtherData(TypedDict, total=False):
    """How `ttf.training.open_run.open_run` is asked for other data than the run's."""

    pairs: Path | str | None
    bank: Path | str | None
    sets: Sequence[str] | Mapping[str, Any]
    allow_remote: bool


def with_sets(data: DataConfig, sets: Sequence[str] | Mapping[str, Any]) -> DataConfig:
    """`sets`: as for --set, or values by key. Raises ConfigError, also for keys of other sections:
    the rest of a finished run does not change."""
    if not sets:
        return data
    for key in (text.partition("=")[0].strip() for text in sets):
        if key in _FLAGS:
            raise ConfigError(f"--set {key}: use {_FLAGS[key]} instead.")
        if not key.startswith("data."):
            raise ConfigError(
                f"--set {key}: only keys of [data] can be set here, because the run is finished.",
                hint="For example --set data.names.X_val=queries. All keys: ttf config explain data",
            )
    own = {"data": data.model_dump(exclude_none=True)}
    given = {"flags": sets} if isinstance(sets, Mapping) else {"sets": sets}
    return resolve(own, plugins=False, **given).config.data
