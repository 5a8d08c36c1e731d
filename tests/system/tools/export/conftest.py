"""The finished run of tests/kit."""

from tests.kit.fixtures.trained import place, trained

__all__ = ["place", "trained"]
