"""What dying libraries say: regular expressions for `rules`. Names of devices and libraries belong
here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NATIVE_CLASSES: Final = (
    "segfault",
    "abort",
    "heap-corruption",
    "cxx-exception",
    "bus-error",
    "illegal-instruction",
)

_RANK = r"^(?:\[[\w:]+\]:? )?"
"""Launchers of several processes put a name before each line."""


def _any(*patterns: str) -> str:
    return "|".join(patterns)


OMP_DUPLICATE: Final = (
    r"OMP: Error #15: Initializing (?P<second>\S+), but found (?P<first>\S+) already initialized"
)

OPENBLAS_ALLOCATION: Final = r"OpenBLAS error: Memory allocation still failed"
ALLOCATION: Final = _any(
    _RANK + r"(?:[\w.]+\.)?_?(?:Array)?MemoryError\b",
    r"std::bad_alloc\b",
    r"DefaultCPUAllocator: (?:can't allocate|not enough) memory",
    r"Unable to allocate [\d.]+ \w+ for an array",
    r"\[Errno 12\]",
    r"Cannot allocate memory",
    r"failed to map segment from shared object$",
    r"libgomp: Out of memory allocating",
    r"^memory allocation of \d+ bytes failed",
    r"[Ee]rror in malloc\(\): out of memory",
    # devices
    r"(?:CUDA|HIP|XPU) out of memory",
    r"\w+ backend out of memory",
    r"(?:CUDA|HIP) error: out of memory",
    r"\bOutOfMemoryError\b",
    r"STATUS_ALLOC_FAILED",
    r"CommandBufferCallbackErrorOutOfMemory",
)

UNCAUGHT_BAD_ALLOC: Final = r"terminate called after throwing an instance of 'std::bad_alloc'"

DISK_FULL: Final = _any(
    r"No space left on device",
    r"Disk quota exceeded",
    r"\bENOSPC\b",
    r"database or disk is full",
)
SHORT_WRITE: Final = _any(
    r"PytorchStreamWriter failed writing",
    r"inline_container\.cc.*unexpected pos",
    r"\d+ requested and \d+ written",
)

DEVICE_LOST: Final = _any(
    r"(?:CUDA|HIP) error: (?!out of memory|device-side assert|invalid device ordinal).+",
    r"\b(?:CUDA|HIP) driver error",
    r"GPU is lost",
    r"fallen off the bus",
    r"Unable to determine the device handle for GPU",
    r"(?:CUDNN|CUBLAS)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR)",
    r"Caused GPU (?:Hang|Timeout|Address Fault|Page Fault) Error",
    r"kIOGPUCommandBufferCallbackError(?!OutOfMemory)\w+",
    r"[Cc]ommand buffer exited with error status",
    r"MTLCommandBufferError|IOGPUMetal",
    r"(?:MTL|MPS|Metal|AGX)\w*.*failed assertion",
    r"LLVM ERROR: Failed to infer result type",
)

NON_FINITE: Final = _any(
    r"returned nan values in its \d+th output",
    r"(?i:\bloss (?:is|became|was|=) ?(?:now )?(?:nan|inf|infinite|non-?finite|not finite)\b)",
    r"(?i:\bloss=(?:nan|inf)\b)",
    r"(?i:\bloss returned in .{1,60} is (?:nan|inf))",
    r"(?i:\b(?:nan|inf|non-?finite)(?: or inf| or nan)? (?:loss|gradient)s?\b)",
    _RANK + r"FloatingPointError\b",
)

HEAP: Final = _any(
    r"\b(?:malloc|realloc|calloc|free|munmap_chunk|malloc_consolidate|unaligned \w+ chunk)"
    r"\(?\)?: (?:invalid|corrupted|unaligned|unsorted|mismatching|smallbin|largebin|double free)",
    r"double free or corruption",
    r"corrupted (?:size vs\. prev_size|double-linked list)|invalid fastbin entry",
    r"stack smashing detected",
    r"buffer overflow detected",
    r"error for object 0x[0-9a-f]+: (?:pointer being|incorrect checksum|double free)",
    r"Corruption of (?:free|tiny) object|Heap corruption detected",
)
CXX: Final = _any(
    r"terminate called (?:after throwing an instance of '(?P<type>[^'\n]+)'|without an active "
    r"exception|recursively)",
    r"libc\+\+abi: terminating",
)
FATAL_REASON: Final = _any(
    r"(?P<why>Assertion [`'\"].+ failed\.?)",
    r"Fatal Python error: (?!Aborted|Segmentation|Bus error|Illegal|Floating)(?P<why_>[^\n]+)",
    r"(?P<why__>[^\n]*failed assertion[^\n]*)",
    r"(?P<why___>LLVM ERROR: [^\n]+|OMP: Error #\d+: [^\n]+)",
)

SHM_SHORT: Final = r"insufficient shared memory \(shm\)|killed by signal: Bus error"
CHILD_KILLED: Final = _any(
    r"killed by signal: Killed",
    r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) exited unexpectedly",
    r"died with <Signals\.SIGKILL: 9>",
    r"Signal 9 \(SIGKILL\)",
    r"process (?:in the process pool )?was terminated abruptly",
    r"\bSIGKILL\(-9\)",
)
CHILD_BUS_ERROR: Final = r"killed by signal: Bus error|\bSIGBUS\b"
CHILD_KILLED_FOR_SURE: Final = _any(
    r"killed by signal: Killed",
    r"died with <Signals\.SIGKILL: 9>",
    r"Signal 9 \(SIGKILL\)",
    r"\bSIGKILL\(-9\)",
)
"""These name the signal; the others of CHILD_KILLED may be any end."""
WORKER_GONE: Final = _any(
    r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) exited unexpectedly",
    r"process (?:in the process pool )?was terminated abruptly",
    r"multiprocessing/(?:connection|resource_sharer|queues)\.py[\s\S]*"
    r"\n(?P<error_>ConnectionResetError|EOFError|BrokenPipeError)",
)
WORKER_SEGFAULT: Final = r"ERROR: Unexpected segmentation fault encountered in worker"
"""Of torch, in the worker; what the parent says afterwards depends on a race."""
CHILD_SEGFAULT: Final = _any(
    r"killed by signal: Segmentation fault",
    r"died with <Signals\.SIGSEGV: 11>",
    r"Signal 11 \(SIGSEGV\)",
    r"\bSIGSEGV\(-11\)",
)
CHILD_ABORT: Final = _any(
    r"killed by signal: Aborted",
    r"died with <Signals\.SIGABRT: 6>",
    r"Signal 6 \(SIGABRT\)",
    r"\bSIGABRT\(-6\)",
)
FATAL_IN_CHILD: Final[Mapping[str, str]] = {
    "segfault": r"Fatal Python error: Segmentation fault",
    "abort": r"Fatal Python error: Aborted",
    "bus-error": r"Fatal Python error: Bus error",
    "illegal-instruction": r"Fatal Python error: (?:Illegal instruction|Floating-point exception)",
}
"""What faulthandler wrote of a child, by class."""
