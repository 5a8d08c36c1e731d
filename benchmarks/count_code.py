"""How much there is to read: lines of code and docstrings, and what is too long.

    python benchmarks/count_code.py [ROOT ...]

Blank lines and comments do not count; docstrings do. Counted are the Python files of core/ and
plugins/ (the scaffold's templates are packages of their own and count too) and, as they are code as
well, the page templates (.html, .css, .js) of core/.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import Final

_NOT_CODE: Final = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_MARKUP: Final = {".html", ".css", ".js", ".j2"}


def main() -> None:
    for root in [Path(word) for word in sys.argv[1:]] or [Path(__file__).parents[1]]:
        _count(root)


def _count(root: Path) -> None:
    lines: Counter[str] = Counter()
    long_files, long_classes, long_functions, long_lists = [], [], [], []
    for path in sorted(p for part in ("core", "plugins") for p in (root / part).rglob("*")):
        if path.suffix in _MARKUP:
            lines["page templates"] += sum(bool(x.strip()) for x in path.read_text().splitlines())
        if path.suffix != ".py" or "__pycache__" in path.parts:
            continue
        name = str(path.relative_to(root))
        part = "scaffold" if "templates" in path.parts else path.relative_to(root).parts[0]
        text = path.read_text()
        lines[part] += code_lines(text)
        if (total := len(text.splitlines())) > 400:
            long_files.append(f"{name} {total}")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and _length(node) > 300:
                long_classes.append(f"{name}:{node.name} {_length(node)}")
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if _length(node) > 60:
                    long_functions.append(f"{name}:{node.name} {_length(node)}")
                if (arguments := _arguments(node)) > 8:
                    long_lists.append(f"{name}:{node.name} {arguments}")
    print(f"{root}: {sum(lines.values()):,} lines", dict(lines))
    for title, found in (
        ("files over 400 lines", long_files),
        ("classes over 300", long_classes),
        ("functions over 60", long_functions),
        ("more than 8 arguments", long_lists),
    ):
        print(f"  {title}: {len(found)}", *found, sep="\n    ")


def code_lines(text: str) -> int:
    """Lines that hold a token other than a comment."""
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NOT_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    rows = text.splitlines()
    return sum(bool(rows[number - 1].strip()) for number in held)


def _length(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return len([arg for arg in given if arg.arg not in ("self", "cls")])


if __name__ == "__main__":
    main()
