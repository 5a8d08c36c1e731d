"""What `ttf ab` and `ttf bisect` do when they are stopped."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from ttf.commands._signals import handled
from ttf.errors import Stopped

if TYPE_CHECKING:
    from ttf.tools.studies.study import Study


@contextmanager
def stopped_in_order(
    study: Study[Any, Any], told: Callable[[], tuple[str, Mapping[str, Any]]]
) -> Iterator[None]:
    """Ends the study at Ctrl-C or SIGTERM and raises Stopped.

    `told` returns the message and the partial result, which --json prints in the error.
    """

    def stop(signum: int, frame: Any) -> NoReturn:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(signum, "stopped")

    try:
        with handled((signal.SIGINT, signal.SIGTERM), stop):
            yield
    except (Stopped, KeyboardInterrupt) as stopped:
        terminated = isinstance(stopped, Stopped) and int(stopped.exit_code) != 128 + signal.SIGINT
        text, partial = told()
        error = Stopped(
            signal.SIGTERM if terminated else signal.SIGINT,
            text,
            hint=f"Continue with: {study.resume_command(study.folder)}",
        )
        error.details = {"study": dict(partial)}
        raise error from None
