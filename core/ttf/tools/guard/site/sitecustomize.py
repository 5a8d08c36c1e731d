"""Runs at the start of every Python that a guarded command starts, of any version: makes it write
its stacks at a crash, then loads the user's own sitecustomize.

It must never break or slow that process: only built-in modules, nothing raised, old syntax.
"""
# mypy: ignore-errors
# ruff: noqa

import os
import sys

_FIRST_FD = 512  # out of the way: programs that close and reuse descriptors begin with low ones
_DUMP_SIGNAL_FROM_END = 3


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

    def at_exit():
        try:
            if state["pid"] != os.getpid():
                return
            if "note" in state:
                kind = getattr(sys, "last_type", None)
                text = "in order" if kind is None else "uncaught %s" % kind.__name__
                write_note(text.encode("ascii", "replace"))
            if is_still(state["fd"], state["path"]) and not os.fstat(state["fd"]).st_size:
                os.unlink(state["path"])
        except Exception:
            return

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
