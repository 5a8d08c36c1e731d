"""Tests for plugins of every kind; the base of the four suites."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import pytest

from ttf.contracts import Kind
from ttf.host import plugins
from ttf.host.deprecation import PluginDeprecationWarning
from ttf.testing import _children, _runs
from ttf.testing._crashing import crashing

if TYPE_CHECKING:
    from ttf.api import Run


class PluginTests:
    """Set `name` to the name of your entry point, and `options` to the options for the tests."""

    kind: ClassVar[Kind]
    name: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _own_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        # The cache may hold results of an earlier version of the plugin.
        monkeypatch.setenv("TTF_HOME", str(tmp_path / "ttf-home"))

    @pytest.fixture
    def factory(self) -> Any:
        """Skips the test if the plugin says that it cannot run here."""
        found = plugins.load(self.kind, self.name)
        state = found.availability()
        if not state.ok:
            pytest.skip(f"{self.kind}.{self.name} cannot run here: {state.reason}")
        return found

    @pytest.fixture
    def chosen(self, factory: Any) -> Any:
        """An instance of its options."""
        from ttf.host.options import checked

        return checked(factory.options_type, self.options, f"{self.kind}.{self.name}")

    # --- found, listed, asked ----------------------------------------------------------------

    def test_listing_it_imports_the_standard_library_and_ttf_alone(self) -> None:
        seen = _children.answer("listing", kind=self.kind, name=self.name)
        assert not seen["foreign"], (
            f"loading {self.kind}.{self.name} and checking whether it can run here imports "
            f"{', '.join(seen['foreign'])}: import them inside `create`, where they are used"
        )

    def test_where_it_cannot_run_it_says_why_and_what_to_type(self) -> None:
        state = plugins.load(self.kind, self.name).availability()
        assert state.ok or (state.reason and state.fix), (
            f"availability() must give the reason and a command that helps (fix): {state}"
        )

    def test_its_factory_has_the_name_it_was_asked_for(self) -> None:
        factory, bare = plugins.load(self.kind, self.name), self.name.rpartition(":")[2]
        assert factory.name == bare, (
            f"the entry point has the name {bare!r}, but the factory has the name {factory.name!r}"
        )

    def test_it_uses_nothing_that_is_going_out_of_use(self) -> None:
        plugins.load.cache_clear()
        with warnings.catch_warnings():
            warnings.simplefilter("error", PluginDeprecationWarning)
            plugins.load(self.kind, self.name)

    def test_its_options_have_help_and_defaults_that_are_valid(self) -> None:
        from ttf.host.options import describe, validate

        options_type = plugins.load(self.kind, self.name).options_type
        assert dataclasses.is_dataclass(options_type), "options_type must be a dataclass"
        made = vars(options_type)["__dataclass_params__"]
        assert made.frozen, "options_type must be a @dataclass(frozen=True, kw_only=True)"
        assert all(field.kw_only for field in dataclasses.fields(options_type)), "kw_only=True"
        silent = [o.name for o in describe(options_type) if not o.help]
        assert not silent, f"options without help: {', '.join(silent)}"
        odd = odd_types(options_type)
        assert not odd, f"options must be int, float, bool, str, Literal or None, but not {odd}"
        defaults = {
            f.name: f.default
            for f in dataclasses.fields(options_type)
            if f.default is not dataclasses.MISSING
        }
        again, problems = validate(options_type, defaults, self.name)
        assert problems == []
        assert again == options_type()

    def test_a_misspelt_option_is_told_the_closest(self) -> None:
        from ttf.host.options import validate

        options_type = plugins.load(self.kind, self.name).options_type
        for field in dataclasses.fields(options_type):
            _, problems = validate(options_type, {f"{field.name}x": 1}, self.name)
            assert any(f"Did you mean {field.name!r}" in p or "Known:" in p for p in problems)

    def test_its_options_come_back_from_a_file(self, chosen: Any, tmp_path: Path) -> None:
        if not dataclasses.fields(chosen) or self.kind == "storage":
            pytest.skip("the plugin has no options that a configuration can set")
        from ttf.config.resolve import resolve
        from ttf.config.toml import dump

        given = dataclasses.asdict(chosen)
        written = tmp_path / "run.toml"
        written.write_text(dump(resolve(self._section({"name": self.name}, given))))
        config = resolve(written).config
        if self.kind == "tower":
            found = config.tower.query.options()
        else:
            found = getattr(config, self.kind).options_of(self.name)
        assert type(chosen)(**found) == chosen

    def _section(self, name: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
        if self.kind == "tower":
            return {"tower": {"query": name | options}}
        return {self.kind: name | {self.name: options}}

    @pytest.mark.parametrize("first", ["plugin", "torch"])
    def test_it_lives_in_one_process_with_torch_whichever_comes_first(
        self, factory: Any, first: str
    ) -> None:
        _children.answer(
            "beside_torch",
            kind=self.kind,
            name=self.name,
            options=dict(self.options),
            first=first,
        )

    # --- in a run ------------------------------------------------------------------------------

    @pytest.fixture
    def data(self, factory: Any, tmp_path: Path) -> Mapping[str, Path]:
        return _runs.small_set(tmp_path)

    def test_a_run_uses_it_and_survives_a_segfault_inside_it(
        self, data: Mapping[str, Path], tmp_path: Path
    ) -> None:
        # A few steps in the real loop; then the same with a crash in the middle.
        whole = self.run_with(self.name, data, tmp_path / "whole")
        assert whole.summary["status"] == "finished"
        assert whole.summary["steps"] == _runs.STEPS
        assert not whole.summary["incidents"], _runs.what_happened(whole)
        assert whole.summary["exact"], whole.summary["deviations"]
        self.was_used(whole)
        if not self.works_in_every_step():
            return
        crash = tmp_path / "crash"
        crash.mkdir()
        with crashing(self.kind, self.name, crash) as name:
            broken = self.run_with(name, data, tmp_path / "broken")
        assert broken.summary["status"] == "finished"
        assert len(broken.summary["incidents"]) == 1, _runs.what_happened(broken)
        (incident,) = broken.summary["incidents"]
        assert incident["class"] == "segfault", _runs.what_happened(broken)
        assert incident["process"] == ("miner" if self.kind == "miner" else "trainer")
        if self.bitwise():
            assert broken.summary["weights_sha256"] == whole.summary["weights_sha256"], (
                "the run with a crash and the run without a crash ended with different weights"
            )

    def run_with(self, name: str, data: Mapping[str, Path], out: Path) -> Run:
        return _runs.train(self.kind, name, self.options, data, out)

    def was_used(self, run: Run) -> None:
        """Fails if another plugin was used instead."""

    def works_in_every_step(self) -> bool:
        """Whether a run calls the plugin during training steps, so that it can die there."""
        return True

    def bitwise(self) -> bool:
        """Whether two equal runs end with equal bits."""
        return True


def odd_types(options_type: type[Any]) -> str:
    """Returns the fields whose type a TOML file and a flag cannot set."""
    hints = get_type_hints(options_type)
    odd = [f.name for f in dataclasses.fields(options_type) if not _is_plain(hints[f.name])]
    return ", ".join(f"{name}: {hints[name]}" for name in odd)


def _is_plain(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return True
    if get_origin(hint) in (Union, UnionType):
        return all(_is_plain(part) for part in get_args(hint))
    return hint in (int, float, bool, str, type(None))
