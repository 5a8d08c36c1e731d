"""The results of a study for people and for scripts: table, JSON, CSV, Markdown from one Analysis."""

from __future__ import annotations

from ttf.tools.ab.output._markdown import MARKDOWN_MARK, markdown
from ttf.tools.ab.output._terminal import table_lines
from ttf.tools.ab.output.rows import CSV_MARK, csv_text, document

__all__ = ["CSV_MARK", "MARKDOWN_MARK", "csv_text", "document", "markdown", "table_lines"]
