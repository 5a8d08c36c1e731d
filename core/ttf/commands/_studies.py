"""What the commands of studies share: their options, and what they say when they are stopped."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ttf.commands._common import PATH
from ttf.errors import Stopped

if TYPE_CHECKING:
    from ttf.tools.studies.study import Study


class Duration(click.ParamType[float]):
    """Seconds from 90, 90s, 10m or 2h."""

    name = "TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", str(value).strip())
        if match is None or not float(match[1]):
            self.fail(f"{value!r} is no time; write it like 90s, 10m or 2h.", param, ctx)
        return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


class Bytes(click.ParamType[int]):
    """A size as in 500MB or 12GB."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMG]?)B?", str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no size; write it like 500MB or 12GB.", param, ctx)
        return int(float(match[1]) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[match[2]])


@contextmanager
def signals_raise() -> Iterator[None]:
    """SIGTERM as SIGINT: what is running is ended, then the partial result is shown."""

    def stop(signum: int, frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(signum, "stopped")

    before = {s: signal.signal(s, stop) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def stopped(
    study: Study[Any, Any], stop: BaseException, text: str, partial: Mapping[str, Any]
) -> Stopped:
    """Of a Stopped or a KeyboardInterrupt; the partial result stands beside the error in --json."""
    terminated = isinstance(stop, Stopped) and int(stop.exit_code) != 128 + signal.SIGINT
    error = Stopped(
        signal.SIGTERM if terminated else signal.SIGINT,
        text,
        hint=f"Continue with: {study.resume_command(study.folder)}",
    )
    error.details = {"study": dict(partial)}
    return error


hang_timeout_option = click.option(
    "--hang-timeout",
    "hang_timeout_s",
    type=Duration(),
    help="So long without a sign of life is a hang, e.g. 60s.",
)
resume_option = click.option("--resume", type=PATH, metavar="DIR", help="Continue this study.")
