"""Regular expressions for the messages of dying libraries, used by `rules`. Names of devices and
libraries occur only here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self


class Pattern(str):
    """A regular expression, and how documentation pages show it."""

    shown: str

    def __new__(cls, *alternatives: str, shown: str) -> Self:
        pattern = super().__new__(cls, "|".join(alternatives))
        pattern.shown = shown
        return pattern


NATIVE_CLASSES: Final = (
    "segfault",
    "abort",
    "heap-corruption",
    "cxx-exception",
    "bus-error",
    "illegal-instruction",
)

_RANK = r"^(?:\[[\w:]+\]:? )?"  # launchers of several processes put a name before each line


OMP_DUPLICATE: Final = Pattern(
    r"OMP: Error #15: Initializing (?P<second>\S+), but found (?P<first>\S+) already initialized",
    shown="`OMP: Error #15`",
)

OPENBLAS_ALLOCATION: Final = Pattern(
    r"OpenBLAS error: Memory allocation still failed",
    shown="`OpenBLAS error: Memory allocation still failed`",
)
ALLOCATION: Final = Pattern(
    _RANK + r"(?:[\w.]+\.)?_?(?:Array|Arrow)?MemoryError\b",
    _RANK
    + r"[\w.]*(?:Error|Exception): [^\n]{0,200}\b(?:not enough|Not enough|[Ii]nsufficient|[Oo]ut of) memory"
    r"(?=[ \r]*$|[:.,;!]|\s+(?:to|for|while|when)\b)",
    r"std::bad_alloc\b",
    r"DefaultCPUAllocator: (?:can't allocate|not enough) memory",
    r"Unable to allocate [\d.]+ \w+ for an array",
    r"\[Errno 12\]",
    r"Cannot allocate memory",
    r"failed to map segment from shared object$",
    r"libgomp: Out of memory allocating",
    r"^memory allocation of \d+ bytes failed",
    r"[Ee]rror in malloc\(\): out of memory",
    # oneDNN got no memory for a kernel. Of a descriptor it says so where it has no such kernel.
    r"could not create a (?:primitive|memory object)\b(?! descriptor)",
    shown=(
        "a message about a refused allocation (`MemoryError`, `std::bad_alloc`, `Cannot allocate "
        "memory`, ...)"
    ),
)
INPUT_OUTPUT: Final = Pattern(
    r"\[Errno 5\] Input/output error", shown="`[Errno 5] Input/output error`"
)
MAP_REFUSED: Final = Pattern(r"\[Errno 12\]", shown="`[Errno 12] Cannot allocate memory`")
DEVICE_MEMORY: Final = Pattern(
    r"(?:CUDA|HIP|XPU) out of memory",
    r"\b\w{1,40} backend out of memory",
    r"(?:CUDA|HIP) error: out of memory",
    r"\bOutOfMemoryError\b",
    r"STATUS_ALLOC_FAILED",
    r"CommandBufferCallbackErrorOutOfMemory",
    shown=(
        "a message about the memory of a device (`CUDA out of memory`, `MPS backend out of "
        "memory`, ...)"
    ),
)
THREADS_REFUSED: Final = Pattern(
    r"libgomp: Thread creation failed: [^\n]+",
    r"OMP: Error #34: [^\n]+",
    r"blas_thread_init: pthread_create failed for thread \d+ of \d+: [^\n]+",
    shown="a message about a refused thread (`libgomp: Thread creation failed`, ...)",
)
# A limit answers that a thread is unavailable; only a sandbox answers that it is not permitted.
THREADS_FORBIDDEN: Final = Pattern(
    r"blas_thread_init: pthread_create failed for thread \d+ of \d+: Operation not permitted"
    r"[\s\S]{0,8000}?^(?:KeyboardInterrupt\b|RuntimeError: can't start new thread)",
    r"libgomp: Thread creation failed: Operation not permitted\s*\Z",
    shown="`pthread_create failed ...: Operation not permitted`, and then `KeyboardInterrupt`, or a "
    "similar message",
)
# OpenBLAS raises SIGINT after this message: no person pressed Ctrl-C.
OPENBLAS_INTERRUPTS: Final = Pattern(
    r"blas_thread_init: pthread_create failed[^\n]*\n(?:OpenBLAS[^\n]*\n)*"
    r"Traceback[^\n]*\n(?:[ \t][^\n]*\n)*KeyboardInterrupt\b",
    shown="`OpenBLAS blas_thread_init: pthread_create failed`, and then `KeyboardInterrupt`",
)

# OpenBLAS says this and goes on without memory.
OPENBLAS_REGIONS: Final = Pattern(
    r"BLAS : Program is Terminated\. Because you tried to allocate too many memory regions",
    shown="`OpenBLAS : Program is Terminated. Because you tried to allocate too many memory regions`",
)

UNCAUGHT_BAD_ALLOC: Final = Pattern(
    r"terminate called after throwing an instance of 'std::bad_alloc'",
    shown="`terminate called after throwing an instance of 'std::bad_alloc'`",
)

DISK_FULL: Final = Pattern(
    r"No space left on device",
    r"Disk quota exceeded",
    r"\bENOSPC\b",
    r"database or disk is full",
    shown="`No space left on device`, `Disk quota exceeded` or a similar message",
)
# Python looked for a folder that takes a file, and does not say why none did.
NO_TEMPORARY_FOLDER: Final = Pattern(
    r"No usable temporary directory found", shown="`No usable temporary directory found`"
)
SHM_FULL: Final = Pattern(
    r"(?:shared memory|</torch_)[^\n]{0,200}: No space left on device",
    shown="`unable to allocate shared memory(shm) for file ...: No space left on device`",
)
WATCHES: Final = Pattern(
    r"inotify[\s\S]{0,4000}No space left on device",
    r"inotify watch limit reached",
    r"limit for number of file watchers reached",
    shown="`inotify watch limit reached`, or `No space left on device` of inotify",
)
SHORT_WRITE: Final = Pattern(
    r"PytorchStreamWriter failed writing",
    r"inline_container\.cc.{0,400}unexpected pos",
    r"\b\d{1,20} requested and \d+ written",
    shown="a message about an incomplete write (`unexpected pos`, `N requested and M written`)",
)

# What every new process meets again: an error in the code, or a build for another device.
_OF_THE_CODE: Final = (
    r"out of memory|device-side assert|invalid (?:device (?:ordinal|function)|argument|configuration)"
    r"|CUBLAS_STATUS_(?:INVALID|NOT_SUPPORTED|ARCH)|no kernel image|device kernel image is invalid|.*\b(?:PTX|driver version is insufficient)\b"
)
DEVICE_LOST: Final = Pattern(
    rf"(?:CUDA|HIP) error: (?!{_OF_THE_CODE}).+",
    r"\b(?:CUDA|HIP) driver error",
    r"GPU is lost",
    r"fallen off the bus",
    r"Unable to determine the device handle for GPU",
    r"(?:CUDNN|CUBLAS)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|MAPPING_ERROR)",
    r"Caused GPU (?:Hang|Timeout|Address Fault|Page Fault) Error",
    r"kIOGPUCommandBufferCallbackError(?!OutOfMemory)\w+",
    r"[Cc]ommand buffer exited with error status",
    r"MTLCommandBufferError|IOGPUMetal",
    r"\b(?:MTL|MPS|Metal|AGX)\w*.{0,400}failed assertion",
    r"LLVM ERROR: Failed to infer result type",
    shown=(
        "a message of the driver (`CUDA error`, `GPU is lost`, Metal's `failed assertion`, ...)"
    ),
)

COLLECTIVE_TIMEOUT: Final = Pattern(
    r"Watchdog caught collective operation timeout[^\n]*",
    r"Timed out waiting \d+ms for (?:recv|send) operation",
    shown=(
        "a message about other processes of the training that did not answer (`Watchdog caught "
        "collective operation timeout`, ...)"
    ),
)
LOADER_TIMEOUT: Final = Pattern(
    r"DataLoader timed out after \d+(?:\.\d+)? seconds",
    shown="`DataLoader timed out after 5 seconds`",
)
# torchrun turns the signals that end it into an exception.
SIGNAL_RAISED: Final = Pattern(
    _RANK + r"(?:[\w.]+\.)?SignalException: Process \d+ got signal: (?P<number>\d+)",
    shown="`SignalException: Process 7 got signal: 1` of torchrun",
)
NO_RENDEZVOUS: Final = Pattern(
    r"(?P<why>[^\n]*\b\d+/\d+ clients joined[^\n]*)",
    r"(?P<why_>[^\n]*\bserver socket has failed to listen on any local network address[^\n]*)",
    r"(?P<why__>[^\n]*\bclient socket has (?:failed to connect|timed out)[^\n]*)",
    r"(?P<why___>[^\n]*\bRendezvous(?:Timeout|Connection|Closed)Error\b[^\n]*)",
    shown="a message about ranks that did not find each other (`1/2 clients joined`, `EADDRINUSE`, ...)",
)
NO_ADDRESS: Final = Pattern(
    r"network addresses of \((?P<name>[^,\s]+), \d+\) cannot be retrieved \(gai error: -?\d+ - "
    r"(?P<why>[^)\n]+)\)[\s\S]*client socket has (?:failed to connect|timed out)[^\n]*"
    r"\s\((?P=name), \d+\)",
    shown="`network addresses of (HOST, PORT) cannot be retrieved` and then a timeout of a client socket",
)
PEER_LOST: Final = Pattern(
    r"(?P<why>[^\n]*\bgloo/[^\n]*(?:Connection closed by peer|Connection reset by peer)[^\n]*)",
    r"(?P<why_>[^\n]*\bncclRemoteError\b[^\n]*)",
    shown="a message about a rank that is gone (`Connection closed by peer` of gloo, `ncclRemoteError`)",
)
STORE_LOST: Final = Pattern(
    r"(?P<why>[^\n]*\bDid the remote server shutdown or crash\?[^\n]*)",
    r"(?P<why_>[^\n]*\bfailed to recv, got \d+ bytes\b[^\n]*)",
    r"(?P<why__>[^\n]*\bBroken pipe\b[^\n]*\bTCPStore\b[^\n]*)",
    shown="a message about the store of torch.distributed (`failed to recv, got 0 bytes`, ...)",
)
WRONG_INTERFACE: Final = Pattern(
    r"(?P<why>[^\n]*\bUnable to find (?:address for|interface)[^\n]*)",
    r"(?P<why_>[^\n]*\bno socket interface found[^\n]*)",
    shown="a message about a network interface (`Unable to find address for: eth7` of gloo, ...)",
)
CLOCK_SKEW: Final = Pattern(
    r"(?P<why>[^\n]*\bRequestTimeTooSkewed\b[^\n]*)",
    r"(?P<why_>[^\n]*\bcertificate is not yet valid\b[^\n]*)",
    r"(?P<why__>[^\n]*\bClock skew too great\b[^\n]*)",
    shown="a message about a clock (`RequestTimeTooSkewed`, `certificate is not yet valid`, ...)",
)
SCHEDULER: Final = Pattern(
    r"(?P<why>slurmstepd: error: \*\*\* [^\n]*CANCELLED AT [^\n]*)",
    r"(?P<why_>=>> PBS: job killed: [^\n]*)",
    r"(?P<why__>TERM_(?:RUNLIMIT|MEMLIMIT|OWNER|PREEMPT): [^\n]*)",
    shown="a message of the job scheduler (`slurmstepd: ... CANCELLED`, ...)",
)
NOT_WRITABLE: Final = Pattern(
    r"The given (?:NumPy array|buffer) is not writable",
    shown="`The given NumPy array is not writable`",
)
WATCHDOG: Final = Pattern(
    r"^Timeout \(\d+:\d\d:\d\d(?:\.\d+)?\)!$",
    shown="`Timeout (0:05:00)!`, the heading of faulthandler's watchdog",
)

NON_FINITE: Final = Pattern(
    r"returned nan values in its \d+th output",
    r"but found invalid values:\s*tensor\([^()]{0,2000}\b(?:nan|inf)\b",
    r"probability tensor contains either .inf., .nan.",
    r"(?:input )?(?:matrix|array|tensor) contain(?:s|ed) (?:non-finite|NaN|nan)\b",
    r"\bmust not contain infs or NaNs",
    r"\bInput (?:\w+ )?contains (?:NaN|infinity)",
    r"(?i:\bloss (?:is|became|was|=) ?(?:now )?(?:nan|inf|infinite|non-?finite|not finite)\b)",
    r"(?i:\bloss=(?:nan|inf)\b)",
    r"(?i:\bloss returned in .{1,60} is (?:nan|inf))",
    r"(?i:\b(?:nan|inf|non-?finite)(?: or inf| or nan)? (?:loss|gradient)s?\b)",
    _RANK + r"FloatingPointError\b",
    shown="`returned nan values`, `loss is nan` or `FloatingPointError`",
)

HEAP: Final = Pattern(
    r"\b(?:malloc|realloc|calloc|free|munmap_chunk|malloc_consolidate|unaligned \w+ chunk)"
    r"\(?\)?: (?:invalid|corrupted|unaligned|unsorted|mismatching|smallbin|largebin|double free)",
    r"double free or corruption",
    r"corrupted (?:size vs\. prev_size|double-linked list)|invalid fastbin entry",
    r"malloc assertion failure in \w+|\bmalloc\.c:\d+\b[^\n]{0,40}[Aa]ssertion",
    r"error for object 0x[0-9a-f]+: (?:pointer being|incorrect checksum|double free)",
    r"Corruption of (?:free|tiny) object|Heap corruption detected",
    r"tcmalloc[^\n]{0,80}Attempt to free invalid pointer",
    r"mimalloc: error: [^\n]{0,80}(?:double free|invalid pointer|corrupt)",
    shown="a message of the allocator (`double free`, `malloc(): corrupted ...`, ...)",
)
PYTHON_HEAP: Final = Pattern(
    r"Fatal Python error: \w*(?:PyMem|PyObject)_Debug\w+: (?P<why>(?:bad|using)[^\n]+)",
    shown="Python's check of its memory (`PYTHONMALLOC=debug`: `bad trailing pad byte`, ...)",
)
OVERFLOW_FOUND: Final = Pattern(
    r"\*\*\* (?P<why>stack smashing detected|buffer overflow detected) \*\*\*",
    shown="`*** stack smashing detected ***` or `*** buffer overflow detected ***`",
)
SANITIZER: Final = Pattern(
    r"ERROR: \w*AddressSanitizer: (?P<why>(?:attempting )?(?:(?:heap|stack(?!-overflow)|global|container|dynamic|"
    r"intra|use|double|bad|invalid|alloc|tag|negative)-|free on)[^\n]*)",
    shown="`ERROR: AddressSanitizer: heap-use-after-free ...` or a similar report",
)
SANITIZER_SEGFAULT: Final = Pattern(
    r"ERROR: \w*AddressSanitizer: (?:SEGV|stack-overflow)\b[^\n]*",
    shown="`ERROR: AddressSanitizer: SEGV ...`",
)
CXX: Final = Pattern(
    r"terminate called (?:after throwing an instance of '[^'\n]+'|without an active "
    r"exception|recursively)",
    r"libc\+\+abi: terminating",
    shown="`terminate called ...` or `libc++abi: terminating`",
)
CXX_WHAT: Final = Pattern(
    r"terminate called after throwing an instance of '(?P<type>[^'\n]+)'\s+what\(\): +"
    r"(?P<why>[^\n]*\S)",
    r"libc\+\+abi: terminating [^\n]*exception of type (?P<type_>[^\n:]+): (?P<why_>[^\n]*\S)",
    shown="`terminate called after throwing an instance of ...` and `what():`",
)
CXX_NO_THREAD: Final = Pattern(
    r"'std::(?:__\w+::)?system_error'\s+what\(\): +Resource temporarily unavailable",
    r"exception of type std::(?:__\w+::)?system_error: [^\n]*Resource temporarily unavailable",
    shown="`std::system_error`, `Resource temporarily unavailable`",
)
CXX_THREAD: Final = Pattern(
    r"terminate called without an active exception",
    shown="`terminate called without an active exception`",
)
CXX_VIRTUAL: Final = Pattern(
    r"(?:pure|deleted) virtual (?:method|function) called!?",
    shown="`pure virtual method called`",
)
# Handlers of UCX, Open MPI, glog and abseil, which may end the process with an exit code.
HANDLED: Final[Mapping[str, Pattern]] = {
    name: Pattern(
        rf"(?P<why>[^\n]*Caught signal {number} \([^\n]*)",
        rf"Process received signal \*\*\*\n(?P<why_>(?:[^\n]*\n){{0,2}}?[^\n]*Signal: {said} \({number}\))",
        rf"(?P<why__>\*\*\* {signal} (?:received|\(@)[^\n]*)",
        shown=f"`Caught signal {number} ({said} ...)` or a similar message of a library",
    )
    for name, signal, number, said in (
        ("segfault", "SIGSEGV", 11, "Segmentation fault"),
        ("bus-error", "SIGBUS", 7, "Bus error"),
    )
}
NO_LIBGCC: Final = Pattern(
    r"(?P<why>libgcc_s\.so\.1 must be installed for pthread_\w+ to work)",
    shown="`libgcc_s.so.1 must be installed for pthread_exit to work`",
)
# Newer versions of the C library name the check; older ones write `buffer overflow detected`.
TOO_MANY_FOR_SELECT: Final = Pattern(
    r"\*\*\* (?P<why>bit out of range 0 - FD_SETSIZE on fd_set) \*\*\*",
    shown="`*** bit out of range 0 - FD_SETSIZE on fd_set ***`",
)
HELD_AT_SHUTDOWN: Final = Pattern(
    r"Fatal Python error: (?P<why>[^\n]*could not acquire lock for [^\n]* at interpreter shutdown\b[^\n]*)",
    shown="`could not acquire lock for ... at interpreter shutdown`",
)
FINALIZING: Final = Pattern(
    r"^Python runtime state: finalizing\b", shown="`Python runtime state: finalizing`"
)
FATAL_REASON: Final = Pattern(
    r"(?P<why>Assertion [`'\"].+ failed\.?)",
    r"Fatal Python error: (?!Aborted|Segmentation|Bus error|Illegal|Floating)(?P<why_>[^\n]+)",
    r"^(?P<why__>[^\n]*failed assertion[^\n]*)",
    r"(?P<why___>LLVM ERROR: [^\n]+|OMP: Error #\d+: [^\n]+|Fatal glibc error: [^\n]+)",
    r"(?P<why____>\bCheck failed: [^\n]+)",
    r"\*\*\* (?P<why_______>[^*\n]+) \*\*\*: terminated",
    r"(?P<why______>[^\n]*(?:could not connect to|cannot open) display\b[^\n]*)",
    r"(?P<why_____>\bpanicked at [^\n]+(?:\n(?!note: |stack backtrace)[^\n]+)?)",
    shown="a reason (`Assertion ... failed`, `Check failed: ...`, `Fatal Python error: ...`)",
)

OF_TWO_VERSIONS: Final = Pattern(
    _RANK
    + r"(?:[\w.]+\.)?(?:ImportError|ModuleNotFoundError|AttributeError|NameError|TypeError|\w*UnpicklingError|"
    r"SyntaxError|IndentationError)\b",
    shown="`ImportError`, `AttributeError`, `TypeError` or a similar error",
)

NO_LOCK: Final = Pattern(
    r'multiprocessing[/\\]synchronize\.py", line \d+, in __init__\n(?:(?:[ \t][^\n]*)?\n)*'
    r"(?:FileNotFound|Permission|OS)Error: \[Errno (?:2|13|30|38)\]",
    shown="an error at a lock of multiprocessing (`[Errno 2] No such file or directory`, ...)",
)
NO_START: Final = Pattern(
    r"Fatal Python error: (?P<why>(?:init|_?Py_?Init|preconfig|config|pyinit|pymain)\w*: [^\n]+)",
    shown="`Fatal Python error: init_...`",
)
DYNAMIC_LINKER: Final = Pattern(
    r"(?P<why>[^\s:]+: undefined symbol: [^\n]+)",
    r"error while loading shared libraries: (?P<why_>[^\n]+)",
    shown="`undefined symbol: ...` or `error while loading shared libraries: ...`",
)
NO_READER: Final = Pattern(r"\bBrokenPipeError\b", shown="`BrokenPipeError`")

SHM_SHORT: Final = Pattern(
    r"insufficient shared memory \(shm\)|killed by signal: Bus error",
    shown="`insufficient shared memory (shm)` or a worker `killed by signal: Bus error`",
)
PIPES_CLOSED: Final = Pattern(
    r"^ttf: code in this process closed pipes that it had not opened$",
    shown="`ttf: code in this process closed pipes that it had not opened`",
)
