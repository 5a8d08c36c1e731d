"""How a key of the configuration is declared: default, description, unit and bounds.

`ttf config explain`, `ttf config schema` and docs/configuration.md show what is written here.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ttf.contracts import Kind
from ttf.text.numbers import seconds

# The largest values. What a run can hold also depends on its data and its machine; `training.
# must_fit` checks that. These only have to be larger than any real run and small enough for
# arithmetic in 64 bits.
MOST_STEPS: Final = 10**9  # eleven days at 1 ms a step
MOST_ROWS: Final = 2**31 - 1  # a row of the bank is 32 bits in the memory bank
MOST_CANDIDATES: Final = 100_000
MOST_SAMPLES: Final = 2**20
MOST_THREADS: Final = 1024
MOST_SHARDS: Final = 4096
MOST_FLOAT32: Final = 3e38  # weights and losses are float32
MOST_BYTES: Final = 2**50
LONGEST_S: Final = 30 * 86_400.0  # thirty days
DURATION_MARK: Final = "duration"  # in the JSON Schema of a key
LONGEST_PATH: Final = 4096
LONGEST_NAME: Final = 256


class Section(BaseModel):
    """A table of keys; its docstring is its description."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def key(
    default: Any,
    description: str,
    *,
    unit: str = "",
    plugin: Kind | None = None,
    max_length: int | None = None,
) -> Any:
    """A key. Numbers have a unit ("optimizer steps", "s", "no unit"); names of plugins their kind.

    `default` is `...` for a key that must be given.
    """
    extra: dict[str, Any] = {"unit": unit} if unit else {}
    if plugin is not None:
        extra["plugin"] = plugin
    return Field(
        default, description=description, json_schema_extra=extra or None, max_length=max_length
    )


def within(least: float, most: float) -> Any:
    """Bounds of a number, both included."""
    return Field(ge=least, le=most)


def _power_of_two(value: int) -> int:
    if value & (value - 1):
        raise ValueError("must be a power of two")
    return value


Auto = Literal["auto"]
Steps = Annotated[int, within(1, MOST_STEPS)]
StepsOrZero = Annotated[int, within(0, MOST_STEPS)]
Candidates = Annotated[int, within(1, MOST_CANDIDATES)]
CandidatesOrZero = Annotated[int, within(0, MOST_CANDIDATES)]
Samples = Annotated[int, within(1, MOST_SAMPLES)]
Shards = Annotated[int, within(1, MOST_SHARDS), AfterValidator(_power_of_two)]
Threads = Annotated[int, within(1, MOST_THREADS)]
PositiveFloat = Annotated[float, Field(gt=0, le=MOST_FLOAT32)]
Share = Annotated[float, within(0, 1)]
ShareBelowOne = Annotated[float, Field(ge=0, lt=1)]


# Seconds, or text as in options: "90s".
_AS_TEXT: Final = (BeforeValidator(seconds), Field(json_schema_extra={DURATION_MARK: True}))
# A limit below a second ends healthy work: processes show a sign of life once a second.
Timeout = Annotated[float, within(1, LONGEST_S), *_AS_TEXT]
Pause = Annotated[float, Field(gt=0, le=LONGEST_S), *_AS_TEXT]
PauseOrZero = Annotated[float, within(0, LONGEST_S), *_AS_TEXT]
PathText = Annotated[str, Field(max_length=LONGEST_PATH)]
Name = Annotated[str, Field(max_length=LONGEST_NAME)]
