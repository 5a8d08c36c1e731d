"""The tasks of the encoder's process: it makes one block after another, and keeps its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ttf.tools.encode.hosts.loose import Block, Form, LooseBlocks
from ttf.tools.encode.text_files import Texts
from ttf.tools.encode.work import encoded_block, made_as_before

if TYPE_CHECKING:
    from ttf.hookspecs import Encoder, Role
    from ttf.process.serve import Tell


@dataclass(frozen=True)
class _Opened:
    encoder: Encoder
    texts: Mapping[str, Texts]
    roles: Mapping[str, Role]
    form: Form
    loose: LooseBlocks


_opened: list[_Opened] = []  # one, for the life of the process


def open_all(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Loads the encoder."""
    folder = Path(request["loose"])
    _opened[:] = [
        _Opened(
            encoder=made_as_before(request),
            texts={kind["name"]: Texts(Path(kind["stem"])) for kind in request["kinds"]},
            roles={kind["name"]: kind["role"] for kind in request["kinds"]},
            form=Form(dim=request["facts"]["dim"], dtype=request["dtype"]),
            loose=LooseBlocks(folder=folder, inside=folder),
        )
    ]
    return {"opened": True}


def encode_block(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Writes one block."""
    (opened,) = _opened
    block = Block(*request["block"])
    texts = opened.texts[block.kind].read(block.first, block.stop)
    rows, cut = encoded_block(
        opened.encoder,
        texts,
        opened.roles[block.kind],
        np.dtype(opened.form.dtype),
        block.first,
        f"number {{:,}} of the {block.kind}",
    )
    name = opened.loose.write(block, opened.form.packed(rows, cut))
    return {"block": list(block), "name": name}
