"""Groups of HDF5 and zarr whose arrays are all their own: nothing leads out, nothing runs code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...operators.files import rows_of
from .hdf5_guard import check_hdf5
from .limits import TEXT, check_size
from .table import TableError, shown

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

#: So many nodes are looked at: hard links may go round.
NODES = 10_000

#: So many soft links are followed one after the other.
LINKS = 16


def is_group(node: Any) -> bool:
    """Whether a node has others in it."""
    return not hasattr(node, "shape")


class Tree:
    """A group of a file of so many bytes; nodes are groups, as trees, or arrays that were checked.

    An array is read by :meth:`whole`, or in parts after :meth:`in_parts`; ``free`` is that of check_size.
    """

    def __init__(self, group: Any, stored: int, free: int) -> None:
        if not hasattr(group, "keys"):
            raise TableError("there is a type of numbers where an array should be; see --key")
        self._group, self._stored, self._free, self.attrs = group, stored, free, group.attrs

    def names(self) -> Iterator[str]:
        """The names of the nodes, in order; links that lead nowhere among them."""
        yield from sorted(str(name) for name in self._group)

    def get(self, path: str) -> Any:
        """The node at a path, None where there is none; only links within the file are followed."""
        node, parts, links = self._group, path.split("/"), LINKS
        while parts:
            name = parts.pop(0)
            if name in ("", "."):
                continue
            if not hasattr(node, "keys"):
                return None
            target = _target(node, name)
            if target is not None:
                links -= 1
                if not links:
                    raise TableError(f"the links at {shown(path)} go round; see --key")
                node = node.file["/"] if target.startswith("/") else node
                parts = [*target.split("/"), *parts]
                continue
            node = node.get(name)
        if node is None:
            return None
        if is_group(node):
            return Tree(node, self._stored, self._free)
        return checked_array(node, self._stored, self._free)

    def in_parts(self, node: Any) -> Any:
        """An array of the tree whose chunks unpack to no more than they should."""
        return with_limits(node, self._free)

    def text(self, node: Any) -> Any:
        """The cells of an array that become text, each of them an object."""
        check_size(CELL * _product(node.shape), self._stored, max(self._free, TEXT), held=True)
        return self.whole(node)

    def whole(self, *nodes: Any) -> Any:
        """The numbers of arrays of the tree, which have to fit the memory together; text decoded."""
        check_size(sum(map(_nbytes, nodes)), self._stored, self._free, held=True)
        found = []
        for node in map(self.in_parts, nodes):
            text = hasattr(node, "asstr") and node.dtype.kind == "O"
            rows = node.shape[0] if node.shape else 0
            found.append(node.asstr()[:] if text else rows_of(node, 0, rows))
        return found[0] if len(found) == 1 else tuple(found)


def _target(group: Any, name: str) -> str | None:
    """Where a soft link of HDF5 leads."""
    if not hasattr(group, "file"):
        return None
    link = group.get(name, getlink=True)
    if hasattr(link, "filename"):
        raise TableError(
            f"{shown(name)} is a link to another file, {shown(link.filename)}, which is not read; "
            "copy the data into one file"
        )
    return link.path if hasattr(link, "path") else None


def with_limits(node: Any, free: int) -> Any:
    """The array, of zarr with codecs that keep to the limits, of HDF5 with chunks that were checked."""
    if hasattr(node, "metadata"):
        from .zarr_guard import guarded

        return guarded(node, free)
    check_hdf5(node, free)
    return node


def checked_array(node: Any, stored: int, free: int) -> Any:
    """An array whose numbers are in the file, and not many more than it has room for."""
    if getattr(node, "external", None) or getattr(node, "is_virtual", False):
        raise TableError(
            f"the numbers of {shown(node.name)} are in other files, which are not read; copy them "
            "into one file, as h5repack does"
        )
    metadata = getattr(node, "metadata", None)
    if metadata is not None:
        _check_codecs(metadata.to_dict())
    check_size(_nbytes(node), stored, free)
    for name in ("chunks", "shards"):  # read as a whole
        size = _product(getattr(node, name, None) or ()) * max(1, node.dtype.itemsize)
        check_size(size, stored, free, held=True)
    return node


def _nbytes(node: Any) -> int:
    return _product(node.shape) * max(1, node.dtype.itemsize)


def _product(sizes: Any) -> int:
    product = 1
    for size in sizes:
        product *= int(size)
    return product


def _check_codecs(tree: Any) -> None:
    """Refuse the codecs of zarr that are not listed, also those within others."""
    kinds = [tree.get("compressor"), *(tree.get("filters") or ()), *(tree.get("codecs") or ())]
    kinds += tree.get("index_codecs") or ()
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
            _check_codecs(inner)
