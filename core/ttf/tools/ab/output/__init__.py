"""The results of a study for people and for scripts: table, JSON, CSV, Markdown from one Analysis."""

from __future__ import annotations

from ttf.tools.ab.output._markdown import markdown
from ttf.tools.ab.output._terminal import table_lines
from ttf.tools.ab.output.rows import csv_text, document

__all__ = ["csv_text", "document", "markdown", "table_lines"]
