"""The arrays of a data set by their roles, as `[data.names]` maps them, and those without a role."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

from ttf.contracts import Store, VectorSource

SPLITS: Final = ("train", "val")
KINDS: Final = ("X", "seq", "Y", "pos", "len", "mask")
_ROLES: Final = tuple(f"{kind}_{split}" for split in SPLITS for kind in KINDS)
# Ids are for people and exports; grades are those of pos_*.
_OF_QUERIES: Final = {
    "neg_train",
    "score_pos_train",
    "score_neg_train",
    *(f"{kind}_{split}" for kind in ("ids", "rel") for split in (*SPLITS, "test")),
}
_KNOWN: Final = {"vectors", "ids", *_ROLES, *(f"{kind}_test" for kind in KINDS), *_OF_QUERIES}
_MOST_NAMED: Final = 8
_ALIKE: Final = 0.8
_GRADES: Final = ("rel", "grade", "rating", "weight", "label")


class NamedArrays:
    """A store seen through the `[data.names]` mapping."""

    def __init__(self, store: Store, names: dict[str, str]) -> None:
        self.store = store
        self.uri = store.uri
        self._names = names
        self._present = set(store.names())

    def __contains__(self, name: str) -> bool:
        return self._names.get(name, name) in self._present

    def __getitem__(self, name: str) -> VectorSource:
        return self.store.source(self._names.get(name, name))

    def has_split(self, split: str) -> bool:
        """True if any array of that split is there."""
        return any(f"{kind}_{split}" in self for kind in KINDS)

    def stored_name(self, name: str) -> str:
        """The user's name for it."""
        return self._names.get(name, name)

    def stored_type(self, name: str) -> str:
        """The type in the file; rows may be read as another one."""
        return str(self.store.describe(self.stored_name(name))["dtype"])

    def said(self, name: str) -> str:
        """The name for messages, with the user's name for it."""
        mapped = self._names.get(name, name)
        return name if mapped == name else f"{name} (mapped to {mapped!r})"

    def look_alike(self, *roles: str) -> tuple[str, str] | None:
        """(role, array): an array without a role of its own whose name is nearly one of these."""
        for name in self._without_role():
            for role in roles:
                if role not in self and _alike(name, role) and self._may_be(name, role):
                    return role, name
        return None

    def _may_be(self, name: str, role: str) -> bool:
        """Whether an array has as many axes as queries have; row numbers of queries have two."""
        shape = self.store.describe(name).get("shape")
        return shape is None or len(shape) in ((2,) if role.startswith("seq_") else (2, 3))

    def unused(self) -> Iterator[str]:
        """Notes about arrays that look as if they were meant for the training, and are not used."""
        for key in sorted(self._names.keys() - _KNOWN):
            close = difflib.get_close_matches(key, sorted(_KNOWN), n=1)
            meant = f" Did you mean {close[0]}?" if close else ""
            yield f"data.names.{key} is not used: ttf reads no array of that name.{meant}"
        names = [name for name in self._without_role() if _seems_meant(name)]
        reasons = {_reason(name): None for name in names}
        masks = [f"mask_{split}" for split in SPLITS if f"mask_{split}" in self]
        for mask in masks:
            split = mask.partition("_")[2]
            if f"len_{split}" in self:
                names.append(mask)
                reasons[f"The lengths of the sequences are those of len_{split}."] = None
            elif len(self._shape(f"X_{split}") or ()) == 2:
                names.append(mask)
                reasons[f"The queries X_{split} are single vectors, which need no mask."] = None
        if names:
            more = ", ..." if len(names) > _MOST_NAMED else ""
            are = "is" if len(names) == 1 else "are"
            yield (
                f"{', '.join(names[:_MOST_NAMED])}{more} in {self.uri} {are} not used. "
                f"{' '.join(filter(None, reasons))}"
            ).rstrip()

    def _shape(self, role: str) -> list[int] | None:
        if role not in self:
            return None
        shape: list[int] | None = self.store.describe(self.stored_name(role)).get("shape")
        return shape

    def _without_role(self) -> list[str]:
        """A role that is mapped to another name counts as one that the user does not want."""
        used = _KNOWN | {self._names.get(role, role) for role in _KNOWN}
        return [name for name in self.store.names() if name not in used]


def _seems_meant(name: str) -> bool:
    low = name.lower()
    if low.endswith(("_train", "_val", "-train", "-val")) or _reason(name):
        return True
    return any(_alike(name, role) for role in _ROLES)


def _reason(name: str) -> str:
    for role in _ROLES:
        if name.lower() == role.lower():
            return f"Names are case-sensitive: {role}, or --set data.names.{role}={name}."
    stem = name.lower()
    if "mask" in stem or stem.startswith(("len", "seq_len", "seqlen")):
        return (
            "The lengths of sequences belong in len_train and len_val (int64), or in mask_train "
            "and mask_val (True for each valid step)."
        )
    if stem.startswith("score"):
        return (
            "ttf reads scores of a teacher from score_pos_train and score_neg_train, beside pos_train and "
            "neg_train."
        )
    if stem.startswith(_GRADES):
        return (
            "ttf reads grades of positives from rel_train and rel_val, for nDCG; and no weights: the "
            "loss treats all positives of a pair the same."
        )
    if stem.startswith("neg"):
        return "ttf reads your own hard negatives from neg_train: row numbers of the bank, -1 for padding."
    return ""


def _alike(name: str, role: str) -> bool:
    return difflib.SequenceMatcher(None, name.lower(), role.lower()).ratio() >= _ALIKE
