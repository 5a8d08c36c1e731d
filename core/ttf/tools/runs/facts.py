"""What a run is and came to, from its folder: configuration, data, environment, result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ttf.errors import DataMissing
from ttf.rundir.confined import names_in
from ttf.rundir.documents import DECISION, InputState, Manifest, Summary
from ttf.rundir.run_record import RunRecord, Setting
from ttf.text.progress.ending import gate_text
from ttf.text.shell import quoted

# A folder with one of these is a run or a guarded command.
MARKS: Final = ("run.toml", "summary.json", "environment.json")
SECTIONS: Final = ("configuration", "data", "environment", "result")
# Not of the configuration itself, and in every run another one.
_PLACES: Final = ("out", "resume")
_RESULTS: Final = (
    *("status", "exit_code", "steps", "epochs", "samples", "kept_step", "chosen_by"),
    *("samples_per_s", "wall_s", "peak_anon_mb", "exact", "restarts", "miner", "weights_sha256"),
)


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    path: Path
    kind: str  # "run" or "guard"
    began: float | None  # Unix seconds
    summary: Summary
    settings: tuple[Setting, ...]
    sections: Mapping[str, Mapping[str, Any]]  # by SECTIONS; flat, with dotted keys
    problems: tuple[str, ...]  # files that could not be read

    @property
    def status(self) -> str:
        """'running' only if a living process holds the folder."""
        return str(self.sections["result"].get("status", "no end"))


def read_facts(path: Path) -> RunFacts:
    """Raises DataMissing if the folder is no run."""
    if not _is_run(path):
        raise DataMissing(
            f"{path} is not the folder of a run or of a guarded command.",
            hint=f"To see the runs in it: ttf runs list {quoted(path)}",
        )
    record = RunRecord(path)
    summary, manifest, settings = record.summary(), record.manifest(), tuple(record.settings())
    guarded = not record.folder.config.exists()
    result = dict(_result(summary))
    if record.owner() is not None:
        result["status"] = "running"
    elif not summary.get("status") or _began_again(record, summary):
        result["status"] = "no end"
    return RunFacts(
        path=path,
        kind="guard" if guarded else "run",
        began=_began(record, manifest),
        summary=summary,
        settings=settings,
        sections={
            "configuration": {s.key: s.text for s in settings if s.key not in _PLACES},
            "data": dict(_data(manifest)),
            "environment": dict(_environment(manifest)),
            "result": result,
        },
        problems=tuple(record.problems),
    )


def runs_in(folders: list[Path]) -> list[Path]:
    """The runs among these folders, directly inside them, and in decisions there. Raises DataMissing if one is no
    folder."""
    found: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise DataMissing(
                f"There is no folder {folder}.", hint="ttf train writes its runs to runs/."
            )
        if _is_run(folder):
            found.append(folder)
        else:
            found += _runs_below(folder)
    return list(dict.fromkeys(found))


def _runs_below(folder: Path) -> Iterator[Path]:
    for name in names_in(folder, folder):
        if _is_run(path := folder / name):
            yield path
        elif (path / DECISION).is_file():
            yield from (p for inner in names_in(path, path) if _is_run(p := path / inner))


def _is_run(path: Path) -> bool:
    return path.is_dir() and any((path / name).is_file() for name in MARKS)


def _began(record: RunRecord, manifest: Manifest) -> float | None:
    if "time" in manifest:
        return manifest["time"]
    for path in (record.folder.manifest, record.folder.config, record.folder.summary):
        if path.is_file():
            return path.lstat().st_mtime
    return None


def _data(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    about = manifest.get("data", {})
    for key, value in about.items():
        if key == "files":
            files: Mapping[str, InputState] = about["files"]
            for name, state in files.items():
                yield f"file {name}", f"{state['bytes']:,} bytes, {state['fingerprint'][:12]}"
        else:
            yield from _flat(key, value)


def _flat(key: str, value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from ((f"{key}.{inner}", v) for inner, v in value.items())
    elif value is not None:
        yield key, value


def _environment(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    for key in ("ttf", "python", "platform", "cpus", "git", "seed"):
        if manifest.get(key) is not None:
            yield key, manifest.get(key)
    for table in ("versions", "plugins", "variables", "environment_left_out"):
        yield from _flat(table, manifest.get(table))
    for key, value in manifest.get("numeric", {}).items():
        if key != "plugins":  # those of the run, as above
            yield from _flat(f"numeric.{key}", value)


def _began_again(record: RunRecord, summary: Summary) -> bool:
    """True if the run was resumed after this summary was written, and did not come to an end."""
    last = record.sittings()[-1:]
    return summary.get("status") != "finished" and any(not one.ended for one in last)


def _result(summary: Summary) -> Iterator[tuple[str, Any]]:
    for key in _RESULTS:
        if summary.get(key) is not None:
            yield key, summary.get(key)
    for table in ("metrics", "metrics_initial"):
        yield from _flat(table, summary.get(table))
    for gate in summary.get("gates") or ():
        yield f"gate at {gate.get('at')}, {gate.get('need')}", gate_text(gate).rpartition(": ")[2]
    if summary.get("incidents"):
        yield "incidents", ", ".join(str(found.get("class")) for found in summary["incidents"])
    if summary.get("hidden"):
        yield "hidden incidents", ", ".join(summary["hidden"])
    for number, deviation in enumerate(summary.get("deviations") or (), start=1):
        yield f"deviation {number}", deviation
