"""Does a `ttf` that was restructured inside still do for its users what an earlier one did?

What users can see of one version is recorded, and two recordings are laid beside each other:

- texts: every command's --help, completions, what `import ttf` offers;
- weights: sha256, metrics and losses of tiny runs over towers, miners, storages and settings;
- runs: folders of runs, crashes, studies and a guarded command: exit codes, files, keys;
- documents: what commands print, and their --json, or its keys and types;
- wrong: exit code and message of inputs that are wrong;
- old-runs: what becomes of the folders of `runs` when they are resumed, evaluated, reported, ...

    python benchmarks/same_for_users.py record --python /old/.venv/bin/python --out OLD
    python benchmarks/same_for_users.py record --python .venv/bin/python --out NEW --data OLD
    python benchmarks/same_for_users.py compare OLD NEW
    python benchmarks/same_for_users.py old-runs OLD --python .venv/bin/python

The lines that are tried stand in same_for_users.toml. `--data OLD`: the same data under the same
paths. Nothing of ttf is imported here, so that one script serves every version; it needs numpy.
Times, speeds and memory are compared by type. Exit code 1: something differs.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

Seen = Iterator[tuple[str, Any]]
"""The name of a check and what was seen, as JSON."""
Array = np.ndarray[Any, Any]

CASES: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
LONGEST_S: Final = 300.0
DATA: Final = re.compile(r"^(.*/.*|\d+|[0-9a-f]{16,})$")  # keys: paths, numbers, hashes
THE_END: Final = "came to its end"
MOST_SHOWN: Final = 4  # differences of one check that are spelled out


# --- a version at work ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said; paths and process ids are masked."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """What it says went wrong, hint included; else its last line."""
        at = self.err.find("error: ")
        return self.err[at:].strip() if at >= 0 else (self.err.strip().splitlines() or [""])[-1]

    @property
    def document(self) -> Any:
        """The JSON on standard output, or what stood there instead."""
        try:
            return json.loads(self.out)
        except ValueError:
            return {"no JSON": self.out, "message": self.message}

    @property
    def outcome(self) -> dict[str, Any]:
        """Of a run; of one that failed, the summary beside the error."""
        found = self.document.get("summary", self.document)
        kept = {key: found[key] for key in CASES["of_a_run"] if key in found}
        return {"code": self.code, "errors": numberless(self.message) if self.code else []} | kept


@dataclass(frozen=True)
class Version:
    """The `ttf` of an interpreter, the data it is shown, and the folder it works in."""

    python: Path
    data: Path
    place: Path

    def at(self, place: Path) -> Version:
        """The same one in a folder that is made anew, with an empty cache."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return replace(self, place=place)

    def ttf(self, line: str, *, fault: str = "") -> Ended:
        return self.ended(self.start(["-m", "ttf", *self.words(line)], fault=fault))

    def train(self, line: str, out: str, *, fault: str = "") -> Ended:
        """A line of [weights], whose run is called `out`."""
        return self.ended(self.start(self.training(line, out), fault=fault))

    def start(self, words: list[str], *, fault: str = "") -> subprocess.Popen[bytes]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TTF_", "PYTHON"))}
        own = {"TTF_HOME": str(self.place / "home"), "PYTHONPATH": str(self.data / "site")}
        own |= {"PYTHONPYCACHEPREFIX": str(self.data / "pyc"), "NO_COLOR": "1", "COLUMNS": "100"}
        return subprocess.Popen(
            [self.python, *words],
            cwd=self.place,
            env=kept | own | ({"SAME_FAULT": fault} if fault else {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def ended(self, process: subprocess.Popen[bytes]) -> Ended:
        try:
            told = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Ended(code=-1, out="", err=f"error: not done after {LONGEST_S:g} s")
        out, err = (self.mask(text.decode(errors="replace")) for text in told)
        return Ended(code=process.returncode, out=out, err=err)

    def mask(self, text: str) -> str:
        """Also folders of the other version, which an old run's folder may name."""
        for path, name in ((self.data, "DATA"), (self.place, "PLACE"), (self.python, "PYTHON")):
            text = text.replace(str(path), name)
        folder = r"/[^\s\"'<>&:,;=()\[\]]*/"
        text = re.sub(rf"{folder}(core|site-packages|plugins/\w+)/(?=\w)", "CODE/", text)
        text = re.sub(rf"{folder}bin/python[\d.]*", "PYTHON", text)
        text = re.sub(r"\b(process|pid) \d+", r"\1 N", text, flags=re.IGNORECASE)
        return re.sub(r"0x[0-9a-f]{6,}", "0xN", text)

    def words(self, line: str) -> list[str]:
        """A line of the table as words; masked names stand for what they mask."""
        line = line.replace("TRAIN", CASES["train"]).replace("PYTHON", str(self.python))
        return shlex.split(line.replace("DATA", str(self.data)))

    def training(self, line: str, out: str) -> list[str]:
        """A line of [weights] over what all of them have in common."""
        name, *own = line.split()
        chosen = dict(itertools.pairwise(own))
        small = [
            f"tower.{role}.{option}"
            for role, flag in (("query", "--tower"), ("doc", "--doc-tower"))
            for option in CASES["small"].get(chosen.get(flag), "").split()
        ]
        found = ["-m", "ttf", "train", "--out", out, "--json", *self.words(CASES["sets"][name])]
        for word in (*CASES["always"].split(), *small, *own):
            found += ["--set", word] if re.match(r"\w[\w.]*=", word) else [word]
        return found


# --- what is compared of a value ------------------------------------------------------------------


def shape(value: Any) -> list[str]:
    """Keys and types of a JSON value; the elements of a list count as one."""
    return sorted(_shape(value, ""))


def keys(value: Any) -> list[str]:
    """Without types: where it depends on the time whether there is a figure, or null."""
    return sorted({line.partition(": ")[0] for line in shape(value)})


def _shape(value: Any, at: str) -> set[str]:
    if isinstance(value, Mapping):
        inner = (_shape(v, f"{at}.{DATA.sub('*', k)}") for k, v in value.items())
        return {f"{at}: object"}.union(*inner)
    if isinstance(value, list):
        return {f"{at}: list"}.union(*(_shape(v, f"{at}[]") for v in value))
    return {f"{at}: {'null' if value is None else type(value).__name__}"}


def contents(files: Iterable[Path]) -> dict[str, list[Any]]:
    """What JSON files hold, and the lines of JSONL files by their kind."""
    found: dict[str, list[Any]] = {}
    for file in files:
        text = file.read_text()
        for entry in map(json.loads, text.splitlines() if file.suffix == ".jsonl" else [text]):
            found.setdefault(entry.get("type", ""), []).append(entry)
    return found


def listing(folder: Path) -> list[str]:
    """Its files; hashes and numbers are one another's equal."""
    names = (str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    return sorted({re.sub(r"\d+", "N", re.sub(r"[0-9a-f]{10,}", "H", name)) for name in names})


def numberless(text: str) -> list[str]:
    """The lines of a text for people, whatever its numbers and so the widths of its columns are."""
    text = re.sub(r"\b[0-9a-f]{32,}\b", "H", text)
    number = r"[-+]?\b\d[\d,.]*(e[-+]?\d+)?( (ms|s|min|kB|MB|GB)\b)?"
    return [re.sub(r"[\s-]+", " ", re.sub(number, "N", line)) for line in text.splitlines()]


def visible(page: str) -> list[str]:
    """The texts of an HTML page without its charts, in any order: some are sorted by time."""
    text = re.sub(r"<svg.*?</svg>|>not compared<", "", page, flags=re.DOTALL)
    return sorted(set(numberless(re.sub(r"(\s*<[^>]+>\s*)+", "\n", text))))


def arrays(file: Path) -> Any:
    """Names, types, shapes and contents of an NPZ."""
    if not file.is_file():
        return "not there"
    with np.load(file) as found:
        return {k: [str(v.dtype), list(v.shape), digest(v.tobytes())] for k, v in found.items()}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


# --- data -----------------------------------------------------------------------------------------


def prepare(version: Version) -> None:
    """Data sets, and plugins of others as `ttf plugins new` writes them, all by this version."""
    _install_plugins(version)
    for line in CASES["data"]:
        if (ended := version.ttf(line)).code:
            raise SystemExit(f"the data could not be made: ttf {line}: {ended.message}")
    with np.load(version.place / "npz" / "pairs.npz") as found:
        pairs = dict(found)
    rng = np.random.default_rng(5)
    windows = {}
    for part, count in (("train", 256), ("val", 64)):
        rows = rng.integers(0, 890, (count, 1)) + np.arange(6)
        rows[::5, 4:] = -1  # padding
        windows[f"seq_{part}"] = rows.astype(np.int32)
    files: dict[str, dict[str, Array]] = {
        "names": {"queries" if k == "X_train" else k: v for k, v in pairs.items()},
        "flat": {k: v[:, 2] if k.startswith("X_") else v for k, v in pairs.items()},
        "windows": windows | {k: v for k, v in pairs.items() if k.startswith("pos_")},
        "context": {"vectors": _vectors(900, 16, seed=4)},
    }
    _write(version.place, files)


def _install_plugins(version: Version) -> None:
    """In a folder for sys.path, with the metadata that an installation leaves."""
    site = version.place / "site"
    entries = {"observer.same-fault": "same_fault"}
    for kind in ("tower", "miner", "storage", "observer"):
        version.ttf(f"plugins new {kind} own-{kind} --out plugins/{kind}")
        package = version.place / "plugins" / kind
        shutil.copytree(package / "src", site, dirs_exist_ok=True)
        project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
        entries |= project["entry-points"]["ttf.v1"]
    (site / "same_fault.py").write_text(CASES["code"]["fault"])
    info = site / "same_for_users-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: same-for-users\nVersion: 1.0\n")
    lines = ["[ttf.v1]", *(f"{name} = {module}" for name, module in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))


def _vectors(rows: int, *more: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((rows, *more)).astype(np.float32)


def _write(place: Path, files: Mapping[str, Mapping[str, Array]]) -> None:
    save: Callable[..., None] = np.savez  # names of arrays are no parameters of it
    for name, members in files.items():
        save(place / f"{name}.npz", **members)


def make_wrong_files(place: Path) -> None:
    """Good pairs and a good bank, and each of the ways to be wrong in a file of its own."""
    good = {"X_train": _vectors(64, 8), "X_val": _vectors(16, 8, seed=1)}
    good |= {"pos_train": np.arange(64) % 40, "pos_val": np.arange(16) % 40}
    bank = _vectors(40, 8, seed=2)
    nan, inf = good["X_train"].copy(), bank.copy()
    nan[5, 1], inf[9, 0] = np.nan, np.inf
    rows = {"seq_train": np.arange(128).reshape(64, 2), "seq_val": np.arange(32).reshape(16, 2)}
    files = {
        "pairs": good,
        "pickled": good | {"X_train": np.array([{"a": 1}] * 64, dtype=object)},
        "nan": good | {"X_train": nan},
        "rank": good | {"X_train": good["X_train"][:, 0]},
        "beyond": good | {"pos_train": np.full(64, 40)},
        "unknown": good | {"pos_train": np.full(64, -1)},
        "unpaired": {k: v for k, v in good.items() if k != "pos_train"},
        "windows": rows | {k: v for k, v in good.items() if k.startswith("pos_")},
        "bank": {"vectors": bank},
        "inf": {"vectors": inf},
        "wide": {"vectors": _vectors(40, 9)},
        "twice": {"vectors": bank, "ids": np.zeros(40, np.int64)},
    }
    _write(place, files)
    np.savez_compressed(place / "deflated.npz", X_train=good["X_train"])
    whole = (place / "pairs.npz").read_bytes()
    (place / "half.npz").write_bytes(whole[: len(whole) // 2])
    for name, text in CASES["files"].items():
        (place / name).write_text(text)


# --- what is looked at ----------------------------------------------------------------------------


def texts(version: Version) -> Seen:
    waiting = ["ttf"]
    while waiting:
        command = waiting.pop()
        text = version.ttf(f"{command[3:]} --help").out
        yield f"{command} --help", text
        listed = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
        names = re.findall(r"^  ([\w-]+)", listed[1], re.MULTILINE) if listed else []
        waiting += [f"{command} {name}" for name in names]
    for shell in ("bash", "zsh", "fish"):
        yield f"ttf completion {shell}", version.ttf(f"completion {shell}").out
    yield from version.ended(version.start(["-c", CASES["code"]["offered"]])).document.items()


def weights(version: Version) -> Seen:
    for number, (name, line) in enumerate(CASES["weights"].items()):
        ended = version.train(line, f"run-{number}")
        yield name, ended.outcome | {"losses": _losses(version.place / f"run-{number}")}


def _losses(run: Path) -> list[Any]:
    return [entry["loss"] for entry in contents(run.glob("metrics.jsonl")).get("step", ())]


def runs(version: Version) -> Seen:
    """Makes the folders that `documents` and `old_runs` start from."""
    place, base = version.place, CASES["base"]
    made = {
        "finished": version.train(base, "finished"),
        "restarted": version.train(base, "restarted", fault="kill 25 killed"),
        "crashed": version.train(f"{base} {CASES['never']}", "crashed", fault="segv 25 died"),
    }
    yield from _stopped(version, f"{base} --steps 200", made)
    shutil.copy(place / "finished" / "run.toml", place / "base.toml")
    made |= {name: version.ttf(line) for name, line in CASES["studies"].items()}
    for name, ended in made.items():
        folder, typed = place / name, keys if name == "study" else shape
        yield (
            f"{name}: outcome",
            {"code": ended.code} if name in CASES["studies"] else ended.outcome,
        )
        yield f"{name}: --json", typed(ended.document)
        yield f"{name}: files", listing(folder)
        for file in sorted(folder.glob("run.toml")):
            yield f"{name}: run.toml", version.mask(file.read_text())
        for pattern in CASES["json_files"]:
            if found := contents(folder.glob(pattern)):
                yield f"{name}/{pattern}", typed(found)
        for file in sorted(folder.glob("incidents/*/incident.json")):
            told = json.loads(version.mask(file.read_text()))
            steady = {key: told.get(key) for key in CASES["of_an_incident"]}
            yield f"{file.relative_to(place)}", steady


def _stopped(version: Version, line: str, made: dict[str, Ended]) -> Seen:
    """A run held at a step, looked at from outside, and stopped there by SIGTERM."""
    held = version.place / "held"
    process = version.start(version.training(line, "stopped"), fault=f"hold 30 {held}")
    try:
        ends_at = time.monotonic() + LONGEST_S
        while not held.exists() and process.poll() is None and time.monotonic() < ends_at:
            time.sleep(0.02)
        busy = version.ttf("resume stopped")
        yield "folder in use", [busy.code, busy.message]
        live = version.ttf("monitor stopped --json")
        yield "monitor of a live run", [live.code, *keys(live.document)]
        process.send_signal(signal.SIGTERM)
        time.sleep(1.0)  # the request is there before the step ends
    finally:
        held.unlink(missing_ok=True)
        made["stopped"] = version.ended(process)


def documents(version: Version) -> Seen:
    """Commands that report, as people read them and as scripts do."""
    _copy_runs(version)
    tried = CASES["documents"]
    found = version.ttf("plugins list --json").document
    shown = [f"plugins show {plugin['kind']}.{plugin['name']}" for plugin in found]
    for line in [*tried["same"], *tried["same_json"], *shown]:
        ended = version.ttf(f"{line} --json")
        yield f"{line} --json", [ended.code, ended.document]
    for line in [*tried["keys"], *tried["keys_json"]]:
        ended = version.ttf(f"{line} --json")
        yield f"{line} --json", [ended.code, *shape(ended.document)]
    for line in [*tried["same"], *tried["keys"], *tried["text"]]:
        ended = version.ttf(line)
        yield line, [ended.code, *numberless(ended.out)]
    for name in ("found", "mined", "mined-faiss", "small", "small-bank", "synth/pairs"):
        yield f"{name}.npz: contents", arrays(version.place / f"{name}.npz")
    other = version.place / "other"
    yield "plugins new: files", [fingerprint(other), *listing(other)]


def wrong(version: Version) -> Seen:
    make_wrong_files(version.place)
    version.ttf("TRAIN --out run")
    left_out = shutil.ignore_patterns("checkpoints", "summary.json")
    shutil.copytree(version.place / "run", version.place / "robbed", ignore=left_out)
    for number, (name, line) in enumerate(CASES["wrong"].items()):
        new_folder = "TRAIN" in line and "--out" not in line
        ended = version.ttf(f"{line} --out run-{number}" if new_folder else line)
        yield name, [ended.code, ended.message, *numberless(ended.out)]
    for line in CASES["wrong_json"]:
        ended = version.ttf(line)
        found = ended.document
        yield line, [ended.code, found if set(found) == {"error"} else shape(found)]


def old_runs(version: Version) -> Seen:
    """What becomes of the folders of `runs`, copies of which lie here."""
    _copy_runs(version)
    again = version.ttf("train finished/run.toml --out again --json")
    yield "finished: trained again", again.outcome
    for name in ("finished", "restarted", "stopped", "crashed"):
        yield from _looked_at(version, name)
        yield f"{name}: resume", version.ttf(f"resume {name} --json").outcome
        yield f"{name}: losses after resume", _losses(version.place / name)
        yield f"{name}: files after resume", listing(version.place / name)
        ended = version.ttf(f"eval {name} --json")
        yield f"{name}: eval", [ended.code, ended.document]
        out = f"{name}-found.npz"
        ended = version.ttf(f"search {name} --queries DATA/npz/pairs.npz -k 4 --out {out}")
        yield f"{name}: search", [ended.code, ended.message, arrays(version.place / out)]
    ended = version.ttf("mine finished -k 5 --miner exact --out mined.npz")
    yield "finished: mine", [ended.code, arrays(version.place / "mined.npz")]
    yield from _looked_at(version, "study")
    yield from _looked_at(version, "guard")
    for line in ("ab --resume study --repeats 3 --json", "bisect --resume bisect --json"):
        ended = version.ttf(line)
        yield line, [ended.code, *keys(ended.document)]


def _looked_at(version: Version, name: str) -> Seen:
    """Explained, monitored, reported and bundled."""
    ended = version.ttf(f"explain {name}")
    yield f"{name}: explain", [ended.code, ended.message, *numberless(ended.out)]
    ended = version.ttf(f"monitor {name} --json")
    told = ended.document.get("run") or {}
    steady = {key: told.get(key) for key in ("step", "total_steps", "restarts", "evaluated")}
    end = numberless(json.dumps([told.get("ended"), told.get("incidents")]))
    yield f"{name}: monitor", [ended.code, steady, *end, *shape(ended.document)]
    ended = version.ttf(f"report {name} --bundle {name}.zip --json")
    names: list[str] = []
    if ended.code == 0:
        with zipfile.ZipFile(version.place / f"{name}.zip") as archive:
            names = sorted({re.sub(r"\d+", "N", entry) for entry in archive.namelist()})
    yield f"{name}: report --bundle", [ended.code, ended.message, *names]
    page = version.place / name / "report.html"
    yield f"{name}: report.html", visible(version.mask(page.read_text()))


def _copy_runs(version: Version) -> None:
    """Fresh copies of the folders of `runs`, which stay as they are."""
    for name in CASES["runs"]:
        shutil.copytree(version.place.parent / "runs" / name, version.place / name)


LOOKED_AT: Final = (texts, weights, runs, documents, wrong, old_runs)
GROUPS: Final = {group.__name__.replace("_", "-"): group for group in LOOKED_AT}


# --- recording and comparing ----------------------------------------------------------------------


def record(version: Version, groups: list[str]) -> int:
    """Writes seen/GROUP.json, each group as soon as it is done; 2 where something went amiss."""
    if not (version.data / "context.npz").is_file():
        prepare(version.at(version.data))
    vain: list[str] = []
    for group in groups:
        began = time.monotonic()
        seen = look(group, version.at(version.place / group))
        file = version.place / "seen" / f"{group}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(seen, indent=1))
        vain += [f"not what was wanted: {group}: {doubt}" for doubt in doubts(group, seen)]
        print(f"{group}: {len(seen)} checks in {time.monotonic() - began:.0f} s", file=sys.stderr)
    print("\n".join(vain), end="\n" if vain else "", file=sys.stderr)
    return 2 if vain else 0


def look(group: str, version: Version) -> dict[str, Any]:
    """All checks of a group, whether it came to its end, and what data it was shown."""
    seen: dict[str, Any] = {THE_END: "yes"}
    try:
        seen.update(GROUPS[group](version))  # what came before an error stays
    except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        seen[THE_END] = version.mask(f"no: {type(error).__name__}: {error}")
    return dict(json.loads(json.dumps(seen | {"the data": fingerprint(version.data)})))


def doubts(group: str, seen: Mapping[str, Any]) -> list[str]:
    """Checks that say little, because what they look at did not come about."""
    codes = {f"{name}: outcome": code for name, code in CASES["runs"].items()}
    wanted = {"runs": codes, "weights": dict.fromkeys(CASES["weights"], 0)}.get(group, {})
    found = [name for name, code in wanted.items() if seen.get(name, {}).get("code") != code]
    found += [name for name, value in seen.items() if group == "wrong" and value[0] in (0, -1)]
    return found + [seen[THE_END]] * (seen[THE_END] != "yes")


def fingerprint(data: Path) -> str:
    """Of the data and the plugins of others: both sides must have been shown the same."""
    paths = sorted(p.relative_to(data) for p in data.rglob("*") if p.is_file())
    kept = [p for p in paths if p.parts[0] not in ("pyc", "home")]
    return digest(b"".join(str(p).encode() + (data / p).read_bytes() for p in kept))


def compare(group: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[bool]:
    """Prints a row a check; which of them are equal."""
    verdicts = []
    for name in [*old, *(name for name in new if name not in old)]:
        if name in old and name in new:
            found = differences(old[name], new[name])
        else:
            found = [f"only in the {'old' if name in old else 'new'} one"]
        verdicts.append(not found)
        more = [f"and {len(found) - MOST_SHOWN} more"] * (len(found) > MOST_SHOWN)
        row = f"{group + ': ' + name:72.72}  {'DIFFERENT' if found else 'equal    '}"
        print("  ".join([row, "; ".join(found[:MOST_SHOWN] + more)]).rstrip())
    return verdicts


def differences(old: Any, new: Any) -> list[str]:
    """What is only in one of two values, in words; none where they are equal."""
    if json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True):  # 1 is not 1.0 here
        return []
    before, after = leaves(old), leaves(new)
    gone = [f"- {line}" for line in before if line not in after]
    return gone + [f"+ {line}" for line in after if line not in before] or ["another order"]


def leaves(value: Any, at: str = "") -> list[str]:
    """A value as lines, each with its place; the place in a text or a list of texts is left out."""
    if isinstance(value, Mapping) and value:
        return [line for k, v in value.items() for line in leaves(v, f"{at}.{k}")]
    if isinstance(value, list) and value:
        places = ("" if isinstance(v, str) else f"[{number}]" for number, v in enumerate(value))
        return [line for v, n in zip(value, places, strict=True) for line in leaves(v, at + n)]
    lines = value.splitlines() if isinstance(value, str) and value else [json.dumps(value)]
    return [f"{at} {line}".strip()[:200] for line in lines]


def recorded(folder: Path, group: str) -> dict[str, Any]:
    file = folder / "seen" / f"{group}.json"
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="write down what users of a version see")
    recording.add_argument("--out", type=Path, required=True)
    recording.add_argument("--data", type=Path, help="a recording, whose data is used again")
    comparing = commands.add_parser("compare", help="lay two recordings beside each other")
    going_on = commands.add_parser("old-runs", help="let a version go on with another's runs")
    for command in (comparing, going_on):
        command.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    for command in (recording, going_on):
        command.add_argument("--python", type=Path, required=True)
    for command in (recording, comparing):
        command.add_argument("--only", choices=GROUPS, action="append", help="only this group")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    if given.command == "record":
        out = given.out.absolute()
        data = (given.data or out).absolute() / "data"
        version = Version(python=given.python.absolute(), data=data, place=out)
        return record(version, given.only or list(GROUPS))
    old, verdicts = given.old.absolute(), []
    if given.command == "compare":
        for group in given.only or GROUPS:
            verdicts += compare(group, recorded(old, group), recorded(given.new, group))
    else:
        version = Version(python=given.python.absolute(), data=old / "data", place=old)
        seen = look("old-runs", version.at(old / "old-runs-again"))
        verdicts = compare("old-runs", recorded(old, "old-runs"), seen)
    different = verdicts.count(False)
    print(f"{len(verdicts)} checks: {len(verdicts) - different} equal, {different} DIFFERENT")
    return 1 if different or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
