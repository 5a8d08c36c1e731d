"""Builds a bundle: collects, redacts and renders, and keeps it small enough to send."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ttf.rundir.outputs import write_output
from ttf.text.limited_json import parsed_json
from ttf.text.secrets import struck_out
from ttf.tools.report.bundle._collect import Bounds, Taken, collect
from ttf.tools.report.bundle._identity import identity_of
from ttf.tools.report.bundle._readme import Removed, readme
from ttf.tools.report.bundle._redact import Redactor
from ttf.tools.report.bundle._reproduce import Reproducer, reproducers
from ttf.tools.report.page import FILE, RunFiles, page_of, read_run, struck

MOST_BYTES: Final = 1_000_000
_BOUNDS: Final = (
    Bounds(incidents=20, file_bytes=128 << 10),
    Bounds(incidents=10, file_bytes=48 << 10),
    Bounds(incidents=3, file_bytes=8 << 10),
)
# Real file times would reveal a time zone. The same run makes the same bundle.
# In the first file of every bundle, which is stored as it is.
README: Final = "README.txt"
MARK: Final = README.encode() + b"Bundle of "
_WHEN: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Bundle:
    path: Path
    bytes: int
    files: tuple[str, ...]
    redacted: Mapping[str, int]  # by kind
    secrets: Mapping[str, int]  # by name, those struck out when the files were written included
    reproducers: tuple[Reproducer, ...]


def write_bundle(run_dir: Path, out: Path, attached: Sequence[Path] = ()) -> Bundle:
    """Writes the whole zip or nothing. Raises StorageError.

    `attached`: other text files to send along, with different names.
    """
    made: tuple[bytes, Bundle] | None = None
    for bounds in _BOUNDS:
        made = _build(run_dir, out, bounds, attached)
        if made[1].bytes <= MOST_BYTES:
            break
    assert made is not None
    write_output(out, made[0], "bundle")
    return made[1]


def _build(
    run_dir: Path, out: Path, bounds: Bounds, attached: Sequence[Path]
) -> tuple[bytes, Bundle]:
    taken = collect(run_dir, bounds, attached)
    run = read_run(run_dir)
    identity = identity_of(run_dir)
    identity.learn(file.text for file in taken)
    redactor = Redactor(identity, known_paths(run, run_dir))
    files = {file.name: _redacted(file, redactor) for file in taken}
    shown = struck(run, redactor)
    scripts = tuple(reproducers(shown))
    secrets = struck_out(files.values())
    if redactor.url_passwords:
        secrets["url-password"] += redactor.url_passwords
    counts = dict(redactor.counts)  # the page repeats what the files say
    if secrets:
        counts["secret"] = secrets.total()
    page = redactor.names(page_of(shown).decode())
    for script in scripts:
        if script.text:
            files[f"reproduce/{script.name}"] = redactor.names(script.text)
    shortened = {file.name: file.left_out for file in taken if file.left_out}
    name = redactor.text(run.name)
    removed = Removed(kinds=counts, secrets=secrets, common=len(identity.common))
    explained = readme(name, files, scripts, shortened, removed)
    whole = {README: explained, FILE: page, **files}
    data = _zipped(whole)
    found = Bundle(
        path=out,
        bytes=len(data),
        files=tuple(whole),
        redacted=counts,
        secrets=secrets,
        reproducers=scripts,
    )
    return data, found


def _zipped(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, _WHEN)
            entry.compress_type = zipfile.ZIP_STORED if name == README else zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text.encode(errors="replace"))
    return buffer.getvalue()


# --- redacting whole files ------------------------------------------------------------------------


def _redacted(file: Taken, redactor: Redactor) -> str:
    # JSON is redacted value by value, so that no escape hides a name.
    if file.name.endswith(".json"):
        parsed = _parsed(file.text)
        if parsed is not None:
            return json.dumps(redactor.value(parsed), indent=2, ensure_ascii=False) + "\n"
    if file.name.endswith(".jsonl"):
        return "".join(f"{line}\n" for line in _lines(file.text, redactor))
    return redactor.text(file.text)


def _lines(text: str, redactor: Redactor) -> Iterator[str]:
    for line in text.splitlines():
        parsed = _parsed(line)
        if parsed is None:
            yield redactor.text(line)
        else:
            yield json.dumps(redactor.value(parsed), ensure_ascii=False)


def _parsed(text: str) -> Any:
    try:
        return parsed_json(text.encode(), numbers=False)
    except ValueError:
        return None


def known_paths(run: RunFiles, run_dir: Path) -> list[str]:
    """Every path in the run's own files, including paths that no pattern finds."""
    about = run.manifest.get("data", {})
    found = [about.get("pairs"), about.get("bank"), about.get("context"), *about.get("files", {})]
    for key, value, _ in run.config:
        if key.startswith(("data.", "train.init")):
            found.append(_unquoted(value))
    for words in (run.summary.get("command"), run.manifest.get("command")):
        found += [part for word in _words(words) for part in (word, word.partition("=")[2])]
    here = Path.cwd()
    found += [str(run_dir), str(run_dir.resolve()), str(run_dir.absolute().parent), str(here)]
    known = [path for path in found if path]
    return [*known, *(str(Path(path).parent) for path in known if path.startswith("/"))]


def _words(command: Any) -> Iterable[str]:
    if isinstance(command, str):
        return command.split()
    return map(str, command) if isinstance(command, list) else ()


def _unquoted(value: str) -> str:
    try:
        return str(parsed_json(value.encode(), numbers=False))
    except ValueError:
        return value
