"""The fixtures of this room."""

from tests.kit.fixtures.report import (
    crashed_run,
    guard_dir,
    person,
)
