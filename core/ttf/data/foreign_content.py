"""Containers that ttf can open, but whose content was never meant for it: what to do instead."""

from __future__ import annotations

from typing import Final

from ttf.contracts import Store
from ttf.data.text_arrays import column_type, columns_left_out

_MOST_NAMED: Final = 8
# The arrays that scipy.sparse.save_npz writes, by the format of the matrix.
_SPARSE: Final = ({"data", "indices", "indptr", "shape"}, {"data", "row", "col", "shape"})


def is_sparse(store: Store) -> bool:
    return store.container == "npz" and any(each <= set(store.names()) for each in _SPARSE)


def foreign_content(store: Store) -> str:
    """A hint for a sparse matrix of scipy and for a container without arrays; else empty."""
    if is_sparse(store):
        return (
            "It is a sparse matrix of scipy. Make it dense: numpy.savez('bank.npz', "
            f"vectors=scipy.sparse.load_npz({store.uri!r}).toarray().astype('float32'))"
        )
    if store.names():
        return ""
    if others := columns_left_out(store):
        named = ", ".join(f"{name} ({column_type(store, name)})" for name in others[:_MOST_NAMED])
        more = ", ..." if len(others) > _MOST_NAMED else ""
        return (
            f"Its columns are {named}{more}. An array is a column of numbers, or of lists of numbers "
            "that all have one length."
        )
    if store.container == "zarr":
        return f"If its arrays lie in a group of it, give the path of the group: {store.uri}/GROUP"
    return (
        "Write the arrays with numpy.savez. torch.save writes zip files too, which ttf cannot read."
    )
