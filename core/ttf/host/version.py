"""The version of ttf; also in pyproject.toml, a test compares the two."""

__version__ = "0.1.0"
