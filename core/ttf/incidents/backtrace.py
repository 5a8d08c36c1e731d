"""The native stack of a process that crashed, from its core file, by gdb."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

from ttf.incidents.core_file import Core, CoreFiles, allow_core, cores_allowed
from ttf.incidents.death import Backtrace, Death, NativeFrame
from ttf.process import platform
from ttf.process.bounded_output import BoundedOutput
from ttf.text.shell import quoted

_DEADLINE_S: Final = 120.0
_MOST_FRAMES: Final = 64  # of each thread
_MOST_NAMED: Final = 8
_MARK: Final = "-- frames of the crash --"
_END: Final = "-- end --"
# It reads files that somebody else may have made: none of its own scripts, nothing from the network,
# and no arguments of functions, which may be secrets.
_SAFE: Final = (
    *("-nx", "-batch", "-iex", "set auto-load no", "-iex", "set debuginfod enabled off"),
    *("-ex", "set width 0", "-ex", "set print frame-arguments none"),
)
_ASKED: Final = (
    *("-ex", f"echo {_MARK}\\n"),
    *("-ex", f"frame apply {_MOST_FRAMES} -c info symbol $pc", "-ex", f"echo {_END}\\n"),
    *("-ex", f"thread apply all bt {_MOST_FRAMES}"),
)
_FRAME: Final = re.compile(
    r"#\d+ +(?:0x[0-9a-f]+ in )?(?P<function><signal handler called>|.+?(?= \())"
    r"(?:.* from (?P<library>.+))?"
)
# Where a library has its source lines, a frame tells those instead of the library.
_SYMBOL: Final = re.compile(r".+ in section \S+ of (?P<library>.+)")
# The way from a signal handler or from abort() to the end, not the reason of it.
_HANDLER: Final = "<signal handler called>"
_MACHINERY: Final = re.compile(
    r"_*(?:GI_)*_*(?:raise|abort|assert_fail\w*|kill|pthread_kill\w*|libc_message\w*)"
)
_FAULTS: Final = frozenset({4, 5, 6, 7, 8, 11, 31})


class NativeStacks:
    """Of one child process and those below it: make it before the child starts."""

    def __init__(self, command: Sequence[str]) -> None:
        """`command` would show the crash again, under gdb."""
        self._shown_by = (
            "gdb -nx -batch -ex run -ex 'thread apply all bt' --args "
            f"{' '.join(map(quoted, command))}"
        )
        self._gdb = shutil.which("gdb")
        self._files = CoreFiles() if platform.LINUX else None
        self._why_not = self._refused()

    def _refused(self) -> str:
        if self._files is None:
            return "core files are read on Linux only; macOS writes a report of its own"
        if self._gdb is None:
            return "gdb is not installed (apt-get install gdb)"
        if self._files.in_the_way:
            return (
                f"the kernel would write over {self._files.in_the_way}; move that file, or start "
                "in another folder"
            )
        if "systemd-coredump" in self._files.program:
            return "systemd-coredump keeps the core file"
        if self._files.program:
            return f"the kernel gives core files to a program ({self._files.program.split()[0]})"
        import resource

        if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
            return "core files are forbidden here (ulimit -Hc is 0)"
        return ""

    def allowed(self) -> AbstractContextManager[None]:
        """Around the start of the child."""
        return nullcontext() if self._why_not else cores_allowed()

    def allow(self, pid: int) -> None:
        """For a child that runs already."""
        if not self._why_not:
            allow_core(pid)
            self.look([pid])

    def look(self, pids: Iterable[int]) -> None:
        """Call it about once a second."""
        if self._files is not None and not self._why_not:
            self._files.look(pids)

    def look_in(self, folders: Iterable[Path]) -> None:
        """Folders where a process below it worked."""
        if self._files is not None:
            self._files.look_in(folders)

    def of(self, death: Death) -> Backtrace | None:
        """None if nothing native happened. Removes the core file, which holds all of its memory."""
        if death.signal not in _FAULTS or death.killed_by_us:
            return None
        if self._files is None or self._gdb is None or self._why_not:
            return Backtrace(note=self._note(self._why_not, death.pid))
        core = self._files.of(death.pid, None if death.exit_code is None else death.signal)
        if core is None:
            return Backtrace(note=self._note("the process left no core file", death.pid))
        try:
            text = _asked(self._gdb, core)
        finally:
            core.remove()
        found = parsed(text)
        if not found.frames:
            return Backtrace(text=found.text, note=self._note("gdb found no frame", death.pid))
        return found

    def _note(self, why: str, pid: int) -> str:
        command = f"coredumpctl debug {pid}" if "systemd" in why else self._shown_by
        return f"no native frames: {why}. This command shows them: {command}"

    def close(self) -> None:
        """After the child: removes the core files of others below it."""
        if self._files is not None and not self._why_not:
            self._files.remove()


def _asked(gdb: str, core: Core) -> str:
    """What gdb says; what it has said so far if it takes too long."""
    words = [gdb, *_SAFE, *_ASKED, *([core.program] if Path(core.program).is_absolute() else [])]
    process = subprocess.Popen(
        [*words, os.fspath(core.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=core.path.parent,  # libraries may have been loaded by a relative path
        env={key: value for key, value in os.environ.items() if key != "DEBUGINFOD_URLS"},
        start_new_session=True,
    )
    assert process.stdout is not None
    said, ends_at = BoundedOutput(), time.monotonic() + _DEADLINE_S
    with process:
        while (left := ends_at - time.monotonic()) > 0:
            if select.select([process.stdout], [], [], left)[0]:
                data = os.read(process.stdout.fileno(), 1 << 16)
                if not data:
                    break
                said.add(data)
        else:
            said.add(f"\n[gdb needed more than {_DEADLINE_S:g} s]\n".encode())
        process.kill()
    return said.text()


def parsed(text: str) -> Backtrace:
    """The stacks and the named frames of what gdb printed.

    >>> parsed('''-- frames of the crash --
    ... #0  0x0c in raise () from /lib/libc.so.6
    ... raise + 12 in section .text of /lib/libc.so.6
    ... #1  <signal handler called>
    ... __restore_rt in section .text of /lib/libc.so.6
    ... #2  0x04 in crash_here (at=...) at ours.c:4
    ... crash_here + 4 in section .text of /x/libours.so
    ... -- end --
    ... Thread 1''')
    Backtrace(frames=(NativeFrame(function='crash_here', library='libours.so'),), text='Thread 1', note='')
    """
    frames_text, _, stacks = text.partition(_MARK)[2].partition(_END)
    frames = _frames(frames_text)
    names = [frame.function for frame in frames]
    if _HANDLER in names:
        frames = frames[names.index(_HANDLER) + 1 :]
    while len(frames) > 1 and _MACHINERY.fullmatch(frames[0].function):
        del frames[0]
    return Backtrace(frames=tuple(frames[:_MOST_NAMED]), text=(stacks or text).strip())


def _frames(text: str) -> list[NativeFrame]:
    frames: list[NativeFrame] = []
    for line in text.splitlines():
        if frame := _FRAME.match(line):
            library = Path(frame["library"] or "").name
            frames.append(NativeFrame(function=frame["function"], library=library))
        elif frames and not frames[-1].library and (symbol := _SYMBOL.match(line)):
            library = Path(symbol["library"]).name
            frames[-1] = NativeFrame(function=frames[-1].function, library=library)
    return frames
