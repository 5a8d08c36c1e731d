"""What a study found, for people and for scripts: table, JSON, CSV, Markdown, of one Analysis."""

from __future__ import annotations

from ttf.ab.telling._document import csv_text, document
from ttf.ab.telling._markdown import markdown
from ttf.ab.telling._terminal import table_lines

__all__ = ["csv_text", "document", "markdown", "table_lines"]
