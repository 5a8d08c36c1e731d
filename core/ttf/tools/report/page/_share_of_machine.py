"""How near a run came to the limits of its machine: products, waiting for data, mining."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from ttf.machine import measured, processor
from ttf.rundir.work_facts import NotedCeilings, Work
from ttf.tools.report.page._read import RunFiles


def share_of_machine(run: RunFiles) -> dict[str, Any]:
    """`rows` of a table; `date`: when the machine was measured, or None; `measure`: the command."""
    work = run.manifest.get("work")
    if run.guarded or work is None or not run.steps:
        return {"rows": []}
    known = _ceilings(work)
    return {
        "rows": [*_training(run, work, known), *_waiting(run), *_mining(run, known)],
        "date": known["date"] if known else None,
        "measure": measured.MEASURE,
    }


def _ceilings(work: Work) -> NotedCeilings | None:
    """The ceilings noted when the run began; else those kept on this machine, if it is the same."""
    if noted := work.get("ceilings"):
        return noted
    kept = measured.kept_ceilings() if work.get("machine") == processor.fingerprint() else None
    return None if kept is None else measured.summary(kept.to_json())


def _training(run: RunFiles, work: Work, known: NotedCeilings | None) -> Iterator[tuple[str, ...]]:
    speeds = [line["samples_per_s"] for line in run.steps if "samples_per_s" in line]
    tower, loss = work.get("tower_flops"), work.get("loss_flops")
    if not speeds or tower is None or loss is None:
        return
    speed = statistics.median(speeds)
    precision = run.setting("device.precision")[0] or "fp32"
    products = measured.gemm_flops(known or {}, precision)
    machine_has = share = ""
    if products and tower + loss > 0:
        best = products / (tower + loss)
        machine_has, share = f"{best:,.0f} samples/s", f"{speed / best:.0%}"
    figure = f"{speed:,.0f} samples/s, {speed * (tower + loss) / 1e9:,.0f} GF/s"
    yield f"training in {precision}", figure, machine_has, share


def _waiting(run: RunFiles) -> Iterator[tuple[str, ...]]:
    waited, computed = run.spent.total["data"], run.spent.total["compute"]
    if waited + computed > 0:
        yield "waiting for data", f"{waited / (waited + computed):.1%} of a step", "0%", ""


def _mining(run: RunFiles, known: NotedCeilings | None) -> Iterator[tuple[str, ...]]:
    # Only exact rounds read every document.
    about = run.manifest.get("data", {})
    rows, dim = about.get("bank_rows"), about.get("bank_dim")
    if rows is None or dim is None:
        return
    rates = [
        2e-9 * line["queries"] * rows * dim / line["search_s"]
        for line in run.mining
        if line.get("miner") == "exact" and "queries" in line and line.get("search_s", 0) > 0
    ]
    if not rates:
        return
    rate = statistics.median(rates)
    best = max((measured.gemm_flops(known or {}, p) or 0.0) for p in ("fp32", "bf16")) / 1e9
    has, share = (f"{best:,.0f} GF/s", f"{rate / best:.0%}") if best else ("", "")
    yield "exact mining", f"{rate:,.0f} GF/s", has, share
