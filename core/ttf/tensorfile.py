"""Tensors in safetensors files, hashed; a failed write is an OSError like any other."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from ttf.fsio import sha256_file


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> str:
    """Writes a file and returns the SHA-256 of what is in it. Raises OSError."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(held, path)
    except SafetensorError as error:
        # safetensors reports a full disk as text: "... No space left on device (os error 28)"
        found = re.search(r"os error (\d+)", str(error))
        code = int(found[1]) if found else errno.EIO
        raise OSError(code, os.strerror(code) if found else str(error), str(path)) from error
    return sha256_file(path)
