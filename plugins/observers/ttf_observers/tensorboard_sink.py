"""What TensorBoard shows of a run: curves by step, the configuration and incidents as text."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf import Availability, PluginUnavailable, hookimpl, list_incidents, refuse_foreign
from ttf_observers._kept import kept_until

if TYPE_CHECKING:
    from ttf import EvalRecord, StepRecord
    from ttf_observers._event_file import EventFile

FOLDER = "tensorboard"
INSTALL = 'pip install "twotower[tensorboard]"'
_events: EventFile | None = None


def availability() -> Availability:
    if importlib.util.find_spec("tensorboard") is not None:
        return Availability(ok=True)
    return Availability(ok=False, reason="the tensorboard library is not installed", fix=INSTALL)


@hookimpl
def ttf_run_started(run_dir: Path, config: Mapping[str, Any], resumed_from: int) -> None:
    global _events
    _close()
    state = availability()
    if not state.ok:
        raise PluginUnavailable(f"{state.reason}: {state.fix}", hint=state.fix)
    from ttf_observers._event_file import EventFile

    refuse_foreign(run_dir, (), (FOLDER,))  # a run folder may be of anybody
    kept = kept_until(run_dir, resumed_from)
    _events = EventFile(run_dir / FOLDER, kept, config["checkpoint"]["retry_s"])
    _events.text("config", _as_markdown(config))  # at every start: a remedy may have changed it


@hookimpl
def ttf_step(record: StepRecord) -> None:
    _opened().numbers(
        record.step,
        {
            "train/loss": record.loss,
            "train/lr": record.lr,
            "train/grad_norm": record.grad_norm,
            "train/epoch": record.epoch,
            "perf/samples_per_s": record.samples_per_s,
            "perf/step_s": record.seconds,
            **{_tag(name): value for name, value in record.extra.items()},
        },
    )


@hookimpl
def ttf_evaluated(record: EvalRecord) -> None:
    metrics = {f"val/{name}": value for name, value in record.metrics.items()}
    _opened().numbers(record.step, {**metrics, "perf/evaluation_s": record.seconds})


@hookimpl
def ttf_checkpointed(step: int, path: Path) -> None:
    _opened().sync()


@hookimpl
def ttf_incident(incident: Mapping[str, Any]) -> None:
    where = f"{incident['process']}, step {incident['step']}, {incident['phase']}"
    newest = f"**{incident['class']}** ({where}): {incident['explanation']}"
    # Of two texts at one step TensorBoard shows the second: each one names all.
    listed = list_incidents(_opened().folder.parent / "incidents")
    so_far = "".join(f"\n- {i['id']} {i['class']} ({i['process']})" for i in listed)
    _opened().text("incident", f"{newest}\n\nSo far:\n{so_far}")


@hookimpl
def ttf_run_finished(run_dir: Path, summary: Mapping[str, Any]) -> None:
    _opened().text("summary", _as_markdown(summary))
    _opened().make_durable()
    _close()


def _tag(name: str) -> str:
    # Times and rates describe the machine, all other values the training.
    return f"perf/{name}" if name.endswith("_s") else f"train/{name.removeprefix('train_')}"


def _as_markdown(value: Mapping[str, Any]) -> str:
    # TensorBoard shows texts as Markdown.
    return f"```\n{json.dumps(value, indent=2)}\n```"


def _opened() -> EventFile:
    assert _events is not None, "ttf_run_started is the first hook of a run"
    return _events


def _close() -> None:
    # Also closes the file of an earlier run in this process that did not finish.
    global _events
    if _events is not None:
        _events.close()
        _events = None
