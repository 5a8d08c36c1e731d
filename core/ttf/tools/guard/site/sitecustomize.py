"""Runs at the start of every Python that a guarded command starts, of any version: makes it write
its stacks at a crash, notes where its output goes and what it prints, and how it ends; then loads the
user's own sitecustomize.

It must never break or slow that process: only built-in modules, nothing raised, old syntax.
"""
# mypy: ignore-errors
# ruff: noqa

import os
import sys

_FIRST_FD = 512  # out of the way: programs that close and reuse descriptors begin with low ones
_DUMP_SIGNAL_FROM_END = 3
_MOST_SAID = 1 << 15  # of what it printed; twice as much at times
_MOST_TRACEBACK = 1 << 14
_READ_WRITE = 2  # O_RDWR


def _ttf_guard(folder, guard):
    import faulthandler

    def high(fd):
        try:
            import fcntl

            moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_FD)
        except Exception:
            return fd
        os.close(fd)
        return moved

    def opened(name, *flags):
        mode = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        for flag in flags:
            mode |= flag
        path = os.path.join(folder, "%s-%d.txt" % (name, os.getpid()))
        return high(os.open(path, mode, 0o600)), path

    def is_still(fd, path):
        try:
            one, other = os.fstat(fd), os.stat(path)
        except OSError:
            return False
        return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)

    def name_of_process():
        try:
            with open("/proc/self/comm") as file:
                return file.read().strip()
        except Exception:
            return ""

    def watch():
        fd, path = opened("stacks")
        if not state["foreign"]:
            faulthandler.enable(file=fd, all_threads=True)
        try:
            import _signal

            number = getattr(_signal, "SIGRTMAX", 0)
            number = number - _DUMP_SIGNAL_FROM_END if number else _signal.SIGUSR2
            if state.get("signal") or _signal.getsignal(number) == _signal.SIG_DFL:
                faulthandler.register(number, file=fd, all_threads=True, chain=False)
                state["signal"] = number
        except Exception:
            state["signal"] = 0
        state.update(fd=fd, path=path, pid=os.getpid())

    def after_fork():
        try:
            fd, path = state["fd"], state["path"]
            watch()
            if is_still(fd, path):
                os.close(fd)
        except Exception:
            state["pid"] = 0

    def write_note(text):
        fd, path = state["note"]
        if is_still(fd, path):
            os.write(fd, text)
            return
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, text)
        os.close(fd)

    def how_it_ended():
        kind = getattr(sys, "last_type", None)
        if kind is None:
            return "in order"
        text = "uncaught %s" % kind.__name__
        if kind is KeyboardInterrupt:
            # An import here runs code that makes Python forget to end by SIGINT: exit code 1, not 130.
            return text
        try:
            import traceback

            lines = traceback.format_exception(kind, sys.last_value, sys.last_traceback)
            return text + "\n" + "".join(lines)[-_MOST_TRACEBACK:]
        except Exception:
            return text

    def at_exit():
        try:
            if state["pid"] != os.getpid():
                return
            if "note" not in state:
                state["note"] = opened("end", os.O_TRUNC)
            write_note(how_it_ended().encode("utf-8", "replace"))
            if is_still(state["fd"], state["path"]) and not os.fstat(state["fd"]).st_size:
                os.unlink(state["path"])
        except Exception:
            return

    def target(fd):
        # Where a descriptor leads: a file has a path, and the place where this process begins in it.
        import fcntl
        import stat

        found = os.fstat(fd)
        kind, begins, path = "other", 0, ""
        if stat.S_ISFIFO(found.st_mode):
            kind = "pipe"
        elif stat.S_ISREG(found.st_mode):
            kind, path = "file", os.readlink("/proc/self/fd/%d" % fd)
            # Without O_APPEND it was opened for this command, and emptied.
            begins = found.st_size if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND else 0
        return kind, found.st_dev, found.st_ino, begins, path

    def note_start():
        lines, seen = [str(os.getppid())], {}
        for fd in (1, 2):
            try:
                found = target(fd)
            except Exception:
                continue
            lines.append("%d\t%s\t%d\t%d\t%d\t%s" % ((fd,) + found))
            if found[0] != "file":  # a file keeps what was written
                listen(sys.stdout if fd == 1 else sys.stderr, seen.setdefault(found[1:3], fd))
        try:
            os.symlink(os.getcwd(), os.path.join(folder, "cwd-%d.txt" % os.getpid()))
        except Exception:  # it called exec, or its folder is gone
            pass
        note, _ = opened("start", os.O_TRUNC)
        os.write(note, "\n".join(lines).encode("utf-8", "replace"))
        os.close(note)

    def listen(stream, fd):
        # A pipe cannot be read a second time, so what goes into it is kept here as well.
        write = stream.write

        def said(text):
            try:
                keep(fd, text)
            except Exception:
                pass
            return write(text)

        stream.write = said

    said_to = {}

    def keep(fd, text):
        mine = said_to.get(fd)
        if mine is None or mine[0] != os.getpid():
            name = "said-%d-%d.txt" % (os.getpid(), fd)
            path = os.path.join(folder, name)
            mode = _READ_WRITE | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
            own = high(os.open(path, mode, 0o600))
            made = os.fstat(own)
            mine = said_to[fd] = (os.getpid(), own, (made.st_dev, made.st_ino))
        found = os.fstat(mine[1])
        if (found.st_dev, found.st_ino) != mine[
            2
        ]:  # somebody closed it, and opened another file there
            return
        data = text.encode("utf-8", "replace")[-_MOST_SAID:]
        if found.st_size + len(data) > 2 * _MOST_SAID:
            end = os.pread(mine[1], _MOST_SAID, max(0, found.st_size - _MOST_SAID))
            os.ftruncate(mine[1], 0)
            os.write(mine[1], end)
        os.write(mine[1], data)

    def tell():
        # Wakes the guard, while those that read our pipes still live.
        fd = os.open(os.path.join(folder, "started"), os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(fd, b".")
        finally:
            os.close(fd)

    import atexit

    # Who asked for it himself has the stacks of a crash on stderr, which is kept as well.
    state = {"foreign": faulthandler.is_enabled()}
    watch()
    if str(os.getppid()) == guard:  # the command itself
        words = ["%d.%d.%d" % tuple(sys.version_info[:3]), sys.executable or "", name_of_process()]
        about, _ = opened("python", os.O_TRUNC)
        os.write(about, "\n".join(words + [p for p in sys.path if p]).encode("utf-8", "replace"))
        os.close(about)
        state["note"] = opened("end", os.O_TRUNC)
    atexit.register(at_exit)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=after_fork)
    note_start()
    tell()


def _step_aside():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]


def _the_users_own():
    if sys.version_info[0] < 3:
        import imp

        try:
            found = imp.find_module("sitecustomize")
        except ImportError:
            return
        imp.load_module("sitecustomize", *found)
        return
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    _step_aside()
    _ttf_guard(os.environ["TTF_GUARD_STACKS"], os.environ["TTF_GUARD_PID"])
except Exception:  # never more than a crash without stacks
    pass
_the_users_own()
