"""What dying processes wrote last, shortened: messages of libraries, by a name for the tests."""

from __future__ import annotations

from collections.abc import Mapping

TRACE = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\n    go()\n'
OMP = (
    "OMP: Error #15: Initializing libiomp5.so, but found libomp.so.5 already initialized.\n"
    "OMP: Hint This means that multiple copies of the OpenMP runtime have been linked."
)
WAITS_FOR_ANSWER = 'Thread 0x1 (most recent call first):\n  File "/usr/lib/python3.11/socket.py", line 706 in readinto\n'
RECURSES = (
    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
    + '  File "t.py", line 5 in deeper\n' * 100
    + "  ...\n"
)
CHILD_ABORTED = f"{TRACE}torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGABRT"
WAITS_FOR_LOCK = (
    'Thread 0x1 (most recent call first):\n  File "torch/utils/file_baton.py", line 50 in wait\n'
)
MANY_THREADS = (
    "Fatal Python error: Segmentation fault\n\n"
    + 'Thread 0x1 (most recent call first):\n  File "t.py", line 5 in score\n\n' * 100
    + "...\n"
)
WORDS: Mapping[str, str] = {
    "nothing": "",
    "omp": OMP,
    "openblas": "OpenBLAS error: Memory allocation still failed after 10 retries, giving up.",
    "MemoryError": f"{TRACE}numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.0 GiB "
    "for an array with shape (1048576, 1024) and data type float64",
    "rank": f"{TRACE}[rank0]: MemoryError",
    "bad_alloc": "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  "
    "std::bad_alloc",
    "bad_alloc long ago": "terminate called after throwing an instance of 'std::bad_alloc'\n"
    + "Fatal Python error: Aborted\n\n"
    + "\n".join(f"Thread 0x{i} (most recent call first):" for i in range(40)),
    "torch": f"{TRACE}RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. "
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 68719476736 bytes.",
    "onednn": f"{TRACE}RuntimeError: could not create a primitive",
    "no such kernel": f"{TRACE}RuntimeError: could not create a primitive descriptor for a matmul "
    "primitive",
    "gpu memory": f"{TRACE}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "mac memory": f"{TRACE}RuntimeError: MPS backend out of memory (MPS allocated: 17 GB).",
    "disk": f"{TRACE}OSError: [Errno 28] No space left on device: 'step-000000100/state.json'",
    "quota": f"{TRACE}OSError: [Errno 122] Disk quota exceeded",
    "short write": f"{TRACE}RuntimeError: [enforce fail at inline_container.cc:672] . unexpected "
    "pos 64 vs 0",
    "gpu": f"{TRACE}RuntimeError: CUDA error: an illegal memory access was encountered",
    "metal": "-[MTLDebugCommandBuffer commit]:812: failed assertion `commit command buffer'",
    "hang of a gpu": "Error: command buffer exited with error status.\n  Caused GPU Hang Error "
    "(00000003:kIOGPUCommandBufferCallbackErrorHang)",
    "nan": f"{TRACE}RuntimeError: Function 'ExpBackward0' returned nan values in its 0th output.",
    "shm": "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
    "shared memory (shm).",
    "heap": "malloc(): corrupted top size",
    "heap of a mac": "python(1,0x1f) malloc: *** error for object 0x60: pointer being freed was not "
    "allocated",
    "c++": "terminate called after throwing an instance of 'faiss::FaissException'\n  what():  no",
    "c++ of a mac": "libc++abi: terminating due to uncaught exception of type std::runtime_error",
    "assertion": "t: index.cc:12: add: Assertion `rows > 0' failed.",
    "worker killed": f"{TRACE}RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. ",
    "worker crashed": f"{TRACE}RuntimeError: DataLoader worker (pid 7) is killed by signal: "
    "Segmentation fault. ",
    "worker with a bus error": f"{TRACE}RuntimeError: DataLoader worker (pid 7) is killed by signal: "
    "Bus error. ",
    "worker gone": f"{TRACE}RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly",
    "worker gone, another way": 'Traceback (most recent call last):\n  File "multiprocessing/'
    'connection.py", line 395, in _recv\nConnectionResetError: [Errno 104] Connection reset by peer',
    "worker crashed, seen by itself": "ERROR: Unexpected segmentation fault encountered in worker.\n"
    f"{TRACE}ConnectionResetError: [Errno 104] Connection reset by peer",
    "worker aborted": f"{TRACE}RuntimeError: DataLoader worker (pid 7) is killed by signal: Aborted.",
    "watchdog": "Timeout (0:00:01)!\nThread 0x1 (most recent call first):\n",
    "traceback": f"{TRACE}KeyError: 'rows'",
    "no pipes": "ttf: code in this process closed pipes that it had not opened",
    "stack smashed": "*** stack smashing detected ***: terminated",
    "heap of glibc": "Fatal glibc error: malloc assertion failure in sysmalloc: (old_top == initial)",
    "heap of Python": "Debug memory block at address p=0x7f: API 'm'\n"
    "Fatal Python error: _PyMem_DebugRawFree: bad trailing pad byte\n",
    "sanitizer": "==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x7f\n"
    "READ of size 4\n" + "  0x0c0c7fff85c0: fa fa\n" * 40 + "==7==ABORTING",
    "sanitizer at a bad address": "==7==ERROR: AddressSanitizer: stack-overflow on address 0x60",
    "thread of c++": "terminate called without an active exception",
    "check of glog": "F1119 08:12:01 7 index.cc:212] Check failed: rows_ > 0 (0 vs. 0)\n"
    "*** Check failure stack trace: ***",
    "panic": "thread 'main' panicked at src/lib.rs:8:14:\nindex out of bounds\nnote: run with "
    "`RUST_BACKTRACE=1`",
    "gpu too new": f"{TRACE}RuntimeError: CUDA error: no kernel image is available for execution on "
    "the device",
    "nccl": "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE)\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [Rank 0] "
    "Process group watchdog thread terminated\n" + "frame #1: c10::Error\n" * 40,
    "gloo": f"{TRACE}RuntimeError: [unbound_buffer.cc:81] Timed out waiting 1800000ms for recv "
    "operation to complete",
    "no codec": "Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem "
    "encoding\nPython runtime state: core initialized\nModuleNotFoundError: No module named 'encodings'",
    "linker": "python: symbol lookup error: engine.so: undefined symbol: of_a_newer_version",
    "no reader": "Exception ignored in: <_io.TextIOWrapper name='<stdout>'>\n"
    "BrokenPipeError: [Errno 32] Broken pipe",
    "syntax": '  File "t.py", line 2\n    for step in range(10:\n           ^\nSyntaxError: invalid '
    "syntax",
    "prose": "epoch 3, loss 2.1",
    "libgomp": "\nlibgomp: Thread creation failed: Resource temporarily unavailable",
    "tcmalloc": "src/tcmalloc.cc:332] Attempt to free invalid pointer 0x5581a1b2c3d0",
    "rust memory": "memory allocation of 34359738368 bytes failed",
    "memory slots": f"{TRACE}RuntimeError: replay memory: out of memory slots (capacity 100)",
    "policy": f"{TRACE}ValueError: Expected parameter loc (Tensor of shape (1, 2)) of distribution "
    "Normal(loc: torch.Size([1, 2])) to satisfy the constraint Real(), but found invalid values:\n"
    "tensor([[nan, nan]], grad_fn=<AddmmBackward0>)",
    "svd": f"{TRACE}torch._C._LinAlgError: linalg.svd: The algorithm failed to converge because the "
    "input matrix contained non-finite values.",
    "port in use": f"{TRACE}torch.distributed.DistNetworkError: The server socket has failed to listen on "
    "any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: "
    "address already in use",
    "peer missing": f"{TRACE}torch.distributed.DistStoreError: Timed out after 4 seconds waiting for "
    "clients. 1/2 clients joined.",
    "peer gone": f"{TRACE}RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] "
    "Connection closed by peer [127.0.0.1]:34567",
    "store gone": f"{TRACE}torch.distributed.DistNetworkError: failed to recv, got 0 bytes",
    "no interface": f"{TRACE}RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/device.cc:83] "
    "ifa != nullptr. Unable to find address for: eth7",
    "clock": f"{TRACE}botocore.exceptions.ClientError: An error occurred (RequestTimeTooSkewed) when "
    "calling the GetObject operation: The difference is too large.",
    "slurm": "slurmstepd: error: *** STEP 48213.0 ON node17 CANCELLED AT 2026-11-19T21:14:07 DUE TO TIME "
    "LIMIT ***",
    "not writable": "t.py:3: UserWarning: The given NumPy array is not writable, and PyTorch does not "
    "support non-writable tensors.",
    "openblas interrupts itself": "OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2: "
    "Resource temporarily unavailable\nOpenBLAS blas_thread_init: ensure that your address space and "
    f"process count limits are big enough (ulimit -a)\n{TRACE}KeyboardInterrupt",
    "shared memory": f"{TRACE}RuntimeError: unable to allocate shared memory(shm) for file "
    "</torch_7_31_0>: No space left on device (28)",
    "watches": 'Traceback (most recent call last):\n  File "watchdog/observers/inotify_c.py", line 9, in '
    "_add_watch\nOSError: [Errno 28] No space left on device",
    "map refused": f"{TRACE}OSError: [Errno 12] Cannot allocate memory",
    "pure virtual": "pure virtual method called\nterminate called without an active exception",
    "handler of a library": "step 0\n[node07:7:0:7] Caught signal 11 (Segmentation fault: address not mapped "
    "to object at address 0x56)\n==== backtrace (tid: 7) ====\n0 /lib/libucs.so(+0x1)[0x7f]\n=======",
    "bus error in a handler": "[node07:00007] *** Process received signal ***\n[node07:00007] Signal: Bus "
    "error (7)\n[node07:00007] Signal code: Non-existant physical address (2)",
    "no main guard": 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n  File '
    '"multiprocessing/spawn.py", line 122, in spawn_main\n    exitcode = _main(fd)\nRuntimeError: \n'
    "        An attempt has been made to start a new process before the\n        current process has "
    "finished its bootstrapping phase.\n\n"
    f"{TRACE}concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated "
    "abruptly while the future was running or pending.",
    "loader timed out": f"{TRACE}RuntimeError: DataLoader timed out after 5 seconds",
    "signal of torchrun": f"{TRACE}torch.distributed.elastic.multiprocessing.api.SignalException: "
    "Process 12670 got signal: 1",
    "terminal gone": f"{TRACE}OSError: [Errno 5] Input/output error",
    "no thread of c++": "terminate called after throwing an instance of 'std::system_error'\n"
    "  what():  Resource temporarily unavailable",
    "no display": "qt.qpa.xcb: could not connect to display \nThis application failed to start because no "
    "Qt platform plugin could be initialized.\n\nAvailable platform plugins are: xcb.\n",
    "two versions": f"{TRACE}ImportError: cannot import name 'ema' from 'layers' (/site/layers.py)",
    "worker not started": 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n  File '
    '"multiprocessing/spawn.py", line 122, in spawn_main\n    exitcode = _main(fd)\nModuleNotFoundError: '
    "No module named 'rows'\n"
    f"{TRACE}concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated "
    "abruptly while the future was running or pending.",
    "child out of memory": "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  "
    f"std::bad_alloc\n{CHILD_ABORTED}",
    "child's stack smashed": f"*** stack smashing detected ***: terminated\n{CHILD_ABORTED}",
    "child's heap": f"free(): invalid pointer\n{CHILD_ABORTED}",
    "child's exception of c++": "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
    "  what():  [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 65536 vs "
    f"32768. Received data size doesn't match expected size.\nW1120 Terminating process 7\n{CHILD_ABORTED}",
    "child's thread of c++": f"terminate called without an active exception\n{CHILD_ABORTED}",
    "child's check": f"F1119 index.cc:212] Check failed: rows_ > 0 (0 vs. 0)\n{CHILD_ABORTED}",
    "child killed": f"{TRACE}torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with "
    "signal SIGKILL",
    "no temporary folder": f"{TRACE}FileNotFoundError: [Errno 2] No usable temporary directory found in "
    "['/tmp', '/var/tmp', '/usr/tmp', '/tmp/job']",
    "regions of openblas": "OpenBLAS : Program is Terminated. Because you tried to allocate too many memory "
    "regions.\nThis library was built to support a maximum of 64 threads - either rebuild OpenBLAS\n",
    "no libgcc": "libgcc_s.so.1 must be installed for pthread_exit to work",
    "unknown host": "[W1120 socket.cpp:764] [c10d] The IPv6 network addresses of (trainer-0.invalid, 29500) "
    f"cannot be retrieved (gai error: -2 - Name or service not known).\n{TRACE}torch.distributed."
    "DistNetworkError: The client socket has timed out after 12000ms while trying to connect to "
    "(trainer-0.invalid, 29500).",
    "openblas may not": "OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2: Operation not "
    f"permitted\nOpenBLAS blas_thread_init: RLIMIT_NPROC -1 current, -1 max\n{TRACE}KeyboardInterrupt",
    "libgomp may not": "\nlibgomp: Thread creation failed: Operation not permitted",
    "select": "*** bit out of range 0 - FD_SETSIZE on fd_set ***: terminated",
    "stdin at the end": "Fatal Python error: _enter_buffered_busy: could not acquire lock for "
    "<_io.BufferedReader name='<stdin>'> at interpreter shutdown, possibly due to daemon threads\n"
    "Python runtime state: finalizing (tstate=0x7f)\n\nCurrent thread 0x1 (most recent call first):\n"
    "  <no Python frame>\n",
    "no locks": 'Traceback (most recent call last):\n  File "/usr/lib/python3.11/multiprocessing/synchronize.py", '
    "line 57, in __init__\n    sl = self._semlock = _multiprocessing.SemLock(\nFileNotFoundError: [Errno 2] No such "
    "file or directory",
    "loss of detectron": f"{TRACE}FloatingPointError: Loss became infinite or NaN at iteration=3!\n"
    "loss_box_reg: tensor(inf)",
}
