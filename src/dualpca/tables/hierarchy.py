"""HDF5 and zarr, h5ad (AnnData) among them: matrices in groups, dense ones streamed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from .arrays import Sparse, nameless, strings
from .columns import Header, unique
from .origin import Dense, Origin, opened
from .table import Strings, TableError, listed, module


def hdf5(file: BinaryIO, path: Any, key: str | None) -> Origin:
    """The matrix of an HDF5 file."""
    group = module("h5py").File(opened(path, file), "r")
    origin = _in_group(group, key, lasting=path is not None)
    origin.close = group.close  # type: ignore[method-assign]
    return origin


def zarr(path: Any, key: str | None) -> Origin:
    """The matrix of a zarr array or group."""
    root = module("zarr").open(str(path), mode="r")
    if not _is_group(root):
        if key is not None:
            raise TableError(f"the zarr is one array, without --key; {key!r} was asked for")
        return Dense(root, nameless(root.shape[-1] if root.shape else 0))
    return _in_group(root, key, lasting=True)


def _is_group(node: Any) -> bool:
    return not hasattr(node, "shape")


def _in_group(root: Any, key: str | None, *, lasting: bool) -> Origin:
    key = (_default(root) if key is None else key).strip("/")
    if key not in root:
        raise TableError(f"there is nothing under {key!r}; --key may be {listed(_matrices(root))}")
    node, notes = root[key], list[str]()
    kind = _sparse_kind(node) if _is_group(node) else None
    if _is_group(node) and kind is None:
        inside = [f"{key}/{name}" for name in _matrices(node)]
        raise TableError(f"{key!r} is a group, not a matrix; --key may be {listed(inside)}")
    shape = _sparse_shape(node) if kind else tuple(node.shape)
    header, about = _described(root, key, shape, notes)
    if kind:
        make = sp.csr_array if kind == "csr" else sp.csc_array
        parts = (node[name][:] for name in ("data", "indices", "indptr"))
        origin: Origin = Sparse(make(tuple(parts), shape=shape), header, about)
    else:
        origin = Dense(node, header, about, mapped=lasting)
    origin.notes.extend(notes)
    return origin


def _default(root: Any) -> str:
    """ "X", as AnnData has it, or the only matrix."""
    if "X" in root:
        return "X"
    found = _matrices(root)
    if len(found) != 1:
        raise TableError(
            f"the file has {len(found)} matrices{': ' if found else ''}{listed(found)}; choose one "
            "with --key"
        )
    return found[0]


def _matrices(root: Any, prefix: str = "", depth: int = 3) -> list[str]:
    """The paths of what may be a matrix, sparse or dense."""
    found = []
    for name in sorted(root.keys()):
        node = root[name]
        if _is_group(node):
            if _sparse_kind(node):
                found.append(prefix + name)
            elif depth:
                found += _matrices(node, f"{prefix}{name}/", depth - 1)
        elif len(node.shape) == 2:
            found.append(prefix + name)
    return found


def _sparse_kind(node: Any) -> str | None:
    if any(name not in node for name in ("data", "indices", "indptr")):
        return None
    kind = _text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "csr")))
    return "csc" if kind.startswith("csc") else "csr"


def _sparse_shape(node: Any) -> tuple[int, ...]:
    shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape"))
    if shape is None and "shape" in node:
        shape = node["shape"][:]
    if shape is None:
        raise TableError(
            "the sparse matrix does not say its shape; save it with the attribute shape"
        )
    return tuple(int(size) for size in shape)


def _described(
    root: Any, key: str, shape: tuple[int, ...], notes: list[str]
) -> tuple[Header, dict[str, Callable[[], Strings]]]:
    """Names of columns and descriptions of rows, where an AnnData file has them and they fit."""
    if len(shape) != 2:
        return nameless(0), {}  # what is no matrix is refused next
    parent = key.rpartition("/")[0]
    var = root.get(f"{parent}/var") if parent == "raw" else root.get("var")
    obs, header = root.get("obs"), nameless(shape[1])
    names = _frame(var)[1].get(_frame(var)[0]) if var is not None else None
    if names is not None and len(read := names()) == shape[1]:
        header = Header(unique(list(read), notes))
    index, about = _frame(obs) if obs is not None else ("", {})
    if about and len(about[index]()) == shape[0]:
        header.rows, header.index = list(about), list(about).index(index)
        return header, about
    return header, {}


def _frame(node: Any) -> tuple[str, dict[str, Callable[[], Strings]]]:
    """The name of the index of a frame of AnnData, and its columns by name."""
    if _is_group(node):
        index = _text(node.attrs.get("_index", "_index"))
        names, get = [name for name in list(node.keys()) if name != "__categories"], _column
    else:  # as versions before 0.7 had them: an array of records
        names, get = list(node.dtype.names or ()), _record
        index = next((name for name in ("index", "_index") if name in names), "")
    columns: dict[str, Callable[[], Strings]] = {name: partial(get, node, name) for name in names}
    return index, columns if index in columns else {}


def _record(frame: Any, name: str) -> Strings:
    return strings(frame[name])


def _column(frame: Any, name: str) -> Strings:
    node = frame[name]
    if _is_group(node):
        if "categories" in node:
            return _categorical(node["codes"][:], node["categories"])
        if "values" not in node:
            raise TableError(f"column {name!r} of obs is of no kind that is known; choose another")
        return strings(_values(node["values"]))
    categories = frame.get("__categories")
    if categories is not None and name in categories:
        return _categorical(node[:], categories[name])
    return strings(_values(node))


def _values(node: Any) -> Any:
    """The cells of a column, text decoded."""
    if hasattr(node, "asstr") and node.dtype.kind == "O":
        return node.asstr()[:]
    return node[:]


def _categorical(codes: Any, categories: Any) -> Strings:
    words = np.asarray([*strings(_values(categories)), ""], dtype=object)
    return Strings(words[np.asarray(codes, dtype=np.int64)].tolist())  # -1, missing, is the last


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
