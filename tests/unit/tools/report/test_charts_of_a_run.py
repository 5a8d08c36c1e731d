"""Charts that show what matters: small gains, and the usual speed beside a spike."""

from __future__ import annotations

from typing import Any

from ttf.tools.report.charts.figure import Figure
from ttf.tools.report.page._charts import charts
from ttf.tools.report.page._read import RunFiles


def figure(run: RunFiles, title: str) -> Figure:
    return next(one for one in charts(run) if one.title == title)


def words(shown: Figure) -> set[str]:
    """All texts of the drawing, the numbers of its axes among them."""
    return {shape.text for shape in shown.shapes if shape.text}


def evaluation(step: int, recall: float) -> Any:
    metrics = {"recall@10": recall, "recall@500": 0.8 + recall / 10}
    return {"type": "eval", "step": step, "metrics": metrics}


def test_a_small_gain_has_a_scale_of_its_own() -> None:
    run = RunFiles(
        name="r", evals=[evaluation(0, 0.40), evaluation(100, 0.43), evaluation(200, 0.45)]
    )
    shown = figure(run, "Change since the first evaluation")
    assert [look.name for look in shown.legend] == ["recall@10", "recall@500"]
    assert "0.06" in words(shown) and "0.8" not in words(shown)
    single = RunFiles(name="r", evals=[evaluation(0, 0.4)])
    assert not figure(single, "Change since the first evaluation").shapes


def test_a_spike_does_not_flatten_the_speed() -> None:
    steps: list[Any] = [
        {"type": "step", "step": n, "samples_per_s": 9000.0 if n == 50 else 100.0 + n % 5}
        for n in range(1, 200)
    ]
    shown = figure(RunFiles(name="r", steps=steps), "Speed")
    assert shown.under == "Faster steps (1) are drawn at 156."
    assert "9,000" not in words(shown) and "10,000" not in words(shown)
    even = figure(RunFiles(name="r", steps=steps[:40]), "Speed")
    assert even.under == ""
