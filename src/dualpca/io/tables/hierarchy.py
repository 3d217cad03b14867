"""HDF5 and zarr, h5ad (AnnData) among them: matrices in groups, dense ones streamed.

Groups are walked here and not by anndata, which follows links to other files and reads all columns of a
frame without limits. Nothing that is read leads out of the file or runs code.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from ...operators.files import gaps
from ...operators.files import rows_of as read_rows
from .columns import Header, unique
from .hdf5_guard import check_chunks, check_heaps
from .limits import TEXT, check_size, check_sparse, check_text
from .source import MatrixSource, Source, nameless
from .table import Strings, TableError, listed, module, shown

#: Codecs of zarr that only turn bytes into bytes, numbers or text. That of pickles runs code; nothing
#: tells how much those of pcodec and zfpy unpack to.
CODECS = {
    *("bytes", "transpose", "sharding_indexed", "vlen-utf8", "vlen-bytes", "json2", "msgpack2"),
    *("zlib", "gzip", "bz2", "lzma", "blosc", "zstd", "lz4", "base64"),
    *("shuffle", "delta", "bitround", "fixedscaleoffset", "quantize", "packbits", "astype"),
    *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"),
}

#: Bytes of a cell of text in memory, besides its letters.
CELL = 64

#: The most nodes that are looked at (hard links may go round), and the most soft links in a row.
NODES, LINKS = 10_000, 16


def hdf5(file: BinaryIO, path: Any, key: str | None, free: int) -> Source:
    """Return the matrix of an HDF5 file."""
    stored = file.seek(0, 2)
    check_heaps(file, stored)
    file.seek(0)
    group = module("h5py").File(path or file, "r")
    try:
        source = _in_group(Tree(group, stored, free), key, lasting=path is not None)
    except BaseException:
        group.close()
        raise
    source.close = group.close  # type: ignore[method-assign]
    return source


def zarr(path: Any, key: str | None, free: int) -> Source:
    """Return the matrix of a zarr array or group."""
    stored = _stored_in(path)
    root = module("zarr").open(str(path), mode="r")
    if hasattr(root, "keys"):
        return _in_group(Tree(root, stored, free), key, lasting=True)
    if key is not None:
        raise TableError(f"the zarr is one array, without --key; {key!r} was asked for")
    array = _with_limits(_checked_array(root, stored, free), free)
    source = MatrixSource(array, nameless(root.shape[-1] if root.shape else 0))
    source.notes += _gaps(array)
    return source


def _stored_in(folder: Path) -> int:
    """Return the bytes of a folder; refuse links that lead out of it, pipes and devices."""
    total, inside = 0, folder.resolve()
    for place, names, files in os.walk(folder):
        for path in (Path(place, name) for name in (*names, *files)):
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                raise TableError(
                    f"{path.relative_to(folder)} is a link out of the folder, which is not followed; "
                    "put the file there itself"
                )
            status = path.stat()
            if (
                not stat.S_ISREG(status.st_mode) and path.name in files
            ):  # a pipe would be waited for
                raise TableError(
                    f"{path.relative_to(folder)} in the folder is a pipe, socket or device; a zarr "
                    "has plain files only: remove it"
                )
            total += status.st_size if path.name in files else 0
    return total


class Tree:
    """A group of a file of ``stored`` bytes; its nodes are trees, or arrays that were checked.

    An array is read by :meth:`whole`, or in parts after :meth:`in_parts`; see check_size for ``free``.
    """

    def __init__(self, group: Any, stored: int, free: int) -> None:
        if not hasattr(group, "keys"):
            raise TableError("there is a type of numbers where an array should be; see --key")
        self._group, self._stored, self._free, self.attrs = group, stored, free, group.attrs

    def names(self) -> list[str]:
        """Return the names of the nodes in order; some may be links that lead nowhere."""
        return sorted(str(name) for name in self._group)

    def get(self, path: str) -> Any:
        """Return the node at a path, or None; only links within the file are followed."""
        node, parts, links = self._group, path.split("/"), LINKS
        while parts and node is not None:
            name = parts.pop(0)
            if name in ("", "."):
                continue
            if not hasattr(node, "keys"):
                return None
            if (target := _soft_link(node, name)) is None:
                node = node.get(name)
                continue
            links -= 1
            if not links:
                raise TableError(f"the links at {shown(path)} go round; see --key")
            node = node.file["/"] if target.startswith("/") else node
            parts = [*target.split("/"), *parts]
        if node is None or hasattr(node, "shape"):
            return node if node is None else _checked_array(node, self._stored, self._free)
        return Tree(node, self._stored, self._free)

    def in_parts(self, node: Any) -> Any:
        """Return an array of the tree whose chunks unpack to no more than they should."""
        return _with_limits(node, self._free)

    def text(self, node: Any) -> Any:
        """Return the cells of an array that become text, each of them an object."""
        check_size(CELL * math.prod(node.shape), self._stored, max(self._free, TEXT), held=True)
        return self.whole(node)

    def whole(self, *nodes: Any) -> Any:
        """Return the content of arrays of the tree, which has to fit the memory; text is decoded."""
        check_size(sum(map(_nbytes, nodes)), self._stored, self._free, held=True)
        contents = []
        for node in map(self.in_parts, nodes):
            text = hasattr(node, "asstr") and node.dtype.kind == "O"
            rows = node.shape[0] if node.shape else 0
            contents.append(node.asstr()[:] if text else read_rows(node, 0, rows))
        return contents[0] if len(contents) == 1 else tuple(contents)


def _soft_link(group: Any, name: str) -> str | None:
    link: Any = group.get(name, getlink=True) if hasattr(group, "file") else None
    if hasattr(link, "filename"):
        raise TableError(
            f"{shown(name)} is a link to another file, {shown(link.filename)}, which is not read; "
            "copy the data into one file"
        )
    return getattr(link, "path", None)


def _with_limits(node: Any, free: int) -> Any:
    if hasattr(node, "metadata"):
        from .zarr_guard import guarded

        return guarded(node, free)
    check_chunks(node, free)
    return node


def _checked_array(node: Any, stored: int, free: int) -> Any:
    """Return an array whose numbers are in the file, and not many more than it has room for."""
    if getattr(node, "external", None) or getattr(node, "is_virtual", False):
        raise TableError(
            f"the numbers of {shown(node.name)} are in other files, which are not read; copy them "
            "into one file, as h5repack does"
        )
    if hasattr(node, "metadata"):
        check_codecs(node.metadata.to_dict())
    check_size(_nbytes(node), stored, free)
    for name in ("chunks", "shards"):  # each is read as a whole
        size = math.prod(map(int, getattr(node, name, None) or ())) * max(1, node.dtype.itemsize)
        check_size(size, stored, free, held=True)
    return node


def _nbytes(node: Any) -> int:
    return math.prod(map(int, node.shape)) * max(1, node.dtype.itemsize)


def check_codecs(tree: Any) -> None:
    """Refuse the codecs of zarr that are not listed, also those within others."""
    kinds = [tree.get("compressor")]
    for key in ("filters", "codecs", "index_codecs"):
        kinds += tree.get(key) or ()
    for kind in kinds:
        if kind is None:
            continue
        kind = kind if isinstance(kind, dict) else {"id": type(kind).__name__}
        name = str(kind.get("id", kind.get("name"))).removeprefix("numcodecs.")
        if name not in CODECS:
            raise TableError(
                f"the zarr is written with the codec {shown(name)}, which is not known to be safe; "
                "write it with another, such as zstd"
            )
        if isinstance(inner := kind.get("configuration"), dict):
            check_codecs(inner)


def _in_group(root: Tree, key: str | None, *, lasting: bool) -> Source:
    key = (_default_key(root) if key is None else key).strip("/")
    node, notes = root.get(key), list[str]()
    if node is None:
        raise TableError(f"there is nothing under {key!r}; --key may be {listed(_matrices(root))}")
    if not isinstance(node, Tree):
        header, row_columns = _described(root, key, tuple(node.shape), notes)
        source: Source = MatrixSource(root.in_parts(node), header, row_columns, lasting=lasting)
        source.notes += [*_gaps(node), *notes]
        return source
    parts = _sparse_parts(node)
    if parts is None:
        inside = [f"{key}/{name}" for name in _matrices(node)]
        raise TableError(f"{key!r} is a group, not a matrix; --key may be {listed(inside)}")
    shape = _sparse_shape(node)
    check_sparse(shape, parts[0].size)
    header, row_columns = _described(root, key, shape, notes)
    kind = _text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "csr")))
    make = sp.csc_array if kind.startswith("csc") else sp.csr_array
    source = MatrixSource(make(node.whole(*parts), shape=shape), header, row_columns)
    source.notes += [*_gaps(*parts), *notes]
    return source


def _gaps(*nodes: Any) -> list[str]:
    """Return the note on chunks that were never written, once."""
    return [words for words in map(gaps, nodes) if words][:1]


def _default_key(root: Tree) -> str:
    if root.get("X") is not None:  # as AnnData has it
        return "X"
    keys = _matrices(root)
    if len(keys) != 1:
        raise TableError(
            f"the file has {len(keys)} matrices{': ' if keys else ''}{listed(keys)}; choose one "
            "with --key"
        )
    return keys[0]


def _matrices(root: Tree) -> list[str]:
    """Return the paths of what may be a matrix, sparse or dense, at most three groups down."""
    paths, waiting, seen = list[str](), [("", root, 3)], 0
    while waiting:
        prefix, group, depth = waiting.pop(0)
        for name in group.names():
            seen += 1
            if seen > NODES:
                return sorted(paths)
            node = None
            with suppress(TableError):  # of one that was not asked for
                node = group.get(name)
            if isinstance(node, Tree) and _sparse_parts(node) is None:
                waiting += [(f"{prefix}{name}/", node, depth - 1)] if depth else []
            elif isinstance(node, Tree) or (node is not None and len(node.shape) == 2):
                paths.append(prefix + name)
    return sorted(paths)


def _sparse_parts(node: Tree) -> tuple[Any, ...] | None:
    parts = tuple(node.get(name) for name in ("data", "indices", "indptr"))
    return None if any(part is None or isinstance(part, Tree) for part in parts) else parts


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
    """Return names of columns and descriptions of rows, where an AnnData file has some that fit."""
    if len(shape) != 2:
        return nameless(0), {}  # what is no matrix is refused next
    header = nameless(shape[1])
    index, columns = _frame(root, root.get("raw/var" if key.rpartition("/")[0] == "raw" else "var"))
    if columns and len(names := columns[index]()) == shape[1]:
        header = Header(unique(list(names), notes))
    index, columns = _frame(root, root.get("obs"))
    if columns and len(columns[index]()) == shape[0]:
        header.rows, header.index = list(columns), list(columns).index(index)
        return header, columns
    return header, {}


def _frame(root: Tree, node: Any) -> tuple[str, dict[str, Callable[[], Strings]]]:
    """Return the name of the index of a frame of AnnData, and its columns by name."""
    columns: dict[str, Callable[[], Strings]] = {}
    if node is None:
        return "", columns
    if isinstance(node, Tree):
        index = _text(node.attrs.get("_index", "_index"))
        names = [name for name in node.names() if name != "__categories"]
        columns = {name: partial(_column, node, name) for name in names}
    else:  # versions before 0.7 wrote an array of records
        names = list(node.dtype.names or ())
        index = next((name for name in ("index", "_index") if name in names), "")
        columns = {name: partial(_record, root, node, name) for name in names}
    return index, columns if index in columns else {}


def _record(root: Tree, frame: Any, name: str) -> Strings:
    return _strings(root.text(frame)[name])


def _column(frame: Tree, name: str) -> Strings:
    node = frame.get(name)
    codes, words = node, frame.get(f"__categories/{name}")  # as versions before 0.7 wrote them
    if isinstance(node, Tree):
        codes, words, node = node.get("codes"), node.get("categories"), node.get("values")
    if words is not None and codes is not None:
        categories = np.asarray([*_strings(frame.text(words)), ""], dtype=object)  # -1 is missing
        chosen = np.asarray(frame.text(codes), dtype=np.int64)
        check_text(int(np.asarray([len(word) for word in categories])[chosen].sum()))
        return Strings(categories[chosen].tolist())
    if node is None:
        raise TableError(f"column {shown(name)} of obs is of no kind that is known; choose another")
    return _strings(frame.text(node))


def _strings(values: Any) -> Strings:
    return Strings(map(_text, np.asarray(values).ravel().tolist()))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
