"""What a person sees: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys


def test_a_process_whose_standard_error_lost_its_reader_ends_well() -> None:
    code = (
        "import sys\n"
        "from ttf.text.progress import make_reporter\n"
        "with make_reporter(False) as reporter:\n"
        "    for step in range(1000):\n"
        "        reporter.note(str(step))\n"
        "sys.stderr.write('more')\n"
        "print('done')\n"
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=writing, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stdout) == (0, b"done\n")


def test_importing_the_reporter_loads_nothing_heavy() -> None:
    code = (
        "import sys, ttf.text.progress as r; r.make_reporter(False); "
        "assert not {'rich', 'torch', 'numpy', 'pydantic'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
