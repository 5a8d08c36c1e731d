"""Check `loader`: will a PyTorch DataLoader of somebody's script fit here?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from ttf.hookspecs import Verdict
from ttf.machine.memory.limits import Limit, limit_in_force
from ttf.tools.doctor.check import Check
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.disk_and_limits import SHM
from ttf.tools.doctor.loader import judged
from ttf.tools.doctor.loader_settings import read_loader


def check_of(given: Sequence[str]) -> Check:
    """Raises ConfigError if the settings are wrong or not enough."""
    loader, remarks = read_loader(given)

    def look(exam: Examination) -> Verdict:
        verdict = judged(loader, limit_in_force(exam.root), _shared(exam))
        return replace(verdict, evidence=(*verdict.evidence, *remarks))

    return Check("loader", "will the DataLoader fit into memory?", look)


def _shared(exam: Examination) -> Limit | None:
    folder = exam.root / SHM
    if not folder.is_dir():
        return None
    stat = os.statvfs(folder)
    return Limit(stat.f_bavail * stat.f_frsize, f"/{SHM}")
