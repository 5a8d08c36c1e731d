"""The fixtures of this room."""

from tests.kit.report.fixtures import (
    crashed_run,
    guard_dir,
    person,
)
