"""Modules of plugins that do harm when they are imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Import:
    name: str
    source: str
    """The whole module."""

    def __str__(self) -> str:
        return self.name


IMPORTS: Final = (
    Import(name="waits", source="import threading; threading.Event().wait()"),
    Import(
        name="holds the lock",
        source="import ctypes\nwhile True: ctypes.PyDLL(None).sleep(600)",
    ),
    Import(
        name="waits and ignores signals",
        source="import signal, time\n"
        "for n in set(signal.valid_signals()) - {9, 19}:\n"
        "    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except OSError: pass\n"
        "time.sleep(600)",
    ),
    Import(name="exits well", source="import os; os._exit(0)"),
    Import(name="exits with 3", source="import os; os._exit(3)"),
    Import(name="sys.exit", source="import sys; sys.exit(0)"),
    Import(name="sys.exit with words", source="import sys; sys.exit('bye')"),
    Import(
        name="raises what is no Exception",
        source="class Odd(BaseException): pass\nraise Odd('boom')",
    ),
    Import(name="raises as Ctrl-C does", source="raise KeyboardInterrupt"),
    Import(name="raises", source="raise RuntimeError('\\x1b]0;owned\\x07')"),
    Import(name="no Python", source="def ("),
    Import(name="holds a NUL", source="x = 1\0"),
    Import(name="endless recursion", source="def f(): f()\nf()"),
    Import(name="segfault", source="import ctypes; ctypes.string_at(0)"),
    Import(name="aborts", source="import os; os.abort()"),
    Import(name="kills itself", source="import os; os.kill(os.getpid(), 9)"),
    Import(name="closes descriptors", source="import os; os.closerange(3, 1024)"),
    Import(
        name="closes all descriptors and waits",
        source="import os, time; os.closerange(0, 1024); time.sleep(600)",
    ),
    Import(
        name="floods and aborts",
        source="import os\nfor _ in range(4000): os.write(1, b'x' * 65536); os.write(2, b'y' * 9)\n"
        "os.abort()",
    ),
    Import(
        name="leaves a daemon and exits",
        source="import os, time\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        "time.sleep(600)",
    ),
)
