"""Tables on narrow screens."""

from __future__ import annotations

from ttf.text.progress.ending import summary_rows
from ttf.text.tables import fitting, table


def test_a_narrow_screen_wraps_the_last_column_between_words() -> None:
    rows = [("incident 001", "segfault (trainer): went on unchanged"), ("steps", "1,536")]
    assert table(rows, width=39).splitlines() == [
        "incident 001  segfault (trainer): went",
        "              on unchanged",
        "steps         1,536",
    ]
    assert "went on unchanged" in table(rows)


def test_a_narrow_screen_leaves_the_least_useful_columns_out() -> None:
    rows, head = [["runs/a", "done", "100", "0.5"]], ["run", "status", "steps", "recall"]
    whole = table(rows, head)
    assert fitting(rows, head, None, ("steps",)) == fitting(rows, head, 30, ("steps",)) == whole
    narrow = fitting(rows, head, 22, ("steps", "status"))
    assert narrow.splitlines() == ["run     status  recall", "runs/a  done    0.5"]
    assert fitting(rows, head, 5, ("steps", "status")).splitlines()[0] == "run     recall"


def test_a_digest_fits_a_line_and_can_be_compared() -> None:
    digest = "d68ec6f5bd28dce392fc1d554ad4f2392df006b12b6872198c5a1be026d2842b"
    rows = dict(summary_rows({"weights_sha256": digest, "steps": 1536}))
    assert rows["weights"] == "sha256 d68ec6f5bd28dce3..."
    assert max(map(len, table(list(rows.items()), width=39).splitlines())) < 40


def test_the_peak_of_memory_stands_beside_its_prediction() -> None:
    rows = dict(summary_rows({"peak_anon_mb": 665.6, "predicted_anon_mb": 731.25}))
    assert rows["peak memory"] == "665.6 MB (anonymous + shared)"
    assert rows["predicted"] == "731.2 MB, 10% more than the peak"
    rows = dict(summary_rows({"peak_anon_mb": 700.0, "predicted_anon_mb": 630.0}))
    assert rows["predicted"] == "630 MB, 10% less than the peak"
    assert "predicted" not in dict(summary_rows({"peak_anon_mb": 700.0}))
    assert dict(summary_rows({"peak_anon_mb": 0.0}))["peak memory"] == "not measured"
