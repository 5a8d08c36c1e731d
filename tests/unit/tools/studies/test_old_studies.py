"""Studies that an older version began are continued: what it wrote is read, and written alike."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ttf.errors import ConfigError, DataMissing, FolderInUse
from ttf.tools.ab.study import ABStudy
from ttf.tools.bisect.study import BisectStudy
from ttf.tools.studies.study import SETTINGS, Study

RECORDED = Path(__file__).parents[3] / "recorded" / "studies"
KINDS: list[type[Study[Any, Any]]] = [ABStudy, BisectStudy]

of_every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.COMMAND)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RECORDED, tmp_path, dirs_exist_ok=True)


@of_every_kind
def test_an_old_study_goes_on_and_its_files_stay_as_they_were(kind: type[Study[Any, Any]]) -> None:
    folder = Path(kind.COMMAND)
    journal, settings = ((folder / name).read_bytes() for name in (kind.JOURNAL, SETTINGS))
    study = kind.open(folder)
    assert len(study.runs) == 1
    study.write_settings()
    study.remember(study.runs[0])
    study.close()
    assert (folder / SETTINGS).read_bytes() == settings
    assert (folder / kind.JOURNAL).read_bytes() == journal * 2
    assert kind.find(study.setup.identity, folder) == folder


@of_every_kind
def test_what_was_unfinished_goes_when_the_study_is_opened(kind: type[Study[Any, Any]]) -> None:
    runs = Path(kind.COMMAND) / "runs"
    finished = runs / {"ab": "001-train.accumulate=1", "bisect": "001"}[kind.COMMAND]
    unfinished = runs / {"ab": "001-train.accumulate=2", "bisect": "002"}[kind.COMMAND]
    for folder in (finished, unfinished):
        folder.mkdir(parents=True)
    (runs / f"{unfinished.name}.out").touch()
    kind.read(Path(kind.COMMAND))
    assert unfinished.exists(), "reading changes nothing"
    kind.open(Path(kind.COMMAND)).close()
    assert [path.name for path in runs.iterdir()] == [finished.name]


@of_every_kind
def test_a_study_is_refused_where_it_cannot_be_continued(kind: type[Study[Any, Any]]) -> None:
    folder, other = Path(kind.COMMAND), {"ab": "bisect", "bisect": "ab"}[kind.COMMAND]
    with pytest.raises(DataMissing, match=f"no study of ttf {kind.COMMAND}"):
        kind.open(Path(other))
    assert kind.holds_one(folder) and not kind.holds_one(Path(other))
    with pytest.raises(DataMissing):
        kind.open(Path("nowhere"))
    assert not Path("nowhere").exists()
    with pytest.raises(ConfigError, match="a different study"):
        kind.find("another identity", folder)
    study = kind.open(folder)
    with pytest.raises(FolderInUse):
        kind.open(folder)
    study.close()
    Path("a.toml").write_text("[train]")
    with pytest.raises(ConfigError, match="changed since the start"):
        kind.open(folder)
