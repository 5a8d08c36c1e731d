"""Facts for a study before its first trial: the configuration, and counts about the data.

Loads torch and the user's plugins: called only in a child process (`ttf.tools.studies.child`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.config.resolve import Resolved, flat, resolve

if TYPE_CHECKING:
    from ttf.contracts import DevicePolicy
    from ttf.process.serve import Tell

_START_UP_S: Final = 5.0  # Of the processes of a run, and of its end; `--plan` does not count them.
# Enough pairs that a difference of a point is no chance, and few enough that training has most.
_WANTED_PAIRS: Final = 4000
_LEAST_SHARE: Final = 0.02
_MOST_SHARE: Final = 0.2


def look(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """`config` as sections, `origins` of its values, `settled` values without any "auto" by dotted
    key, and counts. Raises what a run would raise for its configuration and its data."""
    from ttf.data.demo import with_demo
    from ttf.data.open_dataset import open_dataset
    from ttf.text.progress import Reporter
    from ttf.training.auto_settings import decide
    from ttf.training.launch import prepared_policy

    toml = request["toml"]
    given = resolve(
        None if toml is None else Path(toml),
        request["sets"],
        request["flags"],
        safe=request["safe"],
    )
    policy = prepared_policy(given)
    resolved = with_demo(given, Reporter())
    whole = _whole(resolved, policy)
    share = hold_out_share(whole["pairs"])
    data_config = resolved.config.data.model_copy(update={"hold_out": share})
    with open_dataset(data_config, seed=resolved.config.train.seed) as data:
        decided = decide(resolved, data, policy)
        queries = data.train.queries
        trial = {
            "trial_pairs": len(data.train),
            "held_out": len(data.val),
            "bank": data.bank.shape[0],
            "length": queries.length,
        }
    return {
        "config": resolved.config.model_dump(mode="json"),
        "origins": dict(resolved.origins),
        "settled": flat(decided.config),
        "steps": decided.total_steps,
        "hold_out": share,
        **whole,
        **trial,
    }


def hold_out_share(pairs: int) -> float:
    """Of the training pairs.

    >>> hold_out_share(46_000), hold_out_share(200), hold_out_share(3_000_000)
    (0.087, 0.2, 0.02)
    """
    return round(min(max(_WANTED_PAIRS / max(pairs, 1), _LEAST_SHARE), _MOST_SHARE), 3)


def _whole(resolved: Resolved, policy: DevicePolicy) -> dict[str, Any]:
    """Of a run on all training pairs."""
    from ttf.training.plan.facts import predict

    plan = predict(resolved, policy)
    return {
        "pairs": plan.facts.train_pairs,
        "val": plan.facts.val_pairs,
        "predicted_s": round(plan.seconds + _START_UP_S, 1),
        "calibration_s": round(sum(i.seconds for i in plan.items if i.phase == "calibration"), 1),
    }
