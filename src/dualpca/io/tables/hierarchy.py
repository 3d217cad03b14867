"""HDF5 and zarr, h5ad (AnnData) among them: matrices in groups, dense ones streamed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from ...operators.files import gaps
from .arrays import Sparse, nameless, strings
from .columns import Header, unique
from .limits import check_sparse, check_text, stored_in
from .origin import Dense, Origin, opened
from .probe import check_comes_to_an_end
from .table import Strings, TableError, listed, module, shown
from .tree import NODES, Tree, checked_array, is_group, with_limits


def hdf5(file: BinaryIO, path: Any, key: str | None, free: int) -> Origin:
    """The matrix of an HDF5 file."""
    check_comes_to_an_end(file, path)
    group = module("h5py").File(opened(path, file), "r")
    try:
        origin = _in_group(Tree(group, file.seek(0, 2), free), key, lasting=path is not None)
    except BaseException:
        group.close()
        raise
    origin.close = group.close  # type: ignore[method-assign]
    return origin


def zarr(path: Any, key: str | None, free: int) -> Origin:
    """The matrix of a zarr array or group."""
    stored = stored_in(path)
    root = module("zarr").open(str(path), mode="r")
    if not is_group(root):
        if key is not None:
            raise TableError(f"the zarr is one array, without --key; {key!r} was asked for")
        array = with_limits(checked_array(root, stored, free), free)
        origin = Dense(array, nameless(root.shape[-1] if root.shape else 0))
        origin.notes += _gaps(array)
        return origin
    return _in_group(Tree(root, stored, free), key, lasting=True)


def _in_group(root: Tree, key: str | None, *, lasting: bool) -> Origin:
    key = (_default(root) if key is None else key).strip("/")
    node, notes = root.get(key), list[str]()
    if node is None:
        raise TableError(f"there is nothing under {key!r}; --key may be {listed(_matrices(root))}")
    if not isinstance(node, Tree):
        notes += _gaps(node)
        header, about = _described(root, key, tuple(node.shape), notes)
        origin: Origin = Dense(root.in_parts(node), header, about, mapped=lasting)
    else:
        parts = _parts(node)
        if parts is None:
            inside = [f"{key}/{name}" for name in _matrices(node)]
            raise TableError(f"{key!r} is a group, not a matrix; --key may be {listed(inside)}")
        shape = _sparse_shape(node)
        check_sparse(shape, parts[0].size)
        notes += _gaps(*parts)
        header, about = _described(root, key, shape, notes)
        make = sp.csc_array if _kind(node).startswith("csc") else sp.csr_array
        origin = Sparse(make(node.whole(*parts), shape=shape), header, about)
    origin.notes.extend(notes)
    return origin


def _gaps(*nodes: Any) -> list[str]:
    """What there is to say of chunks that were never written, once."""
    return [words for words in map(gaps, nodes) if words][:1]


def _default(root: Tree) -> str:
    """ "X", as AnnData has it, or the only matrix."""
    if root.get("X") is not None:
        return "X"
    found = _matrices(root)
    if len(found) != 1:
        raise TableError(
            f"the file has {len(found)} matrices{': ' if found else ''}{listed(found)}; choose one "
            "with --key"
        )
    return found[0]


def _matrices(root: Tree) -> list[str]:
    """The paths of what may be a matrix, sparse or dense, three groups down at most."""
    found, waiting, seen = list[str](), [("", root, 3)], 0
    while waiting:
        prefix, group, depth = waiting.pop(0)
        for name in group.names():
            seen += 1
            if seen > NODES:  # hard links may go round
                return sorted(found)
            node = None
            with suppress(TableError):  # of one that was not asked for
                node = group.get(name)
            if isinstance(node, Tree) and _parts(node) is None:
                waiting += [(f"{prefix}{name}/", node, depth - 1)] if depth else []
            elif isinstance(node, Tree) or (node is not None and len(node.shape) == 2):
                found.append(prefix + name)
    return sorted(found)


def _parts(node: Tree) -> tuple[Any, ...] | None:
    """The arrays of a sparse matrix, None where the group is none."""
    parts = tuple(node.get(name) for name in ("data", "indices", "indptr"))
    return None if any(part is None or isinstance(part, Tree) for part in parts) else parts


def _kind(node: Tree) -> str:
    return _text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "csr")))


def _sparse_shape(node: Tree) -> tuple[int, ...]:
    shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape"))
    if shape is None and (stored := node.get("shape")) is not None:
        shape = node.whole(stored)
    if shape is None:
        raise TableError(
            "the sparse matrix does not say its shape; save it with the attribute shape"
        )
    return tuple(int(size) for size in shape)


def _described(
    root: Tree, key: str, shape: tuple[int, ...], notes: list[str]
) -> tuple[Header, dict[str, Callable[[], Strings]]]:
    """Names of columns and descriptions of rows, where an AnnData file has them and they fit."""
    if len(shape) != 2:
        return nameless(0), {}  # what is no matrix is refused next
    parent = key.rpartition("/")[0]
    var = root.get(f"{parent}/var") if parent == "raw" else root.get("var")
    obs, header = root.get("obs"), nameless(shape[1])
    index, about = _frame(root, var) if var is not None else ("", {})
    names = about.get(index)
    if names is not None and len(read := names()) == shape[1]:
        header = Header(unique(list(read), notes))
    index, about = _frame(root, obs) if obs is not None else ("", {})
    if about and len(about[index]()) == shape[0]:
        header.rows, header.index = list(about), list(about).index(index)
        return header, about
    return header, {}


def _frame(root: Tree, node: Any) -> tuple[str, dict[str, Callable[[], Strings]]]:
    """The name of the index of a frame of AnnData, and its columns by name."""
    if isinstance(node, Tree):
        index = _text(node.attrs.get("_index", "_index"))
        names = [name for name in node.names() if name != "__categories"]
        get: Callable[[str], Strings] = partial(_column, node)
    else:  # as versions before 0.7 had them: an array of records
        names, get = list(node.dtype.names or ()), partial(_record, root, node)
        index = next((name for name in ("index", "_index") if name in names), "")
    columns: dict[str, Callable[[], Strings]] = {name: partial(get, name) for name in names}
    return index, columns if index in columns else {}


def _record(root: Tree, frame: Any, name: str) -> Strings:
    return strings(root.text(frame)[name])


def _column(frame: Tree, name: str) -> Strings:
    node = frame.get(name)
    codes, words = node, frame.get(f"__categories/{name}")  # as versions before 0.7 had them
    if isinstance(node, Tree):
        codes, words, node = node.get("codes"), node.get("categories"), node.get("values")
    if words is not None and codes is not None:
        return _categorical(frame.text(codes), strings(frame.text(words)))
    if node is None:
        raise TableError(f"column {shown(name)} of obs is of no kind that is known; choose another")
    return strings(frame.text(node))


def _categorical(codes: Any, categories: Strings) -> Strings:
    words = np.asarray([*categories, ""], dtype=object)  # -1, missing, is the last
    codes = np.asarray(codes, dtype=np.int64)
    check_text(int(np.asarray([len(word) for word in words])[codes].sum()), 0)
    return Strings(words[codes].tolist())


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
