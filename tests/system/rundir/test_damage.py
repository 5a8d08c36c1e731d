"""Every file that a checkpoint needs is damaged in every way: the one before is used, aloud."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.rundir.test_damage import kept, run  # noqa: F401

from ttf.rundir.verified_folders import newest_step


def test_the_supervisor_may_ask_without_torch(run: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from ttf.rundir.verified_folders import newest_step\n"
        "print(newest_step(Path(sys.argv[1])))\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'rich', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run / "checkpoints")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert newest_step(run / "nowhere") == -1
