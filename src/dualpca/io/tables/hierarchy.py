"""HDF5 and zarr, h5ad (AnnData) among them: matrices in groups, dense ones streamed.

Groups are walked here and not by anndata, which follows links to other files and reads all columns of a
frame without limits. Nothing that is read leads out of the file or runs code.
"""

import math
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from ...operators.files import gaps
from ...operators.files import rows_of as read_rows
from .columns import Header, Source, unique
from .limits import TEXT, check_size, check_sparse, check_text
from .matrices import MatrixSource, nameless
from .table import Package, Strings, TableError, listed, shown
from .unpack import check_chunks, check_heaps, guarded_zarr

#: Codecs of zarr that only turn bytes into bytes, numbers or text. The codec of pickles runs code, and
#: nothing tells how much those of pcodec and zfpy unpack to.
CODECS = {
    *("bytes", "transpose", "sharding_indexed", "vlen-utf8", "vlen-bytes", "json2", "msgpack2"),
    *("zlib", "gzip", "bz2", "lzma", "blosc", "zstd", "lz4", "base64"),
    *("shuffle", "delta", "bitround", "fixedscaleoffset", "quantize", "packbits", "astype"),
    *("crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"),
}

#: Bytes of a cell of text in memory, besides its letters.
CELL = 64

#: The most nodes that are visited (hard links may form cycles), and the most soft links in a row.
NODES, LINKS = 10_000, 16


def hdf5(file: BinaryIO, path: Any, stored: int, key: str | None, free: int) -> Source:
    """Return the matrix of an HDF5 file."""
    check_heaps(file, stored)
    with ExitStack() as stack:
        group = stack.enter_context(Package("h5py").File(path or file, "r"))
        source = _matrix(Tree(group, stored, free), key, lasting=path is not None)
        source.close = stack.pop_all().close  # type: ignore[method-assign]
        return source


def zarr(folder: Path, key: str | None, free: int) -> Source:
    """Return the matrix of a zarr array or group; refuse links out of its folder, pipes and devices."""
    stored, inside = 0, folder.resolve()
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if path.is_symlink() and not path.resolve().is_relative_to(inside):
            raise TableError(
                f"{name} is a link out of the folder, which is not followed; put the file there itself"
            )
        if path.is_file():
            stored += path.stat().st_size
        elif not path.is_dir():  # reading a pipe would wait for ever
            raise TableError(
                f"{name} in the folder is a pipe, socket or device; a zarr has plain files only: "
                "remove it"
            )
    root = Package("zarr").open(str(folder), mode="r")
    if not hasattr(root, "keys"):
        if key is not None:
            raise TableError(f"the zarr is one array, without --key; {key!r} was asked for")
        root = {"X": root}
    return _matrix(Tree(root, stored, free), key, lasting=True)


class Tree:
    """A group of a file of ``stored`` bytes; its nodes are trees, or arrays that were checked."""

    def __init__(self, group: Any, stored: int, free: int) -> None:
        self._group, self._stored, self._free = group, stored, free
        self.attrs = getattr(group, "attrs", {})

    def names(self) -> list[str]:
        """Return the names of the nodes in order; some may be links that lead nowhere."""
        return sorted(str(name) for name in self._group)

    def get(self, path: str) -> Any:
        """Return the node at a path, or None; only links within the file are followed."""
        node, parts, links = self._group, path.split("/"), 0
        while parts:
            name = parts.pop(0)
            if name in ("", "."):
                continue
            if not hasattr(node, "keys"):
                return None
            link: Any = node.get(name, getlink=True) if hasattr(node, "file") else None
            if hasattr(link, "filename"):
                raise TableError(
                    f"{shown(name)} is a link to another file, {shown(link.filename)}, which is not "
                    "read; copy the data into one file"
                )
            target = getattr(link, "path", None)
            if target is None:
                node = node.get(name)
                continue
            links += 1
            if links == LINKS:
                raise TableError(f"the links at {shown(path)} go round; see --key")
            node = node.file["/"] if target.startswith("/") else node
            parts = [*target.split("/"), *parts]
        if hasattr(node, "keys"):
            return Tree(node, self._stored, self._free)
        return self._checked(node) if hasattr(node, "shape") else None

    def _checked(self, node: Any) -> Any:
        """Return an array whose numbers are in the file, and not many more than it has room for."""
        if getattr(node, "external", None) or getattr(node, "is_virtual", False):
            raise TableError(
                f"the numbers of {shown(node.name)} are in other files, which are not read; copy them "
                "into one file, as h5repack does"
            )
        if hasattr(node, "metadata"):
            check_codecs(node.metadata.to_dict())
        check_size(_nbytes(node, node.shape), self._stored, self._free)
        for grid in (node.chunks, getattr(node, "shards", None)):  # each is read as a whole
            if grid:
                check_size(_nbytes(node, grid), self._stored, self._free, held=True)
        return node

    def in_parts(self, node: Any) -> Any:
        """Return an array of the tree whose chunks unpack to no more than they should."""
        if hasattr(node, "metadata"):
            return guarded_zarr(node, self._free)
        check_chunks(node, self._free)
        return node

    def whole(self, *nodes: Any) -> list[Any]:
        """Return the content of arrays of the tree, which has to fit the memory; text is decoded."""
        size = sum(_nbytes(node, node.shape) for node in nodes)
        check_size(size, self._stored, self._free, held=True)
        contents = []
        for node in map(self.in_parts, nodes):
            text = hasattr(node, "asstr") and node.dtype.kind == "O"
            rows = node.shape[0] if node.shape else 0
            contents.append(node.asstr()[:] if text else read_rows(node, 0, rows))
        return contents

    def cells(self, node: Any) -> Any:
        """Return the cells of an array that become text, each of them an object."""
        check_size(CELL * math.prod(node.shape), self._stored, max(self._free, TEXT), held=True)
        return self.whole(node)[0]


def _nbytes(node: Any, shape: Any) -> int:
    return math.prod(map(int, shape)) * max(1, node.dtype.itemsize)


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


def _matrix(root: Tree, key: str | None, *, lasting: bool) -> Source:
    """Return the matrix at a key of a tree."""
    if key is None:
        keys = ["X"] if root.get("X") is not None else _matrices(root)  # AnnData has X
        if len(keys) != 1:
            raise TableError(
                f"the file has {len(keys)} matrices{': ' if keys else ''}{listed(keys)}; choose one "
                "with --key"
            )
        key = keys[0]
    key = key.strip("/")
    node, notes = root.get(key), list[str]()
    if node is None:
        raise TableError(f"there is nothing under {key!r}; --key may be {listed(_matrices(root))}")
    parts = _sparse_parts(node) if isinstance(node, Tree) else (node,)
    if parts is None:
        inside = [f"{key}/{name}" for name in _matrices(node)]
        raise TableError(f"{key!r} is a group, not a matrix; --key may be {listed(inside)}")
    shape = _sparse_shape(node) if isinstance(node, Tree) else tuple(node.shape)
    header, row_columns = _described(root, key, shape, notes)
    if isinstance(node, Tree):
        check_sparse(shape, parts[0].size)
        kind = _text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "csr")))
        make = sp.csc_array if kind.startswith("csc") else sp.csr_array
        data = make(tuple(node.whole(*parts)), shape=shape)
    else:
        data = root.in_parts(node)
    source = MatrixSource(data, header, row_columns, lasting=lasting)
    unwritten = [note for note in map(gaps, parts) if note]
    source.notes += [*unwritten[:1], *notes]
    return source


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
            with suppress(TableError):  # nobody asked for this node
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
        (shape,) = node.whole(stored)
    if shape is None:
        remedy = "save it with the attribute shape"
        raise TableError(f"the sparse matrix does not say its shape; {remedy}")
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
        header.rows, header.index = list(columns), (list(columns).index(index),)
        return header, columns
    return header, {}


def _frame(root: Tree, node: Any) -> tuple[str, dict[str, Callable[[], Strings]]]:
    """Return the name of the index of a frame of AnnData, and its columns by name."""
    index, columns = "", dict[str, Callable[[], Strings]]()
    if isinstance(node, Tree):
        index = _text(node.attrs.get("_index", "_index"))
        columns = {n: partial(_column, node, n) for n in node.names() if n != "__categories"}
    elif node is not None:  # versions before 0.7 wrote an array of records
        names = node.dtype.names or ()
        index = "index" if "index" in names else "_index"
        columns = {n: lambda n=n: _strings(root.cells(node)[n]) for n in names}  # type: ignore[misc]
    return index, columns if index in columns else {}


def _column(frame: Tree, name: str) -> Strings:
    node = frame.get(name)
    codes, words = node, frame.get(f"__categories/{name}")  # as versions before 0.7 wrote them
    if isinstance(node, Tree):
        codes, words, node = node.get("codes"), node.get("categories"), node.get("values")
    if words is not None and codes is not None:
        categories = np.asarray([*_strings(frame.cells(words)), ""], dtype=object)  # -1 is missing
        chosen = np.asarray(frame.cells(codes), dtype=np.int64)
        check_text(int(np.asarray([len(word) for word in categories])[chosen].sum()))
        return Strings(categories[chosen].tolist())
    if node is None:
        raise TableError(f"column {shown(name)} of obs is of no kind that is known; choose another")
    return _strings(frame.cells(node))


def _strings(values: Any) -> Strings:
    return Strings(map(_text, np.asarray(values).ravel().tolist()))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
