"""Writes docs/configuration.md from where the keys are declared: `make docs`. A test holds it up to
date."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ttf.config import reference

HEAD = """# The configuration

Made from the declarations of the keys by `make docs`; do not edit by hand.

A run is configured by a TOML or YAML file and by options of `ttf train`. Each value: default < `RUN.toml` < `--set` < option.
`--set KEY=VALUE` sets any key. `ttf config show [RUN.toml]` prints every value with its origin, `ttf config explain KEY`
explains one key, and `ttf config schema` prints a JSON Schema for editors. The word `none` in a file or in `--set`
stands for no value. A run writes what it used to `run.toml` in its folder.

```toml
[data]
pairs = "pairs.npz"
bank = "bank.npz"

[tower.query]
name = "mlp"
hidden = 512

[train]
lr = 3e-4
```

A file that ends in `.yaml` or `.yml` is YAML, and is read wherever a TOML file is (`pip install "twotower[yaml]"`, which
is PyYAML). Its limits are those of TOML; anchors, aliases, tags, a second document and keys given twice are refused.
yes, no, on and off are true and false, as PyYAML reads them, but `1e-3` is a number; what YAML 1.1 and 1.2 read
differently otherwise (`010`, `1:30`, dates) is text. `null` is no value, as `none` is.

Names that other programs use (`bs`, `accum_steps`, `hidden_dim`, `memory_bank_size`, `lr_schedule`, ...) are answered with
the key or option that they are here, all at once, in files, with `--set` and as options; nothing is set by a guess.
`ttf config convert FILE --out run.toml` translates a whole file: what has no counterpart is listed with the reason, and
stays in the file as a comment. Its exit code is 2 if something could not be translated, or a value does not fit its key.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([HEAD, *_lines()])


def _lines() -> Iterator[str]:
    for section in reference.sections():
        name = f"`[{section.path}]`" if section.path else "Outside any section"
        if section.keys[0].listed:
            name = f"`[[{section.path}]]`"
        yield from _section(section, name)
    for section in reference.plugin_sections(only_ours=True):
        if section.path == "tower.doc":
            continue
        also = " or `[tower.doc]`" if section.path == "tower.query" else ""
        yield from _section(section, f"`[{section.path}]`{also}: options of `{section.plugin}`")


def _section(section: reference.Section, name: str) -> Iterator[str]:
    yield f"## {name}\n"
    if not section.plugin:
        yield f"{section.description}\n"
    yield "| key | what | takes | default | unit |"
    yield "| --- | --- | --- | --- | --- |"
    for key in section.keys:
        flag = f" (`{key.flag}`)" if key.flag else ""
        default = f"`{key.default}`" if key.default else "must be given"
        cells = [f"`{key.name}`{flag}", key.description, key.takes, default, key.unit]
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""


if __name__ == "__main__":
    Path(__file__).with_name("configuration.md").write_text(page(), encoding="utf-8")
