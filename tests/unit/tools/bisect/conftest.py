"""The fixtures of this room."""

from tests.kit.fixtures.bisect import bisect_home, place
