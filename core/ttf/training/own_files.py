"""Whether the files of a finished run are still those of its training."""

from __future__ import annotations

from typing import Final

from ttf.config.schema import DataConfig
from ttf.incidents.inputs import change_since
from ttf.rundir.confined import found_json
from ttf.rundir.documents import Manifest
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.typed_json import typed

_CALLED: Final = {"pairs": "file of pairs", "bank": "bank", "context": "context"}
_MEANS: Final = {
    "pairs": "Results on these pairs are not comparable with those of the run.",
    "bank": (
        "Positives, candidates and results are row numbers of the bank: if its rows moved, metrics "
        "are wrong."
    ),
    "context": "seq_* are row numbers of this file: if its rows moved, the queries are others.",
}


class OwnFiles:
    """Notes about the files that a run itself names. A file that the user names is meant as it is."""

    def __init__(
        self,
        folder: RunFolder,
        data: DataConfig,
        *,
        other_pairs: bool,
        other_bank: bool,
    ) -> None:
        manifest = typed(found_json(folder.manifest, folder.path), Manifest)
        self._before = manifest.get("data", {}).get("files", {})
        self.changed: list[str] = []
        own = {"context": data.context}
        if not other_bank:
            # Without a bank, the pairs of the run are the bank.
            own["bank"] = data.bank or data.pairs
        if not other_pairs:
            own["pairs"] = data.pairs
        self._roles = {uri: role for role, uri in own.items() if uri is not None}

    def opened(self, uri: str) -> None:
        """Notes if the content of this file is not what it was when the run began."""
        if uri not in self._roles or uri not in self._before:
            return
        change = change_since(self._before[uri], uri)
        if change:
            role = self._roles[uri]
            named = (
                f" If the change is meant, name the file: --{role} FILE."
                if role != "context"
                else ""
            )
            self.changed.append(
                f"The {_CALLED[role]} {uri} is not that of the training: the file has changed since "
                f"({change}). {_MEANS[role]}{named}"
            )
