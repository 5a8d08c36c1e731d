"""Checks `python`, `torch` and `environment`: the basis of every process of a run."""

from __future__ import annotations

import os
import platform
import re
import struct
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from typing import Final

from ttf.hookspecs import Verdict
from ttf.incidents import error_texts
from ttf.machine.thread_variables import THREAD_VARIABLES
from ttf.text.numbers import duration, size
from ttf.tools.doctor import task_failures
from ttf.tools.doctor.check import fail, ok, warn
from ttf.tools.doctor.context import Examination

LEAST: Final = (3, 11)
TRIED_BELOW: Final = (3, 14)
_FALSE_VALUES: Final = ("", "0", "false", "no", "off", "disabled", "f", "n")
_SHOWN_VARIABLES: Final = re.compile(
    r"^(?:KMP|OMP|MKL|OPENBLAS|VECLIB|PYTORCH|MALLOC|GOMP)_|^TTF_(?!TREE|PREP)"
)


def look_at_python(_: Examination) -> Verdict:
    bits = struct.calcsize("P") * 8
    version = platform.python_version()
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    about = f"{platform.python_implementation()} {version}, {bits} bit, {platform.machine()}"
    evidence = (f"interpreter: {sys.executable}", f"system: {platform.platform()}")
    if not sys.executable:
        return fail(
            f"{about}: Python does not know the path of its own interpreter, so ttf cannot start "
            "processes.",
            *evidence,
            remedy="Start ttf with the Python of a virtual environment.",
        )
    if sys.version_info < LEAST or bits < 64:
        return fail(
            f"{about}: ttf needs Python {LEAST[0]}.{LEAST[1]} or later, 64 bit.",
            *evidence,
            remedy="Create a virtual environment with a newer Python, and install twotower in it.",
        )
    if platform.python_implementation() != "CPython" or free_threaded:
        return warn(
            f"{about}{', without the interpreter lock' if free_threaded else ''}: ttf was not "
            "tested with it.",
            *evidence,
            remedy="If you have problems, use the standard CPython.",
        )
    if sys.version_info[:2] >= TRIED_BELOW:
        return warn(
            f"{about}: ttf was tested with Python 3.11 to 3.13.",
            *evidence,
            remedy="If you have problems, use Python 3.13.",
        )
    return ok(about, *evidence)


def look_at_torch(exam: Examination) -> Verdict:
    # If torch fails alone in a process, no other check needs to be blamed.
    ended = exam.torch
    if ended.answer is None or not ended.well:
        what = "torch does not work, even alone in a process"
        return task_failures.failed(what, ended, remedy=_torch_remedy(exam))
    told = ended.answer
    libraries = [f"OpenMP runtime: {path}" for path in told["openmp"]]
    return ok(
        f"torch {told['version']} was loaded in {duration(told['import_s'])} and computes with "
        f"{told['threads']} thread{'s' * (told['threads'] != 1)}",
        f"its process used at most {size(told['peak_bytes'])} of memory",
        *libraries,
    )


def _torch_remedy(exam: Examination) -> str:
    ended = exam.torch
    name = ended.finding.name if ended.finding is not None else ""
    said = "" if ended.error is None else f"{ended.error['class']}: {ended.error['message']}"
    starved = name in ("oom-kill", "alloc-failure", "memory-limit")
    if starved or re.search(error_texts.ALLOCATION, said, re.MULTILINE):
        return "torch needs more memory: see the checks memory and cgroup."
    if name == "illegal-instruction":
        return "This build of torch is for another processor. Install a build for this machine."
    return "Install torch in a new virtual environment, and run ttf doctor again."


# --- variables -------------------------------------------------------------------------------------


def look_at_environment(exam: Examination, variables: Mapping[str, str] | None = None) -> Verdict:
    env = os.environ if variables is None else variables
    evidence = [f"{name}={env[name]}" for name in sorted(env) if _SHOWN_VARIABLES.search(name)]
    hides = env.get("KMP_DUPLICATE_LIB_OK")
    if hides is not None and hides.strip().lower() not in _FALSE_VALUES:
        return fail(
            f"KMP_DUPLICATE_LIB_OK={hides} hides that two OpenMP runtimes are loaded. Results may "
            "be wrong without a warning, and crashes may occur later, at another place.",
            *evidence,
            remedy=(
                "unset KMP_DUPLICATE_LIB_OK, also in the start-up files of your shell, and "
                "read the result of the check coload. ttf removes the variable from the "
                "processes that it starts."
            ),
        )
    problems = [*_thread_problems(exam, env), *_mps_problems(env), *_injection_problems(env)]
    if problems:
        texts = "; ".join(text for text, _ in problems)
        remedy = " ".join(dict.fromkeys(mend for _, mend in problems))
        return warn(f"{texts[:1].upper()}{texts[1:]}.", *evidence, remedy=remedy)
    return ok("no variable hides faults or sets too many threads", *evidence)


def _thread_problems(exam: Examination, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    count, source = exam.processors
    for name in (*THREAD_VARIABLES, "NUMEXPR_NUM_THREADS"):
        text = env.get(name, "").split(",")[0].strip()
        if not text:
            continue
        if not text.isdigit() or int(text) < 1:
            yield f"{name}={env[name]} is not a number of threads", f"Set {name} to 1 or more."
        elif int(text) > count:
            what = (
                f"{name}={text} sets more threads than the {count} {source}: in each parallel "
                "step, threads wait for a free CPU"
            )
            yield what, f"unset {name}, or set it to {count}."


def _mps_problems(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    # torch reads these on a Mac only.
    if sys.platform != "darwin":
        return
    ratio = env.get("PYTORCH_MPS_HIGH_WATERMARK_RATIO", "")
    if ratio:
        with_limit = ratio not in ("0", "0.0")
        yield (
            f"PYTORCH_MPS_HIGH_WATERMARK_RATIO={ratio} "
            + ("moves" if with_limit else "removes")
            + (
                " the memory limit at which torch raises an error. Without it, macOS swaps or "
                "kills the process"
            ),
            "unset PYTORCH_MPS_HIGH_WATERMARK_RATIO.",
        )
    if env.get("PYTORCH_ENABLE_MPS_FALLBACK", "0") not in ("", "0"):
        yield (
            (
                "with PYTORCH_ENABLE_MPS_FALLBACK=1, torch runs some operators on the CPU without a "
                "warning, and copies the data each time"
            ),
            "unset PYTORCH_ENABLE_MPS_FALLBACK; torch then names the missing operator.",
        )


def _injection_problems(env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if env.get("TTF_FAILPOINT"):
        yield (
            (
                f"TTF_FAILPOINT={env['TTF_FAILPOINT']} makes ttf fail on purpose; it is meant for the "
                "tests of ttf"
            ),
            "unset TTF_FAILPOINT.",
        )
    preloaded = env.get("LD_PRELOAD", "") + env.get("DYLD_INSERT_LIBRARIES", "")
    if re.search(r"lib(?:i?omp5?|gomp)\b", preloaded):
        yield (
            f"a second OpenMP runtime is loaded into every process ({preloaded})",
            "unset LD_PRELOAD (macOS: DYLD_INSERT_LIBRARIES).",
        )
