"""Fresh environments, here as in tests/packages: a generated package is installed like any other."""

from __future__ import annotations

from tests.system.packages.conftest import (
    environments,
    fresh_environment,
    of_all_workers,
    project_wheel,
)

__all__ = ["environments", "fresh_environment", "of_all_workers", "project_wheel"]
