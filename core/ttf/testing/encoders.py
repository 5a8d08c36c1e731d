"""The conformance suite of encoders: rows, order, equal bits in every process, no network."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pytest

from ttf.contracts import Kind
from ttf.hookspecs import CutsTexts, Role
from ttf.testing import _children, _tasks
from ttf.testing._crashing import crashing
from ttf.testing.plugin import PluginTests

if TYPE_CHECKING:
    from ttf.tools.encode.encode import Encoded

TEXTS: Final = (
    "How do I reset my password?",
    "Open the settings, choose Account, and then Reset password.",
    "The weather in Paris is mild in spring.",
    "x",
    "日本語のテキスト。 Ünïcode, emoji 🙂 and a zero-width\u200bspace",
    "two lines\nand a\ttab",
    "?!",
    "word " * 2000,
)
BOTH: Final[tuple[Role, ...]] = ("query", "document")
_BITS: Final = 1e-5  # Numbers may depend on the texts of the same call by rounding alone.


class EncoderTests(PluginTests):
    """Set `name` and `options`; choose a small model."""

    kind: ClassVar[Kind] = "encoder"

    @pytest.fixture
    def encoder(self, factory: Any) -> Any:
        return _tasks.encoder(self.name, self.options)

    def test_its_options_come_back_from_a_file(self, chosen: Any, tmp_path: Path) -> None:
        # They travel to the encoder's process as JSON.
        from ttf.host.options import checked

        given = json.loads(json.dumps(dataclasses.asdict(chosen)))
        assert checked(type(chosen), given, self.name) == chosen

    def test_it_meets_the_contract(self, encoder: Any) -> None:
        assert isinstance(encoder.dim, int) and encoder.dim >= 1
        assert re.fullmatch("[0-9a-f]{8,}", encoder.fingerprint())
        assert json.loads(json.dumps(encoder.about)) == encoder.about, "about must be plain JSON"

    @pytest.mark.parametrize("role", BOTH)
    def test_each_text_becomes_a_finite_row(self, encoder: Any, role: Role) -> None:
        rows = encoder.encode(TEXTS, role)
        assert isinstance(rows, np.ndarray)
        assert (rows.shape, rows.dtype) == ((len(TEXTS), encoder.dim), np.float32)
        assert np.isfinite(rows).all()
        assert (np.linalg.norm(rows, axis=1) > 0).all(), "a row of zeros is near to nothing"

    def test_no_texts_become_no_rows(self, encoder: Any) -> None:
        assert encoder.encode([], "document").shape == (0, encoder.dim)

    def test_rows_are_in_the_order_of_the_texts_whatever_stands_beside_them(
        self, encoder: Any
    ) -> None:
        together = encoder.encode(TEXTS, "document")
        order = [3, 0, 7, 1, 6, 2, 5, 4]
        mixed = encoder.encode([TEXTS[n] for n in order], "document")
        np.testing.assert_allclose(mixed, together[order], rtol=0, atol=_BITS * _size(together))
        alone = encoder.encode(TEXTS[1:2], "document")
        np.testing.assert_allclose(alone, together[1:2], rtol=0, atol=_BITS * _size(together))

    def test_different_texts_become_different_rows(self, encoder: Any) -> None:
        rows = encoder.encode(TEXTS[:3], "document")
        assert len(np.unique(rows, axis=0)) == 3

    def test_the_same_call_gives_the_same_bits(self, encoder: Any) -> None:
        first, second = (encoder.encode(TEXTS, "query") for _ in range(2))
        assert np.array_equal(first, second)

    def test_a_fresh_process_without_network_gives_the_same_bits_and_fingerprint(
        self, encoder: Any
    ) -> None:
        seen = _children.answer(
            "encode_elsewhere", name=self.name, options=dict(self.options), texts=list(TEXTS)
        )
        assert seen["connections"] == [], "an encoder downloads nothing"
        assert seen["fingerprint"] == encoder.fingerprint()
        again = _children.answer(
            "encode_elsewhere", name=self.name, options=dict(self.options), texts=list(TEXTS)
        )
        assert again["rows"] == seen["rows"]

    def test_what_it_says_about_long_texts_has_a_row_for_each(self, encoder: Any) -> None:
        if not isinstance(encoder, CutsTexts):
            pytest.skip("the encoder does not say which texts are too long")
        found = encoder.too_long(TEXTS, "document")
        assert found.shape == (len(TEXTS),) and found.dtype == np.bool_
        assert not found[3], "a text of one letter is not too long"

    @pytest.fixture
    def data(self, factory: Any, tmp_path: Path) -> Mapping[str, Path]:
        """Texts, instead of vectors."""
        table = tmp_path / "texts.csv"
        rows = "".join(f"question {n}?,the answer {n} is {n * n}\n" for n in range(40))
        table.write_text(f"question,answer\n{rows}")
        return {"texts": table}

    def test_a_run_uses_it_and_survives_a_segfault_inside_it(
        self, data: Mapping[str, Path], tmp_path: Path
    ) -> None:
        # `ttf data encode`: the second kind of text dies once, and the first one is kept.
        import ttf

        whole = self._encoded(self.name, data, tmp_path / "whole")
        (tmp_path / "crash").mkdir()
        with crashing(self.kind, self.name, tmp_path / "crash") as name:
            with pytest.raises(ttf.TtfError, match=r"segfault") as died:
                self._encoded(name, data, tmp_path / "out")
            assert "run the same command again" in died.value.hint
            again = self._encoded(name, data, tmp_path / "out")
        for file in ("bank.npz", "pairs.npz"):
            first, second = (Path(one.out, file).read_bytes() for one in (whole, again))
            assert first == second, f"{file} has other bytes after a crash than without one"

    def _encoded(self, name: str, data: Mapping[str, Path], out: Path) -> Encoded:
        import ttf

        return ttf.encode(data["texts"], out=out, encoder=name, options=self.options, threads=1)


def _size(rows: Any) -> float:
    return float(np.linalg.norm(rows, axis=1).max())
