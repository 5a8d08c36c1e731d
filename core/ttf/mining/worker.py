"""The miner's own process: `python -m ttf.mining.worker LIFELINE RESULTS` (two descriptors).

Reads one job from the life line, answers on the results pipe, and ends at once when the life line
closes: then the trainer is gone. Never imports torch unless the miner does.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from ttf.mining import frames

_ORPHANED = 3


def main(lifeline: int, results: int) -> int:
    message = frames.read_one(lifeline)
    if message is None:
        return _ORPHANED
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    frames.write(results, _answer(message["job"], results))
    return 0


def _answer(job: dict[str, Any], results: int) -> dict[str, Any]:
    from ttf.errors import TtfError

    def say(text: str) -> None:
        frames.write(results, {"say": text})

    def progress(done: int, total: int) -> None:
        frames.write(results, {"progress": [done, total]})

    try:
        from ttf.mining.job import MiningJob
        from ttf.mining.work import do_job

        return {"report": do_job(MiningJob.from_json(job), say, progress).to_json()}
    except TtfError as error:
        return {
            "error": {
                "class": type(error).__name__,
                "message": str(error),
                "hint": error.hint,
            }
        }
    except Exception as error:  # noqa: BLE001 - told to the trainer, which decides
        import traceback

        traceback.print_exc()
        return {"fault": f"{type(error).__name__}: {error}"}


def _end_with_parent(lifeline: int) -> None:
    """A thread of its own, because the main one may be inside native code for minutes."""
    while os.read(lifeline, 1 << 12):
        pass
    os._exit(_ORPHANED)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
