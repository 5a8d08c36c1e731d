"""What a study says: at a terminal, as JSON, CSV and Markdown, of analyses made by hand."""

from __future__ import annotations

import csv
import doctest
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.studies_by_hand import (
    HOSTILE,
    LONG,
    TWO,
    analysis,
    sample,
    study,
)

from ttf.errors import ConfigError
from ttf.rundir.typed_json import dataclass_from
from ttf.text.terminal import visible
from ttf.tools.ab.analysis import (
    Bitwise,
    Fixed,
)
from ttf.tools.ab.finish import Places
from ttf.tools.ab.output import _terminal, csv_text, document, markdown, rows, table_lines, words
from ttf.tools.ab.page._render import page_of
from ttf.tools.ab.sample import Sample

# --- terminal -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "repeats", "lost"),
    [
        (TWO, 20, ()),
        (["accumulate 1", "accumulate 4", "accumulate 16", "accumulate 32"], 10, ()),
        ([LONG, LONG + " x"], 10, ()),
        (["base", "doomed"], 12, ("doomed",)),
        (TWO, 1, ()),
        (TWO, 0, ()),
    ],
    ids=["2 x 20", "4 x 10", "long names", "every repeat lost", "one repeat", "no repeat"],
)
def test_the_table_fits_a_hundred_columns(
    names: list[str], repeats: int, lost: tuple[str, ...]
) -> None:
    text = table_lines(study(names, repeats, lost=lost)[0])
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_the_table_has_a_row_an_arm_with_its_difference_and_interval() -> None:
    lines = table_lines(study(TWO, 20)[0]).splitlines()
    rows = {line.split("  ")[0]: line for line in lines}
    assert re.split(r"\s{2,}", rows["A in-process"])[1:4] == ["7 of 20", "0", "1,234"]
    after = lines[lines.index(rows["B isolated"]) + 1 :]
    assert re.split(r"\s{2,}", after[0].strip())[:3] == ["against A", "0% to 20%", "+5.4%"]
    assert re.split(r"\s{2,}", after[1].strip())[:2] == ["interval", "-4.1..+6.7"]


def test_each_verdict_is_said_in_words() -> None:
    text = table_lines(study(TWO, 20)[0])
    assert re.search(r"repeats that crashed +\+5 points +-4 to \+7 +0.04 +B crashes less", text)
    assert re.search(r"throughput +\+5.4% +-4.1% to \+6.7% +0.04 +A is faster", text)
    assert "same within 2%" in text
    assert "inconclusive: about 40 more repeats" in text
    assert text.endswith("isolated crashes less than in-process, and that is not luck.")


def test_long_names_are_told_once_and_go_by_their_letters() -> None:
    text = table_lines(study([LONG, LONG + " x"], 10)[0])
    assert (
        " ".join(text.split()).count(LONG) == 2
    )  # above the table, one of them as the beginning of the other
    assert text.endswith("B crashes less than A, and that is not luck.")


def test_what_was_not_compared_is_said_and_not_shown_as_zero() -> None:
    made, _ = study(["base", "doomed"], 12, lost=("doomed",))
    bare = replace(
        made,
        comparisons=tuple(
            c
            if c.metric == "crash_rate"
            else replace(c, effect=None, ci=(None, None), p_value=None, p_adjusted=None,
                         value_a=None, value_b=None, verdict="inconclusive", needs=None)
            for c in made.comparisons
        ),
    )  # fmt: skip
    text = table_lines(bare)
    assert "In some comparisons, no pair has a value for both arms: throughput; peak memory" in text
    assert re.search(r"B doomed +12 of 12 +12 +- +- +- +- +-\n", text)
    assert "not compared" in markdown(bare, [])


def test_pairs_of_other_arms_are_counted_where_they_do_not_differ() -> None:
    made, _ = study(["a", "b", "c", "d"], 10)
    text = table_lines(made)
    assert "B against A" in text and "C against B" in text
    assert "12 more comparisons between other arms are the same or inconclusive" in text


def test_a_crash_is_gone_only_where_a_control_showed_it() -> None:
    made, _ = study(TWO, 20)
    fixed = Fixed(a=TWO[0], b=TWO[1], verdict="not yet", control_crashes=7, control_steps=2000,
                  clean_steps=1000, needed_steps=7200, p=0.09, more_runs=62)  # fmt: skip
    said = words.pair_sentences(replace(made, fixed=(fixed,)))
    assert said == [
        (
            "It is too early to call B fixed: 1,000 steps without a crash; 7,200 are needed, because A "
            "had 7 incidents in 2,000 steps (p = 0.09 for no change). About 62 more repeats of B would "
            "be enough."
        )
    ]
    gone = replace(fixed, verdict="fixed", more_runs=None, p=0.00001)
    (told,) = words.pair_sentences(replace(made, fixed=(gone,)))
    assert told.startswith("B is fixed: 1,000 steps without a crash")
    assert told.endswith("(p <0.0001 for no change).")
    crashed = replace(fixed, verdict="still crashes", clean_steps=0, p=None, more_runs=None)
    assert words.pair_sentences(replace(made, fixed=(crashed,))) == ["B still crashes, like A."]


def test_a_control_without_a_crash_is_never_called_fixed() -> None:
    made = analysis(TWO, [sample(name, block) for block in range(9) for name in TWO])
    found = Fixed(a=TWO[0], b=TWO[1], verdict="not reproduced", control_crashes=0,
                  control_steps=900, clean_steps=900, needed_steps=None, p=None)  # fmt: skip
    said = words.pair_sentences(replace(made, fixed=(found,)))
    assert said == [
        (
            "No arm crashed in 1,800 steps. If there was a crash before the study, it was not "
            "reproduced, so nothing is known about it."
        )
    ]


def test_equal_weights_are_counted() -> None:
    made, _ = study(TWO, 20)
    equal = Bitwise(a=TWO[0], b=TWO[1], pairs=18, equal=18)
    said = words.pair_sentences(replace(made, bitwise=(equal,)))
    assert said == ["18 of 18 pairs of A and B end with bitwise equal weights."]


def test_open_intervals_say_so() -> None:
    one = study(TWO, 20)[0].comparisons[1]
    assert words.interval(one, (0.01, None)) == "at least +1.0%"
    assert words.interval(one, (None, 0.01)) == "at most +1.0%"
    assert words.interval(one, (None, None)) == ""


def test_a_note_is_said_once_for_all_it_is_about() -> None:
    made, _ = study(["a", "b", "c"], 10)
    called = words.letters(made)
    assert words.notes(made.comparisons, called) == [
        "After 10 s (B against A, C against A and C against B: recall@10, equal time).",
        (
            "2 of 20 pairs missing (B against A, C against A and C against B: recall@10, equal "
            "time)."
        ),
    ]


# --- files --------------------------------------------------------------------------------------


def test_the_document_has_the_contracts_fields_and_every_sample() -> None:
    made, found = study(TWO, 5)
    told = json.loads(json.dumps(document(made, found)))
    assert {"name", "runs", "crashes", "crash_rate", "crash_rate_ci", "samples_per_s",
            "peak_anon_mb", "memory_slope_mb_per_1k_steps", "metrics"} <= told["arms"][0].keys()  # fmt: skip
    assert {"a", "b", "metric", "effect", "ci", "p_value", "verdict"} <= told["comparisons"][
        0
    ].keys()
    assert told["verdict"] == made.verdict
    assert [dataclass_from(Sample, s) for s in told["samples"]] == found


def test_the_csv_has_a_row_a_repeat_and_stable_columns() -> None:
    _, found = study([HOSTILE, "b"], 4, lost=("b",))
    lines = list(csv.DictReader(io.StringIO(csv_text(found))))
    assert len(lines) == 8
    columns = list(lines[0])
    assert columns == [*rows.FIRST, "mrr@10", "recall@1", "recall@10", "recall@100"]
    assert lines[0]["arm"] == HOSTILE
    assert lines[0]["crashed"] == "1" and lines[0]["first_crash"] == "40"
    assert lines[0]["classes"] == "segfault"
    assert lines[1]["outcome"] == "lost" and lines[1]["samples_per_s"] == ""
    assert lines[1]["recall@10"] == "" and float(lines[0]["recall@10"]) == 0.4


def test_an_earlier_file_of_a_study_is_replaced_and_no_other_is(tmp_path: Path) -> None:
    made, found = study(TWO, 3)
    written = {
        "csv": csv_text(found).encode(),
        "markdown": markdown(made, found).encode(),
        "html": page_of("study", made, found, {}),
    }
    for name, content in written.items():
        path = tmp_path / name
        Places(**{name: path}).check(overwrite=False)
        path.write_bytes(content)
        Places(**{name: path}).check(overwrite=False)
        path.write_bytes(b"mine")
        with pytest.raises(ConfigError, match=f"--{name} {path} already exists"):
            Places(**{name: path}).check(overwrite=False)
        Places(**{name: path}).check(overwrite=True)


def test_samples_stand_block_by_block_whatever_their_order() -> None:
    _, found = study(TWO, 3)
    assert csv_text(found[::-1]).splitlines()[1].split(",")[1] == "0"
    assert [s.block for s in rows.in_order(found[::-1])] == [0, 0, 1, 1, 2, 2]


def test_the_markdown_is_a_report_to_paste() -> None:
    made, found = study(TWO, 6)
    text = markdown(made, found, {"command": "ttf ab a.toml b.toml", "machine": "two cores"})
    assert text.startswith("**isolated crashes less than in-process")
    assert "| A | in-process | 6 | 2 of 6 |" in text
    assert "| B against A | throughput | +5.4% | -4.1% to +6.7% |" in text
    assert "| segfault | trainer | 2 | - |" in text
    assert "- **command**: ttf ab a.toml b.toml" in text
    assert "<details><summary>All 12 samples</summary>" in text
    folded = text.partition("All 12 samples")[2]
    assert (
        sum(line.startswith(("| in-process", "| isolated")) for line in folded.splitlines()) == 12
    )


def test_a_hostile_name_stays_one_cell_of_the_markdown() -> None:
    made, found = study([HOSTILE, "b"], 3)
    text = markdown(made, found)
    assert "<script" not in text.replace("\\<script", "")
    arms = next(line for line in text.splitlines() if line.startswith("| A |"))
    assert arms.replace("\\|", "").count("|") == 12
    assert not re.search(r"(?m)^\| --- \|$", text)


def test_no_output_holds_a_control_character_or_a_formula_of_others() -> None:
    evil = "=cmd|'\x1b]0;T\x07\u202ec"
    made, found = study([evil, "b"], 3)
    facts = {"command": evil, evil: evil}
    outputs = (
        csv_text(found),
        markdown(made, found, facts),
        page_of("x", made, found, facts).decode(),
    )
    assert [visible(text) for text in outputs] == [*outputs]
    cells = [row[0] for row in csv.reader(io.StringIO(outputs[0]))]
    assert cells[1] == "'=cmd|'\\x1b]0;T\\x07\\u202ec"
    assert not any(cell.startswith("=") for cell in cells)


def test_markdown_of_nothing_is_short_and_whole() -> None:
    text = markdown(analysis(TWO, []), [])
    assert "samples" not in text.splitlines()[-1] and "### Incidents" not in text


def test_the_examples_in_the_words_hold() -> None:
    for module in (words, _terminal):
        assert doctest.testmod(module).failed == 0
