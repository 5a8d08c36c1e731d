"""The task of a plugin check: runs pytest on a suite of `ttf.testing` and sends the results.

pytest runs in its own folder, without the user's plugins and settings.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest

    from ttf.process.serve import Tell

_FILE: Final = """\
from ttf.testing import {suite}

class TestPlugin({suite}):
    name = {name!r}
    options = {options!r}
"""
_NO_TESTS: Final = 5


def suite(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Runs the tests that are not in `done`."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    import pytest

    folder = Path(tempfile.mkdtemp())
    names = {key: request[key] for key in ("suite", "name", "options")}
    file = folder / "test_plugin.py"
    file.write_text(_FILE.format(**names))
    folder.joinpath("pytest.ini").write_text("[pytest]\n")
    words = ["-q", "--tb=short", "-p", "no:cacheprovider", "--import-mode=importlib"]
    only = ["-k", request["only"]] if request["only"] else []
    reports = _TestReports(tell, frozenset(request["done"]))
    code = pytest.main(
        [*words, *only, "-c", str(folder / "pytest.ini"), str(file)],
        plugins=[reports],
    )
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, _NO_TESTS):
        raise RuntimeError(f"pytest ended with {code!r}")
    return {"found": reports.found}


class _TestReports:
    """A plugin of pytest that sends each test when it begins and when it ends."""

    def __init__(self, tell: Tell, done: frozenset[str]) -> None:
        self._tell, self._done = tell, done
        self._worst: dict[str, Any] = {}
        self.found = 0  # including the tests in `done`

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.name not in self._done]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.found = len(session.items) + len(self._done)

    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self._worst = {"status": "ok", "why": "", "text": ""}
        self._seconds = 0.0
        self._tell({"at": item.name, "test": item.name})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds += report.duration
        if report.failed:
            self._worst = {
                "status": "fail",
                "why": _message(report),
                "text": report.longreprtext,
            }
        elif report.skipped and self._worst["status"] == "ok":
            self._worst = {"status": "skip", "why": _reason(report), "text": ""}
        if report.when == "teardown":
            test = report.nodeid.rpartition("::")[2]
            self._tell({"test": test, "seconds": self._seconds, **self._worst})


def _message(report: pytest.TestReport) -> str:
    """The first lines of the error."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = [line for line in str(crash.message).splitlines() if line.strip()] if crash else []
    return " ".join(lines[:2]) if lines else ""


def _reason(report: pytest.TestReport) -> str:
    where = report.longrepr
    text = where[2] if isinstance(where, tuple) else str(where)
    return text.removeprefix("Skipped: ")
