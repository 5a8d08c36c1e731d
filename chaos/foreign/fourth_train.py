"""The fourth round, in `ttf train`: what towers, packages, limits and people do to a run."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign
from chaos.foreign.under_train import ENGINE, FORWARD, HEAD

FOURTH_TRAIN: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="a tower keeps every batch, in a small control group",
        under="train",
        right=("memory-limit", "oom-kill"),
        certain=True,
        exit_codes=(0,),
        says="of 734 MB",
        never=r"MB of [\d.]+ GB \(physical",
        memory_mb=700,
        code=FORWARD.replace(
            "{does}",
            "import time\n    kept.append(torch.ones(4_000_000))\n    time.sleep(0.4)",
        ).replace("import torch\n", "import torch\nkept = []\n"),
    ),
    Foreign(
        name="the square root of zero: a gradient that is not finite",
        under="train",
        right=("non-finite",),
        certain=True,
        exit_codes=(4,),
        says="gradient",
        code=HEAD + "import torch\ndef spread(module, given, out):\n"
        "    if isinstance(out, torch.Tensor) and out.requires_grad:\n"
        "        return out + (out - out.detach()).square().sum(-1, keepdim=True).sqrt()\n"
        "torch.nn.modules.module.register_module_forward_hook(spread)",
    ),
    Foreign(
        name="the run folder is emptied during the run, and then Ctrl-C",
        under="train",
        right=("python-error",),
        certain=True,
        exit_codes=(8,),
        says="no longer exists",
        never="did not catch it",
        code=HEAD + "import pathlib, shutil\nfor entry in pathlib.Path('{here}/run').iterdir():\n"
        "    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()\n"
        "os.kill(os.getppid(), signal.SIGINT)",
    ),
    Foreign(
        name="a library ends the process with its own exit code (MKL)",
        under="train",
        right=("unknown", "abort"),
        exit_codes=(0,),
        says="Cannot load libmkl_avx2.so",
        native="""
            #include <stdio.h>
            #include <stdlib.h>
            void step(void) {
                fputs("\\nIntel MKL FATAL ERROR: Cannot load libmkl_avx2.so or libmkl_def.so.\\n",
                      stderr);
                exit(2);
            }
        """,
        code=ENGINE + "engine.step()",
    ),
    Foreign(
        name="a tower computes in a child that was made by fork",
        under="train",
        right=("hang",),
        exit_codes=(0,),
        says="waiting for the end of a child process",
        settings={"supervise.hang_timeout_s": 6, "device.threads": 2},
        code=FORWARD.replace(
            "{does}",
            "import multiprocessing\n"
            "    torch.set_num_threads(2)\n"
            "    def compute(): return (torch.ones(1500, 1500) @ torch.ones(1500, 1500)).relu().sum()\n"
            "    compute()\n"
            "    child = multiprocessing.get_context('fork').Process(target=compute)\n"
            "    child.start()\n    child.join()",
        ),
    ),
    Foreign(
        name="a package of the tower is upgraded during the run",
        under="train",
        right=("python-error",),
        certain=True,
        exit_codes=(0,),
        says="written after this process had started",
        code=FORWARD.replace(
            "{does}",
            "import pathlib, sys\n"
            "    pathlib.Path('{here}/layers.py').write_text('VERSION = 1')\n"
            "    sys.path.insert(0, '{here}')\n"
            "    from layers import ema",
        ),
    ),
    Foreign(
        name="torch.compile without a compiler",
        under="train",
        right=("python-error",),
        certain=True,
        exit_codes=(0,),
        says="No working C.. compiler",
        code=FORWARD.replace(
            "{does}",
            "import os\n    os.environ['CXX'] = '/nonexistent/g++'\n"
            "    torch.compile(torch.nn.functional.gelu)(torch.ones(4))",
        ),
    ),
    Foreign(
        name="no room for the threads of a tower in C++",
        under="train",
        right=("cxx-exception", "alloc-failure"),
        exit_codes=(0,),
        says="ulimit -u, pids.max",
        native="""
            #include <thread>
            #include <vector>
            #include <unistd.h>
            extern "C" void step() {
                std::vector<std::thread> threads;
                for (int i = 0; i < 300; i++) threads.emplace_back([] { sleep(5); });
            }
        """,
        code=ENGINE + "import resource\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "limit = used + 200_000_000\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))\nengine.step()",
    ),
)
