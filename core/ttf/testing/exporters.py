"""The conformance suite of exporters: real exports of small runs, read back and compared."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import pytest

from ttf.contracts import Kind
from ttf.errors import ConfigError, GaveUp, TtfError
from ttf.testing import _runs
from ttf.testing._crashing import crashing
from ttf.testing.plugin import PluginTests

if TYPE_CHECKING:
    from ttf.tools.export.make import Exported

Ids = Literal["none", "numbers", "texts"]
_A: Final = 0.5


class ExporterTests(PluginTests):
    """Set `name`, and `asked` to what `ttf.export` needs besides, such as `encoder`."""

    kind: ClassVar[Kind] = "exporter"
    asked: ClassVar[Mapping[str, Any]] = {}

    def exported(self, run: Path, out: Path, name: str = "", **more: Any) -> Exported:
        import ttf

        return ttf.export(
            run, name or self.name, out=out, options=self.options, **{**self.asked, **more}
        )

    @pytest.mark.parametrize("ids", ["none", "numbers", "texts"])
    def test_an_export_answers_as_the_run_does(
        self, factory: Any, tmp_path: Path, ids: Ids
    ) -> None:
        try:
            done = self.exported(small_run(ids), tmp_path / "out")
        except ConfigError:  # a format may know no ids of this kind
            assert ids == "texts"
            return
        self.as_it_should_be(factory, done, tmp_path / "out")
        assert not done.calibrated

    def test_a_calibrated_run_is_exported_with_its_calibration(
        self, factory: Any, tmp_path: Path
    ) -> None:
        asked: dict[str, Any] = {"calibrated": True} if factory.exports == "encoder" else {}
        done = self.exported(calibrated_run(), tmp_path / "out", **asked)
        self.as_it_should_be(factory, done, tmp_path / "out")
        assert done.calibrated

    def test_smaller_vectors_are_exported_or_refused(self, factory: Any, tmp_path: Path) -> None:
        for asked in ({"dims": 5}, {"dtype": "int8"}):
            out = tmp_path / "-".join(asked)
            try:
                done = self.exported(calibrated_run(), out, **asked)
            except TtfError as error:
                assert int(error.exit_code) == 2, error
                assert not out.exists()
                continue
            self.as_it_should_be(factory, done, out)
            assert done.smaller["recall@10"]["all"] >= 0

    def as_it_should_be(self, factory: Any, done: Exported, out: Path) -> None:
        assert (out / "export.json").is_file()
        assert len(list(out.iterdir())) > 1, "it wrote nothing"
        assert done.checked.library, "read_back must say which library answered, with its version"
        if factory.exports == "vectors":
            assert done.checked.same_top10 == 1.0
            assert done.checked.documents > 0, "read_back must return document_vectors"
            assert done.checked.count == done.rows
        if factory.exports == "encoder":
            assert done.checked.same_top10 == 1.0
        assert [p.name for p in out.parent.iterdir() if p.name.startswith(".")] == []

    # --- of every plugin, but not for exporters ------------------------------------------------

    def test_its_options_come_back_from_a_file(self, chosen: Any, tmp_path: Path) -> None:
        pytest.skip("the options of an exporter are in no configuration")

    def test_a_run_uses_it_and_survives_a_segfault_inside_it(
        self, data: Mapping[str, Path], tmp_path: Path
    ) -> None:
        # A crash inside the exporter has a name and leaves nothing.
        crash = tmp_path / "crash"
        crash.mkdir()
        with crashing(self.kind, self.name, crash) as name, pytest.raises(GaveUp) as caught:
            self.exported(small_run("none"), tmp_path / "out", name)
        assert "segfault" in str(caught.value)
        assert not (tmp_path / "out").exists()


@functools.cache
def small_run(ids: Ids) -> Path:
    """A run of a few steps, made once in each process."""
    folder = Path(tempfile.mkdtemp(prefix="ttf-exporters-"))
    data = _runs.small_set(folder)
    if ids != "none":
        _with_ids(data["bank"], ids)
    return _runs.train("tower", "linear", {}, data, folder / "run").path


def _with_ids(bank: Path, ids: Ids) -> None:
    import numpy as np

    vectors = np.load(bank)["vectors"]
    vectors[::3, 0] = -0.0  # formats of text may lose its sign
    numbers = np.arange(len(vectors), dtype=np.int64)[::-1] * 7 + 1000
    texts = np.array([f'd\u00f6c {n}, "x"' for n in numbers])
    np.savez(bank, vectors=vectors, ids=numbers if ids == "numbers" else texts)


@functools.cache
def calibrated_run() -> Path:
    """The same with a correction for hubs: too few pairs would choose none."""
    import numpy as np

    from ttf.rundir.calibration_facts import CalibrationFacts
    from ttf.rundir.run_folder import RunFolder
    from ttf.training.calibration import stored
    from ttf.training.open_run import open_run
    from ttf.training.towers import tower_specs

    folder = Path(tempfile.mkdtemp(prefix="ttf-exporters-"))
    run = _runs.train("tower", "linear", {}, _runs.small_set(folder), folder / "run").path
    model = RunFolder(run).model
    weights = tower_specs(model)[1]
    with open_run(run) as opened:
        key = stored.bank_key(opened.bank.bank)
        rows = opened.bank.bank.shape[0]
    hubness = np.random.default_rng(5).uniform(0.1, 0.6, rows).astype(np.float32)
    stored.save_bank(model, key, weights, stored.BankCalibration(a=_A, hubness=hubness))
    facts = CalibrationFacts(on=True, a=_A, weights_sha256=weights, bank=key)
    stored.save_facts(model, facts)
    return run
