"""Vectors that a disk lost are not written into a bank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ttf.errors import StorageError
from ttf.tools.encode.work import CUT, VECTORS, arrays_of, refuse_unread


@pytest.mark.parametrize("lost", [(VECTORS, 0), (VECTORS, -3), (CUT, -1)], ids=repr)
def test_what_does_not_read_back_is_refused_and_then_encoded_anew(
    lost: tuple[str, int], tmp_path: Path
) -> None:
    kind = {"name": "documents", "folder": str(tmp_path / "v"), "digest": "d", "role": "document"}
    request: dict[str, Any] = {"facts": {"dim": 4}, "dtype": "<f4", "kinds": [kind]}
    arrays = arrays_of(kind, request, 5)
    arrays.append(np.ones((5, 4), "<f4"), np.zeros(5, np.bool_))
    refuse_unread(request, {"documents": 5})
    name, at = lost
    whole = bytearray((tmp_path / "v" / name).read_bytes())
    whole[at] ^= 1
    (tmp_path / "v" / name).write_bytes(whole)
    with pytest.raises(StorageError, match="does not read back"):
        refuse_unread(request, {"documents": 5})
    assert arrays_of(kind, request, 5).done == 0
