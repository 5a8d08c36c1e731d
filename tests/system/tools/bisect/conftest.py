"""The fixtures of this room."""

from tests.kit.bisect.fixtures import bisect_home, place
